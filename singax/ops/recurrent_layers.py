"""Recurrent layers on top of one another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from singax.ops.dropout import dropout as drop
from singax.ops.operation import Operation
from singax.ops.shape import cat, reshape, transpose

Array = jax.Array
Weights = tuple[Array, Array, Array | None]


def run_layers(
    operation: Operation,
    x: Array,
    weights: Sequence[Weights],
    states: Sequence[Array | None],
    seq_lengths: Array | None = None,
    key: Array | None = None,
    *,
    dropout: float = 0.0,
    **attributes: Any,
) -> tuple[Array, list[Array]]:
    """Run `operation` once for each (W, R, b) of `weights`, each layer reading the outputs of the one before.

    x (T, B, in); each state (L · D, B, H), the directions of a layer side by side, or None → the last layer's outputs
    (T, B, D · H), and the last states. With a `key`, `dropout` falls on what goes from one layer to the next.
    """
    finals = []
    for number, (W, R, b) in enumerate(weights):
        if number and key is not None and dropout:
            x = drop(x, jax.random.fold_in(key, number), ratio=dropout)
        D = W.shape[0]
        first = [None if state is None else state[number * D : (number + 1) * D] for state in states]
        every, *last = operation(x, W, R, b, seq_lengths, *first, **attributes)
        x = reshape(transpose(every, perm=(0, 2, 1, 3)), shape=(*x.shape[:2], -1))
        finals.append(last)
    return x, [cat(kind, axis=0) for kind in zip(*finals, strict=True)]
