"""Between optax's state, a tree, and ours: named slots, each with one array per parameter, and a few shared arrays."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from singax.layer import tree

Arrays = dict[str, Any]
SlotArrays = dict[str, Arrays]


class Leaves:
    """Where each leaf of optax's state lives, for the parameters with these `keys`.

    `names` maps optax's fields to the names of slots. Where it is given, a shared leaf is either optax's step count,
    for which the optimizer's own counter stands in, or a constant. Where it is empty (any optax transformation), slots
    are called by their path, and shared leaves are states of their own; `label` tells those of several groups apart.
    """

    def __init__(self, names: Mapping[str, str], keys: Collection[str], label: str = "") -> None:
        self.names, self.keys, self.label = names, frozenset(keys), label

    def place(self, path: Any) -> tuple[str, str | None]:
        """(slot, parameter key) for a leaf per parameter, (name, None) for a shared one."""
        entries = list(path)
        places = [i for i, entry in enumerate(entries) if self._names_a_parameter(entry)]
        key = str(entries.pop(places[-1]).key) if places else None
        parts = [_part(entry) for entry in entries]
        if self.names:
            last = parts[-1] if parts else ""
            return self.names.get(last, last), key
        name = ".".join(part for part in parts if part)
        if key is None:
            alone = self.keys if len(self.keys) == 1 else ()  # one parameter updated by itself counts for itself
            name = tree.join(self.label, name, *alone)
        return name, key

    def _names_a_parameter(self, entry: Any) -> bool:
        return isinstance(entry, jax.tree_util.DictKey) and entry.key in self.keys

    def packed(self, init: Callable[[Any], Any], params: Arrays, slots: SlotArrays, shared: Arrays, count: Any) -> Any:
        """optax's state, in the structure that `init(params)` has, and with its constants."""

        def pick(path: Any, leaf: Any) -> Any:
            name, key = self.place(path)
            if key is not None:
                return slots[name][key]
            if self.names:
                return count[0] if name == "count" else leaf
            return shared[name]

        state = jax.tree_util.tree_map_with_path(pick, jax.eval_shape(init, params))
        if not any(_is_shape(leaf) for leaf in jax.tree.leaves(state)):
            return state
        return jax.tree.map(lambda leaf, constant: constant if _is_shape(leaf) else leaf, state, init(params))

    def unpacked(self, state: Any) -> tuple[SlotArrays, Arrays]:
        """Slots and shared arrays out of optax's state."""
        slots: SlotArrays = {}
        shared: Arrays = {}
        for path, leaf in jax.tree_util.tree_leaves_with_path(state):
            name, key = self.place(path)
            if key is not None:
                slots.setdefault(name, {})[key] = leaf
            elif not self.names:
                shared[name] = leaf
        return slots, shared


def _is_shape(leaf: Any) -> bool:
    return isinstance(leaf, jax.ShapeDtypeStruct)


def _part(entry: Any) -> str:
    for attribute in ("name", "key", "idx"):
        if hasattr(entry, attribute):
            return str(getattr(entry, attribute))
    return str(entry)


def kept_dtypes(new: Any, old: Any) -> Any:
    """The tree `new` with the dtypes of `old`."""
    return jax.tree.map(lambda fresh, held: jnp.asarray(fresh, held.dtype), new, old)


def merged(parts: Collection[tuple[Any, ...]]) -> tuple[Any, ...]:
    """Dicts, or dicts of dicts, of several groups of parameters as one."""
    found: tuple[dict[str, Any], SlotArrays, Arrays] = ({}, {}, {})
    for values, slots, shared in parts:
        found[0].update(values)
        found[2].update(shared)
        for slot, held in slots.items():
            found[1].setdefault(slot, {}).update(held)
    return found
