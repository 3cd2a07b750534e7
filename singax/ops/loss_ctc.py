"""Connectionist temporal classification (Graves et al. 2006).

The forward recursion runs over the labels with a blank before, between and after them: from one frame to the next a
path stays, moves on by one, or by two where it skips a blank between two different labels. log 0 is a large negative
number, not −infinity, whose differences would be NaN in the gradient.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from singax.errors import ArgumentError, DTypeError, ShapeError
from singax.ops.loss_arguments import check_options, reduced, wide
from singax.ops.operation import operation

Array = jax.Array

_NEVER = -1e30
_IMPOSSIBLE = -1e29


@operation(None)
def ctc_loss(
    x: Array,
    labels: Array,
    input_lengths: Array | None = None,
    label_lengths: Array | None = None,
    *,
    blank: int = 0,
    zero_infinity: bool = False,
    reduction: str = "mean",
) -> Array:
    """−log of the probability of all alignments of `labels` with the frames of x: (N, T, C) and (N, S) → (1,).

    **Shapes** x: logits or log-probabilities (N, T, C) (`log_softmax` changes nothing about the latter). labels: class
    ids (N, S). input_lengths, label_lengths: (N,), how many frames and labels of each sample count, from the front
    (default: all; more than T or S are T and S, fewer than 0 are 0). What lies behind them does not matter.

    **Args**
      blank: the class of the blank, from 0 to C − 1 (default 0).
      zero_infinity: see below (default False).
      reduction: "mean": each loss divided by its number of labels (at least 1), then the mean of the samples, as in
        PyTorch; "sum"; or "none": (N,).

    An alignment is impossible when there are fewer frames than labels plus repeated neighbours: the loss is infinite
    then, or 0 with `zero_infinity=True`; its gradient is 0 in both cases. A label that is the blank or outside
    0 … C − 1 gives NaN.

    **Raises** `ShapeError`, `DTypeError` and `ArgumentError` for what is not described here.
    """
    check_options(blank=blank, zero_infinity=zero_infinity, reduction=reduction)
    logs, labels, frames, counts = _inputs(x, labels, input_lengths, label_lengths, blank)
    extended = _with_blanks(labels, blank)
    emissions = jnp.take_along_axis(logs, extended[:, None, :], axis=-1, mode="clip")
    last = _last_scores(emissions, _may_skip(extended, blank), frames)
    likelihood = _total(last, counts)
    terms = jnp.where(likelihood > _IMPOSSIBLE, -likelihood, 0 if zero_infinity else jnp.inf)
    terms = jnp.where(_has_bad_label(labels, counts, blank, logs.shape[-1]), jnp.nan, terms)
    return reduced(terms / jnp.maximum(counts, 1) if reduction == "mean" else terms, reduction)


def _inputs(x: Any, labels: Any, frames: Any, counts: Any, blank: int) -> tuple[Array, Array, Array, Array]:
    """Log-probabilities, labels and both lengths as integers."""
    x, labels = wide(x), jnp.asarray(labels)
    if x.ndim != 3 or labels.ndim != 2 or x.shape[0] != labels.shape[0]:
        raise ShapeError(f"expected logits (N, T, C) and labels (N, S). Received: {x.shape} and {labels.shape}")
    if not 0 <= blank < x.shape[2]:
        raise ArgumentError(f"blank must be a class from 0 to {x.shape[2] - 1}. Received: {blank}")
    frames = _lengths(frames, x)
    x = jnp.where((jnp.arange(x.shape[1]) < frames[:, None])[..., None], x, 0)
    logs = jnp.maximum(jax.nn.log_softmax(x, axis=-1), _NEVER)
    return logs, _integers(labels), frames, _lengths(counts, labels)


def _integers(values: Array) -> Array:
    if jnp.issubdtype(values.dtype, jnp.complexfloating):
        raise DTypeError(f"expected labels and lengths of real numbers. Received dtype {values.dtype}")
    return values.astype(jnp.int32)


def _lengths(lengths: Any, of: Array) -> Array:
    if lengths is None:
        return jnp.full(of.shape[:1], of.shape[1], jnp.int32)
    lengths = jnp.asarray(lengths)
    if lengths.shape != of.shape[:1]:
        raise ShapeError(f"expected a length for each of {of.shape[0]} samples. Received shape {lengths.shape}")
    return jnp.clip(_integers(lengths), 0, of.shape[1])


def _with_blanks(labels: Array, blank: int) -> Array:
    """(N, S) → (N, 2 S + 1): blanks at the even places."""
    extended = jnp.full((labels.shape[0], 2 * labels.shape[1] + 1), blank, labels.dtype)
    return extended.at[:, 1::2].set(labels)


def _may_skip(extended: Array, blank: int) -> Array:
    """Where a path may come from two places before: onto a label that differs from the label before it."""
    different = (extended[:, 2:] != blank) & (extended[:, 2:] != extended[:, :-2])
    return jnp.pad(different, ((0, 0), (2, 0)))


def _last_scores(emissions: Array, may_skip: Array, frames: Array) -> Array:
    """log of the probability to be at each place (N, 2 S + 1) after the last frame that counts."""
    start = jnp.full(emissions.shape[::2], _NEVER, emissions.dtype).at[:, 0].set(0)

    def advance(scores: Array, frame: tuple[Array, Array]) -> tuple[Array, None]:
        emission, number = frame
        by_one = _shifted(scores, 1)
        by_two = jnp.where(may_skip, _shifted(scores, 2), _NEVER)
        # Before the first frame all paths stand at place 0, from where they may also go to the first label.
        moved = jnp.logaddexp(jnp.logaddexp(scores, by_one), by_two) + emission
        return jnp.where((number < frames)[:, None], moved, scores), None

    numbers = jnp.arange(emissions.shape[1])
    return lax.scan(advance, start, (jnp.swapaxes(emissions, 0, 1), numbers))[0]


def _shifted(scores: Array, by: int) -> Array:
    return jnp.pad(scores, ((0, 0), (by, 0)), constant_values=_NEVER)[:, : scores.shape[1]]


def _total(scores: Array, counts: Array) -> Array:
    """A path ends on its last label or on the blank after it."""
    ends = 2 * counts[:, None] - jnp.asarray([0, 1])
    found = jnp.take_along_axis(scores, jnp.maximum(ends, 0), axis=1)
    return jnp.logaddexp(found[:, 0], jnp.where(counts > 0, found[:, 1], _NEVER))


def _has_bad_label(labels: Array, counts: Array, blank: int, classes: int) -> Array:
    bad = (labels < 0) | (labels >= classes) | (labels == blank)
    return jnp.any(bad & (jnp.arange(labels.shape[1]) < counts[:, None]), axis=1)
