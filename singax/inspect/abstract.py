"""A model without values: a copy whose parameters, states and slots are shapes, to be built and traced at will."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from singax.layer import tree
from singax.mode import traced
from singax.module import Module
from singax.storage import Cell, Deferred, Unfilled, exchanged

Struct = jax.ShapeDtypeStruct


def abstract_copy(module: Module) -> Module:
    """A copy of the layers and optimizers of `module`; what they hold is shapes, everything else is shared.

    Nothing is allocated, and nothing that happens to the copy is seen by `module`. Optimizers that a step has used
    although they are no attributes stay where they are: see `Borrowed`.
    """
    tree.name_members(module)
    memo: dict[int, Any] = {id(value): value for value in foreign(module)}
    for _, tensor in tree.tensors(module, owners=True):
        memo[id(tensor._cell)] = _without_value(tensor._cell)
    memo[id(module._generator.cell)] = _without_value(module._generator.cell)
    made: Module = copy.deepcopy(module, memo)
    made.__dict__.update(_compute_dtype=module._compute_dtype, training=module.training)
    return made


def abstract_twin(owner: tree.Stateful) -> tree.Stateful:
    """A copy of an optimizer whose states are shapes."""
    memo: dict[int, Any] = {id(value): value for value in _arrays_in(list(owner.__dict__.values()))}
    for _, tensor in owner.state_tensors():
        memo[id(tensor._cell)] = _without_value(tensor._cell)
    return copy.deepcopy(owner, memo)


class Borrowed:
    """Optimizers that a step uses but that the model does not own: they work on a copy of their states until `end`."""

    def __init__(self, own: list[tree.Stateful]) -> None:
        self._own = {id(owner) for owner in own}
        self._saved: dict[int, tuple[tree.Stateful, dict[str, Any]]] = {}

    def take(self, owner: tree.Stateful) -> None:
        """Borrow `owner`, unless it is the model's own or borrowed already."""
        if id(owner) in self._own or id(owner) in self._saved:
            return
        twin, content = abstract_twin(owner).__dict__, dict(owner.__dict__)
        self._saved[id(owner)] = owner, content
        _replace(owner, {**twin, **{name: v for name, v in content.items() if isinstance(v, tree.Stateful)}})

    def end(self) -> None:
        """Give them back as they were."""
        for owner, content in self._saved.values():
            _replace(owner, content)
        self._saved.clear()


def _replace(owner: tree.Stateful, content: dict[str, Any]) -> None:
    owner.__dict__.clear()
    owner.__dict__.update(content)
    tree.structure_changed()


def foreign(root: tree.Branch) -> Iterator[Any]:
    """What layers and optimizers hold besides layers, Tensors and optimizers: arrays, data, functions."""
    for _, value in tree.walk(root):
        if isinstance(value, tree.Branch):
            for name, held in value.__dict__.items():
                if name not in value._internal:
                    yield from _shared(held)
        elif isinstance(value, tree.Stateful):
            yield from _arrays_in(list(value.__dict__.values()))


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


def _without_value(cell: Cell) -> Cell:
    value = cell.get()
    shape = value if isinstance(value, Unfilled) else Deferred(value.shape, value.dtype, cell.recipe)
    made = Cell(shape, cell.place)
    made.recipe, made.trains = cell.recipe, cell.trains
    return made


def struct(cell: Cell) -> Struct:
    """The shape and dtype of what a cell holds."""
    value = cell.get()
    return Struct(value.shape, jax.dtypes.canonicalize_dtype(value.dtype))


def create_slots(module: Module) -> None:
    """Create the slots that the optimizers of an abstract copy have asked for, or will ask for."""
    named = tree.tensors(module)
    cells = [tensor._cell for _, tensor in named if not isinstance(tensor._cell.get(), Unfilled)]

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
