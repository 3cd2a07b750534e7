"""Linear: the fully connected layer."""

from __future__ import annotations

import math
from typing import Any

import jax

from singax import ops
from singax.errors import ArgumentError, ShapeError
from singax.layer.base import Layer
from singax.recipes import Normal


class Linear(Layer):
    """Fully connected: y = x · W + b.

    **Shapes** x (…, in) → (…, out); `W` (in, out), `b` (out,). `in` is inferred from the first input.

    **Args**
      out_features: size of the output. SINGA's older form `Linear(in, out[, bias])` is understood; `in` is inferred.
      bias: whether there is a `b` (default True).
      kernel_init, bias_init: initializer names or functions; default N(0, 2 / (in + out)) and zeros.

    **Raises** `ArgumentError` for sizes below 1, `ShapeError` for an input whose last axis is not `in`.

    *Differences from SINGA*: inputs of any rank; unknown keyword arguments are errors. ONNX: MatMul and Add.

    >>> Linear(10).infer_shape((None, 784))
    (None, 10)
    """

    def __init__(
        self, out_features: int, *args: Any, bias: bool = True, kernel_init: Any = None, bias_init: Any = "zeros"
    ) -> None:
        super().__init__()
        if len(args) > 2:
            raise ArgumentError(
                f"Linear takes (out) or (in, out[, bias]). Received {len(args) + 1} positional arguments"
            )
        self.out_features = args[0] if args else out_features
        self.bias = args[1] if len(args) == 2 else bias
        if not isinstance(self.out_features, int) or self.out_features < 1:
            raise ArgumentError(f"out_features must be an integer from 1 up. Received: {self.out_features!r}")
        self.kernel_init, self.bias_init = kernel_init, bias_init

    def initialize(self, x: jax.Array) -> None:
        if x.ndim < 1:
            raise ShapeError(f"expected an input (…, in). Received shape {x.shape}")
        shape = (x.shape[-1], self.out_features)
        kernel = Normal(0.0, math.sqrt(2.0 / sum(shape))) if self.kernel_init is None else self.kernel_init
        self.W = self.param(shape, kernel, x.dtype)
        if self.bias:
            self.b = self.param(shape[1:], self.bias_init, x.dtype)

    def forward(self, x: jax.Array) -> jax.Array:
        W = self.W.data
        if x.ndim < 1 or x.shape[-1] != W.shape[0]:
            raise ShapeError(f"expected an input (…, {W.shape[0]}). Received shape {x.shape}")
        y = ops.matmul(x, W)
        return ops.add(y, self.b.data) if self.bias else y
