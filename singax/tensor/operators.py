"""The operators of Tensor: arithmetic, comparison, indexing, and their in-place forms.

Each goes through `dispatch.apply`: recorded outside a layer, plain array code inside.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from singax import dispatch, dtypes, ops, recipes
from singax.errors import ArgumentError, DTypeError, ShapeError
from singax.mode import local
from singax.storage import Deferred, Unfilled


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
        """Ints and slices as in NumPy, except that an int keeps its axis with size 1 (SINGA's rule)."""
        if isinstance(keys, Operators | np.ndarray | jax.Array | list):
            return dispatch.apply(ops.take, self, jnp.asarray(keys) if isinstance(keys, list) else keys)
        return dispatch.apply(ops.getitem, self, key=_kept_axes(keys, self.shape))

    # -- operators ----------------------------------------------------------------------------------------------

    def __add__(self, other: Any) -> Any:
        return dispatch.apply(ops.add, self, other)

    def __radd__(self, other: Any) -> Any:
        return dispatch.apply(ops.add, other, self)

    def __sub__(self, other: Any) -> Any:
        return dispatch.apply(ops.sub, self, other)

    def __rsub__(self, other: Any) -> Any:
        return dispatch.apply(ops.sub, other, self)

    def __mul__(self, other: Any) -> Any:
        return dispatch.apply(ops.mul, self, other)

    def __rmul__(self, other: Any) -> Any:
        return dispatch.apply(ops.mul, other, self)

    def __truediv__(self, other: Any) -> Any:
        return dispatch.apply(ops.div, self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return dispatch.apply(ops.div, other, self)

    def __floordiv__(self, other: Any) -> Any:
        return dispatch.apply(ops.floordiv, self, other)

    def __mod__(self, other: Any) -> Any:
        return dispatch.apply(ops.mod, self, other)

    def __pow__(self, other: Any) -> Any:
        return dispatch.apply(ops.pow, self, other)

    def __rpow__(self, other: Any) -> Any:
        return dispatch.apply(ops.pow, other, self)

    def __matmul__(self, other: Any) -> Any:
        return dispatch.apply(ops.matmul, self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return dispatch.apply(ops.matmul, other, self)

    def __neg__(self) -> Any:
        return dispatch.apply(ops.negative, self)

    def __abs__(self) -> Any:
        return dispatch.apply(ops.abs, self)

    def __lt__(self, other: Any) -> Any:
        return _predicate(ops.less, self, other)

    def __le__(self, other: Any) -> Any:
        return _predicate(ops.less_equal, self, other)

    def __gt__(self, other: Any) -> Any:
        return _predicate(ops.greater, self, other)

    def __ge__(self, other: Any) -> Any:
        return _predicate(ops.greater_equal, self, other)

    def __eq__(self, other: Any) -> Any:
        return False if other is None else _predicate(ops.equal, self, other)

    def __ne__(self, other: Any) -> Any:
        return True if other is None else _predicate(ops.not_equal, self, other)

    def __iadd__(self, other: Any) -> Any:
        return self._update(ops.add, other)

    def __isub__(self, other: Any) -> Any:
        return self._update(ops.sub, other)

    def __imul__(self, other: Any) -> Any:
        return self._update(ops.mul, other)

    def __itruediv__(self, other: Any) -> Any:
        return self._update(ops.div, other)

    def _update(self, operation: Callable[..., Any], other: Any) -> Any:
        """In place: a parameter is simply overwritten, any other Tensor keeps its gradient history."""
        cell, value = self._cell, self._cell.get()
        if isinstance(value, Deferred) and local.frame is not None and local.frame.building:
            known = other.data if isinstance(other, Operators) else other
            mapped = recipes.Mapped(value.recipe, lambda drawn: operation(drawn, known))
            cell.set(Deferred(value.shape, value.dtype, mapped), lent=False)
            return self
        if isinstance(value, Unfilled):
            self.set_value(0)
        before = self.copy() if self.stores_grad or local.frame is not None else self._alias()
        result = dispatch.apply(operation, before, other)
        plain = not isinstance(result, Operators)
        self.data = _same_kind(self, result if plain else result._cell.array())
        if not plain and not self.stores_grad:
            self._creator, self._slot = result._creator, result._slot
        return self


def _same_kind(tensor: Any, value: jax.Array) -> jax.Array:
    if value.shape != tensor.shape:
        raise ShapeError(
            f"{tensor.name} has shape {tensor.shape} and cannot hold a result of shape {value.shape} in place"
        )
    if value.dtype == tensor.dtype:
        return value
    if dtypes.is_floating(value.dtype) and not dtypes.is_floating(tensor.dtype):
        raise DTypeError(
            f"{tensor.name} has dtype {tensor.dtype} and cannot hold a result of dtype {value.dtype} in place"
        )
    return value.astype(tensor.dtype)


def _predicate(operation: Callable[..., Any], a: Any, b: Any) -> Any:
    if not isinstance(b, Operators | jax.Array | np.ndarray | np.generic | int | float):
        raise ArgumentError(f"a Tensor is compared with a Tensor, an array or a number. Received: {b!r}")
    result = dispatch.apply(operation, a, b)
    if isinstance(result, Operators):
        result._predicate = True
    return result


def _kept_axes(keys: Any, shape: tuple[int, ...]) -> tuple[Any, ...]:
    keys = keys if isinstance(keys, tuple) else (keys,)
    explicit = sum(k is not None and k is not Ellipsis for k in keys)
    made: list[Any] = []
    axis = 0
    for key in keys:
        if key is Ellipsis:
            axis += len(shape) - explicit
            made.append(key)
        elif hasattr(key, "__index__") and not isinstance(key, bool):
            made.append(_one(int(key), axis, shape))
            axis += 1
        elif key is None or isinstance(key, slice):
            made.append(None if key is None else ("slice", key.start, key.stop, key.step))
            axis += key is not None
        else:
            raise ArgumentError(f"a Tensor is indexed with ints, slices, None, ... or one array. Received: {key!r}")
    return tuple(made)


def _one(index: int, axis: int, shape: tuple[int, ...]) -> tuple[Any, ...]:
    if axis >= len(shape) or not -shape[axis] <= index < shape[axis]:
        raise IndexError(f"index {index} is out of range for axis {axis} of shape {shape}")
    index %= shape[axis]
    return ("slice", index, index + 1, None)
