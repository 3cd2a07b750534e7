"""Layers that are alike are built once and traced once: what was found serves the others."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Hashable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from singax import mode
from singax.errors import StateError
from singax.inspect.abstract import foreign
from singax.inspect.alike import Likeness
from singax.layer import tree
from singax.layer.pure import PureCall
from singax.layer.tree import Branch
from singax.storage import Unfilled
from singax.tensor import Tensor

Arguments = tuple[tuple[Any, ...], dict[str, Any]]

WORTH_A_TRACE = 4
"""From how many layers alike on one trace for all is quicker. To differentiate an inner jitted function costs JAX two
to three times what the same operations cost in place: ResNet-50 lost by sharing its blocks of 2, 3 and 5 alike.
"""


class TraceOnce:
    """Runs layers that are alike through one jitted trace.

    A layer that touches states which are not its own is run as it is.
    """

    def __init__(self, likeness: Likeness) -> None:
        self._likeness = likeness
        self._known: dict[Hashable, tuple[PureCall, Callable[..., Any], Branch]] = {}
        self._refused: set[Hashable] = set()

    def shares(self, layer: Branch) -> bool:
        """Whether the trace of the layer may serve others."""
        return self._likeness.count(layer) >= WORTH_A_TRACE

    def run(
        self, layer: Branch, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Any, Branch | None]:
        """The output of the layer, and the layer whose trace it was run through, unless it is its own."""
        if not self.shares(layer):
            return function(layer, *args, **kwargs), None
        call = PureCall(functools.partial(function, layer), [t for _, t in tree.tensors(layer)], args, kwargs)
        call.cells.append(call.outer.generator)
        key = self._key(layer, call)
        if key is None or key in self._refused:
            return function(layer, *args, **kwargs), None
        try:
            return self._run(key, layer, call)
        except StateError:
            self._refused.add(key)
            return function(layer, *args, **kwargs), None

    def _run(self, key: Hashable, layer: Branch, call: PureCall) -> tuple[Any, Branch | None]:
        first = key not in self._known
        if first:
            self._known[key] = call, jax.jit(call), layer
        model, jitted, original = self._known[key]
        before = call.drawn_before
        out, new = jitted(call.states, call.arrays, np.uint32(0) if isinstance(before, int) else before)
        if not first:
            call.take_trace(model)
        elif call.reads - {id(cell) for cell in call.cells}:
            self._refused.add(key)
        return call.finish(out, new), None if first else original

    def _key(self, layer: Branch, call: PureCall) -> Hashable:
        avals = tuple((jnp.shape(v), v.dtype, getattr(v, "weak_type", False)) for v in call.arrays)
        try:
            key = (self._likeness.signature(layer), call.form, avals, mode.training)
            hash(key)
        except TypeError:
            return None
        return key


class BuildOnce:
    """Builds one layer of each kind; those that are alike become copies of what it has become.

    A layer that has created its own parameters, and has no layers below, only takes the shape of the other's output.
    """

    def __init__(self, likeness: Likeness) -> None:
        self._likeness = likeness
        self._known: dict[Hashable, tuple[Branch, Any]] = {}

    def run(self, layer: Branch, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The output of the layer, which is built afterwards."""
        key = self._key(layer, (args, kwargs)) if self._likeness.count(layer) > 1 else None
        if key is None:
            return function(layer, *args, **kwargs)
        if key not in self._known:
            out = function(layer, *args, **kwargs)
            self._known[key] = layer, jax.tree.map(_struct, out)
            return out
        model, out = self._known[key]
        if key[0]:
            _become(layer, model)
        return jax.tree.map(lambda v: jnp.zeros(v.shape, v.dtype) if isinstance(v, jax.ShapeDtypeStruct) else v, out)

    def _key(self, layer: Branch, arguments: Arguments) -> Any:
        """What tells kinds of layers apart; None for a layer that has to be built on its own."""
        made = _made_so_far(layer)
        if made is None:
            return None
        leaves, structure = jax.tree.flatten(arguments)
        key = (not made, made, self._likeness.signature(layer), structure, tuple(map(_described, leaves)))
        try:
            hash(key)
        except TypeError:
            return None
        return key


def _made_so_far(layer: Branch) -> Any:
    """The shapes of the Tensors that a layer without layers below has; () if nothing is there that a copy would
    replace; None for anything in between.
    """
    below = [value for _, value in tree.walk(layer)][1:]
    tensors = [value._cell.get() for value in below if isinstance(value, Tensor)]
    layers = [value for value in below if isinstance(value, Branch)]
    if not layers and tensors and not any(isinstance(held, Unfilled) for held in tensors):
        return tuple([(held.shape, held.dtype) for held in tensors])
    inside = {id(layer), *map(id, layers)}
    begun = any(child._initialized or id(child._parent) not in inside for child in layers)
    own = layer._initialized and tree.creates_parameters(layer)
    return None if begun or own or len(layers) < len(below) else ()


def _described(leaf: Any) -> Hashable:
    return (leaf.shape, leaf.dtype) if hasattr(leaf, "dtype") else leaf


def _struct(value: Any) -> Any:
    return jax.ShapeDtypeStruct(value.shape, value.dtype) if hasattr(value, "dtype") else value


def _become(layer: Branch, model: Branch) -> None:
    """Give `layer` copies of everything that `model` has, under names of its own."""
    memo: dict[int, Any] = {id(model): layer, **{id(value): value for value in foreign(model)}}
    kept = {name: layer.__dict__[name] for name in ("_parent", "_local", "_free_index", "_cache")}
    for name, value in model.__dict__.items():
        if name not in kept:
            layer.__dict__[name] = copy.deepcopy(value, memo)
    layer.__dict__.update(kept)
    for path, tensor in tree.tensors(layer):
        tensor.name = tree.join(layer._path, path)
    tree.structure_changed()
