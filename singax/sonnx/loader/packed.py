"""Typed tensor values as protobuf packs them, decoded with NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from singax.sonnx.loader.refusal import refuse
from singax.sonnx.loader.varints import decoded, ends_of
from singax.sonnx.loader.wire import FIXED32, FIXED64, VARINT

_BLOCK = 1 << 20


def count_of(chunks: Any, stored: str, where: str, field: str) -> int:
    """How many numbers the chunks hold, found without decoding them."""
    return sum(_count(wire, view, stored, where, field) for wire, view in chunks)


def _count(wire: int, view: memoryview, stored: str, where: str, field: str) -> int:
    item = np.dtype(stored)
    if item.kind != "f":
        if wire in (FIXED32, FIXED64):
            refuse(where, field, "numbers of variable length", f"wire type {wire}")
        return int(sum(np.count_nonzero(_bytes(view)[at : at + _BLOCK] < 0x80) for at in range(0, len(view), _BLOCK)))
    if wire == VARINT or (wire == FIXED32 and item.itemsize != 4) or (wire == FIXED64 and item.itemsize != 8):
        refuse(where, field, f"numbers of {item.itemsize} bytes", f"wire type {wire}")
    if len(view) % item.itemsize:
        refuse(where, field, f"numbers of {item.itemsize} bytes", f"{len(view)} bytes")
    return len(view) // item.itemsize


def numbers(chunks: Any, stored: str, where: str, field: str) -> np.ndarray:
    """The numbers of all chunks as one array of the dtype `stored`."""
    parts = [_decoded(view, np.dtype(stored), where, field) for _, view in chunks]
    return parts[0] if len(parts) == 1 else np.concatenate(parts) if parts else np.empty(0, stored)


def _decoded(view: memoryview, item: np.dtype, where: str, field: str) -> np.ndarray:
    if item.kind == "f":
        return np.frombuffer(view, item)
    data, parts, start = _bytes(view), [], 0
    while start < len(data):
        stop = min(start + _BLOCK, len(data))
        ends = ends_of(data[start:stop])
        if ends.size == 0 or (stop == len(data) and ends[-1] != stop - start - 1):
            refuse(where, field, "numbers that end", "one that does not")
        stop = start + int(ends[-1]) + 1
        try:
            parts.append(decoded(data[start:stop], ends).astype(item))
        except ValueError as error:
            refuse(where, field, "numbers of at most 64 bits", str(error))
        start = stop
    return np.concatenate(parts) if len(parts) != 1 else parts[0]


def _bytes(view: memoryview) -> np.ndarray:
    return np.frombuffer(view, np.uint8)
