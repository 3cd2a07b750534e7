"""Running means: of a loss, or of the errors of numbers."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from singax.errors import DTypeError
from singax.metric.base import Metric
from singax.metric.sums import counted, ratio, weights_for
from singax.ops.checks import same_shape

Array = jax.Array


class Average(Metric):
    """Base: Σ w v / Σ w of the values that a batch comes down to."""

    def __init__(self) -> None:
        super().__init__(total=(), count=())

    def value(self, sums: dict[str, Any], xp: Any) -> Any:
        return ratio(sums["total"], sums["count"], xp)


class Mean(Average):
    """The mean of all values so far: Σ w v / Σ w.

    **Inputs** values of any shape, such as a loss; weight: for their first axes, or one number. The loss of a batch of
    N samples is best given with `weight=N`: batches of different size then count as they should.

    >>> metric = Mean()
    >>> metric.update(1.0); metric.update(4.0, weight=2); float(metric)
    3.0
    """

    def increments(self, values: Array, *, weight: Any) -> dict[str, Any]:
        return _weighted_sums(values, weight)


class MeanSquaredError(Average):
    """The mean of (out − y)² over all elements of all batches, or its root.

    **Inputs** out and y of equal shape; weight: for their first axes.

    **Args** root: whether to take the square root (default False).

    >>> import numpy as np
    >>> metric = MeanSquaredError(root=True)
    >>> metric.update(np.array([1.0, 2.0]), np.array([4.0, 5.0])); float(metric)
    3.0
    """

    def __init__(self, root: bool = False) -> None:
        super().__init__()
        self.root = bool(root)

    def increments(self, out: Array, y: Array, *, weight: Any) -> dict[str, Any]:
        return _weighted_sums(jnp.square(_difference(out, y)), weight)

    def value(self, sums: dict[str, Any], xp: Any) -> Any:
        mean = super().value(sums, xp)
        return xp.sqrt(mean) if self.root else mean


class MeanAbsoluteError(Average):
    """The mean of |out − y| over all elements of all batches.

    **Inputs** out and y of equal shape; weight: for their first axes.

    >>> import numpy as np
    >>> metric = MeanAbsoluteError()
    >>> metric.update(np.array([1.0, 2.0]), np.array([4.0, 3.0])); float(metric)
    2.0
    """

    def increments(self, out: Array, y: Array, *, weight: Any) -> dict[str, Any]:
        return _weighted_sums(jnp.abs(_difference(out, y)), weight)


def _weighted_sums(values: Array, weight: Any) -> dict[str, Any]:
    values, weight = _wide(values), weights_for(weight, values.shape)
    values = values if weight is None else values * weight
    return {"total": jnp.sum(values), "count": counted(jnp.ones(values.shape, bool), weight)}


def _difference(out: Array, y: Array) -> Array:
    same_shape("a mean error", out, y)
    return _wide(out) - _wide(y)


def _wide(x: Array) -> Array:
    if jnp.issubdtype(x.dtype, jnp.complexfloating):
        raise DTypeError(f"expected real numbers. Received dtype {x.dtype}")
    return x.astype(jnp.promote_types(x.dtype, jnp.float32))
