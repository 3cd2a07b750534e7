"""A model without values: a copy whose parameters, states and slots are shapes, to be built and traced at will."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np

from singax.layer import build, tree
from singax.mode import traced
from singax.module import Module
from singax.storage import Cell, Deferred, Unfilled, exchanged

Struct = jax.ShapeDtypeStruct


def abstract_copy(module: Module) -> Module:
    """A copy of the layers and optimizers of `module`; what they hold is shapes, everything else is shared.

    Nothing is allocated, and nothing that happens to the copy is seen by `module`.
    """
    tree.name_members(module)
    memo: dict[int, Any] = {}
    for cell in _cells(module):
        memo[id(cell)] = _without_value(cell)
    for value in _foreign(module):
        memo[id(value)] = value
    made: Module = copy.deepcopy(module, memo)
    made.__dict__["_compute_dtype"] = module._compute_dtype
    made.__dict__.update(training=module.training)
    return made


def _cells(module: Module) -> Iterator[Cell]:
    for _, tensor in tree.tensors(module, owners=True):
        yield tensor._cell
    for guest in module._ledger.guests.values():
        for _, tensor in guest.state_tensors():
            yield tensor._cell
    yield module._generator.cell


def _foreign(module: Module) -> Iterator[Any]:
    """What layers hold besides layers, Tensors and optimizers: arrays, data, functions."""
    for _, layer in tree.layers(module):
        for name, value in layer.__dict__.items():
            if name not in layer._internal and not tree.is_member(value):
                yield value


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


def build_forward(module: Module, inputs: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Create the parameters of an abstract copy."""
    build.build(module, build.own_forward(module), tuple(inputs), kwargs)


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
