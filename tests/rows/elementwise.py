"""Operations that work element by element."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from catalogue import Row, floats, integers
from catalogue import Spec as S

from singax import ops


def unary(name: str, reference: Callable[..., Any], low: float = -2.0, high: float = 2.0, **more: Any) -> Row:
    """A row of an operation of one array."""
    return Row(f"ops.{name}", lambda: getattr(ops, name), [floats(3, 4, low=low, high=high)], reference, **more)


def binary(name: str, reference: Callable[..., Any], low: float = -2.0, high: float = 2.0, **more: Any) -> Row:
    """A row of an operation of two arrays that broadcast."""
    inputs = [floats(2, 3, 4, low=low, high=high), floats(3, 1, low=low, high=high)]
    wrong = [[floats(2, 3), floats(2)]]
    return Row(f"ops.{name}", lambda: getattr(ops, name), inputs, reference, rejects=wrong, **more)


def several(name: str, reference: Callable[..., Any], **more: Any) -> Row:
    """A row of an operation of any number of arrays."""
    inputs, wrong = [floats(3, 4), floats(4), floats(3, 1)], [[floats(3, 4), floats(3)], []]
    return Row(f"ops.{name}", lambda: getattr(ops, name), inputs, reference, rejects=wrong, **more)


def bits(name: str, reference: Callable[..., Any], *inputs: Any, **more: Any) -> Row:
    """A row of an operation whose results are 0 and 1."""
    return Row(f"ops.{name}", lambda: getattr(ops, name), list(inputs), reference, grad=False, **more)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def softmax(x: np.ndarray, axis: int) -> np.ndarray:
    powers = np.exp(x)
    return powers / powers.sum(axis, keepdims=True)


TRIGONOMETRY = [
    unary("cos", np.cos),
    unary("cosh", np.cosh),
    unary("acos", np.arccos, -0.9, 0.9),
    unary("acosh", np.arccosh, 1.1, 3.0),
    unary("sin", np.sin),
    unary("sinh", np.sinh),
    unary("asin", np.arcsin, -0.9, 0.9),
    unary("asinh", np.arcsinh),
    unary("tan", np.tan, -1.0, 1.0),
    unary("tanh", np.tanh),
    unary("atan", np.arctan),
    unary("atanh", np.arctanh, -0.9, 0.9),
]

FUNCTIONS = [
    unary("abs", np.abs),
    unary("negative", np.negative),
    unary("exp", np.exp),
    unary("log", np.log, 0.5, 3.0),
    unary("sqrt", np.sqrt, 0.5, 3.0),
    unary("reciprocal", lambda x: 1 / x, 0.5, 3.0),
    unary("erf", np.vectorize(math.erf)),
    unary("identity", lambda x: x),
    unary("sign", np.sign),
    unary("ceil", np.ceil),
    unary("floor", np.floor),
    unary("round", lambda x: np.sign(x) * np.floor(np.abs(x) + 0.5)),
    unary("rounde", np.round),
    unary("cast", lambda x: x.astype(np.int32), attributes={"to": "int32"}, grad=False, note="to integers"),
    unary("cast", lambda x: x, attributes={"to": "float32"}, grad=False),  # float64 would lose digits
    unary("clip", lambda x: np.clip(x, -0.5, 0.75), attributes={"min": -0.5, "max": 0.75}),
    unary("clip", lambda x: np.maximum(x, -0.5), attributes={"min": -0.5}, note="from below"),
    unary("clip", lambda x: np.full_like(x, 0.5), attributes={"min": 1.0, "max": 0.5}, note="ends that cross"),
]

ACTIVATIONS = [
    unary("sigmoid", sigmoid),
    unary("relu", lambda x: np.maximum(x, 0)),
    unary("relu6", lambda x: np.clip(x, 0, 6), -8, 8),
    unary("hard_tanh", lambda x: np.clip(x, -1, 1)),
    unary("gelu", lambda x: x * (1 + np.vectorize(math.erf)(x / np.sqrt(2))) / 2),
    unary(
        "gelu",
        lambda x: x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))) / 2,
        attributes={"approximate": True},
        note="by tanh",
    ),
    unary("softmax", lambda x: softmax(x, -1)),
    unary("softmax", lambda x: softmax(x, 0), attributes={"axis": 0}, note="along the first axis"),
    unary("log_softmax", lambda x: np.log(softmax(x, 0)), attributes={"axis": 0}),
    unary("elu", lambda x: np.where(x > 0, x, 1.5 * np.expm1(x)), attributes={"alpha": 1.5}),
    unary("celu", lambda x: np.where(x > 0, x, 1.5 * np.expm1(x / 1.5)), attributes={"alpha": 1.5}),
    unary("selu", lambda x: 1.0507 * np.where(x > 0, x, 1.67326 * np.expm1(x))),
    unary("leakyrelu", lambda x: np.where(x > 0, x, 0.2 * x), attributes={"a": 0.2}),
    unary("hardsigmoid", lambda x: np.clip(0.2 * x + 0.4, 0, 1), -4, 4, attributes={"gamma": 0.4}),
    unary("hardswish", lambda x: x * np.clip(x / 6 + 0.5, 0, 1), -5, 5),
    unary("softplus", lambda x: np.log1p(np.exp(x))),
    unary("softsign", lambda x: x / (1 + np.abs(x))),
    unary("silu", lambda x: x * sigmoid(x)),
    unary("mish", lambda x: x * np.tanh(np.log1p(np.exp(x)))),
    unary("thresholded_relu", lambda x: np.where(x > 0.5, x, 0), attributes={"alpha": 0.5}),
    unary(
        "shrink",
        lambda x: np.where(np.abs(x) > 0.7, x - 0.3 * np.sign(x), 0),
        attributes={"lambd": 0.7, "bias": 0.3},
    ),
    Row(
        "ops.prelu",
        lambda: ops.prelu,
        [floats(3, 4), floats(4)],
        lambda x, slope: np.where(x > 0, x, slope * x),
        rejects=[[floats(3, 4), floats(3)], [floats(4), floats(3, 4)]],
    ),
]

ARITHMETIC = [
    binary("add", np.add),
    binary("sub", np.subtract),
    binary("mul", np.multiply),
    binary("div", np.divide, 0.5, 2.0),
    binary("pow", np.power, 0.5, 2.0),
    binary("mod", np.mod, 0.5, 2.0),
    binary("floordiv", np.floor_divide, 0.5, 2.0),
    binary("fmod", np.fmod, 0.5, 2.0),
    Row(
        "ops.integer_div",
        lambda: ops.integer_div,
        [integers(3, 4, low=-9, high=9), integers(4, low=1, high=5)],
        lambda a, b: np.trunc(a / b),
        grad=False,
        rejects=[[integers(3, 4), integers(3)], [floats(3), floats(3)]],
    ),
    Row(
        "ops.integer_mod",
        lambda: ops.integer_mod,
        [integers(3, 4, low=-9, high=9), integers(4, low=1, high=5)],
        np.mod,
        grad=False,
    ),
    Row("ops.mod", lambda: ops.mod, [floats(3, 4), floats(1, low=-0.8, high=-0.7)], np.mod, note="by negative numbers"),
    several("min", lambda a, b, c: np.minimum(np.minimum(a, b), c)),
    several("max", lambda a, b, c: np.maximum(np.maximum(a, b), c)),
    several("sum", lambda a, b, c: a + b + c),
    several("mean", lambda a, b, c: (a + b + c) / 3),
    Row(
        "ops.cossim",
        lambda: ops.cossim,
        [floats(3, 4), floats(3, 4)],
        lambda a, b: (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1),
        rejects=[[floats(3, 4), floats(1, 4)], [floats(4), floats(4)]],
    ),
]

WHOLE = integers(3, 4), integers(4)
TRUTHS = S((3, 4), "bool"), S((4,), "bool")
WRONG = [[integers(3, 4), integers(3)]]

COMPARISONS = [
    bits("less", np.less, *WHOLE, rejects=WRONG),
    bits("less_equal", np.less_equal, *WHOLE, rejects=WRONG),
    bits("greater", np.greater, *WHOLE, rejects=WRONG),
    bits("greater_equal", np.greater_equal, *WHOLE, rejects=WRONG),
    bits("equal", np.equal, *WHOLE, rejects=WRONG),
    bits("not_equal", np.not_equal, *WHOLE, rejects=WRONG),
    bits("less", np.less, floats(3, 4), floats(4), note="of floats"),
    bits("logical_and", np.logical_and, *TRUTHS, rejects=WRONG),
    bits("logical_or", np.logical_or, *TRUTHS, rejects=WRONG),
    bits("logical_xor", np.logical_xor, *TRUTHS, rejects=WRONG),
    bits("logical_not", np.logical_not, TRUTHS[0]),
    bits("logical_and", np.logical_and, *WHOLE, note="of integers"),
    Row(
        "ops.where",
        lambda: ops.where,
        [TRUTHS[0], floats(4), floats(2, 3, 4)],
        np.where,
        rejects=[[TRUTHS[0], floats(3), floats(1)]],
    ),
]

ROWS = [*TRIGONOMETRY, *FUNCTIONS, *ACTIVATIONS, *ARITHMETIC, *COMPARISONS]
