"""Lists of numbers in which each number has a tag of its own in front, as ONNX writes attributes, with NumPy.

A block is looked at and as much of it decoded as belongs to the list; blocks double as long as all of them does, so
that the work is in proportion to the list however it is cut into pieces.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from singax.sonnx.loader.varints import decoded, ends_of

_FIRST_BLOCK, _LARGEST_BLOCK = 1 << 9, 1 << 18


def run_of(view: memoryview, tag: int, floats: bool) -> tuple[list[Any], int]:
    """Numbers at the start of the bytes, each with `tag` in front, and how many bytes they take up.

    What looks broken is left for the caller, who says what is wrong.
    """
    found: list[Any] = []
    used, size = 0, _FIRST_BLOCK
    while True:
        block = np.frombuffer(view[used : used + size], np.uint8)
        values, count = _floats(block, tag) if floats else _ints(block, tag)
        found += values
        used += count
        if len(block) < size or count < size - 12:
            return found, used
        size = min(2 * size, _LARGEST_BLOCK)


def _floats(block: np.ndarray, tag: int) -> tuple[list[Any], int]:
    rows = block[: len(block) // 5 * 5].reshape(-1, 5)
    count = _leading(rows[:, 0] == tag)
    return rows[:count, 1:].copy().view("<f4").reshape(-1).tolist(), 5 * count


def _ints(block: np.ndarray, tag: int) -> tuple[list[Any], int]:
    ends = ends_of(block)
    ends = ends[: len(ends) // 2 * 2]
    if not len(ends):
        return [], 0
    tags = np.concatenate([[0], ends[1:-1:2] + 1])
    count = _leading((block[tags] == tag) & (ends[0::2] == tags))
    if not count:
        return [], 0
    used = int(ends[2 * count - 1]) + 1
    try:
        return decoded(block[:used], ends[: 2 * count])[1::2].astype(np.int64).tolist(), used
    except ValueError:
        return [], 0


def _leading(good: np.ndarray) -> int:
    """How many are true before the first that is not."""
    return len(good) if good.all() else int(np.argmin(good))
