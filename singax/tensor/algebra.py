"""SINGA's module functions on whole Tensors: shapes, reductions, products. Recorded while training."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from singax import ops as operations
from singax.errors import ArgumentError, ShapeError
from singax.ops.checks import normal_axes
from singax.tensor import measures
from singax.tensor.creation import checked
from singax.tensor.handle import Tensor
from singax.tensor.operators import apart, before, stored
from singax.tensor.rules import apply, call
from singax.tensor.shaping import as_vector, repeated, reshaped, transposed
from singax.tensor.values import integers, number


def contiguous(tensor: Any) -> Any:
    """`tensor` itself: values are always held in row-major order."""
    return tensor


def reshape(tensor: Any, shape: Sequence[int]) -> Any:
    """The same elements with another shape; see `Tensor.reshape`."""
    return reshaped(tensor, shape)


def transpose(t: Any, axes: Sequence[int] | None = None) -> Any:
    """Permuted axes, all reversed by default; see `Tensor.transpose`."""
    return transposed(t, axes)


def repeat(t: Any, repeats: int | Sequence[int], axis: int | None = None) -> Any:
    """Repeated elements, or parts along `axis`; see `Tensor.repeat`."""
    return repeated(t, repeats, axis)


def concatenate(tensors: Sequence[Any], axis: int) -> Any:
    """The Tensors joined along an existing axis."""
    if isinstance(tensors, Tensor) or not isinstance(tensors, Sequence):
        raise ArgumentError(f"concatenate expected a sequence of Tensors. Received: {type(tensors).__name__}")
    return call(operations.cat, list(tensors), axis=integers("concatenate", "axis", axis)[0])


def sum(t: Any, axis: int | Sequence[int] | None = None, out: Any = None) -> Any:
    """The sum over `axis`, over everything if None; axes go away, but a single number has shape (1, 1), as in SINGA.

    `out` receives the result and is returned. *Differences from SINGA*: `out` works; integers are summed too.

    >>> import singax as sx
    >>> sum(sx.tensor.ones((2, 3)), 1).shape, sum(sx.tensor.ones((2, 3))).shape
    ((2,), (1, 1))
    """
    total = call(measures.sum, apart(out, t), axes=_axes("sum", axis))
    return total if out is None else stored(out, total)


def average(t: Any, axis: int | Sequence[int] | None = None) -> Any:
    """The mean: a Python number for one axis or `axis=None`, else a Tensor of the means over `axis`.

    Plain arrays give arrays. *Differences from SINGA*: any number of axes, and None for all of them.
    """
    axes = _axes("average", axis)
    if axes is not None and len(np.shape(t)) == 1:
        axes = None if normal_axes("average", axes, 1) else axes
    mean = call(measures.average, t, axes=axes)
    return float(mean) if axes is None and isinstance(mean, Tensor) else mean


def sum_columns(M: Any) -> Any:
    """The sum of the columns of a matrix: (n, m) → (n, 1)."""
    return _summed("sum_columns", M, 1)


def sum_rows(M: Any) -> Any:
    """The sum of the rows of a matrix: (n, m) → (1, m)."""
    return _summed("sum_rows", M, 0)


def _summed(name: str, M: Any, axis: int) -> Any:
    if len(np.shape(M)) != 2:
        raise ShapeError(f"{name} expected a matrix. Received: shape {np.shape(M)}")
    return call(operations.reduce_sum, M, axes=(axis,), keepdims=True)


def mult(A: Any, B: Any, C: Any = None, alpha: float = 1.0, beta: float = 0.0) -> Any:
    """α A · B; with C, C ← α A · B + β C in place, which is returned. With β = 0 the old C is not read.

    **Shapes** those of NumPy's matmul: (…, n, k) · (…, k, m) → (…, n, m), where leading axes broadcast; either may be
    a vector (k,).

    *Differences from SINGA*: a matrix times a vector has the right shape, and `alpha` counts without C too.
    """
    alpha, beta = number("mult", "alpha", alpha), number("mult", "beta", beta)
    product = call(operations.matmul, apart(C, A), apart(C, B))
    if alpha != 1:
        product = call(operations.mul, product, alpha)
    return product if C is None else _added("mult", beta, C, product)


def axpy(alpha: float, x: Any, y: Tensor) -> Tensor:
    """y ← y + α x in place; returns y."""
    return _added("axpy", 1, y, apply(operations.mul, apart(y, x), number("axpy", "alpha", alpha)))


def add_column(alpha: float, v: Any, beta: float, M: Tensor) -> Tensor:
    """M ← β M + α v in place, v (n,) beside each column of M (n, m); returns M."""
    return _with_vector("add_column", alpha, v, beta, M, 0)


def add_row(alpha: float, v: Any, beta: float, M: Tensor) -> Tensor:
    """M ← β M + α v in place, v (m,) beside each row of M (n, m); returns M."""
    return _with_vector("add_row", alpha, v, beta, M, 1)


def _with_vector(name: str, alpha: float, v: Any, beta: float, M: Tensor, axis: int) -> Tensor:
    vector = as_vector(name, checked(name, M), v, axis)
    scaled = apply(operations.mul, vector, number(name, "alpha", alpha))
    return _added(name, number(name, "beta", beta), M, apply(operations.expand, scaled, shape=M.shape))


def _added(name: str, beta: float, target: Tensor, addition: Any) -> Tensor:
    """target ← β target + addition, in place."""
    checked(name, target)
    if beta:
        held = before(target)
        held = held if beta == 1 else apply(operations.mul, held, beta)
        addition = apply(operations.add, held, addition)
    return stored(target, addition)


def einsum(ops: str, *args: Any) -> Any:
    """NumPy's einsum of any number of operands.

    >>> import singax as sx
    >>> einsum("ij,jk->ik", sx.tensor.ones((2, 3)), sx.tensor.ones((3, 4))).shape
    (2, 4)
    """
    if not isinstance(ops, str) or not re.fullmatch(r"[A-Za-z., ]*(->[A-Za-z. ]*)?", ops):
        raise ArgumentError(f"einsum expected subscripts such as 'ij,jk->ik'. Received: {ops!r}")
    return call(operations.einsum, *args, equation=ops)


def tensordot(A: Any, B: Any, axes: int | Sequence[Any] = 2) -> Any:
    """The sum of products over the last `axes` axes of A and the first of B, or over a pair of lists of axes.

    As NumPy's, but a result without axes has shape (1, 1), as in SINGA.
    """
    if isinstance(axes, list | tuple):
        if len(axes) != 2:
            raise ArgumentError(f"tensordot expected a number of axes or a pair of lists. Received: {axes!r}")
        pair = (integers("tensordot", "axes", axes[0]), integers("tensordot", "axes", axes[1]))
        return call(measures.tensordot, A, B, axes=pair)
    return call(measures.tensordot, A, B, axes=integers("tensordot", "axes", axes)[0])


def _axes(name: str, axis: Any) -> tuple[int, ...] | None:
    return None if axis is None else integers(name, "axis", axis)
