"""Operators that reduce, accumulate or rank along axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from random_graphs.builder import F32, INTS, NUMBERS, WIDE_FLOATS, Builder
from random_graphs.rules import rule
from random_graphs.tame import away_from_zero, tame
from random_graphs.values import Shapes, Value, integers, like, rough

Range = Callable[[Value, int], tuple[float, float]]


def reduced(x: Value, axes: list[int], keep: bool) -> Shapes:
    """The shapes without some axes, or with size 1 there."""
    if keep:
        return x.mapped(lambda s: [1 if at in axes else size for at, size in enumerate(s)])
    return x.mapped(lambda s: [size for at, size in enumerate(s) if at not in axes])


def _sum(x: Value, n: int) -> tuple[float, float]:
    return min(x.low, x.low * n), max(x.high, x.high * n)


def _squares(x: Value, n: int) -> tuple[float, float]:
    return 0, x.bound**2 * n


REDUCTIONS: dict[str, tuple[int, tuple[str, ...], float, Range]] = {
    # name: the opset from which the axes are an input; dtypes; the bound wanted; the range of the result
    "ReduceSum": (13, NUMBERS, 64, _sum),
    "ReduceMean": (18, WIDE_FLOATS, 64, lambda x, n: (x.low, x.high)),
    "ReduceMax": (18, NUMBERS, 256, lambda x, n: (x.low, x.high)),
    "ReduceMin": (18, NUMBERS, 256, lambda x, n: (x.low, x.high)),
    "ReduceProd": (18, F32, 1.5, lambda x, n: (-(max(1, x.bound) ** n), max(1, x.bound) ** n)),
    "ReduceL1": (18, F32, 16, lambda x, n: (0, x.bound * n)),
    "ReduceL2": (18, F32, 16, lambda x, n: (0, x.bound * np.sqrt(n))),
    "ReduceSumSquare": (18, F32, 2, _squares),
    "ReduceLogSum": (18, F32, 8, lambda x, n: (-1, np.log(x.bound * n))),
    "ReduceLogSumExp": (18, F32, 8, lambda x, n: (x.low, x.high + np.log(n))),
}
_STAYS_EXACT = {"ReduceSum", "ReduceMax", "ReduceMin", "ReduceL1"}


def _reduction(name: str) -> None:
    as_input, dtypes, wanted, limits = REDUCTIONS[name]

    @rule(name, 7)
    def make(g: Builder) -> Any:
        x = g.pick(dtypes, range(1, 6))
        if x.floating:
            x = away_from_zero(g, x) if name == "ReduceLogSum" else tame(g, x, wanted)
        axes, keep = (list(range(x.rank)), True) if g.chance(0.2) else (g.axes(x), g.chance())
        everything = len(axes) == x.rank and g.chance()
        count = max(int(np.prod([s[at] for at in axes])) for s in x.shapes)
        low, high = limits(x, count)
        gain = {"ReduceSum": count, "ReduceL1": count, "ReduceSumSquare": 2 * x.bound * count}.get(name, 1.0)
        gain = max(1, x.bound) ** count if name == "ReduceProd" else 2 * np.sqrt(count) if name == "ReduceL2" else gain
        result = rough([x], reduced(x, axes, keep), low, high, gain, 2 + count / 4) if x.floating else None
        if result is None or (x.exact and name in _STAYS_EXACT):
            result = like(x, shapes=reduced(x, axes, keep), low=low, high=high)
        listed = None if everything else [g.signed(at, x.rank) for at in axes]
        given = [x, g.ints(listed)] if g.opset >= as_input and listed is not None else [x]
        old = {"axes": listed} if g.opset < as_input else {}
        return g.emit(name, given, result, keepdims=None if keep and g.chance() else int(keep), **old)


for _name in REDUCTIONS:
    _reduction(_name)


def _arg(name: str) -> None:
    @rule(name, 7)
    def make(g: Builder) -> Any:
        dtypes = ("float32", "int32", "uint8", "int8") if g.opset >= 13 else ("float32", "int32")
        x = g.pick(dtypes, range(1, 6), exact=True)
        axis, keep = g.axis(x), g.int(0, 1)
        high = max(s[axis] for s in x.shapes) - 1
        last = {"select_last_index": 1} if g.opset >= 12 and g.chance(0.3) else {}
        result = integers("int64", reduced(x, [axis], bool(keep)), 0, high)
        return g.emit(name, [x], result, axis=g.signed(axis, x.rank), keepdims=keep, **last)


_arg("ArgMax")
_arg("ArgMin")


@rule("CumSum", 11)
def _cumsum(g: Builder) -> Any:
    x = g.pick(NUMBERS, range(1, 6))
    x = tame(g, x, 8) if x.floating else x
    axis = g.axis(x)
    count = max(s[axis] for s in x.shapes)
    low, high = min(0, x.low * count), max(0, x.high * count)
    result = like(x, low=low, high=high)
    if not x.exact:
        result = rough([x], x.shapes, low, high, count, count)
    where = g.constant(g.signed(axis, x.rank), g.choice(INTS))
    return g.emit("CumSum", [x, where], result, exclusive=g.int(0, 1), reverse=g.int(0, 1))


@rule("TopK", 10)
def _top(g: Builder) -> Any:
    x = g.pick(("float32", "int64", "int32") if g.opset >= 11 else F32, range(1, 6), exact=True)
    axis = g.axis(x)
    count = g.int(1, min(4, x.smallest(axis)))
    shapes = x.mapped(lambda s: [count if at == axis else size for at, size in enumerate(s)])
    indices = integers("int64", shapes, 0, max(s[axis] for s in x.shapes) - 1)
    more = {"largest": g.int(0, 1)} if g.opset >= 11 else {}
    k = g.ints([count])
    return g.emit_all("TopK", [x, k], like(x, shapes=shapes), indices, axis=g.signed(axis, x.rank), **more)


def _soft(name: str) -> None:
    @rule(name, 7)
    def make(g: Builder) -> Any:
        exact = name == "Hardmax"
        x = g.pick(F32 if exact else WIDE_FLOATS, range(1, 5), exact=exact)
        x = x if exact else tame(g, x, 16)
        axis = g.axis(x)
        low, high = (-2 * x.bound - 8, 0.01) if name == "LogSoftmax" else (0, 1)
        result = like(x, low=0, high=1, grid=0) if exact else rough([x], x.shapes, low, high, 2, 8)
        default = 1 if g.opset < 13 else x.rank - 1
        return g.emit(name, [x], result, axis=None if axis == default and g.chance() else g.signed(axis, x.rank))


_soft("Softmax")
_soft("LogSoftmax")
_soft("Hardmax")


@rule("LpNormalization", 7)
def _lp(g: Builder) -> Any:
    x = away_from_zero(g, g.pick(WIDE_FLOATS, range(1, 5)))
    result = rough([x], x.shapes, 0, 1, 4, 8)
    return g.emit("LpNormalization", [x], result, axis=g.signed(g.axis(x), x.rank), p=g.int(1, 2))


@rule("Trilu", 14)
def _trilu(g: Builder) -> Any:
    x = g.pick(NUMBERS, range(2, 6))
    given = [x] if g.chance() else [x, g.ints(g.int(-2, 2))]
    result = like(x, low=min(0, x.low), high=max(0, x.high))
    return g.emit("Trilu", given, result, upper=g.int(0, 1))
