"""Operators on the elements of two or more values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from random_graphs.builder import F32, INTS, NUMBERS, WIDE_FLOATS, Builder
from random_graphs.rules import rule
from random_graphs.tame import away_from_zero, tame
from random_graphs.values import Value, broadcast, integers, like, need, rough


def partner(g: Builder, x: Value, exact: bool = False) -> Value:
    """A value of the same dtype that broadcasts against x: another one, or a weight."""
    if g.chance(0.6):
        mate = g.pick([x.dtype], exact=exact, where=lambda y: _fits(x, y))
        need(mate.name != x.name or g.chance(0.2))
        return mate
    shape = [size if g.chance(0.6) and size == x.shapes[1][at] else 1 for at, size in enumerate(x.shapes[0])]
    shape = shape[g.int(0, x.rank) :]
    if x.floating:
        return g.weight(shape, x.dtype, 2.0)
    numbers = [g.int(-3, 3) if x.dtype in INTS else g.int(0, 1) for _ in range(int(np.prod(shape)))]
    return g.constant(np.reshape(numbers, shape), x.dtype, shared=0.2)


def _fits(x: Value, y: Value) -> bool:
    try:
        broadcast(x, y)
    except Exception:
        return False
    return True


def combined(op_type: str, x: Value, y: Value, low: float, high: float, grid: int, gain: float = 1.0) -> Value:
    """The result of arithmetic on two values: exact if both are."""
    shapes = broadcast(x, y)
    if not x.floating:
        return integers(x.dtype, shapes, low, high)
    result = rough([x, y], shapes, low, high, gain)
    return like(result, grid=grid, error=0.0) if x.exact and y.exact else result


def add(g: Builder, x: Value, y: Value) -> Value:
    """The sum."""
    grid = max(x.grid or 0, y.grid or 0)
    return g.emit("Add", [x, y], combined("Add", x, y, x.low + y.low, x.high + y.high, grid))


def multiply(g: Builder, x: Value, y: Value) -> Value:
    """The product."""
    ends = [a * b for a in (x.low, x.high) for b in (y.low, y.high)]
    grid = (x.grid or 0) + (y.grid or 0)
    return g.emit("Mul", [x, y], combined("Mul", x, y, min(ends), max(ends), grid, max(x.bound, y.bound)))


def _pair(g: Builder, dtypes: tuple[str, ...] = (*NUMBERS, "float16"), exact: bool = False) -> tuple[Value, Value]:
    x = g.pick(dtypes, exact=exact)
    y = partner(g, x, exact)
    return (x, y) if g.chance() else (y, x)


@rule("Add", 7)
def _add(g: Builder) -> Any:
    return add(g, *_pair(g))


@rule("Sub", 7)
def _sub(g: Builder) -> Any:
    x, y = _pair(g)
    grid = max(x.grid or 0, y.grid or 0)
    return g.emit("Sub", [x, y], combined("Sub", x, y, x.low - y.high, x.high - y.low, grid))


@rule("Mul", 7)
def _mul(g: Builder) -> Any:
    x, y = _pair(g)
    if x.floating:
        x, y = tame(g, x, 8), tame(g, y, 8)
    return multiply(g, x, y)


@rule("Div", 7)
def _div(g: Builder) -> Any:
    x = g.pick((*NUMBERS, "float16"))
    if x.floating:
        y = away_from_zero(g, partner(g, x))
        need(x.dtype == y.dtype)
        return g.emit("Div", [x, y], rough([x, y], broadcast(x, y), -x.bound / y.low, x.bound / y.low, 2 * x.bound + 2))
    y = g.constant(g.choice([-3, 2, 5]), x.dtype)
    low, high = sorted((x.low / y.low, x.high / y.low))
    return g.emit("Div", [x, y], integers(x.dtype, x.shapes, np.trunc(low), np.trunc(high)))


@rule("Pow", 7)
def _pow(g: Builder) -> Any:
    x = tame(g, g.pick(WIDE_FLOATS if g.opset >= 12 else F32), 4)
    if g.chance():
        power = g.choice([2.0, 3.0])
        y = g.constant(power, x.dtype)
        low, gain = (0 if power == 2 else -(x.bound**power)), power * x.bound ** (power - 1)
        return g.emit("Pow", [x, y], rough([x], x.shapes, low, x.bound**power, gain))
    x = away_from_zero(g, x, bound=4.0)
    y = g.weight((), x.dtype, 1.5)
    return g.emit("Pow", [x, y], rough([x], x.shapes, 0, 8, 12, 8))


@rule("Mod", 10)
def _mod(g: Builder) -> Any:
    x = g.pick(("float32", "int32", "int64"), exact=True)
    if x.floating:
        y = g.constant(g.choice([0.75, 2.0, -1.5]), x.dtype, 2)
        return g.emit("Mod", [x, y], like(x, low=-2, high=2, grid=max(x.grid or 0, 2)), fmod=1)
    y = g.constant(g.choice([-3, 2, 7]), x.dtype)
    return g.emit("Mod", [x, y], integers(x.dtype, x.shapes, -7, 7), fmod=g.int(0, 1))


def _extreme(name: str, function: Callable[..., float]) -> None:
    @rule(name, 8)
    def make(g: Builder) -> Any:
        x = g.pick((*NUMBERS, "float16") if g.opset >= 12 else F32)
        given = [x, *(partner(g, x) for _ in range(g.int(1, 2)))]
        grids = [v.grid for v in given]
        grid = None if None in grids else max(n for n in grids if n is not None)
        low, high = function(v.low for v in given), function(v.high for v in given)
        error = max(v.error for v in given)
        return g.emit(name, given, like(x, shapes=broadcast(*given), low=low, high=high, grid=grid, error=error))


_extreme("Max", max)
_extreme("Min", min)


def _many(name: str) -> None:
    @rule(name, 8)
    def make(g: Builder) -> Any:
        x = g.pick(WIDE_FLOATS if name == "Sum" else F32)
        given = [x, *(partner(g, x) for _ in range(g.int(0, 2)))]
        low, high = sum(v.low for v in given), sum(v.high for v in given)
        if name == "Mean":
            low, high = low / len(given), high / len(given)
        return g.emit(name, given, rough(given, broadcast(*given), low, high, 1, 4))


_many("Sum")
_many("Mean")


@rule("BitShift", 11)
def _shift(g: Builder) -> Any:
    x = g.pick(["uint8"], where=lambda v: v.high <= 63)
    y = g.constant(g.int(0, 2), "uint8")
    left = g.chance()
    high = x.high * 4 if left else x.high
    return g.emit("BitShift", [x, y], integers("uint8", x.shapes, 0, high), direction="LEFT" if left else "RIGHT")


def _bitwise(name: str) -> None:
    @rule(name, 18)
    def make(g: Builder) -> Any:
        x = g.pick(("int32", "int64", "uint8", "int8"))
        if name == "BitwiseNot":
            limits = (-x.high - 1, -x.low - 1) if x.dtype != "uint8" else (255 - x.high, 255 - x.low)
            return g.emit(name, [x], integers(x.dtype, x.shapes, *limits))
        y = partner(g, x)
        most = 2.0 ** np.ceil(np.log2(max(x.bound, y.bound) + 2)) - 1
        least = 0 if x.low >= 0 and y.low >= 0 else -most - 1
        return g.emit(name, [x, y], integers(x.dtype, broadcast(x, y), least, most))


for _name in ("BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot"):
    _bitwise(_name)


# -- comparisons and logic --------------------------------------------------------------------------------------------


def _comparison(name: str, since: int, dtypes: tuple[str, ...]) -> None:
    @rule(name, since)
    def make(g: Builder) -> Any:
        x = g.pick(dtypes, exact=True)
        y = partner(g, x, exact=True)
        return g.emit(name, [x, y], integers("bool", broadcast(x, y), 0, 1))


_comparison("Equal", 11, (*NUMBERS, "bool"))
_comparison("Greater", 9, NUMBERS)
_comparison("Less", 9, NUMBERS)
_comparison("GreaterOrEqual", 16, NUMBERS)
_comparison("LessOrEqual", 16, NUMBERS)


def _logic(name: str) -> None:
    @rule(name, 7)
    def make(g: Builder) -> Any:
        x = g.pick(["bool"])
        if name == "Not":
            return g.emit(name, [x], like(x))
        y = partner(g, x)
        return g.emit(name, [x, y], integers("bool", broadcast(x, y), 0, 1))


for _name in ("And", "Or", "Xor", "Not"):
    _logic(_name)


@rule("Where", 9)
def _where(g: Builder) -> Any:
    condition = g.pick(["bool"])
    x = g.pick((*NUMBERS, "uint8"), where=lambda v: _fits(condition, v))
    y = partner(g, x)
    shapes = broadcast(condition, x, y)
    grid = None if x.grid is None or y.grid is None else max(x.grid, y.grid)
    low, high, error = min(x.low, y.low), max(x.high, y.high), max(x.error, y.error)
    return g.emit("Where", [condition, x, y], like(x, shapes=shapes, low=low, high=high, grid=grid, error=error))
