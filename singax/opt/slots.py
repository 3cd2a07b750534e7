"""The slots of an optimizer: Tensors per kind and parameter, which join the flat state of a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from singax.layer import tree
from singax.mode import local, store_state
from singax.opt.leaves import Arrays, SlotArrays
from singax.storage import Cell
from singax.tensor import Tensor

Made = tuple[SlotArrays, Arrays]


class Slots:
    """`held[slot][key]` is the Tensor of one kind for one parameter, `shared[name]` one for all parameters together.

    A parameter's key is its name, made unique where two parameters share it. Slots are asked for (`ask`) in a trace or
    before it, and created (`create`) outside.
    """

    def __init__(self) -> None:
        self.held: dict[str, dict[str, Tensor]] = {}
        self.shared: dict[str, Tensor] = {}
        self.names: dict[str, str] = {}
        self.wanted: dict[str, Tensor] = {}
        self._keys: dict[int, tuple[Cell, str]] = {}
        self._ready: set[str] = set()

    def key_of(self, name: str, parameter: Tensor) -> str:
        """The key of a parameter."""
        cell = parameter._cell
        if id(cell) not in self._keys:
            candidates = (name if number == 1 else f"{name}#{number}" for number in range(1, len(self.names) + 2))
            key = next(key for key in candidates if key not in self.names)
            self._keys[id(cell)], self.names[key] = (cell, key), name
        return self._keys[id(cell)][1]

    def ask(self, params: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Ask for the slots of these parameters; returns those that had none."""
        fresh = {key: parameter for key, parameter in params.items() if key not in self._ready}
        self.wanted.update(fresh)
        return fresh

    def create(self, make: Callable[[dict[str, Tensor]], Made]) -> dict[str, Tensor]:
        """Create what was asked for, with the arrays that `make` gives; returns the parameters."""
        params, self.wanted = self.wanted, {}
        slots, shared = make(params)
        for slot, arrays in slots.items():
            mine = self.held.setdefault(slot, {})
            for key, value in arrays.items():
                if key not in mine:
                    mine[key] = _slot_tensor(value, f"{slot}.{key}", params[key]._cell.place)
        for name, value in shared.items():
            self.shared.setdefault(name, _slot_tensor(value, name, None))
        self._ready.update(params)
        tree.structure_changed()
        return params

    def look_again(self) -> None:
        """Other slots may be needed now: create at the next update what is missing."""
        self._ready.clear()

    def forget(self, cells: set[int]) -> set[str]:
        """Drop the slots of the parameters with these cells; returns their keys."""
        keys = {key for cell, key in self._keys.values() if id(cell) in cells} & self._ready
        self._ready -= keys
        for held in self.held.values():
            for key in keys & set(held):
                del held[key]
        return keys

    def remembered(self) -> Callable[[], None]:
        """What puts everything back as it is now, values aside."""
        held = {slot: dict(tensors) for slot, tensors in self.held.items()}
        rest = (dict(self.shared), dict(self.names), dict(self.wanted), dict(self._keys), set(self._ready))

        def put_back() -> None:
            self.held = held
            self.shared, self.names, self.wanted, self._keys, self._ready = rest
            tree.structure_changed()

        return put_back

    def restore(self, slot: str, arrays: Any) -> None:
        """Put values into slots, or into a shared value; those of parameters that have not been met wait for them."""
        if not isinstance(arrays, Mapping):
            self.shared[slot] = Tensor(data=np.asarray(arrays), requires_grad=False, name=slot)
            return
        mine = self.held.setdefault(slot, {})
        for key, value in arrays.items():
            if key in mine:
                mine[key].copy_from(value)
            else:
                mine[key] = Tensor(data=np.asarray(value), requires_grad=False, name=key)
        tree.structure_changed()

    def cells(self) -> dict[str, Cell]:
        """The cells of all parameters that have been met, by key."""
        return {key: cell for cell, key in self._keys.values()}

    def parameters(self) -> dict[str, Cell]:
        """Those whose slots are there."""
        return {key: cell for key, cell in self.cells().items() if key in self._ready}

    def arrays(self, keys: Mapping[str, Any]) -> SlotArrays:
        """The values of the slots of these parameters."""
        return {slot: {key: held[key]._cell.array() for key in keys if key in held} for slot, held in self.held.items()}

    def shared_arrays(self) -> Arrays:
        """The values that belong to all parameters together."""
        return {name: tensor._cell.array() for name, tensor in self.shared.items()}

    def store(self, slots: SlotArrays, shared: Arrays) -> None:
        """Store new values."""
        for slot, arrays in slots.items():
            for key, value in arrays.items():
                put(self.held[slot][key], value)
        for name, value in shared.items():
            put(self.shared[name], value)

    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        """All Tensors with their paths."""
        yield from self.shared.items()
        for slot, held in self.held.items():
            for key, tensor in held.items():
                yield tree.join(slot, key), tensor

    def relinked(self) -> None:
        """After a deep copy: the cells are others."""
        self._keys = {id(cell): (cell, key) for cell, key in self._keys.values()}


def put(tensor: Tensor, value: Any) -> None:
    """Store the new value of a parameter or state of the step in progress."""
    if local.step is not None:
        local.step.check_known(tensor.name, tensor._cell)
    store_state(tensor._cell, value)


def slots_came() -> None:
    """Outside a trace, slots have been created in the middle of a step: a file may hold values for them."""
    if local.step is not None and not local.tracing:
        local.step.module._receive()


def _slot_tensor(value: Any, name: str, place: Any) -> Tensor:
    made = Tensor._of(value, name=name, requires_grad=False)
    made._cell.place = place
    made._cell.lent = False
    return made
