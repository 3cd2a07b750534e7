"""Precision, recall and F1."""

from __future__ import annotations

from typing import Any

import jax

from singax.checked import integer
from singax.errors import ArgumentError
from singax.metric.classification import Classification
from singax.metric.sums import ratio, tally
from singax.ops.checks import one_of

Array = jax.Array


class ClassScore(Classification):
    """A ratio for each class, and its average: base of `Precision`, `Recall` and `F1`.

    **Inputs** as for `Accuracy`. Samples with a right id outside of 0 … C − 1 count as predictions only.

    **Args**
      classes: C (default 2).
      average: "binary" (the score of class 1, with two classes only, default), "macro" (the mean of all C classes),
        "weighted" (by how often a class is right), "micro" (of all samples together) or None (one for each class).
      axis, threshold, ignore_index: as for `Accuracy`.

    A score without samples is 0. *Differences from scikit-learn*: "macro" is over all C classes, as with
    `labels=range(C)` there, not only over those that occur.

    >>> import numpy as np
    >>> found, right = np.array([1, 1, 0, 1]), np.array([1, 0, 1, 1])
    >>> for metric in (Precision(), Recall(), F1()):
    ...     metric.update(found, right); print(round(float(metric), 4))
    0.6667
    0.6667
    0.6667
    """

    def __init__(
        self,
        classes: int = 2,
        average: str | None = "binary",
        axis: int = -1,
        threshold: float | None = None,
        ignore_index: int | None = None,
    ) -> None:
        one_of(type(self).__name__, "average", average, ("binary", "macro", "weighted", "micro", None))
        if average == "binary" and classes != 2:
            raise ArgumentError(f'average "binary" goes with 2 classes: choose another. Received: {classes} classes')
        self.classes, self.average = integer("classes", classes, 2), average
        super().__init__(axis, threshold, ignore_index, hits=(classes,), predicted=(classes,), actual=(classes,))

    def increments(self, out: Array, y: Array, *, weight: Any) -> dict[str, Any]:
        found, right, weight = self.ids(out, y, weight)
        hits = jax.numpy.where(found == right, right, -1)
        places = {"hits": hits, "predicted": found, "actual": right}
        return {name: tally(place, weight, self.classes) for name, place in places.items()}

    def value(self, sums: dict[str, Any], xp: Any) -> Any:
        hits, predicted, actual = sums["hits"], sums["predicted"], sums["actual"]
        if self.average == "micro":
            return self.score(hits.sum(), predicted.sum(), actual.sum(), xp)
        scores = self.score(hits, predicted, actual, xp)
        if self.average == "weighted":
            return ratio((scores * actual).sum(), actual.sum(), xp, empty=0.0)
        return {"binary": scores[1], "macro": scores.mean(), None: scores}[self.average]

    def score(self, hits: Any, predicted: Any, actual: Any, xp: Any) -> Any:
        """The score of numbers of samples."""
        raise NotImplementedError(f"{type(self).__name__} does not define score")


class Precision(ClassScore):
    """How many of the samples that were predicted to be of a class are: hits / predicted. See `ClassScore`.

    >>> Precision(classes=3, average="macro").average
    'macro'
    """

    def score(self, hits: Any, predicted: Any, actual: Any, xp: Any) -> Any:
        return ratio(hits, predicted, xp, empty=0.0)


class Recall(ClassScore):
    """How many of the samples of a class were predicted to be: hits / actual. See `ClassScore`.

    >>> Recall(classes=3, average="macro").average
    'macro'
    """

    def score(self, hits: Any, predicted: Any, actual: Any, xp: Any) -> Any:
        return ratio(hits, actual, xp, empty=0.0)


class F1(ClassScore):
    """The harmonic mean of precision and recall: 2 · hits / (predicted + actual). See `ClassScore`.

    >>> F1(classes=3, average="macro").average
    'macro'
    """

    def score(self, hits: Any, predicted: Any, actual: Any, xp: Any) -> Any:
        return ratio(2 * hits, predicted + actual, xp, empty=0.0)
