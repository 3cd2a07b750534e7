"""Operators as the first opsets had them, where they mean something else than today.

Before opset 7 the second operand of arithmetic was aligned with some axes of the first, by `broadcast` and `axis`.
"""

from __future__ import annotations

import itertools
from typing import Any

import jax.numpy as jnp
import numpy as np

from singax import ops
from singax.errors import ShapeError
from singax.sonnx.operators.shapes import repeats_of
from singax.sonnx.registry import Call, Handler, handler_of, onnx_operator

Array = Any

ALIGNED = ("Add", "And", "Div", "Equal", "Greater", "Less", "Mul", "Or", "Pow", "Sub", "Xor")
"""Operators of two operands that broadcast as NumPy does since opset 7 only."""


def aligned(op_type: str) -> Handler:
    """The operator of opset 7, once its second operand has the rank of the first."""

    def handler(call: Call, a: Array, b: Array) -> Any:
        newer = handler_of("", op_type, 7)
        assert newer is not None, "every operator in ALIGNED has a handler"
        return newer(call, a, _placed(call, np.shape(a), b))

    return handler


def _placed(call: Call, shape: tuple[int, ...], b: Array) -> Array:
    """b with axes of size 1 after its own, which stand from `axis` on, or at the end, in an array of this shape."""
    sizes = np.shape(b)
    if not call.attribute("broadcast", 0):
        if sizes != shape:
            raise ShapeError(f"expected operands of one shape, since `broadcast` is 0. Received: {shape} and {sizes}")
        return b
    if int(np.prod(sizes)) == 1:
        return b.reshape(())
    axis = call.attribute("axis", len(shape) - len(sizes))
    axis = axis + len(shape) if axis < 0 else axis
    wide = (*sizes, *(1,) * (len(shape) - axis - len(sizes)))
    if axis < 0 or any(n not in (1, m) for n, m in itertools.zip_longest(wide, shape[axis:])):
        raise ShapeError(f"expected a second operand like axes {axis} … of {shape}. Received shape {sizes}")
    return b.reshape(wide)


for _name in ALIGNED:
    onnx_operator(_name, since=1)(aligned(_name))


@onnx_operator("Concat", since=1)
def concat(call: Call, *inputs: Array) -> Array:
    """Arrays joined, along axis 1 unless another one is given."""
    return ops.cat(list(inputs), axis=call.attribute("axis", 1))


@onnx_operator("Tile", since=1)
def tile_along(call: Call, x: Array, tiles: Array, axis: Array) -> Array:
    """x repeated along one axis."""
    repeats = [1] * np.ndim(x)
    repeats[int(call.static(2).reshape(-1)[0])] = int(call.static(1).reshape(-1)[0])
    return jnp.tile(x, repeats_of(repeats))


@onnx_operator("Selu", since=1)
def selu_rounded(call: Call, x: Array) -> Array:
    """γ (x or α (eˣ − 1)), with constants of five digits."""
    return ops.selu(x, alpha=call.attribute("alpha", 1.6732), gamma=call.attribute("gamma", 1.0507))
