"""Typed tensor values as protobuf packs them, decoded with NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from singax.sonnx.loader.refusal import refuse
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
        ends = np.flatnonzero(data[start:stop] < 0x80)
        if ends.size == 0 or (stop == len(data) and ends[-1] != stop - start - 1):
            refuse(where, field, "numbers that end", "one that does not")
        stop = start + int(ends[-1]) + 1
        parts.append(_varints(data[start:stop], ends, where, field).astype(item))
        start = stop
    return np.concatenate(parts) if len(parts) != 1 else parts[0]


def _varints(data: np.ndarray, ends: np.ndarray, where: str, field: str) -> np.ndarray:
    """The numbers that end at `ends`, seven bits in each byte, as 64 bits."""
    starts = np.concatenate([[0], ends[:-1] + 1])
    lengths = ends - starts + 1
    longest = int(lengths.max())
    if longest > 10 or (longest == 10 and int(data[ends[lengths == 10]].max()) > 1):
        refuse(where, field, "numbers of at most 64 bits", "a longer one")
    values = np.zeros(len(ends), np.uint64)
    for position in range(longest):
        reaching = lengths > position
        bits = data[starts[reaching] + position].astype(np.uint64) & np.uint64(0x7F)
        values[reaching] |= bits << np.uint64(7 * position)
    return values


def _bytes(view: memoryview) -> np.ndarray:
    return np.frombuffer(view, np.uint8)
