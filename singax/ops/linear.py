"""Matrix products with more to them, sums of products, biases and triangles of matrices."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from singax.errors import ShapeError
from singax.ops.arithmetic import add
from singax.ops.checks import broadcast, one_of
from singax.ops.explain import named_in_errors
from singax.ops.operation import operation
from singax.ops.shape import reshape

Array = jax.Array


@operation("Gemm", attributes={"alpha": "alpha", "beta": "beta", "transA": "transA", "transB": "transB"})
def gemm(
    A: Array,
    B: Array,
    C: Array | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Array:
    """α A · B + β C for matrices, A and B transposed first if asked for; C broadcasts to the product."""
    if jnp.ndim(A) != 2 or jnp.ndim(B) != 2:
        raise ShapeError(f"gemm expected two matrices. Received shapes {jnp.shape(A)} and {jnp.shape(B)}")
    left, right = A.T if transA else A, B.T if transB else B
    if left.shape[1] != right.shape[0]:
        raise ShapeError(
            f"gemm expected (n, k) and (k, m) after transposition. Received: {left.shape} and {right.shape}"
        )
    product = jnp.matmul(left, right)
    if alpha != 1:
        product = alpha * product
    if C is None:
        return product
    if broadcast("gemm", product, C) != product.shape:
        raise ShapeError(f"gemm expected a C that broadcasts to {product.shape}. Received shape {jnp.shape(C)}")
    return product + (C if beta == 1 else beta * C)


@named_in_errors
def add_bias(x: Array, b: Array, *, axis: int = 0) -> Array:
    """x (n, m) + b: b (m,) is added to every row if `axis` is 0, b (n,) to every column if it is 1."""
    one_of("add_bias", "axis", axis, (0, 1))
    if jnp.ndim(x) != 2 or jnp.shape(b) != (jnp.shape(x)[1 - axis],):
        raise ShapeError(
            f"add_bias expected x (n, m) and b ({'nm'[1 - axis]},) for axis {axis}. "
            f"Received: {jnp.shape(x)} and {jnp.shape(b)}"
        )
    return add(x, reshape(b, shape=(-1, 1)) if axis else b)


@operation("Einsum", attributes={"equation": "equation"})
def einsum(*xs: Array, equation: str) -> Array:
    """The sum of products that Einstein's notation says, such as "bij,bjk->bik"."""
    return jnp.einsum(equation, *xs)


@operation("Trilu", attributes=lambda k: {"upper": int(k.get("upper", True))}, constants=lambda k: [_scalar(k)])
def trilu(x: Array, *, k: int = 0, upper: bool = True) -> Array:
    """The part of each matrix of x (…, n, m) on and above its k-th diagonal, or on and below it; 0 elsewhere."""
    if jnp.ndim(x) < 2:
        raise ShapeError(f"trilu expected matrices (…, n, m). Received shape {jnp.shape(x)}")
    return jnp.triu(x, k) if upper else jnp.tril(x, k)


def _scalar(keywords: dict[str, Any]) -> np.ndarray:
    return np.asarray(keywords.get("k", 0), np.int64)
