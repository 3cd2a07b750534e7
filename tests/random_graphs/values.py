"""What a generator knows about a value: dtype, shape in each run, range, and how exactly it is computed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

Shape = tuple[int, ...]
Shapes = tuple[Shape, Shape]

UNIT = {"float16": 2.0**-10, "float32": 2.0**-23, "float64": 2.0**-52}
"""The rounding unit of each kind of float."""
EXACT_BITS = {"float16": 10, "float32": 22, "float64": 50}
MOST_ERROR = {"float16": 5e-3, "float32": 2e-5, "float64": 1e-9}
"""The largest estimated error of a value that may enter a graph: well below the tolerance of the comparison."""
MOST_BOUND = {"float16": 64.0, "float32": 256.0, "float64": 256.0}
MOST_ELEMENTS, MOST_RANK, MOST_INTEGER = 768, 5, 1 << 20


class Unfit(Exception):
    """An operator does not fit what is there: another one is drawn."""


@dataclass(frozen=True)
class Value:
    """A tensor of the graph.

    `shapes` holds its shape in the first and in the second run, where symbolic sizes differ. Every element lies between
    `low` and `high`. `grid` is a number of bits g such that all elements are multiples of 2^-g: sums and products of
    such values are exact in any order while they have enough bits, so that they may be rounded or compared. It is None
    for a value that two implementations may compute with different roundings; `error` estimates how far these are
    apart. `slack` is the number of steps by which an integer may differ. `numbers` are those of a constant.
    """

    name: str
    dtype: str
    shapes: Shapes
    low: float
    high: float
    grid: int | None = None
    error: float = 0.0
    slack: int = 0
    numbers: np.ndarray | None = None

    @property
    def bound(self) -> float:
        """The largest magnitude."""
        return max(abs(self.low), abs(self.high))

    @property
    def exact(self) -> bool:
        """Whether every right implementation gives the same bits."""
        return self.grid is not None

    @property
    def floating(self) -> bool:
        """Whether the elements are floats."""
        return self.dtype in UNIT

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.shapes[0])

    @property
    def fixed(self) -> bool:
        """Whether the shape is the same in both runs."""
        return self.shapes[0] == self.shapes[1]

    @property
    def shape(self) -> Shape:
        """The shape where it is the same in both runs; `Unfit` otherwise."""
        need(self.fixed)
        return self.shapes[0]

    def size(self, axis: int) -> int:
        """A size that is the same in both runs; `Unfit` otherwise."""
        need(self.shapes[0][axis] == self.shapes[1][axis])
        return self.shapes[0][axis]

    def smallest(self, axis: int) -> int:
        """The smaller size of an axis."""
        return min(self.shapes[0][axis], self.shapes[1][axis])

    def count(self) -> int:
        """The larger number of elements."""
        return max(int(np.prod(shape)) for shape in self.shapes)

    def mapped(self, rule: Callable[[Shape], Iterable[int]]) -> Shapes:
        """A rule applied to the shape of each run."""
        return tuple(rule(self.shapes[0])), tuple(rule(self.shapes[1]))


def need(condition: Any) -> None:
    """`Unfit` unless the condition holds."""
    if not condition:
        raise Unfit


def both(shape: Iterable[int]) -> Shapes:
    """A shape that is the same in both runs."""
    fixed = tuple(shape)
    return fixed, fixed


def broadcast(*values: Value) -> Shapes:
    """The broadcast shape in each run; `Unfit` if there is none."""
    try:
        first, second = (np.broadcast_shapes(*(v.shapes[run] for v in values)) for run in (0, 1))
    except ValueError:
        raise Unfit from None
    return tuple(first), tuple(second)


def like(x: Value, **changes: Any) -> Value:
    """What an operator gives that moves elements without changing them."""
    return replace(x, **{"name": "", "numbers": None, **changes})


def rough(
    inputs: Iterable[Value], shapes: Shapes, low: float, high: float, gain: float = 1.0, steps: float = 2
) -> Value:
    """A float computed with rounding: errors of the inputs grow by `gain`, and `steps` roundings are added."""
    given = [x for x in inputs if x.floating]
    bound = max(abs(low), abs(high))
    error = gain * sum(x.error for x in given) + steps * UNIT[given[0].dtype] * max(bound, 1e-3)
    return Value("", given[0].dtype, shapes, low, high, None, error)


def integers(dtype: str, shapes: Shapes, low: float, high: float) -> Value:
    """An integer or bool, which is always exact."""
    return Value("", dtype, shapes, low, high, 0)


def settled(value: Value) -> Value:
    """The value with what its dtype allows; `Unfit` if it is too large or too inexact to be compared."""
    need(value.rank <= MOST_RANK and 0 < value.count() <= MOST_ELEMENTS)
    need(all(0 not in shape for shape in value.shapes))
    if not value.floating:
        return _settled_integer(value)
    if value.grid is not None and np.log2(max(value.bound, 2.0**-20)) + value.grid > EXACT_BITS[value.dtype]:
        value = replace(value, grid=None, error=value.error + 4 * UNIT[value.dtype] * value.bound)
    need(value.error <= MOST_ERROR[value.dtype] and value.bound <= MOST_BOUND[value.dtype] * (1 + 7 * value.exact))
    return value


def _settled_integer(value: Value) -> Value:
    if value.dtype != "bool":
        limits = np.iinfo(value.dtype)
        need(limits.min <= value.low and value.high <= limits.max and value.bound <= MOST_INTEGER)
    return value
