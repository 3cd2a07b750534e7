"""Tensor and Placeholder: named, mutable handles on values.

A Tensor is what a script, a notebook cell or the body of `train_one_batch` holds. Inside a layer values are plain JAX
arrays, and `self.W.data` is the array behind the handle.

>>> import singax as sx
>>> t = sx.Tensor((2, 3)); _ = t.set_value(1.0)
>>> (t + 2.0).to_numpy().sum()
np.float32(18.0)
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from singax import device as devices
from singax import dispatch, dtypes, ops
from singax.errors import ArgumentError, RawCallError, ShapeError, TracedValueError, UnfilledError
from singax.mode import local, traced
from singax.storage import Cell, Deferred, Unfilled
from singax.tensor import measures
from singax.tensor.filling import Filling, assign
from singax.tensor.operators import Operators
from singax.tensor.rules import apply, call
from singax.tensor.shaping import Shaping
from singax.tensor.values import checked_shape, copied, host_copy, shown_values


class Tensor(Filling, Operators, Shaping):
    """A mutable handle on one value.

    **Args**
      shape: sizes; a size may be None (unknown) in a placeholder. Ignored when `data` is given.
      device: a `Device`, a name such as "gpu:0", a `jax.Device` or `Sharding`; None is JAX's default device.
      dtype: see `singax.dtypes`; default float32, or the dtype of `data` (64 bits narrow to 32 unless x64 is on).
      data: initial values (NumPy array, JAX array, list, number); copied on the host unless it is a JAX array.
      requires_grad: whether gradients flow to it (default True).
      stores_grad: True marks a parameter: `autograd.backward` yields its gradient (default False).
      creator: the node that computed it; a fresh leaf by default.
      name: default `Dummy#<n>`.

    *Differences from SINGA*: `data` is an array, not a CTensor; dtypes are converted, never reinterpreted bit by bit.
    `copy()` shares its values; `T()`, `transpose()` and `reshape()` do not, since arrays of JAX never change.

    >>> Tensor((2,), name="h")
    Tensor 'h' float32[2] (no values yet)
    """

    __slots__ = ("__weakref__", "_cell", "_creator", "_name", "_predicate", "_requires_grad", "_slot", "_stores_grad")

    tensor_count = 0

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
            value: Any = Unfilled(checked_shape(shape), wanted)
        else:
            value = host_copy(
                data.data if isinstance(data, Tensor) else data, None if dtype is None else dtypes.canonical(dtype)
            )
        self._cell = Cell(value, place)
        if local.step is not None:
            local.step.own(self._cell)
        if local.frame is not None:
            local.frame.cells.add(id(self._cell))
        self._requires_grad, self._stores_grad = requires_grad, stores_grad
        self._cell.trains = requires_grad and stores_grad
        self._creator, self._slot, self._predicate = creator, 0, False
        self._name = name

    @classmethod
    def _of(cls, value: Any, name: str | None = None, requires_grad: bool = True) -> Tensor:
        """The quick way: wrap an array that the caller owns."""
        made = cls.__new__(cls)
        made._cell = Cell(value)
        made._requires_grad, made._stores_grad = requires_grad, False
        made._creator, made._slot, made._predicate = None, 0, False
        made._name = name
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
        """Where the values are: a Device, or a `Sharding` for values on several."""
        place, value = self._cell.place, self._cell.get()
        if place is None and isinstance(value, jax.Array) and not traced(value) and value.committed:
            place = value.sharding
        return devices.from_place(place)

    @property
    def name(self) -> str:
        """The name; one of the form `Dummy#<n>` is made up when it is first asked for."""
        if self._name is None:
            Tensor.tensor_count += 1
            self._name = f"Dummy#{Tensor.tensor_count - 1}"
        return self._name

    @name.setter
    def name(self, name: str) -> None:
        self._name = name

    @property
    def requires_grad(self) -> bool:
        """Whether gradients flow to it. A parameter is frozen by setting this to False."""
        return self._requires_grad

    @requires_grad.setter
    def requires_grad(self, flag: bool) -> None:
        self._requires_grad = flag
        self._cell.set_trains(flag and self._stores_grad)

    @property
    def stores_grad(self) -> bool:
        """Whether it is a parameter: `backward` yields its gradient."""
        return self._stores_grad

    @stores_grad.setter
    def stores_grad(self, flag: bool) -> None:
        self._stores_grad = flag
        self._cell.set_trains(flag and self._requires_grad)

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
            return local.frame.read_parameter(cell) if self._stores_grad else local.frame.read(cell)
        if not local.tracing:
            cell.lent = True
            if cell.bank is not None:
                cell.bank.dirty = True
        return _filled(self, cell.array)

    @data.setter
    def data(self, value: Any) -> None:
        assign(self, value)

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
        return self._name is None or (self._name.startswith("Dummy#") and self._name[6:].isdigit())

    def is_filled(self) -> bool:
        """Whether it has values."""
        return not isinstance(self._cell.get(), Unfilled)

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
        inside = local.frame is not None and self.is_filled()
        made = Tensor._of(self.data if inside else copied(self._cell.get()), requires_grad=True)
        made._cell.place = self._cell.place
        return made

    deepcopy = clone

    def copy(self) -> Tensor:
        """A shallow copy that shares the cell: a later write to one is seen by the other."""
        made = Tensor._of(None)
        made._cell = self._cell
        return made

    def as_type(self, dtype: Any) -> Tensor:
        """A converted copy; float to int truncates towards zero. Between floating dtypes gradients flow."""
        return call(ops.cast, self, to=dtypes.canonical(dtype).name)

    def to_type(self, dtype: Any) -> Tensor:
        """Convert in place. Returns self."""
        wanted, value = dtypes.canonical(dtype), self._cell.get()
        if isinstance(value, Unfilled):
            self._cell.set(Unfilled(value.shape, wanted))
        elif isinstance(value, Deferred) and value.draw is None:  # its layer is being built
            self._cell.set(Deferred(value.shape, wanted, value.recipe), lent=False)
        else:
            assign(self, apply(ops.cast, self, to=wanted.name))
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
        if not isinstance(t, Tensor):
            raise ArgumentError(f"reset_like expected a Tensor. Received: {type(t).__name__}")
        self._cell.place = t._cell.place
        self._cell.set(Unfilled(t.shape, t.dtype))

    def l1(self) -> float:
        """The mean of the absolute values (SINGA's meaning)."""
        return _measured(apply(measures.l1, self))

    def l2(self) -> float:
        """The Euclidean norm divided by the number of elements (SINGA's meaning)."""
        return _measured(apply(measures.l2, self))

    def _blank(self) -> Tensor:
        """A new Tensor of this shape, dtype and place, without values."""
        return Tensor(self.shape, self._cell.place, self.dtype)

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

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if spec else str(self)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        array = np.array(_concrete(self, "conversion to NumPy"))
        return array if dtype is None else array.astype(dtype)

    @property
    def __jax_array__(self) -> Any:
        """JAX looks for this on what it does not know: the place to say why a Tensor is not an array."""
        if local.frame is not None:
            raise AttributeError("inside a layer a Tensor's array is its .data")
        raise RawCallError(
            f"a raw JAX function was called on the Tensor {self.name!r} outside a layer, where its gradient would "
            "be lost. Do it in the forward of a layer, wrap it with autograd.node(function), or pass tensor.data on "
            "purpose"
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        made = Tensor._of(None, self.name, self._requires_grad)
        made._cell, made._stores_grad = copy.deepcopy(self._cell, memo), self._stores_grad
        memo[id(self)] = made
        return made

    def __repr__(self) -> str:
        value = self._cell.get()
        sizes = ",".join("?" if size is None else str(size) for size in self.shape)
        head = f"{type(self).__name__} {self.name!r} {self.dtype}[{sizes}]"
        return head + shown_values(value)


class Placeholder(Tensor):
    """A Tensor without values, for `compile` and dry runs; a size may be None where it is not known yet.

    >>> Placeholder((None, 28, 28), name="x")
    Placeholder 'x' float32[?,28,28] (no values yet)
    """

    __slots__ = ()


PlaceHolder = Placeholder  # SINGA's spelling


def _measured(value: Any) -> Any:
    """A number; inside a layer the array itself."""
    return float(value) if isinstance(value, Tensor) else value


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
            f"{what} was asked of the Tensor {tensor.name!r} while the step is being compiled: it has a shape but "
            "no values yet. Return it from the step and read it there, run the step eagerly with use_graph=False, or "
            "print it with jax.debug.print"
        )
    return array
