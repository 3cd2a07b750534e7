"""The second file: the network as ONNX, with the save id of the first one in its metadata."""

from __future__ import annotations

import io
import json
import os
import pathlib
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np

from singax.checkpoint.homes import LAYERS, homes
from singax.errors import ExportError, FileFormatError

SAVE_ID, STATES = "singax.save_id", "singax.states"

_METADATA_FIELD = 14  # metadata_props of onnx.ModelProto: entries of key (1) and value (2)
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_MOST_FIELDS, _LONGEST_ENTRY = 100_000, 1 << 16


def network_metadata(model: Any, save_id: str) -> dict[str, str]:
    """What the ONNX file says about itself: the save it belongs to, and which initializers are states of the model."""
    states = [path for path, home in homes(model).items() if home.kind in LAYERS]
    return {SAVE_ID: save_id, STATES: json.dumps(states)}


def network_bytes(model: Any, save_id: str) -> bytes:
    """The model's forward as a serialized `onnx.ModelProto` with `network_metadata`.

    Raises `ExportError`: the exporter is not part of this version.
    """
    raise ExportError(
        f"{type(model).__name__} cannot be written as ONNX by this version: save(…, onnx=False) writes the states alone"
    )


def network_weights(path: pathlib.Path) -> dict[str, np.ndarray]:
    """The weights and running statistics in an ONNX file by initializer name.

    Raises `ModelFileError` for a file that is broken, hostile or not supported.
    """
    from singax.sonnx.importer.parameters import found_weights
    from singax.sonnx.loader import load

    model = load(path)
    if STATES in model.metadata:
        names = _names(path, model.metadata[STATES])
        return {name: np.asarray(model.graph.constants[name]) for name in names if name in model.graph.constants}
    weights = found_weights(model)
    return {**weights.parameters, **weights.states}


def _names(path: pathlib.Path, text: str) -> list[str]:
    try:
        names = json.loads(text)
    except (ValueError, RecursionError):
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise FileFormatError(f"{os.fspath(path)}: {STATES} in its metadata is no list of names")
    return names


def save_id_of(path: pathlib.Path) -> str | None:
    """The save id in an ONNX file, found without reading the network; None if it has none or is no such file."""
    try:
        with open(path, "rb") as file:
            return next((value for key, value in _entries(file) if key == SAVE_ID), None)
    except (OSError, ValueError):
        return None


def _entries(file: BinaryIO) -> Iterator[tuple[str, str]]:
    size = os.fstat(file.fileno()).st_size
    for _ in range(_MOST_FIELDS):
        if file.tell() >= size:
            return
        tag = _varint(file)
        if tag & 7 == _BYTES:
            length = _varint(file)
            if tag >> 3 == _METADATA_FIELD and length <= _LONGEST_ENTRY:
                yield _entry(file.read(length))
            else:
                file.seek(length, os.SEEK_CUR)
        elif tag & 7 == _VARINT:
            _varint(file)
        elif tag & 7 in (_FIXED64, _FIXED32):
            file.seek(8 if tag & 7 == _FIXED64 else 4, os.SEEK_CUR)
        else:
            raise ValueError("no protobuf message")


def _entry(content: bytes) -> tuple[str, str]:
    stream, parts = io.BytesIO(content), {1: b"", 2: b""}
    while stream.tell() < len(content):
        tag = _varint(stream)
        if tag & 7 != _BYTES:
            raise ValueError("no entry of metadata")
        parts[tag >> 3] = stream.read(_varint(stream))
    return parts[1].decode(errors="replace"), parts[2].decode(errors="replace")


def _varint(file: Any) -> int:
    value = 0
    for shift in range(0, 64, 7):
        byte = file.read(1)
        if not byte:
            raise ValueError("the file ends in the middle of a number")
        value |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return value
    raise ValueError("a number of more than 64 bits")
