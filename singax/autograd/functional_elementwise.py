"""SINGA's functional names that work element by element."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from singax import dispatch, ops
from singax.autograd.derived import operator_class, recorded
from singax.autograd.recorder import unwrapped
from singax.dtypes import canonical
from singax.errors import ArgumentError
from singax.mode import local
from singax.tensor import Tensor

__all__ = [
    "_and", "_not", "_or", "_xor", "abs", "acos", "acosh", "add", "asin", "asinh", "atan", "atanh", "cast", "ceil",
    "clip", "cos", "cosh", "cossim", "div", "elu", "equal", "erf", "exp", "floor", "greater", "hardsigmoid",
    "identity", "leakyrelu", "less", "log", "max", "mean", "min", "mul", "negative", "pow", "prelu", "reciprocal",
    "relu", "round", "rounde", "selu", "sigmoid", "sign", "sin", "sinh", "softplus", "softsign", "sqrt", "sub", "sum",
    "tan", "tanh", "where",
]  # fmt: skip

abs = recorded("Abs", ops.abs, "a")
acos = recorded("Acos", ops.acos)
acosh = recorded("Acosh", ops.acosh)
asin = recorded("Asin", ops.asin)
asinh = recorded("Asinh", ops.asinh)
atan = recorded("Atan", ops.atan)
atanh = recorded("Atanh", ops.atanh)
ceil = recorded("Ceil", ops.ceil)
cos = recorded("Cos", ops.cos)
cosh = recorded("Cosh", ops.cosh)
erf = recorded("Erf", ops.erf, differs="the gradient is the true one, dy · 2 / √π · exp(−x²)")
exp = recorded("Exp", ops.exp, "a")
floor = recorded("Floor", ops.floor)
identity = recorded("Identity", ops.identity)
log = recorded("Log", ops.log, differs="0 and negative numbers give −inf and nan")
negative = recorded("Negative", ops.negative)
reciprocal = recorded("Reciprocal", ops.reciprocal)
relu = recorded("ReLU", ops.relu)
round = recorded("Round", ops.round)
rounde = recorded("Rounde", ops.rounde, differs="odd whole numbers stay as they are")
sigmoid = recorded("Sigmoid", ops.sigmoid)
sign = recorded("Sign", ops.sign, "a")
sin = recorded("Sin", ops.sin)
sinh = recorded("Sinh", ops.sinh)
softplus = recorded("SoftPlus", ops.softplus)
softsign = recorded("SoftSign", ops.softsign)
sqrt = recorded("Sqrt", ops.sqrt)
tan = recorded("Tan", ops.tan)
tanh = recorded("Tanh", ops.tanh)
add = recorded("Add", ops.add, "a b")
sub = recorded("Sub", ops.sub, "a b")
mul = recorded("Mul", ops.mul, "x y", differs="an integer times a float is a float")
pow = recorded("Pow", ops.pow, "a b")
prelu = recorded("PRelu", ops.prelu, "x slope")
less = recorded("Less", ops.less, "x y")
greater = recorded("Greater", ops.greater, "x y")
equal = recorded("Equal", ops.equal, "x y")
cossim = recorded("CosSim", ops.cossim, "a b")
min = recorded("Min", ops.min, "*l", differs="dy counts in backward")
max = recorded("Max", ops.max, "*l", differs="dy counts in backward")
sum = recorded("Sum", ops.sum, "*l", differs="gradients flow through it; inputs may broadcast")
mean = recorded("Mean", ops.mean, "*l", differs="gradients flow through it; inputs may broadcast")

_and = recorded("And", ops.logical_and, "a b", called="_and")
_or = recorded("Or", ops.logical_or, "a b", called="_or")
_xor = recorded("Xor", ops.logical_xor, "a b", called="_xor")
_not = recorded("Not", ops.logical_not, "x", called="_not")


@operator_class("Div", "a b")
def div(a: Any, b: Any) -> Any:
    """Elementwise a / b with broadcasting. The quotient of integers is an integer, its fraction cut off.

    *Differences from SINGA*: an integer divided by a float is a float.
    """
    return dispatch.apply(_div, a, b)


def _div(a: jax.Array, b: jax.Array) -> jax.Array:
    whole = jnp.issubdtype(jnp.result_type(a, b), jnp.integer)
    return ops.integer_div(a, b) if whole else ops.div(a, b)


_div.__name__ = "div"  # what its nodes are called


@operator_class("Elu")
def elu(x: Any, alpha: float = 1) -> Any:
    """x above 0, else α (exp(x) − 1)."""
    return dispatch.apply(ops.elu, x, alpha=number("elu", "alpha", alpha))


@operator_class("SeLU")
def selu(x: Any, alpha: float = 1.67326, gamma: float = 1.0507) -> Any:
    """γ · elu(x, α)."""
    return dispatch.apply(ops.selu, x, alpha=number("selu", "alpha", alpha), gamma=number("selu", "gamma", gamma))


@operator_class("LeakyRelu", required="a")
def leakyrelu(x: Any, a: float = 0.01) -> Any:
    """x, times `a` below 0."""
    return dispatch.apply(ops.leakyrelu, x, a=number("leakyrelu", "a", a))


@operator_class("HardSigmoid")
def hardsigmoid(x: Any, alpha: float = 0.2, gamma: float = 0.5) -> Any:
    """α x + γ limited to 0 … 1."""
    alpha, gamma = number("hardsigmoid", "alpha", alpha), number("hardsigmoid", "gamma", gamma)
    return dispatch.apply(ops.hardsigmoid, x, alpha=alpha, gamma=gamma)


@operator_class("Clip", required="min max")
def clip(x: Any, min: float | None = None, max: float | None = None) -> Any:
    """x limited to min … max; the gradient passes where min ≤ x ≤ max."""
    return dispatch.apply(ops.clip, x, min=_limit("min", min, x), max=_limit("max", max, x))


@operator_class("Cast")
def cast(x: Any, to: Any) -> Any:
    """x in another dtype: a name, a NumPy or JAX dtype, or SINGA's ints. Between floats gradients pass."""
    return dispatch.apply(ops.cast, x, to=canonical(to).name)


@operator_class("Where", "x y")
def where(x: Any, y: Any, condition: Any) -> Any:
    """x where the condition is not 0, else y; all three broadcast.

    *Differences from SINGA*: the condition may be a Tensor too.
    """
    return dispatch.apply(ops.where, constant(condition), x, y)


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


def constant(value: Any) -> Any:
    """An argument that no gradient goes to, such as a target, as an array."""
    array = as_array(unwrapped(value))
    return jax.lax.stop_gradient(array) if local.frame is not None else array


def _limit(what: str, value: Any, x: Any) -> float | None:
    """Limits of whole numbers are ints for integers x, so that the result stays of integers."""
    if value is None:
        return None
    limit = number("clip", what, value)
    whole = getattr(x, "dtype", np.dtype(type(x) if isinstance(x, int) else float)).kind in "iu"
    return int(limit) if whole and limit.is_integer() else limit
