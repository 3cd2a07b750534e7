"""Arithmetic element by element. Operands of a primitive have one shape, or are scalars; ONNX broadcasts both."""

from __future__ import annotations

import numpy as np

from singax.sonnx.exporter.graph import Ref
from singax.sonnx.exporter.lowering.dtypes import element_type, is_bool, is_unsigned
from singax.sonnx.exporter.registry import Call, lowers

_UNARY = {
    "abs": "Abs", "acos": "Acos", "acosh": "Acosh", "asin": "Asin", "asinh": "Asinh", "atan": "Atan",
    "atanh": "Atanh", "ceil": "Ceil", "copy": "Identity", "copy_p": "Identity", "cos": "Cos", "cosh": "Cosh",
    "erf": "Erf", "exp": "Exp", "floor": "Floor", "log": "Log", "logistic": "Sigmoid", "sign": "Sign", "sin": "Sin",
    "sinh": "Sinh", "sqrt": "Sqrt", "stop_gradient": "Identity", "tan": "Tan", "tanh": "Tanh",
    "optimization_barrier": "Identity",
}  # fmt: skip
_OF_TWO = {"add": "Add", "add_any": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "pow": "Pow"}


@lowers(*_UNARY)
def unary(call: Call, *operands: Ref) -> list[Ref]:
    op_type = _UNARY[call.equation.name]
    return [call.graph.op(op_type, x) for x in operands]


@lowers("neg")
def negative(call: Call, x: Ref) -> Ref:
    if is_unsigned(x):
        return call.graph.op("Sub", np.zeros((), x.dtype), x)
    return call.graph.op("Neg", x)


@lowers(*_OF_TWO)
def of_two(call: Call, a: Ref, b: Ref) -> Ref:
    return call.graph.op(_OF_TWO[call.equation.name], a, b)


@lowers("rem")
def remainder(call: Call, a: Ref, b: Ref) -> Ref:
    return call.graph.op("Mod", a, b, fmod=1)


@lowers("max", "min")
def extreme(call: Call, a: Ref, b: Ref) -> Ref:
    if is_bool(a):
        return call.graph.op("Or" if call.equation.name == "max" else "And", a, b)
    return call.graph.op("Max" if call.equation.name == "max" else "Min", a, b)


@lowers("integer_pow")
def integer_power(call: Call, x: Ref) -> Ref:
    exponent = call.params["y"]
    if exponent == 2:
        return call.graph.op("Mul", x, x)
    if exponent < 0:
        positive = x if exponent == -1 else call.graph.op("Pow", x, np.asarray(-exponent, x.dtype))
        return call.graph.op("Reciprocal", positive)
    return call.graph.op("Pow", x, np.asarray(exponent, x.dtype))


@lowers("square")
def square(call: Call, x: Ref) -> Ref:
    return call.graph.op("Mul", x, x)


@lowers("one_minus_square")
def one_minus_square(call: Call, x: Ref) -> Ref:
    """1 − x² as (1 + x)(1 − x), which keeps its digits near 1."""
    graph, one = call.graph, np.asarray(1, x.dtype)
    return graph.op("Mul", graph.op("Add", one, x), graph.op("Sub", one, x))


@lowers("polynomial")
def polynomial(call: Call, x: Ref, *coefficients: Ref) -> Ref:
    """Horner's rule; the coefficient of the highest power comes last."""
    *lower, value = coefficients
    for coefficient in reversed(lower):
        value = call.graph.op("Add", call.graph.op("Mul", value, x), coefficient)
    return value


@lowers("rsqrt")
def reciprocal_root(call: Call, x: Ref) -> Ref:
    return call.graph.op("Reciprocal", call.graph.op("Sqrt", x))


@lowers("cbrt")
def cube_root(call: Call, x: Ref) -> Ref:
    size = call.graph.op("Pow", call.graph.op("Abs", x), np.asarray(1 / 3, x.dtype))
    return call.graph.op("Mul", call.graph.op("Sign", x), size)


@lowers("exp2")
def exp2(call: Call, x: Ref) -> Ref:
    return call.graph.op("Exp", call.graph.op("Mul", x, np.asarray(np.log(2), x.dtype)))


@lowers("log2")
def log2(call: Call, x: Ref) -> Ref:
    return call.graph.op("Mul", call.graph.op("Log", x), np.asarray(1 / np.log(2), x.dtype))


@lowers("expm1")
def expm1(call: Call, x: Ref) -> Ref:
    """exp(x) − 1 as tanh(x / 2) · (exp(x) + 1), which keeps its digits near 0; exp(x) − 1 elsewhere."""
    graph, one = call.graph, np.asarray(1, x.dtype)
    powers = graph.op("Exp", x)
    near = graph.op("Mul", graph.op("Tanh", graph.op("Mul", x, np.asarray(0.5, x.dtype))), graph.op("Add", powers, one))
    is_near = graph.op("Less", graph.op("Abs", x), one)
    return graph.op("Where", is_near, near, graph.op("Sub", powers, one))


@lowers("log1p")
def log1p(call: Call, x: Ref) -> Ref:
    """log(1 + x), and 2 artanh(x / (x + 2)) where x is small, which keeps the digits that 1 + x loses."""
    graph, two = call.graph, np.asarray(2, x.dtype)
    near = graph.op("Mul", graph.op("Atanh", graph.op("Div", x, graph.op("Add", x, two))), two)
    is_near = graph.op("Less", graph.op("Abs", x), np.asarray(0.5, x.dtype))
    return graph.op("Where", is_near, near, graph.op("Log", graph.op("Add", x, np.asarray(1, x.dtype))))


@lowers("erfc")
def erfc(call: Call, x: Ref) -> Ref:
    return call.graph.op("Sub", np.asarray(1, x.dtype), call.graph.op("Erf", x))


@lowers("round")
def rounded(call: Call, x: Ref) -> Ref:
    graph = call.graph
    if int(call.params["rounding_method"]) == 1:  # halves to the even number
        return graph.op("Round", x)
    size = graph.op("Abs", x)
    whole = graph.op("Floor", size)
    half = graph.op("GreaterOrEqual", graph.op("Sub", size, whole), np.asarray(0.5, x.dtype))
    return graph.op(
        "Mul", graph.op("Sign", x), graph.op("Add", whole, graph.op("Cast", half, to=element_type(x.dtype)))
    )


@lowers("atan2")
def atan2(call: Call, y: Ref, x: Ref) -> Ref:
    """The angle of (x, y): the arctangent of y / x, turned by half a circle left of the y axis."""
    graph = call.graph
    zero, half, full = (np.asarray(v, x.dtype) for v in (0, np.pi / 2, np.pi))
    on_axis = graph.op("Equal", x, zero)
    angle = graph.op("Atan", graph.op("Div", y, graph.op("Where", on_axis, np.asarray(1, x.dtype), x)))
    turn = graph.op("Where", graph.op("Less", y, zero), -full, full)
    angle = graph.op("Where", graph.op("Less", x, zero), graph.op("Add", angle, turn), angle)
    upright = graph.op("Mul", graph.op("Sign", y), half)
    return graph.op("Where", on_axis, upright, angle)


@lowers("clamp")
def clamp(call: Call, low: Ref, x: Ref, high: Ref) -> Ref:
    return call.graph.op("Min", call.graph.op("Max", x, low), high)


@lowers("convert_element_type")
def convert(call: Call, x: Ref) -> Ref:
    """Conversion. Floats beyond the range of an integer dtype are not defined in ONNX; JAX takes its ends."""
    wanted = call.out.dtype
    if np.dtype(x.dtype) == np.dtype(wanted):
        return x
    return call.graph.op("Cast", x, to=element_type(wanted))


@lowers("is_finite")
def is_finite(call: Call, x: Ref) -> Ref:
    graph = call.graph
    return graph.op("Not", graph.op("Or", graph.op("IsNaN", x), graph.op("IsInf", x)))
