"""The area under the ROC curve."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from singax.checked import integer
from singax.errors import ShapeError
from singax.metric.base import Metric
from singax.metric.inputs import binary
from singax.metric.sums import counted, kept, ratio, tally, weights_for

Array = jax.Array


class AUC(Metric):
    """The area under the ROC curve: the probability that a positive sample scores higher than a negative one.

    Σ_b positive_b (negative_below_b + negative_b / 2) / (positives · negatives) over bins b of equal width, and one
    for a score of exactly 1. Two scores in one bin count as equal: half. The result is exactly that of the scores
    rounded down to multiples of 1 / bins, and differs from that of the scores themselves by at most half the share of
    pairs, one positive and one negative, that fall into one bin. Memory does not grow with the number of samples.

    **Inputs** out: scores from 0 to 1, (N,), (N, 1), or (N, 2) for both classes; y: ids of 0 and 1, (N,) or (N, 1).
    If a score outside of 0 … 1 (or a NaN) has counted, the value is NaN: then say `from_logits=True`.

    **Args**
      bins: default 4096. More of them where most scores are close to each other.
      from_logits: whether `out` holds logits, so that the scores are their sigmoid, or softmax (default False).
      ignore_index: targets with this id do not count (default None).

    The value is NaN without a positive or without a negative sample.

    >>> import numpy as np
    >>> metric = AUC()
    >>> metric.update(np.array([0.1, 0.4, 0.35, 0.8]), np.array([0, 0, 1, 1])); float(metric)
    0.75
    """

    def __init__(self, bins: int = 4096, from_logits: bool = False, ignore_index: int | None = None) -> None:
        self.bins, self.from_logits, self.ignore_index = integer("bins", bins, 2), bool(from_logits), ignore_index
        super().__init__(positive=(bins + 1,), negative=(bins + 1,), outside=())

    def increments(self, out: Array, y: Array, *, weight: Any) -> dict[str, Any]:
        score, ids = binary(*self._scores(out, y))
        weight = kept(weights_for(weight, ids.shape), ids, self.ignore_index)
        score = score.astype(jnp.promote_types(score.dtype, jnp.float32))
        score = jax.nn.sigmoid(score) if self.from_logits else score
        inside = (score >= 0) & (score <= 1)
        places = jnp.where(inside, score * self.bins, -1).astype(jnp.int32)
        return {
            "positive": tally(jnp.where(ids == 1, places, -1), weight, self.bins + 1),
            "negative": tally(jnp.where(ids == 0, places, -1), weight, self.bins + 1),
            "outside": counted(~inside, weight),
        }

    def _scores(self, out: Array, y: Array) -> tuple[Array, Array]:
        """Scores of class 1, from those of both classes if there are two."""
        if out.ndim < 1:
            raise ShapeError(f"expected scores (N,), (N, 1) or (N, 2). Received shape {out.shape}")
        if out.shape[-1] != 2 or y.shape == out.shape:
            return out, y
        y = y[..., 0] if y.shape == (*out.shape[:-1], 1) else y
        return (out[..., 1] - out[..., 0] if self.from_logits else out[..., 1]), y

    def value(self, sums: dict[str, Any], xp: Any) -> Any:
        positive, negative = sums["positive"], sums["negative"]
        below = xp.cumsum(negative) - negative
        area = (positive * (below + negative / 2)).sum()
        found = ratio(area, positive.sum() * negative.sum(), xp)
        return xp.where(sums["outside"] == 0, found, float("nan"))
