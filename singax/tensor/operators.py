"""The operators of Tensor: arithmetic, comparison, indexing, and their in-place forms.

Each goes through `dispatch.apply`: recorded outside a layer, plain array code inside. Which dtype results have
outside of layers: see `singax.tensor.rules`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from singax import dtypes, ops, recipes
from singax.errors import ArgumentError, DTypeError, ShapeError
from singax.mode import local
from singax.ops.operation import Operation
from singax.storage import Deferred, Unfilled
from singax.tensor.indexing import indexed
from singax.tensor.rules import apply, arithmetic, call


class Operators:
    """Mixin of Tensor."""

    __slots__ = ()

    _cell: Any
    _creator: Any
    _slot: Any
    _predicate: Any
    shape: Any
    dtype: Any
    data: Any
    stores_grad: bool
    set_value: Callable[[float], Any]
    copy: Callable[[], Any]
    _alias: Callable[[], Any]

    __hash__ = None  # type: ignore[assignment]
    __iter__ = None
    __array_ufunc__ = None  # NumPy must not take over `array + tensor`

    def __getitem__(self, keys: Any) -> Any:
        """Ints and slices as in NumPy, except that an int keeps its axis with size 1 (SINGA's rule).

        One array or list of integers picks along the first axis; one of booleans picks where it is true. Gradients
        flow. *Differences from SINGA*: steps count, a stop of 0 is 0, and the result knows its shape.
        """
        return indexed(self, keys)

    # -- operators ----------------------------------------------------------------------------------------------

    def __add__(self, other: Any) -> Any:
        return arithmetic(ops.add, self, other)

    def __radd__(self, other: Any) -> Any:
        return arithmetic(ops.add, other, self)

    def __sub__(self, other: Any) -> Any:
        return arithmetic(ops.sub, self, other)

    def __rsub__(self, other: Any) -> Any:
        return arithmetic(ops.sub, other, self)

    def __mul__(self, other: Any) -> Any:
        return arithmetic(ops.mul, self, other)

    def __rmul__(self, other: Any) -> Any:
        return arithmetic(ops.mul, other, self)

    def __truediv__(self, other: Any) -> Any:
        return arithmetic(ops.div, self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return arithmetic(ops.div, other, self)

    def __floordiv__(self, other: Any) -> Any:
        return arithmetic(ops.floordiv, self, other)

    def __mod__(self, other: Any) -> Any:
        return arithmetic(ops.mod, self, other)

    def __pow__(self, other: Any) -> Any:
        return arithmetic(ops.pow, self, other)

    def __rpow__(self, other: Any) -> Any:
        return arithmetic(ops.pow, other, self)

    def __matmul__(self, other: Any) -> Any:
        return call(ops.matmul, self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return call(ops.matmul, other, self)

    def __neg__(self) -> Any:
        return call(ops.negative, self)

    def __abs__(self) -> Any:
        return call(ops.abs, self)

    def __lt__(self, other: Any) -> Any:
        return predicate(ops.less, self, other)

    def __le__(self, other: Any) -> Any:
        return predicate(ops.less_equal, self, other)

    def __gt__(self, other: Any) -> Any:
        return predicate(ops.greater, self, other)

    def __ge__(self, other: Any) -> Any:
        return predicate(ops.greater_equal, self, other)

    def __eq__(self, other: Any) -> Any:
        return False if other is None else predicate(ops.equal, self, other)

    def __ne__(self, other: Any) -> Any:
        return True if other is None else predicate(ops.not_equal, self, other)

    def __iadd__(self, other: Any) -> Any:
        return self._update(ops.add, other)

    def __isub__(self, other: Any) -> Any:
        return self._update(ops.sub, other)

    def __imul__(self, other: Any) -> Any:
        return self._update(ops.mul, other)

    def __itruediv__(self, other: Any) -> Any:
        return self._update(ops.div, other)

    def _update(self, operation: Callable[..., Any], other: Any) -> Any:
        """In place, by JAX's rules for dtypes: a parameter is overwritten, other Tensors keep their history."""
        start_from_zeros(self)
        cell, value = self._cell, self._cell.get()
        if isinstance(value, Deferred) and local.frame is not None and local.frame.building:
            known = other.data if isinstance(other, Operators) else other
            mapped = recipes.Mapped(value.recipe, lambda drawn: operation(drawn, known))
            cell.set(Deferred(value.shape, value.dtype, mapped), lent=False)
            return self
        return stored(self, apply(operation, before(self), apart(self, other)))


def start_from_zeros(tensor: Any) -> None:
    """Fill a Tensor that was never written with zeros, as SINGA does before in-place operations."""
    if isinstance(tensor._cell.get(), Unfilled):
        tensor.set_value(0)


def before(tensor: Any) -> Any:
    """The value of a Tensor that is about to be overwritten, zeros if it has none, in a handle of its own."""
    start_from_zeros(tensor)
    return apart(tensor, tensor)


def apart(target: Any, value: Any) -> Any:
    """`value`; if it is the Tensor that is about to be overwritten, a handle that keeps its value and history."""
    if value is not target or not isinstance(target, Operators):
        return value
    return target.copy() if target.stores_grad or local.frame is not None else target._alias()


def stored(tensor: Any, result: Any) -> Any:
    """Put the result of an operation into `tensor`, with its history unless that is a parameter. Returns `tensor`."""
    if not isinstance(tensor, Operators):
        raise ArgumentError(f"results are put into a Tensor. Received: {type(tensor).__name__}")
    result = _as_kind(tensor, result)
    plain = not isinstance(result, Operators)
    tensor.data = result if plain else result._cell.array()
    if not plain and not tensor.stores_grad:
        tensor._creator, tensor._slot = result._creator, result._slot
    return tensor


def _as_kind(tensor: Any, result: Any) -> Any:
    """`result` in the dtype of `tensor`, if it has its shape and needs no cutting of fractions."""
    if tuple(result.shape) != tensor.shape:
        raise ShapeError(
            f"{tensor.name} has shape {tensor.shape} and cannot hold a result of shape {tuple(result.shape)} in place"
        )
    if result.dtype == tensor.dtype:
        return result
    if dtypes.is_floating(result.dtype) and not dtypes.is_floating(tensor.dtype):
        raise DTypeError(
            f"{tensor.name} has dtype {tensor.dtype} and cannot hold a result of dtype {result.dtype} in place"
        )
    return apply(ops.cast, result, to=tensor.dtype.name)


def predicate(operation: Operation, a: Any, b: Any) -> Any:
    """A comparison: 0 and 1; a result of one element knows its truth."""
    if not isinstance(b, Operators | jax.Array | np.ndarray | np.generic | int | float):
        raise ArgumentError(f"a Tensor is compared with a Tensor, an array or a number. Received: {b!r}")
    result = arithmetic(operation, a, b)
    if isinstance(result, Operators):
        result._predicate = True
    return result
