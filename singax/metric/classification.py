"""Accuracy, top-k accuracy and the confusion matrix."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from singax.checked import integer
from singax.errors import ShapeError
from singax.metric.base import Metric
from singax.metric.inputs import predicted_and_right, target_ids
from singax.metric.sums import counted, kept, ratio, tally, weights_for
from singax.ops.checks import one_of

Array = jax.Array


class Classification(Metric):
    """Base of metrics that compare a predicted class with the right one."""

    def __init__(self, axis: int, threshold: float | None, ignore_index: int | None, **sums: tuple[int, ...]) -> None:
        super().__init__(**sums)
        self.axis, self.threshold, self.ignore_index = axis, threshold, ignore_index

    def ids(self, out: Array, y: Array, weight: Any) -> tuple[Array, Array, Array | None]:
        """(predicted ids, right ids, their weights)."""
        found, right = predicted_and_right(out, y, self.axis, self.threshold)
        return found, right, kept(weights_for(weight, right.shape), right, self.ignore_index)


class Accuracy(Classification):
    """The share of samples whose predicted class is the right one.

    **Inputs** out: logits or probabilities, classes along `axis` (the largest is predicted, the first of equal ones),
    or predicted ids as integers; y: ids without the class axis or with 1 there, or one-hot. With a `threshold`: binary
    scores and ids of 0 and 1 of equal shape, (N,) or (N, 1) or several labels for each sample. weight: for samples.

    **Args**
      axis: where the classes are (default −1).
      threshold: a score above it means class 1: 0.5 for probabilities, 0 for logits (default None: several classes).
      ignore_index: targets with this id do not count (default None).

    >>> import numpy as np
    >>> metric = Accuracy()
    >>> metric.update(np.array([[0.1, 0.9], [0.8, 0.2]]), np.array([1, 1])); float(metric)
    0.5
    """

    def __init__(self, axis: int = -1, threshold: float | None = None, ignore_index: int | None = None) -> None:
        super().__init__(axis, threshold, ignore_index, right=(), count=())

    def increments(self, out: Array, y: Array, *, weight: Any) -> dict[str, Any]:
        found, right, weight = self.ids(out, y, weight)
        return {"right": counted(found == right, weight), "count": counted(jnp.ones_like(right, bool), weight)}

    def value(self, sums: dict[str, Any], xp: Any) -> Any:
        return ratio(sums["right"], sums["count"], xp)


class TopKAccuracy(Metric):
    """The share of samples whose right class has one of the k largest scores.

    **Inputs** out: scores, classes along `axis`; y: ids or one-hot, as for `Accuracy`. Of equal scores those of smaller
    classes come first, so that k = 1 is `Accuracy`; a NaN counts as infinity.

    **Args** k: default 5, at most the number of classes. axis: default −1. ignore_index: default None.

    >>> import numpy as np
    >>> metric = TopKAccuracy(k=2)
    >>> metric.update(np.array([[0.1, 0.5, 0.4], [0.6, 0.3, 0.1]]), np.array([2, 2])); float(metric)
    0.5
    """

    def __init__(self, k: int = 5, axis: int = -1, ignore_index: int | None = None) -> None:
        self.k, self.axis, self.ignore_index = integer("k", k, 1), axis, ignore_index
        super().__init__(right=(), count=())

    def increments(self, out: Array, y: Array, *, weight: Any) -> dict[str, Any]:
        ids = target_ids(out, y, self.axis)
        weight = kept(weights_for(weight, ids.shape), ids, self.ignore_index)
        hits = self._hits(jnp.moveaxis(out, self.axis, -1), ids)
        return {"right": counted(hits, weight), "count": counted(jnp.ones_like(hits), weight)}

    def _hits(self, scores: Array, ids: Array) -> Array:
        classes = scores.shape[-1]
        if self.k > classes:
            raise ShapeError(f"expected at least k = {self.k} classes. Received: {classes}")
        scores = jnp.where(jnp.isnan(scores), jnp.inf, scores)
        right = jnp.take_along_axis(scores, jnp.clip(ids, 0, classes - 1)[..., None], axis=-1)
        before = (scores > right) | ((scores == right) & (jnp.arange(classes) < ids[..., None]))
        return (jnp.sum(before, axis=-1) < self.k) & (ids >= 0) & (ids < classes)

    def value(self, sums: dict[str, Any], xp: Any) -> Any:
        return ratio(sums["right"], sums["count"], xp)


class ConfusionMatrix(Classification):
    """How often (row) a class was (column) predicted: a (C, C) array.

    **Inputs** as for `Accuracy`. Samples with an id outside of 0 … C − 1 count nowhere.

    **Args**
      classes: C.
      normalize: None (numbers of samples), "true" (rows sum to 1), "pred" (columns do) or "all"; a row or column
        without samples is 0.
      axis, threshold, ignore_index: as for `Accuracy`.

    >>> import numpy as np
    >>> metric = ConfusionMatrix(2)
    >>> metric.update(np.array([0, 1, 1]), np.array([0, 0, 1])); metric.compute()
    array([[1., 1.], [0., 1.]])
    """

    def __init__(
        self,
        classes: int,
        normalize: str | None = None,
        axis: int = -1,
        threshold: float | None = None,
        ignore_index: int | None = None,
    ) -> None:
        self.classes = integer("classes", classes, 1)
        one_of("ConfusionMatrix", "normalize", normalize, (None, "true", "pred", "all"))
        self.normalize = normalize
        super().__init__(axis, threshold, ignore_index, counts=(classes, classes))

    def increments(self, out: Array, y: Array, *, weight: Any) -> dict[str, Any]:
        found, right, weight = self.ids(out, y, weight)
        valid = (found >= 0) & (found < self.classes)
        places = jnp.where(valid, right * self.classes + found, -1)
        return {"counts": tally(places, weight, self.classes**2).reshape(self.classes, self.classes)}

    def value(self, sums: dict[str, Any], xp: Any) -> Any:
        counts = sums["counts"]
        if self.normalize is None:
            return counts
        axes = {"true": 1, "pred": 0, "all": (0, 1)}[self.normalize]
        return ratio(counts, counts.sum(axis=axes, keepdims=True), xp, empty=0.0)
