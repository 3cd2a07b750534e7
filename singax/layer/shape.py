"""Layers that join or rearrange without parameters: Flatten, Reshape, Cat, Add."""

from __future__ import annotations

from collections.abc import Sequence

import jax

from singax import ops
from singax.errors import ArgumentError
from singax.layer.base import Layer


class Flatten(Layer):
    """A matrix: the axes before `axis` (default 1) become rows, the others columns. ONNX: Flatten.

    **Raises** `ShapeError` when the input has no such axis.

    >>> Flatten().infer_shape((None, 2, 3))
    (None, 6)
    """

    def __init__(self, axis: int = 1) -> None:
        super().__init__()
        self.axis = axis

    def forward(self, x: jax.Array) -> jax.Array:
        return ops.flatten(x, axis=self.axis)


class Reshape(Layer):
    """The same elements in row-major order with another shape. ONNX: Reshape.

    **Args** shape: the sizes, given here or in each call; one may be −1 (what is left), 0 copies the input's size.

    **Raises** `ArgumentError` when no shape is given.

    >>> Reshape((0, -1)).infer_shape((None, 2, 3))
    (None, 6)
    """

    def __init__(self, shape: Sequence[int] | None = None) -> None:
        super().__init__()
        self.shape = None if shape is None else tuple(shape)

    def forward(self, x: jax.Array, shape: Sequence[int] | None = None) -> jax.Array:
        wanted = self.shape if shape is None else tuple(shape)
        if wanted is None:
            raise ArgumentError("Reshape takes the shape in the constructor or in the call: reshape(x, shape)")
        return ops.reshape(x, shape=wanted)


class Cat(Layer):
    """A list of arrays joined along an existing axis (default 0). ONNX: Concat.

    >>> Cat(axis=1).infer_shape([(None, 2), (None, 3)])
    (None, 5)
    """

    def __init__(self, axis: int = 0) -> None:
        super().__init__()
        self.axis = axis

    def forward(self, xs: Sequence[jax.Array]) -> jax.Array:
        return ops.cat(xs, axis=self.axis)


class Add(Layer):
    """a + b, with NumPy's broadcasting. ONNX: Add.

    >>> Add().infer_shape((2, 3), (2, 3))
    (2, 3)
    """

    def forward(self, a: jax.Array, b: jax.Array) -> jax.Array:
        return ops.add(a, b)
