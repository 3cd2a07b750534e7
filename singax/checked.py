"""Numbers among the arguments of constructors and methods."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from singax.errors import ArgumentError


def number(name: str, value: Any, least: float = -math.inf, largest: float = math.inf) -> float:
    """`value` as a number from `least` to `largest`. Raises `ArgumentError`."""
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float | np.integer | np.floating)
        or not least <= value <= largest
    ):
        raise ArgumentError(f"{name} must be a number from {least} to {largest}. Received: {value!r}")
    return float(value)


def integer(name: str, value: Any, least: float = -math.inf) -> int:
    """`value` as an integer from `least` up. Raises `ArgumentError`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ArgumentError(
            f"{name} must be an integer{'' if least == -math.inf else f' from {least} up'}. Received: {value!r}"
        )
    return int(value)
