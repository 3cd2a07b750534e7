"""Which layers of a model are alike: same class, same settings, same shapes, all the way down.

Layers that are alike are traced once: the first one's trace serves the others.
"""

from __future__ import annotations

import copy
import functools
from collections import Counter
from collections.abc import Callable, Hashable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from singax import mode
from singax.layer import tree
from singax.layer.pure import PureCall
from singax.layer.tree import Branch
from singax.storage import Unfilled
from singax.tensor import Tensor

_SIMPLE = (bool, int, float, complex, str, bytes, type(None), np.dtype, type)


class Likeness:
    """Signatures of the layers of one model."""

    def __init__(self, root: Branch) -> None:
        self._signatures: dict[int, Hashable] = {}
        self._numbers: dict[Any, int] = {}
        named = tree.layers(root)
        self._counts = Counter(self.signature(layer) for _, layer in named)

    def repeats(self, layer: Branch) -> bool:
        """Whether another layer of the model is like this one."""
        return self._counts.get(self.signature(layer), 0) > 1

    def signature(self, layer: Branch) -> Hashable:
        """Equal for layers that are alike."""
        known = self._signatures.get(id(layer))
        if known is None:
            made = (type(layer), *self._settings(layer), *self._members(layer))
            known = self._signatures[id(layer)] = self._numbers.setdefault(made, len(self._numbers))
        return known

    def _settings(self, layer: Branch) -> list[Hashable]:
        return [
            (name, self._setting(value))
            for name, value in layer.__dict__.items()
            if name not in layer._internal and not isinstance(value, Tensor | Branch | tree.Stateful)
        ]

    def _setting(self, value: Any) -> Hashable:
        if isinstance(value, _SIMPLE):
            return type(value), value
        if isinstance(value, tuple | list):
            return type(value), *map(self._setting, value)
        if isinstance(value, dict):
            return dict, *((key, self._setting(item)) for key, item in value.items())
        if isinstance(value, Branch):
            return self.signature(value)
        return id(value)

    def _members(self, layer: Branch) -> list[Hashable]:
        return [(name, self._member(value)) for name, value in tree.members(layer)]

    def _member(self, value: Any) -> Hashable:
        if isinstance(value, Branch):
            return self.signature(value)
        if isinstance(value, Tensor):
            held = value._cell.get()
            shape = None if isinstance(held, Unfilled) else held.shape
            return shape, value.dtype, value.stores_grad, value.requires_grad
        return id(value)


class Once:
    """Runs layers that are alike through one jitted trace."""

    def __init__(self) -> None:
        self._known: dict[Hashable, tuple[PureCall, Any]] = {}

    def run(
        self, key: Hashable, layer: Branch, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Any, bool]:
        """The output of the layer, and whether this was the first of its kind."""
        tensors = [tensor for _, tensor in tree.tensors(layer)]
        call = PureCall(functools.partial(function, layer), tensors, args, kwargs)
        statics = tuple((i, leaf) for i, leaf in enumerate(call._leaves) if i not in set(call._places))
        avals = tuple((jnp.shape(v), v.dtype) for v in call.arrays)
        full = (key, call._tree, statics, avals, mode.training)
        first = full not in self._known
        if first:
            self._known[full] = (call, jax.jit(call))
        model, jitted = self._known[full]
        out, new = jitted(call.states, call.arrays, np.uint32(0) if isinstance(call.drawn_before, int) else call.drawn_before)
        call.__dict__.update({name: model.__dict__[name] for name in ("_changed", "_out", "_out_tree", "draws")})
        places = {id(cell): k for k, cell in enumerate(model.cells)}
        call.reads = {id(call.cells[places[i]]) if i in places else i for i in model.reads}
        return call.finish(out, new), first


class BuildOnce:
    """Builds one layer of each kind; those that are alike become copies of what it has become."""

    def __init__(self, likeness: Likeness) -> None:
        self._likeness = likeness
        self._known: dict[Hashable, tuple[Branch, Any]] = {}

    def run(
        self, layer: Branch, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """The output of the layer, which is built afterwards."""
        if not self._likeness.repeats(layer) or layer._initialized or tree.tensors(layer):
            return function(layer, *args, **kwargs)
        leaves, structure = jax.tree.flatten((args, kwargs))
        key = (self._likeness.signature(layer), structure, tuple(map(_described, leaves)))
        if key not in self._known:
            out = function(layer, *args, **kwargs)
            self._known[key] = layer, jax.tree.map(_struct, out)
            return out
        model, out = self._known[key]
        _become(layer, model)
        return jax.tree.map(lambda v: jnp.zeros(v.shape, v.dtype) if isinstance(v, jax.ShapeDtypeStruct) else v, out)


def _described(leaf: Any) -> Hashable:
    return (leaf.shape, leaf.dtype) if hasattr(leaf, "dtype") else leaf


def _struct(value: Any) -> Any:
    return jax.ShapeDtypeStruct(value.shape, value.dtype) if hasattr(value, "dtype") else value


def _become(layer: Branch, model: Branch) -> None:
    """Give `layer` copies of everything that `model` has."""
    memo: dict[int, Any] = {id(model): layer}
    kept = {name: layer.__dict__[name] for name in ("_parent", "_local", "_free_index")}
    for name, value in model.__dict__.items():
        if name not in kept and name != "_cache":
            layer.__dict__[name] = copy.deepcopy(value, memo)
    layer.__dict__.update(kept)
    tree.structure_changed()
