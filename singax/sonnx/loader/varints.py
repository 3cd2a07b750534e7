"""Many numbers of variable length at once, with NumPy."""

from __future__ import annotations

import numpy as np


def ends_of(data: np.ndarray) -> np.ndarray:
    """Where numbers end: at bytes without the bit that announces another one."""
    return np.flatnonzero(data < 0x80)


def decoded(data: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """The numbers that end at `ends`, seven bits in each byte, the lowest first, as 64 bits without sign.

    Raises ValueError for one that has more than 64 bits.

    >>> data = np.array([5, 0xAC, 2], np.uint8)
    >>> decoded(data, ends_of(data)).tolist()
    [5, 300]
    """
    starts = np.concatenate([[0], ends[:-1] + 1])
    lengths = ends - starts + 1
    longest = int(lengths.max())
    if longest > 10 or (longest == 10 and int(data[ends[lengths == 10]].max()) > 1):
        raise ValueError("a number of more than 64 bits")
    values = np.zeros(len(ends), np.uint64)
    for position in range(longest):
        reaching = lengths > position
        bits = data[starts[reaching] + position].astype(np.uint64) & np.uint64(0x7F)
        values[reaching] |= bits << np.uint64(7 * position)
    return values
