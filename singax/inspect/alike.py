"""Which layers of a model are alike: same class, same settings, same shapes, all the way down."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Hashable
from typing import Any

import numpy as np

from singax.layer import tree
from singax.layer.tree import Branch
from singax.storage import Unfilled
from singax.tensor import Tensor

_SIMPLE = (bool, int, float, complex, str, bytes, type(None), np.dtype, type)


class Likeness:
    """Signatures of the layers of one model, as small numbers.

    Settings that are no plain values (functions, arrays, objects) are alike only where they are the same object.
    """

    def __init__(self, root: Branch) -> None:
        self._signatures: dict[int, Hashable] = {}
        self._numbers: dict[Any, int] = {}
        self._open: set[int] = set()
        self._counts = Counter(self.signature(layer) for _, layer in tree.layers(root))

    def count(self, layer: Branch) -> int:
        """How many layers of the model are like this one, itself included; 0 for one that came later."""
        return self._counts.get(self._signatures.get(id(layer)), 0)

    def signature(self, layer: Branch) -> Hashable:
        """Equal for layers that are alike."""
        if id(layer) in self._open:  # it holds one of the layers around it
            return "above", id(layer)
        if id(layer) not in self._signatures:
            self._open.add(id(layer))
            made: Hashable = (id(type(layer)), *self._settings(layer), *self._members(layer))
            self._signatures[id(layer)] = self._numbers.setdefault(made, len(self._numbers))
            self._open.discard(id(layer))
        return self._signatures[id(layer)]

    def _settings(self, layer: Branch) -> list[Hashable]:
        return [
            (name, self._setting(value))
            for name, value in layer.__dict__.items()
            if name not in layer._internal and not isinstance(value, Tensor | Branch | tree.Stateful)
        ]

    def _setting(self, value: Any) -> Hashable:
        if type(value) in _SIMPLE:
            return type(value), value
        if isinstance(value, tuple | list):
            return type(value), *map(self._setting, value)
        if isinstance(value, dict):
            return dict, *((self._setting(key), self._setting(item)) for key, item in value.items())
        if is_frozen(value):
            return type(value), *(self._setting(getattr(value, field.name)) for field in dataclasses.fields(value))
        return self._member(value)

    def _members(self, layer: Branch) -> list[Hashable]:
        return [(name, self._member(value)) for name, value in tree.members(layer)]

    def _member(self, value: Any) -> Hashable:
        if isinstance(value, Branch):
            return self.signature(value)
        if isinstance(value, Tensor):
            held = value._cell.get()
            shape = None if isinstance(held, Unfilled) else held.shape
            return shape, value.dtype, value.stores_grad, value.requires_grad
        return "same", id(value)


def is_frozen(value: Any) -> bool:
    """Whether it is an instance of a dataclass whose fields are settled."""
    return getattr(getattr(type(value), "__dataclass_params__", None), "frozen", False)
