"""Matrix products with parameters: Linear, Gemm, Bilinear."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax

from singax import ops
from singax.checked import integer, number
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
        self.out_features = integer("out_features", args[0] if args else out_features, 1)
        self.bias = args[1] if len(args) == 2 else bias
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


class Gemm(Layer):
    """General matrix product: y = alpha · x · W + beta · b, x and W transposed first if asked for.

    **Shapes** x (n, in) → (n, nb_kernels), or x (in, n) with `transA`; `W` (nb_kernels, in), or (in, nb_kernels)
    without `transB`; `b` (1, nb_kernels) or `bias_shape`. `in` is inferred from the first input.

    **Args**
      nb_kernels: size of the output.
      alpha, beta: factors of the product and of b (default 1).
      transA, transB: whether x (default False) and W (default True) are transposed.
      bias: whether there is a `b` (default True).
      bias_shape: its shape, which broadcasts to the output.
      kernel_init, bias_init: initializer names or functions; default N(0, 2 / (in + nb_kernels)) and zeros.

    **Raises** `ArgumentError` for arguments outside of these, `ShapeError` for an input that is no matrix or of another
    size. ONNX: Gemm.

    >>> Gemm(10).infer_shape((None, 784))
    (None, 10)
    """

    def __init__(
        self,
        nb_kernels: int,
        alpha: float = 1.0,
        beta: float = 1.0,
        transA: bool = False,
        transB: bool = True,
        bias: bool = True,
        bias_shape: Sequence[int] | None = None,
        kernel_init: Any = None,
        bias_init: Any = "zeros",
    ) -> None:
        super().__init__()
        self.nb_kernels = integer("nb_kernels", nb_kernels, 1)
        self.alpha, self.beta = number("alpha", alpha), number("beta", beta)
        self.transA, self.transB, self.bias = bool(transA), bool(transB), bias
        self.bias_shape = (1, self.nb_kernels) if bias_shape is None else _shape("bias_shape", bias_shape)
        self.kernel_init, self.bias_init = kernel_init, bias_init

    def initialize(self, x: jax.Array) -> None:
        if x.ndim != 2:
            raise ShapeError(f"expected a matrix. Received shape {x.shape}")
        in_features = x.shape[0 if self.transA else 1]
        shape = (self.nb_kernels, in_features) if self.transB else (in_features, self.nb_kernels)
        kernel = Normal(0.0, math.sqrt(2.0 / sum(shape))) if self.kernel_init is None else self.kernel_init
        self.W = self.param(shape, kernel, x.dtype)
        if self.bias:
            self.b = self.param(self.bias_shape, self.bias_init, x.dtype)

    def forward(self, x: jax.Array) -> jax.Array:
        return ops.gemm(
            x,
            self.W.data,
            self.b.data if self.bias else None,
            alpha=self.alpha,
            beta=self.beta,
            transA=int(self.transA),
            transB=int(self.transB),
        )


class Bilinear(Layer):
    """y[o] = x1 · W[o] · x2 + b[o].

    **Shapes** x1 (…, D1) and x2 (…, D2) → (…, out); `W` (out, D1, D2), `b` (out,). D1 and D2 are inferred from the
    first inputs.

    **Args**
      out_features: size of the output.
      bias: whether there is a `b` (default True).
      kernel_init, bias_init: initializer names or functions; default N(0, 2 / (D1 · D2 + out)) and zeros.

    **Raises** `ArgumentError` for a size below 1, `ShapeError` for inputs whose other axes differ or of other sizes.

    *Differences from SINGA*: SINGA has no such layer. ONNX: Einsum and Add.

    >>> Bilinear(10).infer_shape((None, 4), (None, 5))
    (None, 10)
    """

    def __init__(self, out_features: int, bias: bool = True, kernel_init: Any = None, bias_init: Any = "zeros") -> None:
        super().__init__()
        self.out_features, self.bias = integer("out_features", out_features, 1), bias
        self.kernel_init, self.bias_init = kernel_init, bias_init

    def initialize(self, x1: jax.Array, x2: jax.Array) -> None:
        _check_pair(x1, x2)
        shape = (self.out_features, x1.shape[-1], x2.shape[-1])
        spread = Normal(0.0, math.sqrt(2.0 / (shape[1] * shape[2] + shape[0])))
        self.W = self.param(shape, spread if self.kernel_init is None else self.kernel_init, x1.dtype)
        if self.bias:
            self.b = self.param(shape[:1], self.bias_init, x1.dtype)

    def forward(self, x1: jax.Array, x2: jax.Array) -> jax.Array:
        W = self.W.data
        _check_pair(x1, x2)
        if (x1.shape[-1], x2.shape[-1]) != W.shape[1:]:
            raise ShapeError(
                f"expected inputs (…, {W.shape[1]}) and (…, {W.shape[2]}). Received shapes {x1.shape} and {x2.shape}"
            )
        y = ops.einsum(x1, W, x2, equation="...i,oij,...j->...o")
        return ops.add(y, self.b.data) if self.bias else y


def _check_pair(x1: jax.Array, x2: jax.Array) -> None:
    if x1.ndim < 1 or x2.ndim < 1 or x1.shape[:-1] != x2.shape[:-1]:
        raise ShapeError(
            f"expected inputs (…, D1) and (…, D2) with the same leading axes. Received shapes {x1.shape} and {x2.shape}"
        )


def _shape(name: str, value: Sequence[int]) -> tuple[int, ...]:
    if not isinstance(value, list | tuple):
        raise ArgumentError(f"{name} must be a sequence of sizes. Received: {value!r}")
    return tuple(integer(name, size, 1) for size in value)
