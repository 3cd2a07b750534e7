"""Operators on each element of one float."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from random_graphs.builder import F32, FLOATS, WIDE_FLOATS, Builder
from random_graphs.rules import RULES, Rule, rule
from random_graphs.tame import tame, within
from random_graphs.values import like, need, rough

_erf = np.vectorize(math.erf, otypes=[float])
_F3216 = ("float32", "float16")


@dataclass(frozen=True)
class Smooth:
    """A continuous function: where it is well-conditioned, the dtypes that onnxruntime has, its attributes."""

    name: str
    function: Callable[..., Any]
    low: float = -32.0
    high: float = 32.0
    since: int = 7
    dtypes: tuple[str, ...] = FLOATS
    attributes: tuple[tuple[str, float], ...] = ()


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _softplus(x: Any) -> Any:
    return np.log1p(np.exp(x))


def _selu(x: Any, alpha: float = 1.67326, gamma: float = 1.0507) -> Any:
    return gamma * np.where(x > 0, x, alpha * np.expm1(x))


TABLE = [
    Smooth("Sigmoid", _sigmoid),
    Smooth("Tanh", np.tanh),
    Smooth("Softsign", lambda x: x / (1 + np.abs(x)), dtypes=_F3216),
    Smooth("Softplus", _softplus, dtypes=_F3216),
    Smooth("Exp", np.exp, -16, 3),
    Smooth("Log", np.log, 0.25, 64),
    Smooth("Sqrt", np.sqrt, 0.125, 64),
    Smooth("Reciprocal", lambda x: 1 / x, 0.25, 64),
    Smooth("Erf", _erf, since=9, dtypes=_F3216),
    Smooth("Sin", np.sin, -8, 8),
    Smooth("Cos", np.cos, -8, 8),
    Smooth("Tan", np.tan, -1, 1, dtypes=_F3216),
    Smooth("Asin", np.arcsin, -0.75, 0.75, dtypes=_F3216),
    Smooth("Acos", np.arccos, -0.75, 0.75, dtypes=_F3216),
    Smooth("Atan", np.arctan, dtypes=_F3216),
    Smooth("Sinh", np.sinh, -3, 3, 9, _F3216),
    Smooth("Cosh", np.cosh, -3, 3, 9, _F3216),
    Smooth("Asinh", np.arcsinh, since=9, dtypes=_F3216),
    Smooth("Acosh", np.arccosh, 1.5, 16, 9, _F3216),
    Smooth("Atanh", np.arctanh, -0.75, 0.75, 9, _F3216),
    Smooth("Mish", lambda x: x * np.tanh(_softplus(x)), since=18, dtypes=_F3216),
    Smooth("Gelu", lambda x: 0.5 * x * (1 + _erf(x / math.sqrt(2))), since=20, dtypes=_F3216),
    Smooth("HardSwish", lambda x: x * np.clip(x / 6 + 0.5, 0, 1), since=14, dtypes=_F3216),
    Smooth("HardSigmoid", lambda x: np.clip(x / 5 + 0.5, 0, 1), dtypes=_F3216),
    Smooth(
        "HardSigmoid",
        lambda x, alpha, beta: np.clip(alpha * x + beta, 0, 1),
        dtypes=_F3216,
        attributes=(("alpha", 0.375), ("beta", 0.25)),
    ),
    Smooth("Elu", lambda x: np.where(x > 0, x, np.expm1(x)), dtypes=_F3216),
    Smooth(
        "Elu",
        lambda x, alpha: np.where(x > 0, x, alpha * np.expm1(x)),
        dtypes=_F3216,
        attributes=(("alpha", 0.75),),
    ),
    Smooth("Selu", _selu, dtypes=_F3216),
    Smooth("Selu", _selu, dtypes=_F3216, attributes=(("alpha", 1.5), ("gamma", 0.75))),
    Smooth(
        "Celu",
        lambda x, alpha: np.maximum(x, 0) + np.minimum(0, alpha * np.expm1(x / alpha)),
        since=12,
        dtypes=F32,
        attributes=(("alpha", 2.0),),
    ),
]


def apply_smooth(row: Smooth, g: Builder, x: Any = None) -> Any:
    """Add the function; its range and gain are found from its values on a fine mesh."""
    dtypes = row.dtypes if g.opset >= 12 else tuple(d for d in row.dtypes if d != "float16")
    x = within(g, g.pick(dtypes) if x is None else x, row.low, row.high)
    need(x.dtype in dtypes)
    given = dict(row.attributes)
    mesh = np.linspace(x.low, x.high, 257) if x.high > x.low else np.asarray([x.low, x.low + 1e-3])
    y = row.function(mesh, **given)
    gain = float(np.abs(np.diff(y) / np.diff(mesh)).max()) * 1.1
    margin = 0.02 + 0.01 * float(np.abs(y).max())
    return g.emit(row.name, [x], rough([x], x.shapes, float(y.min()) - margin, float(y.max()) + margin, gain), **given)


RULES.extend(Rule(row.name, row.since, 99, False, partial(apply_smooth, row)) for row in TABLE)


@rule("Relu")
def _relu(g: Builder) -> Any:
    x = g.pick(FLOATS if g.opset >= 14 else WIDE_FLOATS)
    return g.emit("Relu", [x], like(x, low=max(0, x.low), high=max(0, x.high)))


@rule("LeakyRelu", 7)
def _leaky(g: Builder) -> Any:
    x, alpha = g.pick(), g.choice([0.125, 0.5, None])
    slope = 0.01 if alpha is None else alpha
    low, high = min(x.low, x.low * slope), max(x.high, x.high * slope)
    grid = None if x.grid is None or alpha is None else x.grid + 3
    return g.emit("LeakyRelu", [x], like(rough([x], x.shapes, low, high), grid=grid), alpha=alpha)


@rule("PRelu", 7)
def _prelu(g: Builder) -> Any:
    x = g.pick(_F3216 if g.opset >= 16 else F32, range(1, 5))
    slope = g.weight((x.shapes[0][-1],) if x.shapes[0][-1] == x.shapes[1][-1] else (1,), x.dtype)
    grid = None if x.grid is None or slope.grid is None else x.grid + slope.grid
    return g.emit("PRelu", [x, slope], like(rough([x], x.shapes, -x.bound, x.bound), grid=grid))


@rule("ThresholdedRelu", 10)
def _thresholded(g: Builder) -> Any:
    x = g.pick(exact=True)
    high = max(0, x.high)
    return g.emit("ThresholdedRelu", [x], like(x, low=0, high=high), alpha=g.choice([None, 0.5, 1.25]))


@rule("Shrink", 9)
def _shrink(g: Builder) -> Any:
    x = g.pick(exact=True)
    result = like(x, low=-x.bound - 0.25, high=x.bound + 0.25, grid=max(x.grid or 0, 2))
    return g.emit("Shrink", [x], result, lambd=g.choice([0.5, 1.0]), bias=g.choice([0.25, 0.0, -0.25]))


@rule("Clip", 7)
def _clip(g: Builder) -> Any:
    from random_graphs.tame import clipped

    x = g.pick(FLOATS)
    need(x.bound >= 1)
    if g.opset >= 12 and g.chance(0.3):  # one end only
        low = g.constant(-0.5, x.dtype, 1)
        grid = None if x.grid is None else max(x.grid, 1)
        result = like(x, low=max(-0.5, x.low), high=max(-0.5, x.high), grid=grid)
        return g.emit("Clip", [x, low, None] if g.chance() else [x, low], result)
    return clipped(g, x, -g.int(0, 2), g.int(1, 3))


def _rounding(name: str, since: int, function: Callable[[Any], Any], dtypes: tuple[str, ...]) -> None:
    @rule(name, since)
    def make(g: Builder) -> Any:
        x = g.pick(dtypes, exact=True)
        return g.emit(name, [x], like(x, low=float(function(x.low)), high=float(function(x.high)), grid=0))


_rounding("Floor", 7, np.floor, WIDE_FLOATS)
_rounding("Ceil", 7, np.ceil, WIDE_FLOATS)
_rounding("Round", 11, np.round, WIDE_FLOATS)
_rounding("Sign", 9, np.sign, (*WIDE_FLOATS, "int32", "int64", "int8"))


@rule("Abs")
def _abs(g: Builder) -> Any:
    x = g.pick((*FLOATS, "int32", "int64", "int8"))
    need(x.low > -128 or x.dtype != "int8")
    low = 0 if x.low <= 0 <= x.high else min(abs(x.low), abs(x.high))
    return g.emit("Abs", [x], like(x, low=low, high=x.bound))


@rule("Neg")
def _neg(g: Builder) -> Any:
    x = g.pick((*FLOATS, "int32", "int64", "int8"))
    return g.emit("Neg", [x], like(x, low=-x.high, high=-x.low))


@rule("IsNaN", 9)
def _isnan(g: Builder) -> Any:
    from random_graphs.values import integers

    x = g.pick(WIDE_FLOATS if g.opset >= 13 else F32)
    return g.emit("IsNaN", [x], integers("bool", x.shapes, 0, 1))


@rule("IsInf", 10)
def _isinf(g: Builder) -> Any:
    from random_graphs.values import integers

    x = g.pick(WIDE_FLOATS)
    return g.emit("IsInf", [x], integers("bool", x.shapes, 0, 1), detect_negative=g.int(0, 1))


def chain(g: Builder, x: Any, length: int, names: tuple[str, ...] = ()) -> Any:
    """Several operators that keep the shape (those of `names` only), reading values of the outer graph too."""
    rows = [row for row in TABLE if row.since <= g.opset and x.dtype in row.dtypes and (not names or row.name in names)]
    for _ in range(length):
        if g.chance(0.4):
            x = apply_smooth(g.choice(rows), g, x)
        elif g.chance():
            factor = g.weight((), x.dtype)
            x = g.emit("Mul", [x, factor], rough([x], x.shapes, -x.bound, x.bound))
        else:
            other = tame(g, g.pick([x.dtype], where=lambda y, s=x.shapes: y.shapes == s or y.rank == 0), 8)
            high = x.bound + other.bound
            x = g.emit("Add", [x, other], rough([x, other], x.shapes, -high, high))
    return x
