"""Optimizers of users, in SINGA's style: a subclass that overrides `apply` and changes Tensors in place.

Such an optimizer keeps its slots in dicts of its own and creates them when it first meets a parameter. A compiled step
can only carry states that exist before it is traced, so `apply` is rehearsed once outside for each parameter: whatever
Tensors it puts into the optimizer's dicts and attributes become states, with the values they had at that moment, and
everything else is put back.
"""

from __future__ import annotations

import functools
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from singax import mode
from singax.errors import StateError
from singax.layer import tree
from singax.mode import local
from singax.tensor import Tensor

if TYPE_CHECKING:
    from singax.opt.updating import Updating


class _Local(threading.local):
    born: list[tuple[Tensor, Any]] | None = None


_rehearsal = _Local()


def rehearsing() -> bool:
    """Whether an `apply` is only being rehearsed."""
    return _rehearsal.born is not None


class SlotDict(dict[Any, Any]):
    """A dict of slots: inside a step, a Tensor put in the place of another one gives that one its values."""

    def __setitem__(self, key: Any, value: Any) -> None:
        if replaces_values(self.get(key), value):
            self[key].data = value
            return
        note_birth(value)
        super().__setitem__(key, value)
        if isinstance(value, Tensor):
            tree.structure_changed()

    def setdefault(self, key: Any, default: Any = None) -> Any:
        """As a dict's."""
        if key not in self:
            self[key] = default
        return self[key]


def adopted(value: Any) -> Any:
    """A plain dict as a `SlotDict`, anything else as it is."""
    return SlotDict(value) if type(value) in (dict, OrderedDict) else value


def replaces_values(held: Any, value: Any) -> bool:
    """Whether putting `value` where `held` is means new values for the same state."""
    both = isinstance(held, Tensor) and isinstance(value, Tensor) and value is not held
    return both and (local.step is not None or rehearsing())


def note_birth(value: Any) -> None:
    """Remember the values with which a Tensor became a slot."""
    if _rehearsal.born is not None and isinstance(value, Tensor):
        _rehearsal.born.append((value, value._cell.get()))


def own_tensors(optimizer: Updating) -> Iterator[tuple[str, Tensor]]:
    """The Tensors in the attributes that a subclass has added, with paths."""
    for name, value in list(optimizer.__dict__.items()):
        if name not in optimizer._internal:
            yield from _found(name, value)


def _found(path: str, value: Any) -> Iterator[tuple[str, Tensor]]:
    if isinstance(value, Tensor):
        yield path, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _found(tree.join(path, str(key)), item)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _found(tree.join(path, str(index)), item)


def forget(optimizer: Updating, key: str) -> None:
    """Drop the slots of one parameter."""
    for value in optimizer.__dict__.values():
        if isinstance(value, SlotDict):
            value.pop(key, None)


def names(optimizer: Updating) -> list[str]:
    """The attributes that hold own Tensors, or will: a dict without any entry yet counts."""
    filled = {path.split(tree.SEPARATOR)[0] for path, _ in own_tensors(optimizer)}
    return [
        name
        for name, value in optimizer.__dict__.items()
        if name in filled or (isinstance(value, SlotDict) and not value and name not in optimizer._internal)
    ]


def wrapped_apply(function: Callable[..., None]) -> Callable[..., None]:
    """A subclass's `apply`, called through the base class, which clips, counts, skips … around it."""

    @functools.wraps(function)
    def apply(self: Updating, param_name: str, param_value: Tensor, param_grad: Any) -> None:
        if self._applying:
            function(self, param_name, param_value, param_grad)
        else:
            self._apply([(param_name, param_value, param_grad)], alone=True)

    return apply


@contextmanager
def applying(optimizer: Updating) -> Iterator[None]:
    """Run `apply` itself, unrecorded."""
    saved, optimizer._applying = optimizer._applying, True
    try:
        with mode.training_mode(False):
            yield
    finally:
        optimizer._applying = saved


def rehearse(optimizer: Updating, params: Mapping[str, Tensor]) -> dict[str, Any]:
    """Let `apply` create its slots for these parameters; path → initial value."""
    before = {id(tensor) for _, tensor in own_tensors(optimizer)}
    cells = [tensor._cell for tensor in [*params.values(), *(t for _, t in optimizer.state_tensors())]]
    saved = [(cell, cell.get(), cell.lent) for cell in cells]
    _rehearsal.born = []
    try:
        with applying(optimizer):
            for key, parameter in params.items():
                optimizer.apply(key, parameter, Tensor(data=np.zeros(parameter.shape, parameter.dtype)))
        born = {id(tensor): (tensor, value) for tensor, value in reversed(_rehearsal.born)}
    finally:
        _rehearsal.born = None
        for cell, value, lent in saved:
            cell.set(value, lent)
    paths = {path: tensor for path, tensor in own_tensors(optimizer) if id(tensor) not in before}
    _check_births(optimizer, paths, born)
    for tensor, value in born.values():
        tensor._cell.set(value)
    return {path: born[id(tensor)][1] for path, tensor in paths.items()}


def _check_births(optimizer: Updating, paths: Mapping[str, Tensor], born: Mapping[int, Any]) -> None:
    stray = [path for path, tensor in paths.items() if id(tensor) not in born]
    if stray:
        raise StateError(
            f"{type(optimizer).__name__}.apply creates slots where they cannot be followed: {', '.join(stray)}. Keep "
            "them in a dict of the optimizer (self.moments = {} in __init__) or in an attribute"
        )


def fresh_slots(optimizer: Updating, params: Mapping[str, Tensor]) -> dict[str, Any]:
    """The values with which `apply` would create its slots now; nothing is changed."""
    dicts = [value for name, value in optimizer.__dict__.items() if isinstance(value, SlotDict)]
    held = [dict(slots) for slots in dicts]
    try:
        for slots in dicts:
            for key in params:
                slots.pop(key, None)
        return rehearse(optimizer, params)
    finally:
        for slots, before in zip(dicts, held, strict=True):
            slots.clear()
            dict.update(slots, before)
        tree.structure_changed()


def remembered(optimizer: Updating) -> Callable[[], None]:
    """What puts the optimizer's own slots back as they are now, values aside."""
    attributes = dict(optimizer.__dict__)
    dicts = [(value, dict(value)) for value in attributes.values() if isinstance(value, SlotDict)]

    def put_back() -> None:
        for name in set(optimizer.__dict__) - set(attributes):
            del optimizer.__dict__[name]
        for slots, before in dicts:
            slots.clear()
            dict.update(slots, before)
        tree.structure_changed()

    return put_back


def guarded(cells: list[Any], before: list[Any], ready: Any) -> Iterator[tuple[Any, jax.Array]]:
    """Cells that have changed, with the values they shall have: of the old dtype, and the old ones unless `ready`."""
    for cell, old in zip(cells, before, strict=True):
        new = cell.array()
        if new is not old:
            new = new.astype(old.dtype)
            yield cell, new if ready is None else jax.numpy.where(ready, new, old)
