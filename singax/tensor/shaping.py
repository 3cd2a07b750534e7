"""Methods of Tensor that move elements around, and SINGA's deprecated row and column operations."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from singax import ops
from singax.errors import ShapeError
from singax.ops.checks import normal_axes
from singax.tensor import measures
from singax.tensor.rules import apply, call
from singax.tensor.values import integers


class Shaping:
    """Mixin of Tensor.

    *Differences from SINGA*: the results are Tensors of their own, not views that later in-place changes of the
    original reach. `copy()` alone shares its values.
    """

    __slots__ = ()

    name: str
    shape: Any
    _update: Callable[..., Any]

    def reshape(self, shape: Sequence[int]) -> Any:
        """The same elements with another shape; one size may be −1, 0 keeps a size. Recorded while training."""
        return reshaped(self, shape)

    def transpose(self, axes: Sequence[int] | None = None) -> Any:
        """Permuted axes, all reversed by default. Recorded while training."""
        return transposed(self, axes)

    def T(self) -> Any:
        """All axes reversed."""
        return self.transpose()

    def contiguous(self) -> Any:
        """self: values are always held in row-major order."""
        return self

    def is_transpose(self) -> bool:
        """False: values are always held in row-major order."""
        return False

    def repeat(self, repeats: int | Sequence[int], axis: int | None = None) -> Any:
        """Each element `repeats` times, or each part along `axis` as often as its number in `repeats` says.

        *Differences from SINGA*: a list of repeats works.

        >>> import singax as sx
        >>> sx.Tensor(data=[1, 2]).repeat([2, 1], 0).to_numpy().tolist()
        [1, 1, 2]
        """
        return repeated(self, repeats, axis)

    # -- deprecated: use broadcasting ---------------------------------------------------------------------------

    def add_column(self, v: Any) -> None:
        """Add v (n,) to each column of self (n, m), in place. Deprecated."""
        self._with_vector("add_column", ops.add, v, 0)

    def add_row(self, v: Any) -> None:
        """Add v (m,) to each row of self (n, m), in place. Deprecated."""
        self._with_vector("add_row", ops.add, v, 1)

    def div_column(self, v: Any) -> None:
        """Divide each column of self (n, m) by v (n,), in place. Deprecated."""
        self._with_vector("div_column", ops.div, v, 0)

    def div_row(self, v: Any) -> None:
        """Divide each row of self (n, m) by v (m,), in place. Deprecated."""
        self._with_vector("div_row", ops.div, v, 1)

    def mult_column(self, v: Any) -> None:
        """Multiply each column of self (n, m) by v (n,), in place. Deprecated."""
        self._with_vector("mult_column", ops.mul, v, 0)

    def mult_row(self, v: Any) -> None:
        """Multiply each row of self (n, m) by v (m,), in place. Deprecated."""
        self._with_vector("mult_row", ops.mul, v, 1)

    def _with_vector(self, name: str, operation: Callable[..., Any], v: Any, axis: int) -> None:
        warnings.warn(f"Tensor.{name} is deprecated: use an operator, which broadcasts", DeprecationWarning, 3)
        self._update(operation, as_vector(name, self, v, axis))


def reshaped(t: Any, shape: Sequence[int]) -> Any:
    """`t` in another shape."""
    return call(ops.reshape, t, shape=integers("reshape", "shape", shape))


def transposed(t: Any, axes: Sequence[int] | None = None) -> Any:
    """`t` with its axes permuted, or reversed."""
    ndim = len(np.shape(t))
    wanted = range(ndim)[::-1] if axes is None else integers("transpose", "axes", axes)
    return call(ops.transpose, t, perm=normal_axes("transpose", wanted, ndim))


def repeated(t: Any, repeats: int | Sequence[int], axis: int | None = None) -> Any:
    """`t` with its elements, or parts along an axis, repeated."""
    along = None if axis is None else integers("repeat", "axis", axis)[0]
    return call(measures.repeat, t, repeats=integers("repeat", "repeats", repeats), axis=along)


def as_vector(name: str, matrix: Any, v: Any, axis: int) -> Any:
    """v, with one element for each entry of `axis` of a matrix, in the shape that broadcasts to the matrix."""
    if len(matrix.shape) != 2 or np.shape(v) != (matrix.shape[axis],):
        raise ShapeError(
            f"{name} expected a matrix (n, m) and a vector ({'nm'[axis]},). "
            f"Received: shapes {tuple(matrix.shape)} and {np.shape(v)}"
        )
    return v if axis else apply(ops.reshape, v, shape=(-1, 1))
