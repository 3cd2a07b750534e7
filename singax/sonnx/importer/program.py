"""From a function of values and weights to one compiled program that holds its weights."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Mapping, MutableMapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import Literal

from singax.sonnx.importer.budget import Allowance
from singax.sonnx.importer.layout import ChannelsLast, convolves
from singax.sonnx.importer.listing import Array, Listing, computed, constant_key, listed, read_by, structure
from singax.sonnx.importer.prelude import Derived, Split, split

MOST_ARRAYS = 256
"""Above this number small weights are packed into one array per dtype: XLA compiles slowly with more arguments."""
_SMALL_ELEMENTS = 4096

Function = Callable[[list[Any], Any, dict[str, Array]], Any]


class Compiled:
    """A compiled program without its weights. Parts of a graph that compute the same of their arguments share one."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.call = jax.jit(function, compiler_options=_options(jax.default_backend()))


Shared = MutableMapping[Hashable, Compiled]


class Program:
    """`function(given, key, weights)` compiled for values like these; `program(given, key)` runs it.

    The key is made only for a program that draws. Raises `ModelFileError` for a program that takes more memory than is
    `allowed`: for its values before anything is computed or compiled.
    """

    def __init__(
        self,
        function: Function,
        given: list[Any],
        key: Any,
        weights: Derived,
        names: Sequence[str],
        others: Shared,
        allowed: Allowance,
    ) -> None:
        shapes = {name: weights.shape(name) for name in names}
        closed, results = jax.make_jaxpr(function, return_shape=True)(given, key, shapes)
        allowed.check_values(closed, given, key, shapes)
        listing = _laid_out(listed(closed))
        count = len(jax.tree.leaves(given))
        self._inputs, self._key = listing.inputs[:count], listing.inputs[count]
        self._results = jax.tree.structure(results)
        named: dict[int, Hashable] = dict(zip(listing.inputs[count + 1 :], sorted(names), strict=True))
        named |= {number: weights.add(value) for number, value in listing.constants.items() if _is_weight(value)}
        parts = split(listing, set(named))
        self.draws = self._key in read_by(parts.rest)
        arrays, unpack = packed(weights.arrays(listing, named, parts, allowed))
        self._constants = [weights.placed(array) for array in arrays]
        same = _same(listing, parts, listing.inputs[: count + 1], named)
        found = others.get(same)
        self.is_new = found is None
        if found is None:
            found = Compiled(self._function(listing, parts, unpack))
            allowed.compiled(found.call, *self._arguments(given, lambda: key))
        self._compiled = others.setdefault(same, found)

    def _function(self, listing: Listing, parts: Split, unpack: Callable[[list[Array]], list[Array]]) -> Any:
        inputs, outputs, constants = (*self._inputs, self._key), listing.outputs, listing.constants

        def program(given: list[Array], key: Any, kept: list[Array]) -> list[Array]:
            values = dict(constants)
            values.update(zip(inputs, (*given, key), strict=True))
            values.update(zip(parts.wanted, unpack(kept), strict=True))
            computed(parts.rest, values)
            return [atom.val if isinstance(atom, Literal) else values[atom] for atom in outputs]

        return program

    def __call__(self, given: list[Any], key: Callable[[], Any]) -> Any:
        """Run the program on the values that it was made for."""
        flat = self._compiled.call(*self._arguments(given, key))
        return jax.tree.unflatten(self._results, flat)

    def _arguments(self, given: list[Any], key: Callable[[], Any]) -> tuple[Any, ...]:
        return jax.tree.leaves(given), key() if self.draws else None, self._constants


def _laid_out(listing: Listing) -> Listing:
    """The program with the channels of images last, on CPU."""
    if jax.default_backend() != "cpu" or not convolves(listing):
        return listing

    def program(*inputs: Array) -> list[Array]:
        lying = ChannelsLast(listing, {**listing.constants, **dict(zip(listing.inputs, inputs, strict=True))})
        lying.run(listing.equations)
        return [lying.plain(atom) for atom in listing.outputs]

    shapes = [jax.ShapeDtypeStruct(kind.shape, kind.dtype) for kind in map(listing.kinds.__getitem__, listing.inputs)]
    return listed(jax.make_jaxpr(program)(*shapes))


def _same(listing: Listing, parts: Split, inputs: Sequence[int], named: Mapping[int, Hashable]) -> Hashable:
    """A key that programs share which compute the same of their inputs and weights."""
    rest = [number for number in listing.constants if number not in named]
    values = tuple(constant_key(listing.constants[number]) for number in rest)
    return structure(listing, parts.rest, (*inputs, *parts.wanted, *rest)), values


@functools.cache
def _options(backend: str) -> dict[str, Any] | None:
    """Options of XLA's compiler, where it has them.

    On CPU products of matrices stay with Eigen: XLA's YNNPACK took 1.2 to 1.5 times the processor time in small
    transformers (two busy cores).
    """
    if backend != "cpu":
        return None
    options = {"xla_cpu_experimental_ynn_fusion_type": ""}
    try:
        jax.jit(lambda x: x, compiler_options=options).lower(np.float32(0)).compile()
    except (RuntimeError, ValueError):  # another version of XLA
        return None
    return options


def _is_weight(value: Any) -> bool:
    return value.ndim > 0 and (bool(jnp.issubdtype(value.dtype, jnp.inexact)) or value.size > _SMALL_ELEMENTS)


def packed(arrays: list[Array]) -> tuple[list[Array], Callable[[list[Array]], list[Array]]]:
    """The arrays, small ones joined if there are many, and what takes them apart again inside a program."""
    if len(arrays) <= MOST_ARRAYS:
        return arrays, lambda kept: kept
    groups: dict[np.dtype, list[int]] = {}
    for at, array in enumerate(arrays):
        if array.size <= _SMALL_ELEMENTS and not jnp.issubdtype(array.dtype, jax.dtypes.extended):
            groups.setdefault(array.dtype, []).append(at)
    joined = {at for group in groups.values() for at in group}
    large = [at for at in range(len(arrays)) if at not in joined]
    buffers = [jax.device_put(np.concatenate([np.ravel(arrays[at]) for at in group])) for group in groups.values()]
    shapes = [array.shape for array in arrays]

    def unpack(kept: list[Array]) -> list[Array]:
        found: dict[int, Array] = dict(zip(large, kept[len(groups) :], strict=True))
        for group, buffer in zip(groups.values(), kept, strict=False):
            sizes = [int(np.prod(shapes[at])) for at in group]
            parts = lax.split(buffer, sizes)
            found.update((at, part.reshape(shapes[at])) for at, part in zip(group, parts, strict=True))
        return [found[at] for at in range(len(shapes))]

    return [*buffers, *(arrays[at] for at in large)], unpack
