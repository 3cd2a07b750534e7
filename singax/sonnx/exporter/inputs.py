"""The inputs of an export: their names, dtypes, and which of their sizes stay unknown."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

from singax.arguments import batch_of, open_size
from singax.errors import ArgumentError
from singax.sonnx.exporter.names import Names
from singax.sonnx.exporter.symbolic import Dim, Size
from singax.tensor import Tensor


@dataclass(frozen=True)
class Input:
    """An input of the graph; a size is an int, or the name of a symbol."""

    name: str
    shape: tuple[int | str, ...]
    dtype: np.dtype

    def aval(self, sizes: Mapping[str, int]) -> jax.ShapeDtypeStruct:
        """The input with numbers for the symbols."""
        return jax.ShapeDtypeStruct([sizes[n] if isinstance(n, str) else n for n in self.shape], self.dtype)

    def sizes(self, symbols: Mapping[str, Dim]) -> tuple[Size, ...]:
        """The sizes as they are in all traces."""
        return tuple(symbols[n] if isinstance(n, str) else n for n in self.shape)


@dataclass(frozen=True)
class Arguments:
    """What a forward is called with: arrays, as `inputs`, in a tree with everything else."""

    inputs: list[Input]
    leaves: list[Any]
    tree: Any

    @property
    def symbols(self) -> list[str]:
        """The names of the unknown sizes."""
        return list(dict.fromkeys(n for given in self.inputs for n in given.shape if isinstance(n, str)))

    def apart_from(self, paths: Collection[str]) -> Arguments:
        """The same, with other names for inputs that are called like a parameter: its name is its path."""
        names = Names()
        for path in paths:
            names.take(path)
        return replace(self, inputs=[replace(one, name=names.take(one.name)) for one in self.inputs])

    def filled(self, arrays: Sequence[Any]) -> Any:
        """The arguments with these arrays."""
        values = iter(arrays)
        return jax.tree.unflatten(self.tree, [next(values) if is_array(leaf) else leaf for leaf in self.leaves])


def is_array(value: Any) -> bool:
    """Whether an argument becomes an input of the graph."""
    return isinstance(value, Tensor | jax.Array | np.ndarray | np.generic | jax.ShapeDtypeStruct)


def arguments(
    function: Callable[..., Any],
    inputs: Sequence[Any],
    dynamic_batch: bool,
    dynamic_axes: Mapping[str, Mapping[int, str]] | None,
    input_names: Sequence[str] | None,
) -> Arguments:
    """`inputs` as arguments of `function`, named like its parameters."""
    if not isinstance(inputs, list | tuple):
        raise ArgumentError(f"inputs must be a list with one entry per argument. Received: {type(inputs).__name__}")
    leaves, tree = jax.tree.flatten(tuple(inputs), is_leaf=is_array)
    arrays = [leaf for leaf in leaves if is_array(leaf)]
    names = list(input_names) if input_names is not None else _names(function, inputs)
    if len(names) != len(arrays) or len(set(names)) != len(names):
        raise ArgumentError(f"expected {len(arrays)} different input names. Received: {names}")
    batch = batch_of(arrays) if dynamic_batch else None
    named = {name: dict(axes) for name, axes in (dynamic_axes or {}).items()}
    if set(named) - set(names):
        raise ArgumentError(f"dynamic_axes names the inputs {sorted(named)}; there are {names}")
    found = [_input(name, leaf, named.get(name, {}), batch) for name, leaf in zip(names, arrays, strict=True)]
    return Arguments(found, leaves, tree)


def _input(name: str, leaf: Any, axes: Mapping[int, str], batch: int | None) -> Input:
    shape = [axes[axis] if axis in axes else open_size(n, axis, batch) for axis, n in enumerate(leaf.shape)]
    return Input(name, tuple(shape), np.dtype(jax.dtypes.canonicalize_dtype(leaf.dtype)))


def _names(function: Callable[..., Any], inputs: Sequence[Any]) -> list[str]:
    found: list[str] = []
    for name, value in zip(_parameters(function, len(inputs)), inputs, strict=True):
        count = sum(map(is_array, jax.tree.leaves(value, is_leaf=is_array)))
        found += [name] if count == 1 else [f"{name}_{k}" for k in range(count)]
    return found


def _parameters(function: Callable[..., Any], count: int) -> list[str]:
    """The names of the first `count` positional parameters; `input_<n>` for those without a name."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)][:count]
    return names + [f"input_{k}" for k in range(len(names), count)]
