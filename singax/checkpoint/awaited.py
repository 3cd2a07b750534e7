"""What a file holds for a model, until the model has places for it.

A model that was compiled has all places at once. One that was not gets its parameters with its first input, its slots
with its first step: values wait for them here, and are delivered before anybody reads a place.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from singax.checkpoint.differences import Differences
from singax.checkpoint.homes import LAYERS, OPTIMIZER, RANDOM, Home
from singax.checkpoint.places import Places
from singax.checkpoint.placing import put_all, staged
from singax.checkpoint.slots import create_slots, is_late
from singax.layer import tree
from singax.mode import local


@dataclass(frozen=True)
class Held:
    """A value of a file, or its shape and dtype before it is read, and the kind of state that it is there."""

    kind: str
    value: Any


Read = Callable[[str], Any]


class Awaited:
    """The values of one file.

    `complete` files tell everything, optimizers and random key included; of others only the layers' states count. With
    `read`, which gives a value by name, the values are shapes and dtypes until `fetch` reads them.
    """

    def __init__(
        self, source: str, values: Mapping[str, Held], strict: bool, complete: bool, read: Read | None = None
    ) -> None:
        self.source, self.strict, self.complete, self._read = source, strict, complete, read
        self.values = {path: held for path, held in values.items() if complete or held.kind in LAYERS}
        self.paths = frozenset(self.values)
        self.judged: set[str] = set()
        self.unstarted = {path for path, held in self.values.items() if self._is_zero_step(path, held)}

    def _is_zero_step(self, path: str, held: Held) -> bool:
        """Whether this is the counter of an optimizer that has not made a step."""
        if held.kind != OPTIMIZER or not path.endswith(f"{tree.SEPARATOR}step") or math.prod(held.value.shape) != 1:
            return False
        return not np.any(held.value if self._read is None else self._read(path))

    def fetch(self) -> None:
        """Read and verify all values, if that has not been done."""
        if self._read is not None:
            read = self._read
            self.values = {path: Held(held.kind, read(path)) for path, held in self.values.items()}
            self._read = None

    def __deepcopy__(self, memo: dict[int, Any]) -> Awaited:
        made = Awaited(self.source, self.values, self.strict, self.complete)
        made.paths, made.unstarted, made.judged = self.paths, self.unstarted, set(self.judged)
        return made

    def overlaid(self, other: Awaited) -> Awaited:
        """The same with the values of another file in the place of its own."""
        other.fetch()
        made = Awaited(other.source, {**self.values, **other.values}, other.strict, self.complete)
        made.paths, made.unstarted, made.judged = self.paths | other.paths, self.unstarted, set(self.judged)
        return made

    def deliver(self, model: Any, settled: bool = True) -> None:
        """Give the model what it has places for; afterwards `model._awaited` is None if nothing is left.

        Unless `settled`, more places may come at any moment, and optimizers are not judged yet.

        Raises `StateMismatchError` if the file does not fit; nothing is changed then.
        """
        model._bank.commit()
        undo = create_slots(model, [path for path, held in self.values.items() if held.kind == OPTIMIZER])
        try:
            places = Places(model, self.complete, settled)
            fresh = self._compared(places)
            self.fetch()
            values = {path: held.value for path, held in self.values.items() if path in places.homes} | fresh
            put_all(staged(values, {path: home.cell for path, home in places.homes.items()}))
        except BaseException:
            undo()
            raise
        if local.undo is not None:
            local.undo.extend([undo, self._returner(model)])
        self._note_delivery(model, places)

    def _compared(self, places: Places) -> dict[str, Any]:
        """Report all differences; returns fresh values for slots that the file does not know yet."""
        differences = Differences()
        for path, held in self.values.items():
            if path in places.homes:
                differences.compare(path, places.homes[path].cell.get(), held.value)
            elif not places.may_come(path, held.kind):
                differences.find(path, held.value)
        fresh = self._missing(places, differences)
        differences.report(self.source, self.strict)
        return fresh

    def _missing(self, places: Places, differences: Differences) -> dict[str, Any]:
        fresh: dict[str, Any] = {}
        initial = functools.cache(lambda owner: places.owners[owner].fresh_state())
        for path, home in places.homes.items():
            owner = places.owner_of(path) if home.kind == OPTIMIZER else ""
            known = path in self.paths or (owner or home.kind) in self.judged
            if known or not home.is_filled or not places.can_judge(home.kind):
                continue
            if owner and self._is_late(path, owner, places.homes):
                fresh[path] = initial(owner)[path.removeprefix(owner + tree.SEPARATOR)]
            else:
                differences.miss(path, home.cell.get())
        return fresh

    def _is_late(self, path: str, owner: str, homes: Mapping[str, Home]) -> bool:
        step = tree.join(owner, "step")
        parameters = {name for name, home in homes.items() if home.kind in LAYERS}
        return step in self.paths and is_late(path, self.paths, parameters, step not in self.unstarted)

    def _note_delivery(self, model: Any, places: Places) -> None:
        delivered = set(places.homes) & set(self.values)
        self.values = {
            path: held
            for path, held in self.values.items()
            if path not in delivered and places.may_come(path, held.kind)
        }
        kinds = (*LAYERS, RANDOM, OPTIMIZER)
        self.judged.update(kind for kind in kinds if kind != OPTIMIZER and places.can_judge(kind))
        self.judged.update(places.owners if places.can_judge(OPTIMIZER) else ())
        for owner in {places.owner_of(path) for path in delivered} - {""}:
            places.owners[owner].values_came()
        if not self.values and places.can_judge(OPTIMIZER if self.complete else LAYERS[0]):
            model.__dict__["_awaited"] = None

    def _returner(self, model: Any) -> Any:
        values, judged = self.values, set(self.judged)

        def take_back() -> None:
            self.values, self.judged = values, judged
            model.__dict__["_awaited"] = self

        return take_back
