"""SINGA's checkpoint: a zip of `tensor_dict.npz` (one array per name) and `states_attr.json` (what each one is).

No pickle is read or written, and no array is allocated before its declared size was compared with the bytes that are
there.
"""

from __future__ import annotations

import io
import json
import math
import os
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from singax.errors import FileFormatError, SingaxError
from singax.files.atomic import replacing
from singax.files.strict_json import strict_json

ARRAYS = "tensor_dict.npz"
ATTRIBUTES = "states_attr.json"
MODEL_STATE = 0
AUXILIARY_STATE = 1

_SINGA_DTYPES = {"float32": 0, "float16": 1, "int32": 2}
_MOST_INFLATION = 20
_ALWAYS_FINE = 1 << 26
_MOST_ATTRIBUTES = 1 << 24

Arrays = dict[str, np.ndarray]


def write_singa_zip(path: str | os.PathLike[str], states: Mapping[str, np.ndarray], extra: Mapping[str, Any]) -> None:
    """Write model states and auxiliary states as SINGA 5.1 does; its dtypes are float32, float16 and int32.

    Raises `FileFormatError` for another dtype or a name that is in both; nothing is written then.
    """
    both = set(states) & set(extra)
    if both:
        raise FileFormatError(f"these names stand for a state and an auxiliary value: {', '.join(sorted(both))}")
    kinds = dict.fromkeys(states, MODEL_STATE) | dict.fromkeys(extra, AUXILIARY_STATE)
    arrays = {name: np.asarray(value) for name, value in {**states, **extra}.items()}
    attributes = {name: _attributes(name, array, kinds[name]) for name, array in arrays.items()}
    with replacing(path) as file, zipfile.ZipFile(file, "w") as archive:
        with archive.open(ARRAYS, "w", force_zip64=True) as member:
            np.savez(member, **arrays)  # type: ignore[arg-type]
        archive.writestr(ATTRIBUTES, json.dumps(attributes))


def _attributes(name: str, array: np.ndarray, kind: int) -> dict[str, Any]:
    if array.dtype.name not in _SINGA_DTYPES:
        known = ", ".join(_SINGA_DTYPES)
        raise FileFormatError(f"SINGA's checkpoints hold {known}; {name} has dtype {array.dtype}: use save() instead")
    return {"state_type": kind, "shape": list(array.shape), "dtype": _SINGA_DTYPES[array.dtype.name]}


def read_singa_zip(path: str | os.PathLike[str]) -> tuple[Arrays, Arrays]:
    """(model states, auxiliary states) of a checkpoint that SINGA or `write_singa_zip` wrote.

    Raises `FileFormatError` for anything else, and FileNotFoundError.
    """
    with suspicious(path, "checkpoint of SINGA"), zipfile.ZipFile(path) as archive:
        members = _members(archive)
        missing = [name for name in (ATTRIBUTES, ARRAYS) if name not in members]
        if missing:
            raise FileFormatError(f"{archive.filename} is no checkpoint of SINGA: it holds no {missing[0]}")
        budget = max(_ALWAYS_FINE, _MOST_INFLATION * os.path.getsize(path))
        attributes = strict_json(_content(archive, members[ATTRIBUTES], _MOST_ATTRIBUTES))
        if members[ARRAYS].compress_type == zipfile.ZIP_STORED:  # as SINGA writes it: read in place
            with archive.open(ARRAYS) as stream:
                arrays = read_arrays(stream, members[ARRAYS].file_size)
        else:
            content = _content(archive, members[ARRAYS], budget)
            arrays = read_arrays(io.BytesIO(content), len(content))
    return _divided(os.fspath(path), arrays, attributes)


@contextmanager
def suspicious(path: str | os.PathLike[str], kind: str) -> Iterator[None]:
    """Turn whatever goes wrong while a file is decoded into a `FileFormatError` with its path."""
    try:
        yield
    except FileFormatError as error:
        if os.fspath(path) in str(error):
            raise
        raise FileFormatError(f"{os.fspath(path)} is no {kind}: {error}") from None
    except SingaxError:
        raise
    except (zipfile.BadZipFile, zlib.error, RuntimeError, ValueError, EOFError, SyntaxError) as error:
        raise FileFormatError(f"{os.fspath(path)} is no {kind}: {error}") from error


def _members(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """The members by name, if each has a name of its own and is stored or deflated."""
    found: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        if info.filename in found:
            raise FileFormatError(f"it holds two members named {info.filename[:200]!r}")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise FileFormatError(f"{info.filename[:200]!r} in it is neither stored nor deflated")
        found[info.filename] = info
    return found


def _content(archive: zipfile.ZipFile, member: zipfile.ZipInfo, budget: int) -> bytes:
    """The bytes of a member, if it is no larger than `budget`."""
    if member.file_size > budget:
        raise FileFormatError(
            f"{member.filename[:200]} in it claims {member.file_size} bytes, far more than the file has; "
            f"at most {budget} are read"
        )
    return archive.read(member)


def read_arrays(stream: Any, size: int) -> Arrays:
    """The arrays of an npz file of `size` bytes by name, none of them allocated before its size was checked.

    `stream` can seek. Raises `FileFormatError` for Python objects, and for sizes that lie.
    """
    with zipfile.ZipFile(stream) as archive:
        members = _members(archive)
        if sum(member.file_size for member in members.values()) > max(_ALWAYS_FINE, _MOST_INFLATION * size):
            raise FileFormatError("the arrays claim far more bytes than the file has")
        return {name.removesuffix(".npy"): _array(archive, member) for name, member in members.items()}


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    """One array in NumPy's format, once its header is found to fit the bytes that follow."""
    with archive.open(member) as stream:
        shape, dtype = _npy_header(stream)
        name = member.filename[:200]
        if dtype.hasobject:
            raise FileFormatError(f"{name} holds Python objects, which are never read from files")
        if math.prod(shape) * dtype.itemsize != member.file_size - stream.tell():
            raise FileFormatError(
                f"{name} claims shape {shape} of {dtype}, which its {member.file_size} bytes do not hold"
            )
    with archive.open(member) as stream:
        return np.lib.format.read_array(stream, allow_pickle=False)


def _npy_header(stream: Any) -> tuple[tuple[int, ...], np.dtype]:
    version = np.lib.format.read_magic(stream)
    reader = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = reader(stream)
    if any(size < 0 for size in shape):
        raise FileFormatError(f"an array claims shape {shape}")
    return shape, dtype


def _divided(path: str, arrays: Arrays, attributes: Any) -> tuple[Arrays, Arrays]:
    if not isinstance(attributes, dict) or set(attributes) != set(arrays):
        raise FileFormatError(f"{path}: {ATTRIBUTES} and {ARRAYS} do not name the same states")
    kinds = {name: entry.get("state_type") if isinstance(entry, dict) else None for name, entry in attributes.items()}
    strange = [name for name, kind in kinds.items() if kind not in (MODEL_STATE, AUXILIARY_STATE)]
    if strange:
        raise FileFormatError(f"{path}: the state_type of {strange[0]} must be 0 or 1. Received: {kinds[strange[0]]!r}")
    states = {name: array for name, array in arrays.items() if kinds[name] == MODEL_STATE}
    return states, {name: array for name, array in arrays.items() if name not in states}
