"""What programs compute of weights alone is computed once.

Weights arrive as they stand in the file: transposed, in 8 bits with a scale, gate by gate. Programs want them
otherwise, and XLA would make them so in every run. All equations that depend on weights alone form a prelude; its
results are kept beside the weights and shared by all programs that want the same.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, MutableMapping, Sequence
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import jax
import numpy as np
from jax.extend.core import Literal

from singax.sonnx.importer.budget import Allowance
from singax.sonnx.importer.listing import (
    Array,
    Equation,
    Listing,
    computed,
    constant_key,
    literal_key,
    needed,
    params_key,
    read_by,
)

_VIEWS = frozenset({"broadcast_in_dim", "reshape", "squeeze", "expand_dims"})
_GROWTH = 8
_FREE_ELEMENTS = 1 << 16


class Split(NamedTuple):
    """The equations of a prelude and of the rest, and the numbers of what the rest takes from before it."""

    before: list[Equation]
    rest: list[Equation]
    wanted: list[int]


def split(listing: Listing, weights: set[int]) -> Split:
    """Divide a program into what depends on these values alone, and the rest.

    What depends on nothing, and new shapes of what is there already, is computed on both sides.
    """
    derived, free = set(weights), set(listing.constants) - weights
    before: list[Equation] = []
    rest: list[Equation] = []
    for equation in listing.equations:
        read = {atom for atom in equation.inputs if not isinstance(atom, Literal)}
        known = not equation.effect and all(atom in derived or atom in free for atom in read)
        early = known and (read.isdisjoint(derived) or _may_stay(listing, equation))
        if early:
            (free if read.isdisjoint(derived) else derived).update(equation.outputs)
            before.append(equation)
        if not early or equation.primitive.name in _VIEWS or read.isdisjoint(derived):
            rest.append(equation)
    rest = needed(rest, listing.outputs)
    made = {number for equation in rest for number in equation.outputs}
    wanted = read_by(rest) | {atom for atom in listing.outputs if not isinstance(atom, Literal)}
    return Split(before, rest, sorted(number for number in wanted if number in derived and number not in made))


def _may_stay(listing: Listing, equation: Equation) -> bool:
    """Whether results may be kept: not where they are much larger than what they come from."""
    if equation.primitive.name in _VIEWS:
        return True
    sizes = [listing.kinds[atom].size for atom in equation.inputs if not isinstance(atom, Literal)]
    results = sum(getattr(listing.kinds[number], "size", 0) for number in equation.outputs)
    return bool(results <= _GROWTH * sum(sizes) + _FREE_ELEMENTS)


class Derived:
    """Weights on the device and what has been computed of them, by how it is computed.

    `weights` are those of the model by name. A result is found again by its key: a primitive with its parameters and
    the keys of what it is applied to. It lives as long as a program that holds it.
    """

    def __init__(self, weights: Mapping[str, np.ndarray]) -> None:
        self._constants: dict[Hashable, np.ndarray] = dict(weights.items())
        self._keys: dict[Hashable, int] = {}
        self._arrays: MutableMapping[int, Array] = WeakValueDictionary()
        self._placed: MutableMapping[int, Array] = WeakValueDictionary()

    def add(self, value: Any) -> Hashable:
        """Keep an array that is no weight of the model; the name for it."""
        name = constant_key(value := np.asarray(value))
        self._constants.setdefault(name, value)
        return name

    def shape(self, name: Hashable) -> jax.ShapeDtypeStruct:
        """The shape and dtype of a weight."""
        value = self._constants[name]
        return jax.ShapeDtypeStruct(value.shape, value.dtype)

    def weight(self, name: Hashable) -> Array:
        """A weight as it stands in the file, on the device."""
        return self.placed(self._constants[name])

    def arrays(self, listing: Listing, names: Mapping[int, Hashable], parts: Split, allowed: Allowance) -> list[Array]:
        """The arrays for `parts.wanted`; `names` are those of the weights among the values.

        Those that are weights as they stand in the file are NumPy's still: `placed` puts them on the device.
        """
        keys = self._all_keys(listing, names, parts.before)
        found = {n: self._constants[names[n]] if n in names else self._arrays.get(keys[n]) for n in parts.wanted}
        missing = [number for number, array in found.items() if array is None]
        if missing:
            found.update(self._computed(missing, listing, names, needed(parts.before, missing), allowed))
            self._arrays.update((keys[number], found[number]) for number in missing)
        return [found[number] for number in parts.wanted]

    def placed(self, array: Array) -> Array:
        """An array on the device, once for all programs that want it."""
        if isinstance(array, jax.Array):
            return array
        found = self._placed.get(id(array))
        if found is None:
            found = self._placed[id(array)] = jax.device_put(array)
        return found

    def _computed(
        self,
        missing: list[int],
        listing: Listing,
        names: Mapping[int, Hashable],
        equations: list[Equation],
        allowed: Allowance,
    ) -> dict[int, Array]:
        read = read_by(equations)
        sources = [number for number in names if number in read]

        def prelude(inputs: list[Array]) -> list[Array]:
            values = {**listing.constants, **dict(zip(sources, inputs, strict=True))}
            computed(equations, values)
            return [values[number] for number in missing]

        inputs = [self._constants[names[number]] for number in sources]
        results = allowed.compiled(jax.jit(prelude), inputs)(inputs)
        return dict(zip(missing, results, strict=True))

    def _all_keys(self, listing: Listing, names: Mapping[int, Hashable], before: Sequence[Equation]) -> dict[int, int]:
        keys = {n: self._key(constant_key(value)) for n, value in listing.constants.items() if n not in names}
        keys.update((number, self._key(("weight", name))) for number, name in names.items())
        for equation in before:
            read = tuple(literal_key(a) if isinstance(a, Literal) else keys[a] for a in equation.inputs)
            key = (equation.primitive.name, params_key(equation), read)
            keys.update((number, self._key((key, at))) for at, number in enumerate(equation.outputs))
        return keys

    def _key(self, key: Hashable) -> int:
        return self._keys.setdefault(key, len(self._keys))
