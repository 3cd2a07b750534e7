"""A model without values: within a block its parameters, states and slots are shapes, to be traced at will."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from singax.compilations import Compilations
from singax.interrupt import deferred_interrupts
from singax.layer import build, tree
from singax.ledger import Ledger
from singax.mode import traced
from singax.module import Module
from singax.opt.slots import Slots
from singax.storage import Bank, Cell, Deferred, Unfilled, exchanged

Struct = jax.ShapeDtypeStruct


class abstract:
    """Within the block, `module` is built, traced and changed at will without values; afterwards all is as before.

    Layers, Tensors and optimizers stay the objects that they are: functions that hold some of them see the same ones.
    """

    def __init__(self, module: Module) -> None:
        self.module = module
        self.borrowed = Borrowed()
        self._layers: list[tuple[tree.Branch, dict[str, Any]]] = []
        self._cells: list[tuple[Cell, list[Any]]] = []
        self._journal = build.journal(keep=False)

    def __enter__(self) -> Borrowed:
        tree.name_members(self.module)
        self._journal.__enter__()
        try:
            self._empty()
        except BaseException:
            self.__exit__()
            raise
        return self.borrowed

    def _empty(self) -> None:
        ledgers = [layer._ledger for _, layer in tree.layers(self.module) if isinstance(layer, Module)]
        owners = [owner for ledger in ledgers for owner in ledger.owners()]
        for _, tensor in tree.tensors(self.module):
            self._take(tensor._cell)
        for _, layer in tree.layers(self.module):
            if isinstance(layer, Module):
                self._take(layer._generator.cell)
            self._layers.append((layer, dict(layer.__dict__)))
            _refill(layer.__dict__, _scratch(layer))
        for owner in owners:
            self.borrowed.take(owner)

    def _take(self, cell: Cell) -> None:
        self._cells.append((cell, [getattr(cell, name) for name in Cell.__slots__]))
        _set_slots(cell, _without_value(cell))

    def __exit__(self, kind: Any = None, *_: Any) -> None:
        with deferred_interrupts():
            self._journal.__exit__(kind)
            self.borrowed.end()
            for layer, content in self._layers:
                _refill(layer.__dict__, content)
            for cell, values in self._cells:
                for name, value in zip(Cell.__slots__, values, strict=True):
                    setattr(cell, name, value)
            tree.structure_changed()


def _scratch(layer: tree.Branch) -> dict[str, Any]:
    """What a layer holds, with containers that may be changed."""
    made = {name: _copied(value) for name, value in layer.__dict__.items()}
    made.update(_cache={}, _ready=-1)
    if isinstance(layer, Module):
        ledger = Ledger(layer)
        ledger.quiet = True
        ledger.guests.update(layer._ledger.guests)
        made.update(
            _bank=Bank(), _bank_version=-1, _members=(), _runners={}, _ledger=ledger, compilations=Compilations()
        )
    return made


def _copied(value: Any) -> Any:
    """Lists and dicts anew, with the same things in them."""
    if type(value) is list:
        return [_copied(item) for item in value]
    return {key: _copied(item) for key, item in value.items()} if type(value) is dict else value


def _refill(held: dict[str, Any], content: dict[str, Any]) -> None:
    held.clear()
    held.update(content)


class Borrowed:
    """Optimizers that work on copies of their states, without values, until `end`."""

    def __init__(self) -> None:
        self._saved: dict[int, tuple[tree.Stateful, dict[str, Any]]] = {}

    def take(self, owner: tree.Stateful) -> None:
        """Borrow `owner`, and the optimizers in it, unless they are borrowed already."""
        if id(owner) in self._saved:
            return
        self._saved[id(owner)] = owner, dict(owner.__dict__)
        inner = [value for value in owner.__dict__.values() if isinstance(value, tree.Stateful) and value is not owner]
        for other in inner:
            self.take(other)
        kept = {name: value for name, value in self._saved[id(owner)][1].items() if isinstance(value, tree.Stateful)}
        _refill(owner.__dict__, {**_twin(owner).__dict__, **kept})
        tree.structure_changed()

    def end(self) -> None:
        """Give them back as they were."""
        for owner, content in self._saved.values():
            _refill(owner.__dict__, content)
        self._saved.clear()
        tree.structure_changed()


def _twin(owner: tree.Stateful) -> tree.Stateful:
    """A copy of an optimizer whose states are shapes."""
    memo: dict[int, Any] = {id(value): value for value in _arrays_in(list(owner.__dict__.values()))}
    memo.update({id(cell): cell for cell in _parameters_of(owner)})
    for _, tensor in owner.state_tensors():
        memo[id(tensor._cell)] = _free(tensor._cell)
    for value in owner.__dict__.values():
        if isinstance(value, tree.Stateful) and value is not owner:
            memo[id(value)] = value
    return copy.deepcopy(owner, memo)


def _parameters_of(owner: tree.Stateful) -> Iterator[Cell]:
    for slots in owner.__dict__.values():
        if isinstance(slots, Slots):
            yield from slots.cells().values()


def foreign(root: tree.Branch) -> Iterator[Any]:
    """What layers hold besides layers, Tensors and optimizers: arrays, data, functions."""
    for _, layer in tree.layers(root):
        for name, held in layer.__dict__.items():
            if name not in layer._internal:
                yield from _shared(held)


def _shared(value: Any) -> Iterator[Any]:
    if isinstance(value, list | tuple):
        for item in value:
            yield from _shared(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _shared(item)
    elif not tree.is_member(value):
        yield value


def _arrays_in(value: Any) -> Iterator[Any]:
    return (item for item in _shared(value) if isinstance(item, np.ndarray | jax.Array | Deferred))


def _without_value(cell: Cell) -> Any:
    value = cell.get()
    return value if isinstance(value, Unfilled) else Deferred(value.shape, value.dtype, cell.recipe)


def _set_slots(cell: Cell, value: Any) -> None:
    """Make it a free cell with this value."""
    cell.values, cell.index, cell.bank, cell.lent = [value], 0, None, True


def _free(cell: Cell) -> Cell:
    """A free cell with the shape of what `cell` holds."""
    made = Cell(_without_value(cell), cell.place)
    made.recipe, made.trains = cell.recipe, cell.trains
    return made


def struct(cell: Cell) -> Struct:
    """The shape and dtype of what a cell holds."""
    value = cell.get()
    return Struct(value.shape, jax.dtypes.canonicalize_dtype(value.dtype))


def create_slots(module: Module) -> None:
    """Create the slots that the optimizers of an abstract model have asked for, or will ask for."""
    tensors = [tensor for _, tensor in tree.tensors(module, owners=True)]
    tensors += [tensor for guest in module._ledger.guests.values() for _, tensor in guest.state_tensors()]
    cells = [tensor._cell for tensor in tensors if not isinstance(tensor._cell.get(), Unfilled)]

    def create(values: list[Any]) -> None:
        with exchanged(cells, values):
            module._ledger.want_all_slots()
            for owner in module._ledger.owners():
                _settle(owner, {id(cell) for cell in cells})

    jax.eval_shape(create, [struct(cell) for cell in cells])


def _settle(owner: tree.Stateful, known: set[int]) -> None:
    """Shapes in place of tracers, before the trace ends."""
    for _, tensor in owner.state_tensors():
        value = tensor._cell.get()
        if id(tensor._cell) not in known and (traced(value) or isinstance(value, np.ndarray)):
            tensor._cell.set(Deferred(tuple(value.shape), np.dtype(value.dtype), None))
