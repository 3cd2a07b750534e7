"""SINGA's functional names that work element by element."""

from __future__ import annotations

from typing import Any

import numpy as np

from singax import dispatch, ops
from singax.autograd.recorder import node
from singax.dtypes import canonical
from singax.errors import ArgumentError
from singax.tensor import Tensor

__all__ = [
    "_and", "_not", "_or", "_xor", "abs", "acos", "acosh", "add", "asin", "asinh", "atan", "atanh", "cast", "ceil",
    "clip", "cos", "cosh", "cossim", "div", "elu", "equal", "erf", "exp", "floor", "gelu", "greater", "hardsigmoid",
    "identity", "leakyrelu", "less", "log", "max", "mean", "min", "mul", "negative", "pow", "prelu", "reciprocal",
    "relu", "round", "rounde", "selu", "sigmoid", "sign", "sin", "sinh", "softplus", "softsign", "sqrt", "sub", "sum",
    "tan", "tanh", "where",
]  # fmt: skip

abs = node(ops.abs)
acos = node(ops.acos)
acosh = node(ops.acosh)
asin = node(ops.asin)
asinh = node(ops.asinh)
atan = node(ops.atan)
atanh = node(ops.atanh)
ceil = node(ops.ceil)
cos = node(ops.cos)
cosh = node(ops.cosh)
erf = node(ops.erf)
exp = node(ops.exp)
floor = node(ops.floor)
gelu = node(ops.gelu)
identity = node(ops.identity)
log = node(ops.log)
negative = node(ops.negative)
reciprocal = node(ops.reciprocal)
relu = node(ops.relu)
round = node(ops.round)
rounde = node(ops.rounde)
sigmoid = node(ops.sigmoid)
sign = node(ops.sign)
sin = node(ops.sin)
sinh = node(ops.sinh)
softplus = node(ops.softplus)
softsign = node(ops.softsign)
sqrt = node(ops.sqrt)
tan = node(ops.tan)
tanh = node(ops.tanh)

add = node(ops.add)
sub = node(ops.sub)
mul = node(ops.mul)
div = node(ops.div)
pow = node(ops.pow)
prelu = node(ops.prelu)
less = node(ops.less)
greater = node(ops.greater)
equal = node(ops.equal)
cossim = node(ops.cossim)
min = node(ops.min)
max = node(ops.max)
sum = node(ops.sum)
mean = node(ops.mean)

_and = node(ops.logical_and)
_or = node(ops.logical_or)
_xor = node(ops.logical_xor)
_not = node(ops.logical_not)


def elu(x: Any, alpha: float = 1) -> Any:
    """x above 0, else α (exp(x) − 1)."""
    return dispatch.apply(ops.elu, x, alpha=number("elu", "alpha", alpha))


def selu(x: Any, alpha: float = 1.67326, gamma: float = 1.0507) -> Any:
    """γ · elu(x, α)."""
    return dispatch.apply(ops.selu, x, alpha=number("selu", "alpha", alpha), gamma=number("selu", "gamma", gamma))


def leakyrelu(x: Any, a: float = 0.01) -> Any:
    """x, times `a` below 0."""
    return dispatch.apply(ops.leakyrelu, x, a=number("leakyrelu", "a", a))


def hardsigmoid(x: Any, alpha: float = 0.2, gamma: float = 0.5) -> Any:
    """α x + γ limited to 0 … 1."""
    alpha, gamma = number("hardsigmoid", "alpha", alpha), number("hardsigmoid", "gamma", gamma)
    return dispatch.apply(ops.hardsigmoid, x, alpha=alpha, gamma=gamma)


def clip(x: Any, min: float | None = None, max: float | None = None) -> Any:
    """x limited to min … max; the gradient passes where min ≤ x ≤ max."""
    return dispatch.apply(ops.clip, x, min=_limit("min", min, x), max=_limit("max", max, x))


def cast(x: Any, to: Any) -> Any:
    """x in another dtype: a name, a NumPy or JAX dtype, or SINGA's ints. Between floats gradients pass."""
    return dispatch.apply(ops.cast, x, to=canonical(to).name)


def where(x: Any, y: Any, condition: Any) -> Any:
    """x where the condition is not 0, else y; all three broadcast.

    *Differences from SINGA*: the condition may be a Tensor too.
    """
    return dispatch.apply(ops.where, as_array(condition), x, y)


def number(name: str, what: str, value: Any) -> float:
    """A static float, for the key of a program: equal numbers must be of one type."""
    if isinstance(value, Tensor):
        value = value.data
    if isinstance(value, str) or np.size(value) != 1:
        raise ArgumentError(f"{name} expected a number as {what}. Received: {value!r}")
    return float(np.asarray(value).item())


def as_array(value: Any) -> Any:
    """A list or tuple as an array; Tensors and arrays as they are."""
    return np.asarray(value) if isinstance(value, list | tuple) else value


def _limit(what: str, value: Any, x: Any) -> float | None:
    """Limits of whole numbers are ints for integers x, so that the result stays of integers."""
    if value is None:
        return None
    limit = number("clip", what, value)
    whole = getattr(x, "dtype", np.dtype(type(x) if isinstance(x, int) else float)).kind in "iu"
    return int(limit) if whole and limit.is_integer() else limit
