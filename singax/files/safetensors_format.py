"""The safetensors format: eight bytes that hold the length of a JSON header, the header, the raw numbers.

The header maps each name to dtype, shape and the place of its bytes, and `__metadata__` to texts by name. This file
knows the header; the numbers are written by `safetensors_writer` and read by `safetensors_reader`.

>>> text = header_text({"b": (np.dtype("int8"), (3,)), "a": (np.dtype("float32"), (2,))}, {"made": "by hand"})
>>> metadata, fields = parsed_header(text, data_bytes=11)
>>> metadata, fields["b"].begin, fields["b"].end
({'made': 'by hand'}, 8, 11)
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from singax.dtypes import nbytes
from singax.errors import FileFormatError
from singax.files.strict_json import strict_json

METADATA = "__metadata__"
LENGTH_BYTES = 8
MOST_HEADER_BYTES = 1 << 24
MOST_AXES = 64
_ALIGNMENT = 64
_LARGEST = 1 << 62

Layout = dict[str, tuple[np.dtype, tuple[int, ...]]]

CODES: dict[np.dtype, str] = {
    np.dtype(kind): code
    for kind, code in (
        ("float64", "F64"), ("float32", "F32"), ("float16", "F16"), (jnp.bfloat16, "BF16"),
        (jnp.float8_e4m3fn, "F8_E4M3"), (jnp.float8_e5m2, "F8_E5M2"), (jnp.float8_e8m0fnu, "F8_E8M0"),
        ("int64", "I64"), ("int32", "I32"), ("int16", "I16"), ("int8", "I8"),
        ("uint64", "U64"), ("uint32", "U32"), ("uint16", "U16"), ("uint8", "U8"),
        ("bool", "BOOL"), ("complex64", "C64"),
    )
}  # fmt: skip
DTYPES = {code: dtype for dtype, code in CODES.items()}


@dataclass(frozen=True)
class Field:
    """Where the bytes of one array are, counted from the end of the header."""

    dtype: np.dtype
    shape: tuple[int, ...]
    begin: int
    end: int


def code_of(name: str, dtype: np.dtype) -> str:
    """The format's name of a dtype. Raises `FileFormatError` where it has none."""
    if dtype not in CODES:
        known = ", ".join(str(known) for known in CODES)
        raise FileFormatError(f"{name}: safetensors files hold {known}. Received: {dtype}")
    return CODES[dtype]


def ordered(layout: Layout) -> list[str]:
    """The names in the order of their bytes: large elements first, so that all are aligned, then by name."""
    return sorted(layout, key=lambda name: (-layout[name][0].itemsize, name))


def header_text(layout: Layout, metadata: Mapping[str, str]) -> bytes:
    """The header, padded with spaces so that the numbers begin at a multiple of 64 bytes.

    Raises `FileFormatError` for a dtype that the format lacks, a name that it keeps for itself, or too long a header.
    """
    header: dict[str, Any] = {METADATA: dict(metadata)} if metadata else {}
    begin = 0
    for name in ordered(layout):
        dtype, shape = layout[name]
        if name == METADATA:
            raise FileFormatError(f"{METADATA} is no name for an array: safetensors keeps it for itself")
        end = begin + nbytes(shape, dtype)
        header[name] = {"dtype": code_of(name, dtype), "shape": list(shape), "data_offsets": [begin, end]}
        begin = end
    text = json.dumps(header, separators=(",", ":"), allow_nan=False).encode()
    text += b" " * (-(LENGTH_BYTES + len(text)) % _ALIGNMENT)
    if len(text) > MOST_HEADER_BYTES:
        raise FileFormatError(f"the header would have {len(text)} bytes; at most {MOST_HEADER_BYTES} are read again")
    return text


def parsed_header(text: bytes, data_bytes: int) -> tuple[dict[str, str], dict[str, Field]]:
    """(metadata, fields by name) of a header that is followed by `data_bytes` bytes.

    Raises `FileFormatError` unless every entry is well formed, its size is that of its shape and dtype, and the entries
    cover all bytes without gap or overlap.
    """
    header = strict_json(text)
    if not isinstance(header, dict):
        raise FileFormatError("its header is no JSON object")
    metadata = header.pop(METADATA, {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise FileFormatError(f"{METADATA} in its header is no mapping of texts")
    fields = {name: _field(name, entry) for name, entry in header.items()}
    _check_places(fields, data_bytes)
    return metadata, fields


def _field(name: str, entry: Any) -> Field:
    shown = name[:200]
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise FileFormatError(f"the entry of {shown!r} in its header does not give dtype, shape and data_offsets")
    code, shape, place = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(code, str) or code not in DTYPES:
        raise FileFormatError(f"{shown!r} has a dtype that is not known: {code!r:.100}")
    if not _are_sizes(shape) or len(shape) > MOST_AXES or math.prod(size or 1 for size in shape) >= _LARGEST // 8:
        raise FileFormatError(f"{shown!r} has a shape that is none: {shape!r:.200}")
    if not _are_sizes(place) or len(place) != 2:
        raise FileFormatError(f"{shown!r} has data_offsets that are none: {place!r:.200}")
    field = Field(DTYPES[code], tuple(shape), *place)
    size = nbytes(field.shape, field.dtype)
    if size != field.end - field.begin:
        raise FileFormatError(
            f"{shown!r} claims shape {list(shape)} of {code}, which are {size} bytes, but {field.end - field.begin} "
            "bytes for it"
        )
    return field


def _are_sizes(value: Any) -> bool:
    return isinstance(value, list) and all(type(size) is int and 0 <= size < _LARGEST for size in value)


def _check_places(fields: Mapping[str, Field], data_bytes: int) -> None:
    position = 0
    for name, field in sorted(fields.items(), key=lambda item: (item[1].begin, item[1].end)):
        if field.begin != position:
            raise FileFormatError(f"the bytes of {name[:200]!r} begin at {field.begin}; expected {position}")
        position = field.end
    if position != data_bytes:
        raise FileFormatError(f"its header describes {position} bytes, but {data_bytes} follow it")
