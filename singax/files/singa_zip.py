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

ARRAYS = "tensor_dict.npz"
ATTRIBUTES = "states_attr.json"
MODEL_STATE = 0
AUXILIARY_STATE = 1

_SINGA_DTYPES = {"float32": 0, "float16": 1, "int32": 2}
_MOST_INFLATION = 100
_ALWAYS_FINE = 1 << 28

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
        budget = max(_ALWAYS_FINE, _MOST_INFLATION * os.path.getsize(path))
        attributes = json.loads(_member(archive, ATTRIBUTES, budget))
        arrays = read_arrays(_member(archive, ARRAYS, budget))
    return _divided(os.fspath(path), arrays, attributes)


@contextmanager
def suspicious(path: str | os.PathLike[str], kind: str) -> Iterator[None]:
    """Turn whatever goes wrong while a file is decoded into a `FileFormatError` with its path."""
    try:
        yield
    except SingaxError:
        raise
    except (zipfile.BadZipFile, zlib.error, RecursionError, ValueError, EOFError, NotImplementedError) as error:
        raise FileFormatError(f"{os.fspath(path)} is no {kind}: {error}") from error


def _member(archive: zipfile.ZipFile, name: str, budget: int) -> bytes:
    """The bytes of a member, if it is no larger than `budget`."""
    if name not in archive.namelist():
        raise FileFormatError(f"{archive.filename} is no checkpoint of SINGA: it holds no {name}")
    size = archive.getinfo(name).file_size
    if size > budget:
        raise FileFormatError(f"{name} in {archive.filename} claims {size} bytes, far more than the file has")
    return archive.read(name)


def read_arrays(packed: bytes) -> Arrays:
    """The arrays of an npz file by name, none of them larger than what is there."""
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        budget = max(_ALWAYS_FINE, _MOST_INFLATION * len(packed))
        names = archive.namelist()
        if sum(archive.getinfo(name).file_size for name in names) > budget:
            raise FileFormatError("the arrays claim far more bytes than the file has")
        return {name.removesuffix(".npy"): _array(name, archive.read(name)) for name in names}


def _array(name: str, content: bytes) -> np.ndarray:
    """One array in NumPy's format, once its header is found to fit the bytes that follow."""
    stream = io.BytesIO(content)
    version = np.lib.format.read_magic(stream)
    reader = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = reader(stream)
    if dtype.hasobject:
        raise FileFormatError(f"{name} holds Python objects, which are never read from files")
    if math.prod(shape) * dtype.itemsize != len(content) - stream.tell():
        raise FileFormatError(f"{name} claims shape {shape} of {dtype}, which its {len(content)} bytes do not hold")
    stream.seek(0)
    return np.lib.format.read_array(stream, allow_pickle=False)


def _divided(path: str, arrays: Arrays, attributes: Any) -> tuple[Arrays, Arrays]:
    if not isinstance(attributes, dict) or set(attributes) != set(arrays):
        raise FileFormatError(f"{path}: {ATTRIBUTES} and {ARRAYS} do not name the same states")
    kinds = {name: entry.get("state_type") if isinstance(entry, dict) else None for name, entry in attributes.items()}
    strange = [name for name, kind in kinds.items() if kind not in (MODEL_STATE, AUXILIARY_STATE)]
    if strange:
        raise FileFormatError(f"{path}: the state_type of {strange[0]} must be 0 or 1. Received: {kinds[strange[0]]!r}")
    states = {name: array for name, array in arrays.items() if kinds[name] == MODEL_STATE}
    return states, {name: array for name, array in arrays.items() if name not in states}
