"""Tensor and Placeholder: named, mutable handles on values.

A Tensor is what a script, a notebook cell or the body of `train_one_batch` holds. Inside a layer values are plain JAX
arrays, and `self.W.data` is the array behind the handle.

>>> import singax as sx
>>> t = sx.Tensor((2, 3)); _ = t.set_value(1.0)
>>> (t + 2.0).to_numpy().sum()
np.float32(18.0)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from singax import device as devices
from singax import dispatch, dtypes, ops, recipes
from singax.dtypes import bfloat16, float16, float32, int32
from singax.errors import ArgumentError, DTypeError, RawCallError, ShapeError, TracedValueError, UnfilledError
from singax.mode import local, traced
from singax.storage import Cell, Deferred, Shape, Unfilled, place_host_array

__all__ = [
    "PlaceHolder",
    "Placeholder",
    "Tensor",
    "bfloat16",
    "float16",
    "float32",
    "from_numpy",
    "int32",
    "ones",
    "ones_like",
    "random",
    "to_numpy",
    "zeros",
    "zeros_like",
]


class Tensor:
    """A mutable handle on one value.

    **Args**
      shape: sizes; a size may be None (unknown) in a placeholder. Ignored when `data` is given.
      device: a `Device`, a name such as "gpu:0", a `jax.Device` or `Sharding`; None is JAX's default device.
      dtype: see `singax.dtypes`; default float32, or the dtype of `data` (64 bits narrow to 32 as JAX's x64 flag has it).
      data: initial values (NumPy array, JAX array, list, number); copied on the host unless it is a JAX array.
      requires_grad: whether gradients flow to it (default True).
      stores_grad: True marks a parameter: `autograd.backward` yields its gradient (default False).
      creator: the node that computed it; a fresh leaf by default.
      name: default `Dummy#<n>`.

    *Differences from SINGA*: `data` is an array, not a CTensor; dtypes are converted, never reinterpreted bit by bit.

    >>> Tensor((2,), name="h")
    Tensor 'h' float32[2] (no values yet)
    """

    __slots__ = ("__weakref__", "_cell", "_creator", "_predicate", "_slot", "name", "requires_grad", "stores_grad")

    tensor_count = 0
    __array_ufunc__ = None  # NumPy must not take over `array + tensor`
    __hash__ = None  # type: ignore[assignment]
    __iter__ = None

    def __init__(
        self,
        shape: Sequence[int | None] = (),
        device: Any = None,
        dtype: Any = None,
        data: Any = None,
        requires_grad: bool = True,
        stores_grad: bool = False,
        creator: Any = None,
        name: str | None = None,
    ) -> None:
        place = devices.as_place(device)
        if data is None:
            wanted = dtypes.float32 if dtype is None else dtypes.canonical(dtype)
            value: Any = Unfilled(_checked_shape(shape), wanted)
        else:
            value = _host_copy(data, None if dtype is None else dtypes.canonical(dtype))
        self._cell = Cell(value, place)
        self.requires_grad, self.stores_grad = requires_grad, stores_grad
        self._creator, self._slot, self._predicate = creator, 0, False
        self.name = _next_name() if name is None else name

    @classmethod
    def _of(cls, value: Any, name: str | None = None, requires_grad: bool = True) -> Tensor:
        """The quick way: wrap an array that the caller owns."""
        made = cls.__new__(cls)
        made._cell = Cell(value)
        made.requires_grad, made.stores_grad = requires_grad, False
        made._creator, made._slot, made._predicate = None, 0, False
        made.name = _next_name() if name is None else name
        return made

    # -- what it is ---------------------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[Any, ...]:
        """Sizes as a tuple; None for a size that a placeholder leaves open."""
        return tuple(self._cell.get().shape)

    @property
    def dtype(self) -> np.dtype:
        """The NumPy dtype; equal to `singax.float32` and the like."""
        return np.dtype(self._cell.get().dtype)

    @property
    def device(self) -> Any:
        """Where the values are: the device given at creation, else the default device."""
        place = self._cell.place
        if isinstance(place, jax.Device):
            return devices.Device(place.platform, place.id)
        return devices.get_default_device() if place is None else place

    @property
    def creator(self) -> Any:
        """The node that computed this Tensor, or a `Dummy` for a leaf."""
        if self._creator is None:
            self._creator = dispatch.leaf(self)
        return self._creator

    @creator.setter
    def creator(self, node: Any) -> None:
        self._creator = node

    @property
    def data(self) -> jax.Array:
        """The values as a JAX array: inside a layer the array that gradients flow through.

        Raises `UnfilledError` for a placeholder.
        """
        cell = self._cell
        if local.frame is not None:
            return local.frame.read(cell)
        if not local.tracing:
            cell.lent = True
            if cell.bank is not None:
                cell.bank.dirty = True
        return _filled(self, cell.array)

    @data.setter
    def data(self, value: Any) -> None:
        _assign(self, value)

    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    def size(self) -> int:
        """The number of elements. Raises `ShapeError` while a size is unknown."""
        if None in self.shape:
            raise ShapeError(f"{self.name} has an unknown size: its shape is {self.shape}")
        return math.prod(self.shape)

    def memsize(self) -> int:
        """Bytes."""
        return self.size() * self.dtype.itemsize

    def is_empty(self) -> bool:
        """Whether it has no axes (SINGA's meaning)."""
        return self.ndim() == 0

    def is_dummy(self) -> bool:
        """Whether its name was made up (`Dummy#<n>`)."""
        return self.name.startswith("Dummy#") and self.name[6:].isdigit()

    def is_filled(self) -> bool:
        """Whether it has values."""
        return not isinstance(self._cell.get(), Unfilled)

    # -- filling in place ---------------------------------------------------------------------------------------

    def set_value(self, x: float) -> Tensor:
        """Fill with the number `x`, converted to the dtype. Returns self."""
        return self._fill(recipes.Constant(x))

    def gaussian(self, mean: float, std: float) -> Tensor:
        """Fill with draws from N(mean, std²). Returns self."""
        return self._fill(recipes.Normal(float(mean), float(std)), floating=True)

    def uniform(self, low: float, high: float) -> Tensor:
        """Fill with draws from U(low, high). Returns self."""
        return self._fill(recipes.Uniform(float(low), float(high)), floating=True)

    def bernoulli(self, p: float) -> Tensor:
        """Fill with ones (probability `p`) and zeros. Returns self."""
        if not 0 <= p <= 1:
            raise ArgumentError(f"a probability lies between 0 and 1. Received: {p}")
        return self._fill(recipes.Bernoulli(p))

    def _fill(self, recipe: recipes.Recipe, floating: bool = False) -> Tensor:
        if floating and not dtypes.is_floating(self.dtype):
            raise DTypeError(f"{self.name} has dtype {self.dtype}: only floating tensors take random real numbers")
        shape, dtype, cell = self._known_shape(), self.dtype, self._cell
        if local.frame is not None and local.frame.building:
            cell.set(Deferred(shape, dtype, recipe), lent=False)
        elif local.frame is not None or local.tracing:
            _assign(self, jnp.asarray(recipe.draw(recipes.TracedSource(dispatch.next_key()), shape, dtype)))
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
        _assign(self, np.array(array.reshape(self.shape), self.dtype, order="C", copy=True))

    def copy_data(self, t: Any) -> None:
        """Copy the elements of a Tensor or array of equal size; dtypes are converted."""
        value = t.data if isinstance(t, Tensor) else jnp.asarray(t)
        if value.size != self.size():
            raise ShapeError(f"{self.name} holds {self.size()} elements; received {value.size}, shape {value.shape}")
        _assign(self, value.reshape(self.shape).astype(self.dtype))
        if local.frame is None and local.step is not None and isinstance(t, Tensor):
            self._creator, self._slot = t._creator, t._slot

    def copy_from(self, t: Any, offset: int = 0) -> None:
        """`copy_data` for a Tensor or JAX array, `copy_from_numpy` for everything else."""
        if isinstance(t, Tensor | jax.Array):
            self.copy_data(t)
        else:
            self.copy_from_numpy(t, offset)

    # -- copies and conversions ---------------------------------------------------------------------------------

    def to_numpy(self) -> np.ndarray:
        """A NumPy copy of the values. Raises `UnfilledError` and `TracedValueError`."""
        return np.array(_concrete(self, "to_numpy()"))

    def item(self) -> Any:
        """The only element as a Python number. Raises `ShapeError` unless there is exactly one."""
        array = np.asarray(_concrete(self, "item()"))
        if array.size != 1:
            raise ShapeError(f"{self.name} has {array.size} elements, shape {array.shape}: item() needs exactly one")
        return array.reshape(()).item()

    def clone(self) -> Tensor:
        """A deep copy: a fresh leaf with default flags and name."""
        return Tensor._of(_copied(self._cell.get()), requires_grad=True)

    deepcopy = clone

    def copy(self) -> Tensor:
        """A shallow copy that shares the cell: a later write to one is seen by the other."""
        made = Tensor._of(None)
        made._cell = self._cell
        return made

    def as_type(self, dtype: Any) -> Tensor:
        """A converted copy; float to int truncates towards zero."""
        return Tensor._of(_filled(self, self._cell.array).astype(dtypes.canonical(dtype)))

    def to_type(self, dtype: Any) -> Tensor:
        """Convert in place. Returns self."""
        wanted, value = dtypes.canonical(dtype), self._cell.get()
        self._cell.set(
            Unfilled(value.shape, wanted) if isinstance(value, Unfilled) else self._cell.array().astype(wanted)
        )
        return self

    def to_device(self, device: Any) -> None:
        """Move in place to a device or sharding."""
        self._cell.place = devices.as_place(device)
        if isinstance(self._cell.get(), jax.Array):
            target = devices.default_device.jax_device if self._cell.place is None else self._cell.place
            self._cell.set(jax.device_put(self._cell.get(), target), lent=self._cell.lent)

    def to_host(self) -> None:
        """Move in place to the host CPU."""
        self.to_device(devices.create_cpu_device())

    def reset_like(self, t: Tensor) -> None:
        """Take shape, dtype and device of `t`; the values are gone."""
        self._cell.place = t._cell.place
        self._cell.set(Unfilled(t.shape, t.dtype))

    # -- shape --------------------------------------------------------------------------------------------------

    def reshape(self, shape: Sequence[int]) -> Tensor:
        """The same elements with another shape; one size may be −1. Recorded while training."""
        return dispatch.apply(ops.reshape, self, shape=tuple(shape))

    def transpose(self, axes: Sequence[int] | None = None) -> Tensor:
        """Permuted axes, all reversed by default. Recorded while training."""
        return dispatch.apply(ops.transpose, self, perm=tuple(reversed(range(self.ndim()))) if axes is None else tuple(axes))

    def T(self) -> Tensor:
        """All axes reversed."""
        return self.transpose()

    def __getitem__(self, keys: Any) -> Tensor:
        """Ints and slices as in NumPy, except that an int keeps its axis with size 1 (SINGA's rule)."""
        if isinstance(keys, Tensor | np.ndarray | jax.Array | list):
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
        return True if other is None else 1 - _predicate(ops.equal, self, other)

    def __iadd__(self, other: Any) -> Tensor:
        return self._update(ops.add, other)

    def __isub__(self, other: Any) -> Tensor:
        return self._update(ops.sub, other)

    def __imul__(self, other: Any) -> Tensor:
        return self._update(ops.mul, other)

    def __itruediv__(self, other: Any) -> Tensor:
        return self._update(ops.div, other)

    def _update(self, operation: Callable[..., Any], other: Any) -> Tensor:
        """In place: a parameter is simply overwritten, any other Tensor keeps its gradient history."""
        cell, value = self._cell, self._cell.get()
        if isinstance(value, Deferred) and local.frame is not None and local.frame.building:
            known = other.data if isinstance(other, Tensor) else other
            mapped = recipes.Mapped(value.recipe, lambda drawn: operation(drawn, known))
            cell.set(Deferred(value.shape, value.dtype, mapped), lent=False)
            return self
        if isinstance(value, Unfilled):
            self.set_value(0)
        before = self.copy() if self.stores_grad or local.frame is not None else self._alias()
        result = dispatch.apply(operation, before, other)
        plain = not isinstance(result, Tensor)
        _assign(self, _same_kind(self, result if plain else result._cell.array()))
        if not plain and not self.stores_grad:
            self._creator, self._slot = result._creator, result._slot
        return self

    def _alias(self) -> Tensor:
        """The same value and history in a handle of its own."""
        made = Tensor._of(self._cell.array(), self.name, self.requires_grad)
        made._creator, made._slot = self._creator, self._slot
        return made

    # -- Python's conversions -----------------------------------------------------------------------------------

    def __bool__(self) -> bool:
        """The truth of a comparison of one element; True for every other Tensor (`if labels:` means "is given")."""
        return bool(self.item()) if self._predicate else True

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        array = np.array(_concrete(self, "conversion to NumPy"))
        return array if dtype is None else array.astype(dtype)

    def __jax_array__(self) -> jax.Array:
        if local.frame is not None:
            return self.data
        raise RawCallError(
            f"a raw JAX function was called on the Tensor {self.name!r} outside a layer, where its gradient would be lost: "
            "do it in the forward of a layer, wrap it with autograd.node(function), or pass tensor.data on purpose"
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        made = self.clone()
        made.name, made.requires_grad, made.stores_grad = self.name, self.requires_grad, self.stores_grad
        made._cell.place = self._cell.place
        memo[id(self)] = made
        return made

    def __repr__(self) -> str:
        value = self._cell.get()
        sizes = ",".join("?" if size is None else str(size) for size in self.shape)
        head = f"{type(self).__name__} {self.name!r} {self.dtype}[{sizes}]"
        return head + _shown_values(value)


class Placeholder(Tensor):
    """A Tensor without values, for `compile` and dry runs; a size may be None where it is not known yet.

    >>> Placeholder((None, 28, 28), name="x")
    Placeholder 'x' float32[?,28,28] (no values yet)
    """

    __slots__ = ()


PlaceHolder = Placeholder  # SINGA's spelling


def _next_name() -> str:
    Tensor.tensor_count += 1
    return f"Dummy#{Tensor.tensor_count - 1}"


def _checked_shape(shape: Any) -> Shape:
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    for size in sizes:
        if size is not None and (isinstance(size, bool) or not hasattr(size, "__index__") or size < 0):
            raise ShapeError(f"a shape is made of sizes from 0 up, or None for unknown. Received: {shape!r}")
    return tuple(None if size is None else int(size) for size in sizes)


def _host_copy(data: Any, dtype: np.dtype | None) -> Any:
    """`data` as an array that the Tensor owns: a JAX array as it is, anything else copied on the host."""
    if isinstance(data, Tensor):
        data = data.data
    if isinstance(data, jax.Array):
        return data if dtype is None or data.dtype == dtype else data.astype(dtype)
    array = np.array(data, order="C", copy=True)
    if array.dtype.kind not in "biufcV":
        raise DTypeError(f"a Tensor holds numbers. Received: {type(data).__name__} of dtype {array.dtype}")
    return array.astype(dtype or jax.dtypes.canonicalize_dtype(array.dtype), copy=False)


def _copied(value: Any) -> Any:
    if isinstance(value, jax.Array):
        return jnp.copy(value)
    return value.copy() if isinstance(value, np.ndarray) else value


def _filled(tensor: Tensor, read: Callable[[], Any]) -> Any:
    try:
        return read()
    except UnfilledError as error:
        raise error.located(tensor.name) from None


def _concrete(tensor: Tensor, what: str) -> Any:
    value = tensor._cell.get()
    if isinstance(value, np.ndarray):
        return value
    array = _filled(tensor, tensor._cell.array)
    if traced(array):
        raise TracedValueError(
            f"{what} was asked of the Tensor {tensor.name!r} while the step is being compiled, when it has a shape but no "
            "values. Return it from the step and read it there, or run the step eagerly with use_graph=False, or print "
            "it with jax.debug.print"
        )
    return array


def _assign(tensor: Tensor, value: Any) -> None:
    """Write an array into the cell; `ShapeError` where a known shape changes inside a layer or step."""
    value = value.data if isinstance(value, Tensor) else value
    if not isinstance(value, jax.Array | np.ndarray):
        value = _host_copy(value, tensor.dtype)
    if local.frame is not None:
        _check_state(tensor, value)
        local.frame.write(tensor._cell, value)
        return
    if local.step is not None:
        local.step.check_known(tensor.name, tensor._cell)
        local.step.states.append(tensor)
    if local.tracing:
        _check_state(tensor, value)
        tensor._cell.values[tensor._cell.index] = value
    else:
        tensor._cell.set(value)
    tensor._creator = None


def _check_state(tensor: Tensor, value: Any) -> None:
    current = tensor._cell.get()
    if None not in current.shape and tuple(current.shape) != tuple(value.shape):
        raise ShapeError(
            f"the state {tensor.name!r} has shape {tuple(current.shape)} and cannot become {tuple(value.shape)} inside a "
            "layer or step"
        )


def _store(cell: Cell, value: Any) -> None:
    """Store a fresh host or device array, keeping the placement of what it replaces."""
    held = cell.get()
    place = held.sharding if isinstance(held, jax.Array) and getattr(held, "committed", False) else cell.place
    cell.set(value if place is None else place_host_array(value, place), lent=False)


def _matched(tensor: Tensor, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of incoming values, if it agrees with the known sizes of a placeholder."""
    wanted = tensor.shape
    if len(wanted) != len(shape) or any(w is not None and w != s for w, s in zip(wanted, shape, strict=True)):
        raise ShapeError(f"{tensor.name} has shape {wanted}; received shape {shape}")
    return shape


def _same_kind(tensor: Tensor, value: jax.Array) -> jax.Array:
    if value.dtype == tensor.dtype:
        return value
    if dtypes.is_floating(value.dtype) and not dtypes.is_floating(tensor.dtype):
        raise DTypeError(f"{tensor.name} has dtype {tensor.dtype} and cannot hold a result of dtype {value.dtype} in place")
    return value.astype(tensor.dtype)


def _predicate(operation: Callable[..., Any], a: Tensor, b: Any) -> Any:
    if not isinstance(b, Tensor | jax.Array | np.ndarray | np.generic | int | float):
        raise ArgumentError(f"a Tensor is compared with a Tensor, an array or a number. Received: {b!r}")
    result = dispatch.apply(operation, a, b)
    if isinstance(result, Tensor):
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


def _shown_values(value: Any) -> str:
    if isinstance(value, Unfilled):
        return " (no values yet)"
    if isinstance(value, Deferred):
        return " (not drawn yet)"
    if traced(value):
        return " (being compiled)"
    if math.prod(value.shape) > 12:
        return ""
    try:
        return " " + np.array2string(np.asarray(value), precision=4, separator=", ")
    except RuntimeError:
        return " (deleted)"


# -- module functions -------------------------------------------------------------------------------------------


def from_numpy(np_array: Any, dev: Any = None) -> Tensor:
    """A Tensor with a copy of `np_array`; float64 and int64 narrow to 32 bits unless JAX's x64 mode is on."""
    return Tensor(data=np_array, device=dev)


def to_numpy(t: Tensor) -> np.ndarray:
    """A NumPy copy of the values of `t`."""
    return t.to_numpy()


def zeros(shape: Sequence[int], device: Any = None) -> Tensor:
    """A float32 Tensor of zeros."""
    return Tensor(shape, device).set_value(0.0)


def ones(shape: Sequence[int], device: Any = None) -> Tensor:
    """A float32 Tensor of ones."""
    return Tensor(shape, device).set_value(1.0)


def random(shape: Sequence[int], device: Any = None) -> Tensor:
    """A float32 Tensor of draws from U(0, 1)."""
    return Tensor(shape, device).uniform(0.0, 1.0)


def zeros_like(t: Tensor) -> Tensor:
    """Zeros with the shape, dtype and device of `t`."""
    return Tensor(t.shape, t.device, t.dtype).set_value(0)


def ones_like(t: Tensor) -> Tensor:
    """Ones with the shape, dtype and device of `t`."""
    return Tensor(t.shape, t.device, t.dtype).set_value(1)
