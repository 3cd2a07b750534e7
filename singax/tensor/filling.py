"""Filling a Tensor in place, and every other way of giving it new values."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from singax import device as devices
from singax import dispatch, dtypes, recipes
from singax.errors import ArgumentError, DTypeError, ShapeError
from singax.mode import local
from singax.storage import Cell, Deferred, Unfilled, place_host_array
from singax.tensor.values import host_copy


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

    def size(self) -> int:
        """The number of elements."""
        raise NotImplementedError

    def set_value(self, x: float) -> Any:
        """Fill with the number `x`, converted to the dtype. Returns self."""
        return self._fill(recipes.Constant(x))

    def gaussian(self, mean: float, std: float) -> Any:
        """Fill with draws from N(mean, std²). Returns self."""
        return self._fill(recipes.Normal(float(mean), float(std)), floating=True)

    def uniform(self, low: float, high: float) -> Any:
        """Fill with draws from U(low, high). Returns self."""
        return self._fill(recipes.Uniform(float(low), float(high)), floating=True)

    def bernoulli(self, p: float) -> Any:
        """Fill with ones (probability `p`) and zeros. Returns self."""
        if not 0 <= p <= 1:
            raise ArgumentError(f"a probability lies between 0 and 1. Received: {p}")
        return self._fill(recipes.Bernoulli(p))

    def _fill(self, recipe: recipes.Recipe, floating: bool = False) -> Any:
        if floating and not dtypes.is_floating(self.dtype):
            raise DTypeError(f"{self.name} has dtype {self.dtype}: only floating tensors take random real numbers")
        shape, dtype, cell = self._known_shape(), self.dtype, self._cell
        if local.frame is not None and local.frame.building:
            cell.set(Deferred(shape, dtype, recipe), lent=False)
        elif local.frame is not None or local.tracing:
            assign(self, jnp.asarray(recipe.draw(recipes.TracedSource(dispatch.next_key), shape, dtype)))
        else:
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
        array = np.asarray(np_array)
        if None in self.shape:
            self._cell.set(Unfilled(_matched(self, array.shape), self.dtype))
        if array.size != self.size():
            raise ShapeError(
                f"{self.name} holds {self.size()} elements, shape {self.shape}; "
                f"received {array.size}, shape {array.shape}"
            )
        assign(self, np.array(array.reshape(self.shape), self.dtype, order="C", copy=True))

    def copy_data(self, t: Any) -> None:
        """Copy the elements of a Tensor or array of equal size; dtypes are converted."""
        value = t.data if isinstance(t, Filling) else jnp.asarray(t)
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
