"""Losses, attention, and further operators over classes or words."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from random_graphs.builder import F32, Builder
from random_graphs.rules import rule
from random_graphs.tame import tame
from random_graphs.values import Shapes, Value, need, rough


def _labels(g: Builder, x: Value) -> Value:
    shape = [x.size(0), *(x.size(at) for at in range(2, x.rank))]
    return g.ints(np.reshape([g.int(0, x.size(1) - 1) for _ in range(math.prod(shape))], shape))


def _loss_shapes(x: Value, reduction: str) -> Shapes:
    return x.mapped(lambda s: [s[0], *s[2:]] if reduction == "none" else [])


def _loss(name: str, since: int) -> None:
    @rule(name, since)
    def make(g: Builder) -> Any:
        x = tame(g, g.pick(F32, range(2, 5)), 8)
        need(x.fixed)
        reduction = g.choice(["none", "mean", "sum"])
        weights = [g.weight((x.size(1),), bound=2.0, low=0.5)] if g.chance(0.4) else []
        count = 1 if reduction != "sum" else x.count()
        high = (2 * x.bound + math.log(x.count()) + 1) * 2 * count
        result = rough([x], _loss_shapes(x, reduction), -high, high, 4 * count, 8)
        ignore = {"ignore_index": 0} if g.chance(0.3) and reduction != "mean" else {}
        more: list[Value] = []
        if name == "SoftmaxCrossEntropyLoss" and g.chance():
            more.append(rough([x], x.shapes, -2 * x.bound - 8, 0, 2, 8))
        given = [x, _labels(g, x), *weights]
        return g.emit_all(name, given, result, *more, reduction=reduction, **ignore)


_loss("SoftmaxCrossEntropyLoss", 12)
_loss("NegativeLogLikelihoodLoss", 12)


@rule("TfIdfVectorizer", 9)
def _words(g: Builder) -> Any:
    x = g.pick(["int64", "int32"], [1, 2], where=lambda v: v.low >= 0)
    length = x.shapes[0][-1]
    need(x.shapes[0][-1] == x.shapes[1][-1])
    how = {"min_gram_length": 1, "max_gram_length": 2, "max_skip_count": 0, "mode": g.choice(["TF", "IDF", "TFIDF"])}
    pool = {"ngram_counts": [0, 3], "ngram_indexes": [0, 1, 2, 3], "pool_int64s": [0, 1, 2, 1, 2]}
    weights = {"weights": [0.5, 1.0, 2.0, 0.25]}
    shapes = x.mapped(lambda s: [*s[:-1], 4])
    return g.emit("TfIdfVectorizer", [x], Value("", "float32", shapes, 0, 2 * length, 2), **how, **pool, **weights)


@rule("RotaryEmbedding", 23)
def _rotary(g: Builder) -> Any:
    even = lambda v: v.fixed and v.shapes[0][3] % 2 == 0  # noqa: E731
    x = tame(g, g.pick(F32, [4], where=even), 8)
    batch, _, length, width = x.shape
    tables = [g.weight((length, width // 2)) for _ in range(2)]
    places = g.ints(np.reshape([g.int(0, length - 1) for _ in range(batch * length)], (batch, length)))
    result = rough([x], x.shapes, -2 * x.bound, 2 * x.bound, 2, 4)
    return g.emit("RotaryEmbedding", [x, *tables, places], result, interleaved=g.int(0, 1))


@rule("Attention", 23)
def _attention(g: Builder) -> Any:
    query = tame(g, g.pick(F32, [4]), 4)
    batch, heads, _, width = query.shape
    length = g.int(1, 3)
    keys, values = (g.weight((batch, heads, length, width)) for _ in range(2))
    result = rough([query], query.shapes, -1.01, 1.01, width, 16)
    return g.emit("Attention", [query, keys, values], result, is_causal=g.int(0, 1) if length >= 3 else None)
