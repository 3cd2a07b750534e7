"""Comparisons, logic, choices and bits."""

from __future__ import annotations

import numpy as np

from singax.errors import ExportError
from singax.sonnx.exporter.graph import Ref
from singax.sonnx.exporter.lowering.dtypes import element_type, is_bool, is_unsigned, within
from singax.sonnx.exporter.registry import Call, lowers

_COMPARISONS = {"eq": "Equal", "gt": "Greater", "lt": "Less", "ge": "GreaterOrEqual", "le": "LessOrEqual"}
_COMPARISONS |= {"eq_to": "Equal", "lt_to": "Less", "le_to": "LessOrEqual"}  # where nan has a place: not in ONNX
_LOGIC = {"and": "And", "or": "Or", "xor": "Xor"}
_BITS = {"and": "BitwiseAnd", "or": "BitwiseOr", "xor": "BitwiseXor"}


@lowers(*_COMPARISONS)
def compare(call: Call, a: Ref, b: Ref) -> Ref:
    name = call.equation.name
    if is_bool(a) and name != "eq":
        a, b = (within(call.graph, v, np.int32) for v in (a, b))
    return call.graph.op(_COMPARISONS[name], a, b)


@lowers("ne")
def not_equal(call: Call, a: Ref, b: Ref) -> Ref:
    return call.graph.op("Xor", a, b) if is_bool(a) else call.graph.op("Not", call.graph.op("Equal", a, b))


@lowers(*_LOGIC)
def logic(call: Call, a: Ref, b: Ref) -> Ref:
    name = call.equation.name
    if is_bool(a):
        return call.graph.op(_LOGIC[name], a, b)
    _needs_bits(call)
    return call.graph.op(_BITS[name], a, b)


@lowers("not")
def invert(call: Call, x: Ref) -> Ref:
    if is_bool(x):
        return call.graph.op("Not", x)
    _needs_bits(call)
    return call.graph.op("BitwiseNot", x)


def _needs_bits(call: Call) -> None:
    if call.opset < 18:
        raise ExportError(f"{call.equation.name} of integers has an operator only from opset 18 on")


@lowers("shift_left", "shift_right_logical", "shift_right_arithmetic")
def shift(call: Call, x: Ref, by: Ref) -> Ref:
    """ONNX shifts integers without a sign; a shift to the left, and one to the right of such, is the same for both."""
    graph, name = call.graph, call.equation.name
    if name == "shift_right_arithmetic" and not is_unsigned(x):
        return _divided(call, x, by)
    kind = np.dtype(f"uint{np.dtype(x.dtype).itemsize * 8}")
    a, b = (within(graph, v, kind) for v in (x, by))
    made = graph.op("BitShift", a, b, direction="LEFT" if name == "shift_left" else "RIGHT")
    return made if is_unsigned(x) else graph.op("Cast", made, to=element_type(x.dtype))


def _divided(call: Call, x: Ref, by: Ref) -> Ref:
    """x / 2^by rounded down: the quotient rounded towards 0, less 1 where something negative is left over."""
    graph = call.graph
    two = graph.op("Pow", np.asarray(2, x.dtype), by)
    quotient, rest = graph.op("Div", x, two), graph.op("Mod", x, two, fmod=1)
    below = graph.op("Cast", graph.op("Less", rest, np.zeros((), x.dtype)), to=element_type(x.dtype))
    return graph.op("Sub", quotient, below)


@lowers("select_n")
def select(call: Call, which: Ref, *cases: Ref) -> Ref:
    graph = call.graph
    if is_bool(which):
        return graph.op("Where", which, cases[1], cases[0])
    made = cases[0]
    for index, case in enumerate(cases[1:], 1):
        made = graph.op("Where", graph.op("Equal", which, np.asarray(index, which.dtype)), case, made)
    return made
