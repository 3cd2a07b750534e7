"""Filling a Tensor in place, and every other way of giving it new values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from singax import device as devices
from singax import dispatch, dtypes, recipes
from singax.errors import ArgumentError, DTypeError, ShapeError
from singax.mode import local
from singax.storage import Cell, Deferred, Unfilled, place_host_array
from singax.tensor.values import host_array, host_copy, number, real

_REAL = (recipes.Normal, recipes.Uniform, recipes.Orthogonal)


class Filling:
    """Mixin of Tensor."""

    __slots__ = ()

    _cell: Cell
    _creator: Any
    _slot: Any
    name: str
    shape: Any
    dtype: Any
    data: Any
    size: Callable[[], int]
    _blank: Callable[[], Any]

    def set_value(self, x: float, inplace: bool = True) -> Any:
        """Fill with the number `x`, converted to the dtype; integers lose the fraction. Returns self.

        In this and the three methods below `inplace=False` leaves self as it is and returns a new Tensor.
        """
        return self._fill(recipes.Constant(_fitting(self, number("set_value", "x", x))), inplace)

    def gaussian(self, mean: float, std: float, inplace: bool = True) -> Any:
        """Fill with draws from N(mean, std²). Returns self. For floating dtypes."""
        mean, std = real("gaussian", "mean", mean), real("gaussian", "std", std)
        if not std >= 0:
            raise ArgumentError(f"gaussian expected a std of 0 or more. Received: {std}")
        return self._fill(recipes.Normal(mean, std), inplace)

    def uniform(self, low: float, high: float, inplace: bool = True) -> Any:
        """Fill with draws from U(low, high). Returns self. For floating dtypes."""
        recipe = recipes.Uniform(real("uniform", "low", low), real("uniform", "high", high))
        return self._fill(recipe, inplace)

    def bernoulli(self, p: float, inplace: bool = True) -> Any:
        """Fill with ones (probability `p`) and zeros. Returns self."""
        p = real("bernoulli", "p", p)
        if not 0 <= p <= 1:
            raise ArgumentError(f"a probability lies between 0 and 1. Received: {p}")
        return self._fill(recipes.Bernoulli(p), inplace)

    def _fill(self, recipe: recipes.Recipe, inplace: bool = True) -> Any:
        if isinstance(recipe, _REAL) and not dtypes.is_floating(self.dtype):
            raise DTypeError(f"{self.name} has dtype {self.dtype}: only floating tensors take random real numbers")
        if not inplace:
            return self._blank()._fill(recipe)
        shape, dtype, cell = self._known_shape(), self.dtype, self._cell
        if local.frame is not None and local.frame.building:
            cell.set(Deferred(shape, dtype, recipe), lent=False)
        elif local.frame is not None or local.tracing:
            assign(self, jnp.asarray(recipe.draw(recipes.TracedSource(dispatch.next_key), shape, dtype)))
        else:
            with np.errstate(over="ignore"):
                value = recipe.draw(devices.randomness.fills, shape, dtype)
            _store(cell, value)
            self._creator = None
        return self

    def _known_shape(self) -> tuple[int, ...]:
        shape = self.shape
        if None in shape:
            raise ShapeError(f"{self.name} cannot be filled: its shape {shape} has an unknown size")
        return shape

    def copy_from_numpy(self, np_array: Any, offset: int = 0) -> None:
        """Copy host values in; the shape may differ, the number of elements may not; dtypes are converted.

        The copy is made before this returns: the caller's buffer may be overwritten at once. `offset` is SINGA's and
        has no effect. Raises `ShapeError` for another number of elements.
        """
        array = host_array(np_array)
        if None in self.shape:
            self._cell.set(Unfilled(_matched(self, array.shape), self.dtype))
        if array.size != self.size():
            raise ShapeError(
                f"{self.name} holds {self.size()} elements, shape {self.shape}; "
                f"received {array.size}, shape {array.shape}"
            )
        assign(self, host_copy(array.reshape(self.shape), self.dtype))

    def copy_data(self, t: Any) -> None:
        """Copy the elements of a Tensor or array of equal size; dtypes are converted."""
        value = t.data if isinstance(t, Filling) else jnp.asarray(host_copy(t, None))
        if value.size != self.size():
            raise ShapeError(f"{self.name} holds {self.size()} elements; received {value.size}, shape {value.shape}")
        assign(self, value.reshape(self.shape).astype(self.dtype))
        if local.frame is None and local.step is not None and isinstance(t, Filling):
            self._creator, self._slot = t._creator, t._slot

    def copy_from(self, t: Any, offset: int = 0) -> None:
        """`copy_data` for a Tensor or JAX array, `copy_from_numpy` for everything else."""
        if isinstance(t, Filling | jax.Array):
            self.copy_data(t)
        else:
            self.copy_from_numpy(t, offset)


def _fitting(tensor: Filling, x: float) -> float:
    """`x`, if the Tensor can hold it; floats become infinite."""
    if tensor.dtype.kind in "iu":
        limits = np.iinfo(tensor.dtype)
        if not limits.min <= x <= limits.max:
            raise ArgumentError(f"set_value expected a number that {tensor.dtype} can hold. Received: {x}")
        return x
    return real("set_value", "x", x)


def assign(tensor: Filling, value: Any) -> None:
    """Write an array into the cell; `ShapeError` where a known shape changes inside a layer or step."""
    value = value.data if isinstance(value, Filling) else value
    if not isinstance(value, jax.Array | np.ndarray):
        value = host_copy(value, tensor.dtype)
    if local.frame is not None:
        _check_state(tensor, value)
        local.frame.write(tensor._cell, value)
        return
    if local.step is not None:
        local.step.check_known(tensor.name, tensor._cell)
        local.step.states.append(tensor)
        local.step.updated.add(id(tensor._cell))
    if local.tracing:
        _check_state(tensor, value)
        tensor._cell.values[tensor._cell.index] = value
    else:
        tensor._cell.set(value)
    tensor._creator = None


def _check_state(tensor: Filling, value: Any) -> None:
    current = tensor._cell.get()
    if None not in current.shape and tuple(current.shape) != tuple(value.shape):
        raise ShapeError(
            f"the state {tensor.name!r} has shape {tuple(current.shape)} and cannot become {tuple(value.shape)} inside "
            "a layer or step"
        )


def _store(cell: Cell, value: Any) -> None:
    """Store a fresh host or device array, keeping the placement of what it replaces."""
    held = cell.get()
    place = held.sharding if isinstance(held, jax.Array) and getattr(held, "committed", False) else cell.place
    cell.set(value if place is None else place_host_array(value, place), lent=False)


def _matched(tensor: Filling, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of incoming values, if it agrees with the known sizes of a placeholder."""
    wanted = tensor.shape
    if len(wanted) != len(shape) or any(w is not None and w != s for w, s in zip(wanted, shape, strict=True)):
        raise ShapeError(f"{tensor.name} has shape {wanted}; received shape {shape}")
    return shape
