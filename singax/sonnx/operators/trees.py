"""Tree ensembles of ai.onnx.ml: their attributes as a `Forest`, and what becomes of its scores."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from singax.errors import ArgumentError
from singax.sonnx.operators.forest import AGGREGATES, MODES, Forest, aggregated, checked_votes, leaves
from singax.sonnx.operators.scores import DOMAIN, labelled, labels_of, rows, transform_of, transformed, two_sided
from singax.sonnx.registry import Call, onnx_operator

Array = Any


@onnx_operator("TreeEnsembleRegressor", domain=DOMAIN)
def tree_ensemble_regressor(call: Call, x: Array) -> Array:
    """The votes of the leaves that each row reaches, added or averaged, their smallest or largest."""
    count = call.attribute("n_targets", 1)
    forest, x = _numbered(call, "target", count), rows(x)
    scores, _ = aggregated(forest, leaves(forest, x), call.attribute("aggregate_function", "SUM"))
    base = _floats(call, "base_values")
    scores = scores + base if base is not None and len(base) in (1, count) else scores
    return transformed(scores, transform_of(call)).astype(np.float32)


@onnx_operator("TreeEnsemble", domain=DOMAIN)
def tree_ensemble(call: Call, x: Array) -> Array:
    """As TreeEnsembleRegressor, with leaves apart from inner nodes, and rules that ask for membership of sets."""
    forest, x = _by_place(call), rows(x)
    scores, _ = aggregated(forest, leaves(forest, x), AGGREGATES[call.attribute("aggregate_function", 1)])
    return transformed(scores, transform_of(call)).astype(x.dtype)


@onnx_operator("TreeEnsembleClassifier", domain=DOMAIN)
def tree_ensemble_classifier(call: Call, x: Array) -> tuple[Array, Array]:
    """The label of the class with the most votes, and the scores (N, classes)."""
    labels, strings = labels_of(call, "classlabels_int64s")
    forest, base = _numbered(call, "class", max(len(labels), 1)), _floats(call, "base_values")
    scores, voted = aggregated(forest, leaves(forest, rows(x)), "SUM")
    name = transform_of(call)
    if len(labels) == 2:
        places, scores = _of_two(call, forest, scores, base, name)
    else:
        scores = scores if base is None else scores + base
        voted = voted if base is None else jnp.ones_like(voted)
        places, scores = jnp.argmax(jnp.where(voted, scores, -jnp.inf), axis=1), transformed(scores, name)
    if len(labels) == 1:
        places, labels = (scores[:, 0] > 0).astype(np.int64), [0, 1]
    return labelled(x, places, labels, strings), scores.astype(np.float32)


def _of_two(call: Call, forest: Forest, scores: Array, base: np.ndarray | None, name: str) -> tuple[Array, Array]:
    """Places and scores for two classes. Where all leaves vote for one of them, its score is compared with a limit."""
    voted_for = np.unique(call.attribute("class_ids"))
    added = np.zeros(1, np.float32) if base is None else base
    if len(voted_for) == 2:
        scores = scores + added
        return jnp.argmax(scores, axis=1), transformed(scores, name)
    positive = bool((forest.votes >= 0).all())
    score = scores[:, voted_for[0]] + added[-1]
    places = (score > (0.5 if positive else 0)).astype(np.int64)
    if voted_for[0] == 0:
        return places, two_sided(score, name, positive)
    return places, transformed(jnp.stack([scores[:, 0], score], axis=1), name)


def _floats(call: Call, name: str) -> np.ndarray | None:
    """An attribute of floats, or of doubles in a tensor."""
    tensor = call.attribute(f"{name}_as_tensor")
    if tensor is not None and np.size(tensor):
        return np.asarray(tensor).reshape(-1)
    values = call.attribute(name)
    return None if values is None or not len(values) else np.asarray(values, np.float32)


def _ints(call: Call, name: str, count: int | None = None) -> np.ndarray:
    values = np.asarray(call.attribute(name) or [], np.int64)
    if count is not None and not values.size:
        values = np.zeros(count, np.int64)
    if count is not None and len(values) != count:
        raise ArgumentError(f"expected {count} entries in {name}. Received: {len(values)}")
    return values


def _numbered(call: Call, kind: str, targets: int) -> Forest:
    """The forest of the operators before ai.onnx.ml 5: nodes have the numbers of their tree and in it."""
    trees = _ints(call, "nodes_treeids")
    count = len(trees)
    numbers = _ints(call, "nodes_nodeids", count)
    find = _Places(trees, numbers)
    names = np.asarray(call.attribute("nodes_modes"))
    inner = names != "LEAF"
    unknown = set(names[inner]) - set(MODES)
    if unknown or len(names) != count:
        raise ArgumentError(f"expected {count} nodes_modes among LEAF, {', '.join(MODES)}. Received: {sorted(unknown)}")
    true, false = np.arange(count), np.arange(count)
    for table, name in ((true, "nodes_truenodeids"), (false, "nodes_falsenodeids")):
        table[inner] = find(trees[inner], _ints(call, name, count)[inner])
    weights = _floats(call, f"{kind}_weights")
    weights = np.zeros(0, np.float32) if weights is None else weights
    places = find(_ints(call, f"{kind}_treeids", len(weights)), _ints(call, f"{kind}_nodeids", len(weights)))
    votes, voted = checked_votes(count, places, _ints(call, f"{kind}_ids", len(weights)), weights, targets)
    threshold = _floats(call, "nodes_values")
    return Forest(
        roots=np.setdiff1d(np.arange(count), np.concatenate([true[inner], false[inner]])),
        is_leaf=~inner,
        feature=np.where(inner, _ints(call, "nodes_featureids", count), 0),
        threshold=np.zeros(count, np.float32) if threshold is None else threshold,
        mode=np.asarray([MODES.index(name) if name != "LEAF" else 0 for name in names]),
        missing=_ints(call, "nodes_missing_value_tracks_true", count) != 0,
        true=true,
        false=false,
        votes=votes,
        voted=voted,
    )


class _Places:
    """Finds nodes by the numbers of their tree and in it."""

    def __init__(self, trees: np.ndarray, numbers: np.ndarray) -> None:
        self.known = np.unique(trees)
        self.span = int(numbers.max(initial=0)) + 1
        keys = np.searchsorted(self.known, trees) * self.span + numbers
        self.order = np.argsort(keys, kind="stable")
        self.keys = keys[self.order]
        if (np.diff(self.keys) == 0).any():
            raise ArgumentError("expected every node once. Received: two nodes with one number in one tree")

    def __call__(self, trees: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        wanted = np.searchsorted(self.known, trees) * self.span + numbers
        at = np.minimum(np.searchsorted(self.keys, wanted), max(len(self.keys) - 1, 0))
        inside = np.isin(trees, self.known) & (numbers >= 0) & (numbers < self.span)
        if not (inside & (self.keys[at] == wanted) if len(self.keys) else inside).all():
            raise ArgumentError("expected the numbers of nodes. Received: one that no node has")
        return self.order[at]


def _by_place(call: Call) -> Forest:
    """The forest of TreeEnsemble: inner nodes first, then leaves."""
    mode = np.asarray(call.attribute("nodes_modes")).astype(np.int64).reshape(-1)
    weights = np.asarray(call.attribute("leaf_weights")).reshape(-1)
    count, ends = len(mode), len(weights)
    feature = _ints(call, "nodes_featureids", count)
    if mode.size and not 0 <= mode.min() <= mode.max() < len(MODES):
        raise ArgumentError(f"expected nodes_modes from 0 to {len(MODES) - 1}. Received: {mode.min()} to {mode.max()}")
    stay = np.arange(count, count + ends)
    branches = [_branch(call, side, count, ends) for side in ("true", "false")]
    votes, voted = checked_votes(
        count + ends, stay, _ints(call, "leaf_targetids", ends), weights, call.attribute("n_targets", 1)
    )
    pad = np.zeros(ends, np.int64)
    roots = _ints(call, "tree_roots")
    if roots.size and not 0 <= roots.min() <= roots.max() < count:
        raise ArgumentError(f"expected tree_roots from 0 to {count - 1}. Received: {roots.min()} to {roots.max()}")
    sets, set_of = _sets(call, mode)
    return Forest(
        roots=roots,
        is_leaf=np.arange(count + ends) >= count,
        feature=np.concatenate([feature, pad]),
        threshold=np.concatenate([np.asarray(call.attribute("nodes_splits")).reshape(-1), pad.astype(weights.dtype)]),
        mode=np.concatenate([mode, pad]),
        missing=np.concatenate([_ints(call, "nodes_missing_value_tracks_true", count), pad]) != 0,
        true=np.concatenate([branches[0], stay]),
        false=np.concatenate([branches[1], stay]),
        votes=votes,
        voted=voted,
        sets=sets,
        set_of=np.concatenate([set_of, pad]),
    )


def _branch(call: Call, side: str, count: int, ends: int) -> np.ndarray:
    places, to_leaf = _ints(call, f"nodes_{side}nodeids", count), _ints(call, f"nodes_{side}leafs", count) != 0
    if ((places < 0) | (places >= np.where(to_leaf, ends, count))).any():
        raise ArgumentError(f"expected nodes_{side}nodeids of {count} nodes and {ends} leaves. Received: one beyond")
    return places + count * to_leaf


def _sets(call: Call, mode: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The sets of the nodes that ask for membership, filled up with NaN, and which node has which."""
    asks = mode == MODES.index("BRANCH_MEMBER")
    values = np.asarray(call.attribute("membership_values", np.zeros(0, np.float32))).reshape(-1)
    ends = np.flatnonzero(np.isnan(values))
    if len(ends) < asks.sum():
        raise ArgumentError(f"expected {asks.sum()} sets that end with NaN in membership_values. Received: {len(ends)}")
    groups = np.split(values, ends + 1)[: max(len(ends), 1)]
    sets = np.full((len(groups), max(max(map(len, groups)), 1)), np.nan, values.dtype)
    for row, group in zip(sets, groups, strict=True):
        row[: len(group)] = group
    return sets, np.where(asks, np.cumsum(asks) - 1, 0)
