"""Normalisation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from random_graphs.builder import F32, Builder
from random_graphs.rules import rule
from random_graphs.tame import tame
from random_graphs.values import Value, need, rough
from random_graphs.windows import spatial

EPSILON = 0.0625
"""Large, so that rounding is not blown up where all values are nearly the same."""


def normalised(x: Value, count: int, factor: float = 2.0) -> Value:
    """What a normalisation over `count` values gives before or after a scale of at most `factor`."""
    high = factor * min(math.sqrt(count), x.bound * 8) + 2
    return rough([x], x.shapes, -high, high, factor * 8, 2 + 8 * x.bound * factor / high)


def _channels(g: Builder, count: int, bound: float = 1.0, low: float | None = None) -> Value:
    return g.weight((count,), bound=bound, low=low)


@rule("BatchNormalization", 9)
def _batch(g: Builder) -> Any:
    x = tame(g, g.pick(F32, range(2, 5), where=lambda v: v.shapes[0][1] == v.shapes[1][1]), 16)
    n = x.size(1)
    given = [x, _channels(g, n), _channels(g, n), _channels(g, n), _channels(g, n, 2.0, 0.5)]
    high = 2 * (x.bound + 1) + 1
    return g.emit("BatchNormalization", given, rough([x], x.shapes, -high, high, 2), epsilon=g.choice([None, 0.01]))


@rule("InstanceNormalization", 7)
def _instance(g: Builder) -> Any:
    x = tame(g, spatial(g), 4)
    count = max(math.prod(s[2:]) for s in x.shapes)
    need(min(math.prod(s[2:]) for s in x.shapes) > 1)
    given = [x, _channels(g, x.size(1)), _channels(g, x.size(1))]
    return g.emit("InstanceNormalization", given, normalised(x, count), epsilon=EPSILON)


@rule("LayerNormalization", 17)
def _layer(g: Builder) -> Any:
    x = tame(g, g.pick(F32, range(1, 5)), 4)
    axis = g.int(0, x.rank - 1)
    tail = [x.size(at) for at in range(axis, x.rank)]
    bias = [g.weight(tail)] if g.chance() else []
    where = None if axis == x.rank - 1 and g.chance() else g.signed(axis, x.rank)
    given = [x, g.weight(tail), *bias]
    return g.emit("LayerNormalization", given, normalised(x, math.prod(tail)), axis=where, epsilon=EPSILON)


@rule("RMSNormalization", 23)
def _rms(g: Builder) -> Any:
    x = tame(g, g.pick(F32, range(1, 5)), 4)
    axis = g.int(0, x.rank - 1)
    tail = [x.size(at) for at in range(axis, x.rank)]
    result = normalised(x, math.prod(tail))
    return g.emit("RMSNormalization", [x, g.weight(tail)], result, axis=g.signed(axis, x.rank), epsilon=EPSILON)


@rule("GroupNormalization", 21)
def _group(g: Builder) -> Any:
    x = tame(g, spatial(g), 4)
    channels = x.size(1)
    groups = g.choice([n for n in range(1, channels + 1) if channels % n == 0])
    given = [x, _channels(g, channels), _channels(g, channels)]
    count = max(math.prod(s[1:]) for s in x.shapes)
    return g.emit("GroupNormalization", given, normalised(x, count), num_groups=groups, epsilon=EPSILON)


@rule("MeanVarianceNormalization", 9)
def _mean_variance(g: Builder) -> Any:
    """Its epsilon is fixed and tiny: a pattern of known variance is added first."""
    x = tame(g, g.pick(F32, [4], where=lambda v: v.shapes[0][-1] == v.shapes[1][-1] > 1), 0.5)
    pattern = np.where(np.arange(x.size(-1)) % 2, 1.0, -1.0)
    row = g.constant(pattern, "float32")
    spread = g.emit("Add", [x, row], rough([x], x.shapes, -1.5, 1.5))
    axes = g.choice([None, [0, 2, 3], [2, 3], [3]])
    count = max(math.prod(s) for s in x.shapes)
    high = 2 * math.sqrt(count)
    return g.emit("MeanVarianceNormalization", [spread], rough([spread], x.shapes, -high, high, 8, 8), axes=axes)


@rule("LRN", 7)
def _lrn(g: Builder) -> Any:
    x = tame(g, spatial(g, ranks=(4,)), 4)
    how = {"alpha": 0.01, "beta": g.choice([0.5, 0.75]), "bias": 1.0, "size": g.choice([1, 3, 5])}
    return g.emit("LRN", [x], rough([x], x.shapes, -x.bound, x.bound, 2, 8), **how)
