"""Finding the node that makes a value too large: a program is traced again, each node apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from singax.sonnx.importer.budget import largest, refuse
from singax.sonnx.importer.evaluate import Evaluator, Scope
from singax.sonnx.importer.graph import Node, subgraphs


class Auditor(Evaluator):
    """Raises for the first node that makes a value above the limit, also where it is none of its results."""

    def _computed(self, node: Node, inputs: list[Any], scope: Scope, opsets: Mapping[str, int]) -> Sequence[Any]:
        compute: Callable[[], Sequence[Any]] = lambda: super(Auditor, self)._computed(node, inputs, scope, opsets)  # noqa: E731
        if not subgraphs(node):
            self.checks, checks = None, self.checks
            found = largest(jax.make_jaxpr(lambda: _arrays(compute()))())
            self.checks = checks
            if found > self.budget.most:
                refuse(node.where, self.budget.most, f"{found} for a value on the way to its results")
        return compute()


def _arrays(values: Any) -> list[Any]:
    leaves = jax.tree.leaves(values)
    return [leaf for leaf in leaves if isinstance(leaf, jax.Array | np.ndarray) and leaf.dtype != object]
