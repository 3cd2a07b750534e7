"""Where values live: a `Cell` per Tensor, a `Bank` per model.

A free Tensor has a cell with a list of its own. The cells of a compiled model share one list, the bank's, so that a
step hands one list to XLA and stores one list back, however many parameters there are. Reading a cell is
`cell.values[cell.index]` in both cases.

A cell holds one of: a `jax.Array` (or a tracer, while a program is being traced), a private NumPy array that has not
been moved to a device yet, `Unfilled` (a placeholder) or `Deferred` (initial values that nobody has needed yet).
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np

from singax.errors import UnfilledError

Shape = tuple[int | None, ...]


class Unfilled:
    """No values yet: only a shape (sizes may be None, for unknown) and a dtype."""

    __slots__ = ("dtype", "shape")

    def __init__(self, shape: Shape, dtype: np.dtype) -> None:
        self.shape, self.dtype = shape, dtype


class Deferred:
    """Initial values that are drawn when they are first needed: `draw()` gives a NumPy or JAX array."""

    __slots__ = ("draw", "dtype", "recipe", "shape")

    def __init__(self, shape: Shape, dtype: np.dtype, recipe: Any, draw: Callable[[], Any] | None = None) -> None:
        self.shape, self.dtype, self.recipe, self.draw = shape, dtype, recipe, draw


def zeros(shape: Sequence[int], dtype: Any) -> Deferred:
    """Zeros that take no memory before they are needed."""
    return Deferred(tuple(shape), np.dtype(dtype), None, functools.partial(np.zeros, tuple(shape), dtype))


def drawn(value: Any) -> Any:
    """Values in place of a `Deferred`; anything else as it is."""
    return _drawn(value) if isinstance(value, Deferred) else value


class Cell:
    """A mutable box for one value. `lent` says that the value may be known outside the bank: copy before donating."""

    __slots__ = ("bank", "index", "lent", "place", "recipe", "trains", "values")

    def __init__(self, value: Any, place: Any = None) -> None:
        self.values: list[Any] = [value]
        self.index = 0
        self.bank: Bank | None = None
        self.lent = True
        self.trains = False  # whether gradients are computed for it: part of what selects a program
        self.recipe: Any = None  # how a layer's initial values were made, if by a recipe
        self.place = place  # a jax.Device or Sharding, or None for JAX's default

    def get(self) -> Any:
        return self.values[self.index]

    def set(self, value: Any, lent: bool = True) -> None:
        """Store `value`. `lent=False` promises that nobody else holds it."""
        if isinstance(value, Deferred):
            self.recipe = value.recipe
        self.values[self.index] = value
        self.lent = lent
        if self.bank is not None:
            self.bank.dirty = True

    def set_trains(self, flag: bool) -> None:
        """Freeze or unfreeze."""
        self.trains = flag
        if self.bank is not None:
            self.bank.dirty = True

    def array(self) -> jax.Array:
        """The value as a JAX array (or tracer), moved to its place first if it is still on the host."""
        value = self.values[self.index]
        if isinstance(value, jax.Array):
            return value
        if isinstance(value, Unfilled):
            raise UnfilledError(
                f"the tensor of shape {value.shape} has no values yet: fill it with copy_from_numpy, uniform, "
                "gaussian, set_value … before reading it"
            )
        if isinstance(value, Deferred):
            value = _drawn(value)
        value = place_host_array(value, self.place)
        self.set(value, lent=False)
        return value

    def __deepcopy__(self, memo: dict[int, Any]) -> Cell:
        """A free cell with a copy of the value."""
        value = self.get()
        made = Cell(copied_array(value) if isinstance(value, jax.Array) else copy.copy(value), self.place)
        made.recipe, made.trains = self.recipe, self.trains
        memo[id(self)] = made
        return made

    def leave(self) -> None:
        """Take the value out of the bank, into a list of the cell's own."""
        self.values, self.index, self.bank = [self.values[self.index]], 0, None


def _drawn(deferred: Deferred) -> Any:
    if deferred.draw is None:
        raise UnfilledError("the initial values of this tensor are not decided yet: its layer is still being built")
    with jax.ensure_compile_time_eval():  # a recipe may call JAX: numbers are wanted, also in the middle of a trace
        return deferred.draw()


def place_host_array(value: Any, place: Any) -> jax.Array:
    """Move a private host array to `place` (a device, a sharding, or None for the default device), even in a trace.

    By `device_put`, which compiles nothing; `jnp.asarray` compiles a small program for each shape.
    """
    with jax.ensure_compile_time_eval():
        return jax.device_put(value, place)


def copied_array(value: jax.Array) -> jax.Array:
    """A copy in the same place, in memory of its own; compiles nothing either."""
    with jax.ensure_compile_time_eval():
        return jax.device_put(value, may_alias=False)


class Bank:
    """The flat state of one model: parallel lists of paths, cells and values, in a fixed order.

    `dirty` is set by every write from outside; `settle` then makes each value a JAX array of its own that may be
    donated. `pending` receives the result of a step inside one C call, so that an interrupt between dispatch and
    write-back loses nothing: whatever is pending is committed by the next `commit`.
    """

    def __init__(self) -> None:
        self.paths: tuple[str, ...] = ()
        self.cells: list[Cell] = []
        self.values: list[Any] = []
        self.pending: list[tuple[list[Any], Any]] = []
        self.dirty = True
        self.stolen = False
        self.epoch = 0  # grows whenever values have come from outside
        self.signature: tuple[Any, ...] = ()
        self.trained: frozenset[str] = frozenset()  # the paths that gradients are computed for

    def adopt(self, named: Sequence[tuple[str, Cell]]) -> None:
        """Make `named` the state, in this order, and take its cells over from wherever they live."""
        self.commit()
        values = [cell.get() for _, cell in named]
        kept = {id(cell) for _, cell in named}
        for cell in self.cells:
            if cell.bank is self and id(cell) not in kept:
                cell.leave()
        self.paths = tuple(path for path, _ in named)
        self.cells = [cell for _, cell in named]
        self.values[:] = values
        for index, cell in enumerate(self.cells):
            if cell.bank is not None and cell.bank is not self:
                cell.bank.stolen = True
            cell.values, cell.index, cell.bank = self.values, index, self
        self.dirty, self.stolen = True, False

    def settle(self) -> None:
        """Make every value a JAX array that the bank alone holds, and refresh `signature`."""
        self.commit()
        seen: set[int] = set()
        for path, cell in zip(self.paths, self.cells, strict=True):
            value = _array_of(path, cell)
            if cell.lent or id(value) in seen:
                value = copied_array(value)
                cell.values[cell.index], cell.lent = value, False
            seen.add(id(value))
        found = tuple(
            (path, value.shape, value.dtype, cell.trains)
            for path, value, cell in zip(self.paths, self.values, self.cells, strict=True)
        )
        if found != self.signature:
            self.signature = found
            self.trained = frozenset(path for path, cell in zip(self.paths, self.cells, strict=True) if cell.trains)
        self.dirty = False
        self.epoch += 1

    def advance(
        self, call: Callable[[list[Any], list[Any]], tuple[list[Any], Any]], inputs: list[Any], count: int
    ) -> Any:
        """Run one donated step on the first `count` states, store the new ones, return the step's outputs."""
        values = self.values if count == len(self.values) else self.values[:count]
        try:
            # One C call from dispatch to storage: an interrupt cannot fall between the two.
            self.pending.extend(map(call, (values,), (inputs,)))
            return self.pending[-1][1]
        finally:
            try:
                self.commit()
            except KeyboardInterrupt:  # it came between the dispatch and the first line of commit
                self.commit()
                raise

    def commit(self) -> None:
        """Store the result of a step that has been dispatched but not written back."""
        if self.pending:
            new = self.pending[-1][0]
            self.values[: len(new)] = new
            self.pending.clear()


@contextmanager
def exchanged(cells: Sequence[Cell], values: Sequence[Any]) -> Iterator[None]:
    """Put `values` into `cells` for the duration of the block, without marking anything as changed."""
    saved = [cell.values[cell.index] for cell in cells]
    try:
        for cell, value in zip(cells, values, strict=True):
            cell.values[cell.index] = value
        yield
    finally:
        for cell, value in zip(cells, saved, strict=True):
            cell.values[cell.index] = value


def _array_of(path: str, cell: Cell) -> jax.Array:
    try:
        return cell.array()
    except UnfilledError as error:
        raise error.located(path) from None
