"""Random nodes with a seed in training: a sequence that the seed decides, not the same values each time."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Any

import jax
import numpy as np

from singax.sonnx.importer.graph import Model, Node, subgraphs


def has_seeds(model: Model) -> bool:
    """Whether a node anywhere in the model has a seed."""
    bodies = [model.graph.nodes, *(function.nodes for function in model.functions.values())]
    return any("seed" in node.attributes for nodes in bodies for node in _all(nodes))


def _all(nodes: Iterable[Node]) -> Iterable[Node]:
    for node in nodes:
        yield node
        for graph in subgraphs(node):
            yield from _all(graph.nodes)


def numbered(key: jax.Array, node: Node, count: Any) -> jax.Array:
    """The key of the draw number `count` of a node: others with the same seed draw other values."""
    place = np.uint32(zlib.crc32(next(filter(None, node.outputs), "").encode()))
    return jax.random.fold_in(jax.random.fold_in(key, place), count)
