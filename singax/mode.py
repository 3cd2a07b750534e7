"""What is going on right now: recording or not, inside a layer or not, compiling or not.

`training` is SINGA's global `autograd.training`. `local` is per thread: `frame` is the outermost layer call in
progress (None outside), `step` is true while a whole method is being traced.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from singax.errors import StateError
from singax.recipes import Constant
from singax.storage import Cell, Deferred, Unfilled

training: bool = False


class NeedsBuild(BaseException):
    """A layer without parameters was met where none may be created; the border builds it and tries again.

    No Exception: an `except Exception` in a user's step must not swallow it.
    """


class Frame:
    """One outermost call while its pure function runs: which cells it may touch and which it has read.

    A part of it that runs under a JAX transformation has a frame of its own (`nested`).
    """

    __slots__ = (
        "building", "cells", "compute", "creating", "drawn_before", "draws", "generator", "reads", "stack",
    )  # fmt: skip

    def __init__(
        self, cells: list[Cell], generator: Cell, building: bool = False, compute: np.dtype | None = None
    ) -> None:
        self.cells = {id(cell) for cell in cells}
        self.reads: set[int] = set()
        self.generator = generator
        self.draws = 0
        self.drawn_before: Any = 0
        self.building = building
        self.compute = compute
        self.creating: set[int] = set()
        self.stack: list[Any] = []

    def nested(self, cells: list[Cell], drawn_before: Any) -> Frame:
        """A frame for a part of this one, which may write only `cells`.

        Its draws are numbered from `drawn_before` on (which may be traced): the keys are those that the part would get
        if it ran in this frame.
        """
        made = self.sibling(cells)
        made.drawn_before, made.stack, made.creating = drawn_before, list(self.stack), self.creating
        return made

    def sibling(self, cells: list[Cell]) -> Frame:
        """A fresh frame of the same kind for other cells."""
        return Frame(cells, self.generator, self.building, self.compute)

    def scope(self, layer: Any) -> str:
        """What the equations of a layer's call are labelled with."""
        return layer._local or type(layer).__name__

    def read(self, cell: Cell) -> jax.Array:
        self.reads.add(id(cell))
        value = cell.get()
        if self.building and isinstance(value, Deferred):
            return jnp.zeros(value.shape, value.dtype)
        return cell.array()

    def read_parameter(self, cell: Cell) -> jax.Array:
        """Like `read`; in mixed precision a float32 parameter comes in the dtype of the computation."""
        value = self.read(cell)
        narrow = self.compute is not None and value.dtype == np.float32 and not self.stack[-1]._computes_wide
        return value.astype(self.compute) if narrow else value

    def stored_dtype(self, dtype: Any) -> Any:
        """The dtype of a parameter made for inputs of `dtype`: float32 in mixed precision."""
        return np.float32 if self.compute is not None and dtype == self.compute else dtype

    def narrowed(self, values: Any) -> Any:
        """float32 arrays in the dtype of the computation."""
        if self.compute is None or self.stack[-1]._computes_wide:
            return values
        return jax.tree.map(self._narrow, values)

    def _narrow(self, leaf: Any) -> Any:
        return leaf.astype(self.compute) if getattr(leaf, "dtype", None) == np.float32 else leaf

    def write(self, cell: Cell, value: Any) -> None:
        if self.building and traced(value):
            if isinstance(cell.get(), Unfilled):  # a state that forward fills: zeros until then, as in SINGA
                cell.set(Deferred(value.shape, value.dtype, Constant(0)), lent=False)
        elif traced(value) and id(cell) not in self.cells:
            raise StateError(
                "a Tensor that is not part of the layer was assigned a value that exists only inside its forward: "
                "make the Tensor an attribute of the layer in __init__ or initialize"
            )
        else:
            cell.values[cell.index] = value

    def next_key(self) -> jax.Array:
        """A fresh typed random key: the generator's key folded with the number of this draw."""
        key = jax.random.fold_in(wrap_key(self.read(self.generator)), self.drawn_before + self.draws)
        self.draws += 1
        return key

    def advanced_generator(self) -> jax.Array:
        """The generator's value after this frame: moved on if anything was drawn."""
        data = self.read(self.generator)
        return moved_on(data) if self.draws else data


class StepContext:
    """The body of a `train_one_batch` in progress: its module, the cells it may change, what it has changed."""

    def __init__(self, module: Any, cells: set[int]) -> None:
        self.module, self.cells = module, cells
        self.evaluates = False  # whether backward passes and updates are left out
        self.states: list[Any] = []
        self.updated: set[int] = set()
        self._own: list[Cell] = []

    def own(self, cell: Cell) -> None:
        """Note a Tensor that the step itself has created: it may be changed freely."""
        self._own.append(cell)
        self.cells.add(id(cell))

    def check_known(self, name: str, cell: Cell) -> None:
        """Refuse to change a Tensor that the compiled step would not carry to the next one."""
        if local.tracing and id(cell) not in self.cells and cell.bank is not None:
            raise StateError(f"the step changes {name!r}, which belongs to another model")
        if local.tracing and id(cell) not in self.cells and not traced(cell.get()):
            raise StateError(
                f"the step changes the Tensor {name!r}, which is no state of the model: make it an attribute, and fill "
                "it before the first step (set_value, copy_from_numpy …)"
            )

    def forget_history(self) -> None:
        """Gradients do not flow from one step into the next: states become leaves again."""
        for tensor in self.states:
            tensor.creator = None
        self.states.clear()
        self._own.clear()


class Observer(Protocol):
    """Sees the calls of an abstract run, and may run a layer in its own way."""

    def layer(self, layer: Any, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a layer's forward, in place of `function(layer, *args, **kwargs)`."""
        ...

    def meets(self, optimizer: Any) -> None:
        """An optimizer is about to change its states."""
        ...

    def update(self, optimizer: Any, named: Any) -> bool:
        """Take note of an update, `named` maps to (parameter, gradient); True: the optimizer need not compute it."""
        ...

    def recorded(self, name: str, vjp: Any) -> None:
        """An outermost call was recorded; `vjp` holds what it keeps for the backward pass."""
        ...


class Local(threading.local):
    """Per thread. `tracing` is True while a whole method is being traced into one program.

    `observer` is there while a model is inspected.
    """

    frame: Frame | None = None
    step: StepContext | None = None
    tracing: bool = False
    generator: Any = None
    undo: list[Callable[[], None]] | None = None
    observer: Observer | None = None


local = Local()


def evaluating() -> bool:
    """Whether a step runs in which backward passes and updates are left out."""
    return local.step is not None and local.step.evaluates


def refuse_inside(name: str) -> None:
    """Raises `StateError` inside a layer or a step."""
    if local.frame is not None or local.step is not None:
        raise StateError(f"{name} is called outside of layers and steps")


def wrap_key(data: jax.Array) -> jax.Array:
    """The typed key with the raw words `data` (uint32, shape (2,))."""
    return jax.random.wrap_key_data(data, impl="threefry2x32")


def moved_on(data: jax.Array) -> jax.Array:
    """The words of a generator after something was drawn with `data`."""
    return jax.random.key_data(jax.random.fold_in(wrap_key(data), 0x7FFFFFFF))


@functools.cache
def concrete_array_type() -> type:
    """The class of arrays that have numbers; `type(x) is …` is much quicker than `isinstance(x, jax.Array)`."""
    with jax.ensure_compile_time_eval():
        return type(jax.device_put(np.zeros(())))


@functools.cache
def _concrete_key_type() -> type:
    with jax.ensure_compile_time_eval():
        return type(wrap_key(jax.device_put(np.zeros(2, np.uint32))))


def traced(value: Any) -> bool:
    """Whether `value` is a tracer: it has a shape and a dtype, but no numbers yet."""
    if not isinstance(value, jax.Array) or type(value) is concrete_array_type():
        return False
    return not (jnp.issubdtype(value.dtype, jax.dtypes.prng_key) and type(value) is _concrete_key_type())


def refuse_foreign_trace(value: Any) -> None:
    """Raise `StateError` for a tracer that is about to be stored although no trace of singax is in progress."""
    if not local.tracing and traced(value):
        raise StateError(
            "a call that changes states (training mode, dropout, an optimizer) was made inside jax.jit, grad or vmap, "
            "where states cannot be stored. Use model.functional() or model.functional_step() there"
        )


def store_state(cell: Cell, value: Any) -> None:
    """Give a state the new value that singax has computed, in a trace or outside."""
    refuse_foreign_trace(value)
    if local.tracing:
        cell.values[cell.index] = value
    else:
        cell.set(value, lent=False)


@contextmanager
def training_mode(flag: bool) -> Iterator[None]:
    """Set SINGA's global `autograd.training` for the duration of the block."""
    global training
    saved, training = training, flag
    try:
        yield
    finally:
        training = saved
