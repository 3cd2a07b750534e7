"""Where the states of a model live: path → cell, and what kind of state it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from singax.layer import tree
from singax.storage import Cell, Unfilled

PARAMETER, STATE, OPTIMIZER, RANDOM = "parameter", "state", "optimizer", "random"
LAYERS = (PARAMETER, STATE)
KINDS = (*LAYERS, OPTIMIZER, RANDOM)


@dataclass(frozen=True)
class Home:
    """One state of a model: `kind` is parameter, state (of a layer), optimizer or random."""

    kind: str
    cell: Cell

    @property
    def is_filled(self) -> bool:
        """Whether there are values, or will be when somebody needs them."""
        return not isinstance(self.cell.get(), Unfilled)


def homes(model: Any) -> dict[str, Home]:
    """All states by path, each cell once: those of layers first, then of optimizers, then the random key."""
    tree.name_members(model)
    found: dict[str, Home] = {}
    seen: set[int] = set()
    for path, kind, cell in _all_cells(model):
        if id(cell) not in seen:
            seen.add(id(cell))
            found[path] = Home(kind, cell)
    return found


def _all_cells(model: Any) -> Iterator[tuple[str, str, Cell]]:
    for path, tensor in tree.tensors(model):
        yield path, PARAMETER if tensor.stores_grad else STATE, tensor._cell
    for owner, value in model._ledger.named_owners():
        for path, tensor in value.state_tensors():
            yield tree.join(owner, path), OPTIMIZER, tensor._cell
    yield "rng", RANDOM, model._generator.cell
