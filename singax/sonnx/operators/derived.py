"""Operators that are ours under another name: their handlers come from the twins of `singax.ops`.

An operation whose twin maps attributes by name, or has none, is called with the node's inputs and these attributes.
Operators with integer inputs that NumPy and ONNX treat differently, or with inputs that must be known while tracing,
have handlers of their own in the other files.
"""

from __future__ import annotations

from typing import Any

from singax import ops
from singax.ops.operation import Operation
from singax.sonnx.operators.old_forms import ALIGNED
from singax.sonnx.registry import Call, Handler, onnx_operator

DERIVED = [
    "abs", "acos", "acosh", "add", "asin", "asinh", "atan", "atanh", "cat", "ceil", "celu", "cos", "cosh",
    "depth_to_space", "einsum", "elu", "equal", "erf", "exp", "floor", "global_average_pool", "global_max_pool",
    "greater", "greater_equal", "hardswish", "leakyrelu", "less", "less_equal", "log", "logical_and", "logical_not",
    "logical_or", "logical_xor", "max", "mean", "min", "mish", "mul", "negative", "reciprocal", "relu",
    "rounde", "sigmoid", "sign", "sin", "sinh", "softplus", "softsign", "space_to_depth", "sqrt", "sub", "sum", "tan",
    "tanh", "where",
]  # fmt: skip


# Ours give 0 and 1 in the dtype of the operands, as SINGA's do; ONNX's give booleans.
PREDICATES = {
    "equal", "greater", "greater_equal", "less", "less_equal", "logical_and", "logical_not", "logical_or",
    "logical_xor",
}  # fmt: skip


def derived(operation: Operation) -> Handler:
    """The handler of an operator whose inputs and attributes are those of `operation`."""
    theirs: Any = operation.twin.attributes or {}

    def handler(call: Call, *inputs: Any) -> Any:
        given = {ours: call.attributes[name] for ours, name in theirs.items() if name in call.attributes}
        arrays: Any = [list(inputs)] if operation.name == "cat" else inputs
        result = operation(*arrays, **given)
        return result.astype(bool) if operation.name in PREDICATES else result

    return handler


def first_opset(op_type: str) -> int:
    """The first opset in which the operator means what it does today."""
    return 7 if op_type in ALIGNED else 4 if op_type == "Concat" else 1


for _name in DERIVED:
    _operation = ops.operations()[_name]
    _type = str(_operation.twin.op_type)
    onnx_operator(_type, since=first_opset(_type))(derived(_operation))
