"""Where the layers of a model stand in its tree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from singax.errors import ArgumentError
from singax.layer import tree
from singax.module import Module


@dataclass(frozen=True)
class Placed:
    """A layer: its path, its name from its parent, its class, its depth, its parent's number in the list of all, and
    the number after the last one below it.
    """

    layer: tree.Branch
    path: str
    name: str
    depth: int
    parent: int
    end: int

    @property
    def kind(self) -> str:
        """The name of the layer's class."""
        return type(self.layer).__name__


def placed(module: Module) -> list[Placed]:
    """All layers, numbered as they stand in the tree, the model itself first."""
    named, found = tree.layers(module), list[Placed]()
    for (path, layer), (parent, end) in zip(named, _ranges([layer for _, layer in named]), strict=True):
        depth = 1 + found[parent].depth if found else 0
        found.append(Placed(layer, path, _below(path, named[parent][0]), depth, parent, end))
    return found


def _below(path: str, parent: str) -> str:
    return path.removeprefix(parent).removeprefix(tree.SEPARATOR) if parent else path


def _ranges(layers: list[Any]) -> list[tuple[int, int]]:
    """For each layer its parent's number, and the number after the last one below it."""
    numbers = {id(layer): number for number, layer in enumerate(layers)}
    parents = [0] * len(layers)
    for number, layer in enumerate(layers):
        for _, value in tree.members(layer):
            child = numbers.get(id(value), 0)
            if child > number and not parents[child]:
                parents[child] = number
    ends = [number + 1 for number in range(len(layers))]
    for number in range(len(layers) - 1, 0, -1):
        ends[parents[number]] = max(ends[parents[number]], ends[number])
    return list(zip(parents, ends, strict=True))


Row = TypeVar("Row")


def row_at(rows: Sequence[Row], path: str) -> Row:
    """The first row of the layer with this path (the block inside a `Repeat` has the path of that). Raises
    `ArgumentError`, which names the paths that there are, if there is none.
    """
    found: dict[str, Row] = {}
    for row in rows:
        found.setdefault(row.path, row)  # type: ignore[attr-defined]
    if path not in found:
        raise ArgumentError(f"there is no layer {path!r}; layers: {', '.join(filter(None, found)) or 'none'}")
    return found[path]
