"""Decision trees as tables of nodes: all trees of an ensemble take a step for all rows at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from singax.errors import ArgumentError, ShapeError
from singax.sonnx.registry import NeedsHost

Array = Any

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER")
AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
_MEMBER = MODES.index("BRANCH_MEMBER")
_COMPARISONS = (jnp.less_equal, jnp.less, jnp.greater_equal, jnp.greater, jnp.equal, jnp.not_equal)
_MOST_VOTES = 1 << 26


@dataclass
class Forest:
    """Nodes by number. A leaf leads to itself; `votes` has a row for each node, `voted` says where there are votes."""

    roots: np.ndarray
    is_leaf: np.ndarray
    feature: np.ndarray
    threshold: np.ndarray
    mode: np.ndarray
    missing: np.ndarray
    true: np.ndarray
    false: np.ndarray
    votes: np.ndarray
    voted: np.ndarray
    sets: np.ndarray | None = None
    set_of: np.ndarray | None = None

    def depth(self) -> int:
        """How many steps lead to the deepest leaf. Raises `ArgumentError` if some never do."""
        steps, some = 0, np.unique(self.roots)
        if not some.size:
            raise ArgumentError("expected the root of a tree. Received: none")
        while True:
            some = some[~self.is_leaf[some]]
            if not some.size:
                return steps
            steps, some = steps + 1, np.unique(np.concatenate([self.true[some], self.false[some]]))
            if steps > len(self.true):
                raise ArgumentError("expected trees. Received: nodes that lead back to themselves")


def checked_votes(nodes: int, places: np.ndarray, targets: np.ndarray, weights: np.ndarray, count: int) -> Any:
    """A table (nodes, targets) of the sums of votes, and one of where there are any."""
    if targets.size and not 0 <= targets.min() <= targets.max() < count:
        raise ArgumentError(f"expected targets from 0 to {count - 1}. Received: {targets.min()} to {targets.max()}")
    if nodes * count > _MOST_VOTES:
        raise NeedsHost(f"a table of {nodes} nodes and {count} targets is too large")
    votes, voted = np.zeros((nodes, count), weights.dtype), np.zeros((nodes, count), bool)
    np.add.at(votes, (places, targets), weights)
    voted[places, targets] = True
    return votes, voted


def leaves(forest: Forest, x: Array) -> Array:
    """The leaf of each tree for each row of x: (N, trees)."""
    if forest.feature.size and not 0 <= forest.feature.min() <= forest.feature.max() < x.shape[1]:
        raise ShapeError(f"expected at least {forest.feature.max() + 1} features. Received shape {x.shape}")
    feature, true, false = (jnp.asarray(table) for table in (forest.feature, forest.true, forest.false))

    def step(_: Any, node: Array) -> Array:
        value = jnp.take_along_axis(x, feature[node], axis=1)
        return jnp.where(_holds(forest, node, value), true[node], false[node])

    start = jnp.broadcast_to(jnp.asarray(forest.roots), (x.shape[0], len(forest.roots)))
    return lax.fori_loop(0, forest.depth(), step, start)


def _holds(forest: Forest, node: Array, value: Array) -> Array:
    """Whether the rule of each node holds for its value."""
    threshold, inner = jnp.asarray(forest.threshold)[node], ~forest.is_leaf
    used = [int(mode) for mode in np.unique(forest.mode[inner])] or [0]
    results = [
        _member(forest, node, value) if mode == _MEMBER else _COMPARISONS[mode](value, threshold) for mode in used
    ]
    mode = jnp.asarray(forest.mode)[node] if len(used) > 1 else None
    found = results[0] if mode is None else jnp.select([mode == which for which in used], results)
    if not forest.missing.any():
        return found
    return found | (jnp.asarray(forest.missing)[node] & jnp.isnan(value))


def _member(forest: Forest, node: Array, value: Array) -> Array:
    sets, set_of = jnp.asarray(forest.sets), jnp.asarray(forest.set_of)
    return jnp.any(sets[set_of[node]] == value[..., None], axis=-1)


def aggregated(forest: Forest, leaf: Array, how: str) -> tuple[Array, Array]:
    """The votes of the leaves (N, trees) together: scores (N, targets), and which of them got a vote."""
    if how not in AGGREGATES:
        raise ArgumentError(f"expected an aggregate_function among {', '.join(AGGREGATES)}. Received: {how!r}")
    extreme = {"MIN": np.inf, "MAX": -np.inf}.get(how)
    table = jnp.asarray(forest.votes if extreme is None else np.where(forest.voted, forest.votes, extreme))
    join = {"MIN": jnp.minimum, "MAX": jnp.maximum}.get(how, jnp.add)
    start = jnp.full((leaf.shape[0], table.shape[1]), 0 if extreme is None else extreme, table.dtype)
    scores = lax.fori_loop(0, leaf.shape[1], lambda t, found: join(found, table[leaf[:, t]]), start)
    voted = _voted(forest, leaf)
    scores = scores / leaf.shape[1] if how == "AVERAGE" else scores
    return (scores if extreme is None else jnp.where(voted, scores, 0)), voted


def _voted(forest: Forest, leaf: Array) -> Array:
    """Where there is a vote; known at once if every leaf votes for every target."""
    shape = (leaf.shape[0], forest.voted.shape[1])
    if forest.voted[forest.is_leaf].all():
        return jnp.ones(shape, bool)
    table = jnp.asarray(forest.voted)
    return lax.fori_loop(0, leaf.shape[1], lambda t, found: found | table[leaf[:, t]], jnp.zeros(shape, bool))
