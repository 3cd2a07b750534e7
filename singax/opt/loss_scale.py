"""Dynamic loss scaling, for gradients computed in float16."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from singax.errors import ArgumentError
from singax.opt.slots import put
from singax.tensor import Tensor


class LossScale:
    """Multiplies the loss by a scale before backward, and divides the gradients by it in float32.

    A step whose gradients are not all finite changes nothing (no parameter, no slot, no counter), and divides the scale
    by `factor`; after `growth_interval` good steps in a row the scale is multiplied by `factor` (Micikevicius et al.
    2018). Scale and counters are states of the model: nothing is compiled again.

    **Args** initial (2**15); growth_interval (2000 steps); factor (2); minimum (1): the scale never falls below.

    **Raises** `ArgumentError` for values out of range.

    >>> import singax as sx
    >>> sgd = sx.opt.SGD(0.1, loss_scale=sx.opt.LossScale(initial=1024))
    >>> float(sgd.loss_scale.scale)
    1024.0
    """

    def __init__(
        self, initial: float = 2.0**15, growth_interval: int = 2000, factor: float = 2.0, minimum: float = 1.0
    ) -> None:
        if not (initial >= minimum > 0 and factor > 1 and growth_interval >= 1):
            raise ArgumentError(
                "a LossScale takes initial ≥ minimum > 0, factor > 1 and growth_interval ≥ 1. "
                f"Received: {initial}, {minimum}, {factor}, {growth_interval}"
            )
        self.initial, self.growth_interval, self.factor, self.minimum = initial, growth_interval, factor, minimum
        self.scale, self.good_steps, self.finite = (
            Tensor(data=value, requires_grad=False, name=name) for name, value in self.fresh().items()
        )

    def tensors(self) -> dict[str, Tensor]:
        """Its states. `finite` is whether all gradients of the step in progress were."""
        return {"scale": self.scale, "good_steps": self.good_steps, "finite": self.finite}

    def fresh(self) -> dict[str, np.ndarray]:
        """Initial values of the states."""
        return {
            "scale": np.array([self.initial], np.float32),
            "good_steps": np.zeros(1, np.int32),
            "finite": np.ones(1, bool),
        }

    def unscaled(self, gradient: Tensor) -> Tensor:
        """The gradient of the loss itself, at least in float32."""
        value = gradient._cell.array()
        wide = value.astype(jnp.promote_types(value.dtype, jnp.float32))
        return Tensor._of(wide / self.scale._cell.array().astype(wide.dtype), name=gradient.name)

    def step(self) -> None:
        """At the end of a step: adapt the scale."""
        finite, good = self.finite._cell.array(), self.good_steps._cell.array() + 1
        grown, scale = good >= self.growth_interval, self.scale._cell.array()
        lowered = jnp.maximum(scale / self.factor, self.minimum)
        put(self.scale, jnp.where(finite, jnp.where(grown, scale * self.factor, scale), lowered))
        put(self.good_steps, jnp.where(finite & ~grown, good, 0))
        put(self.finite, jnp.ones_like(finite))


def all_finite(gradients: Any) -> Any:
    """Whether every number in a list of arrays is finite, shape (1,)."""
    return jnp.stack([jnp.isfinite(gradient).all() for gradient in gradients]).all()[None]
