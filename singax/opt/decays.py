"""Schedulers that SINGA never had: polynomial, linear, cosine, steps, and a warm-up before any of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from singax.autograd.recorder import node
from singax.errors import ArgumentError
from singax.opt.schedule import DecayScheduler, as_schedule, starts_at_init_value, value_at
from singax.tensor import Tensor


class PolynomialDecay(DecayScheduler):
    """From `init_value` to `end_value` in `decay_steps` steps: end + (init − end) · (1 − step/decay_steps) ** power.

    **Args** init_value; decay_steps: above 0; end_value (0); power (1). After `decay_steps` it stays at `end_value`.

    >>> import singax as sx
    >>> PolynomialDecay(0.4, 10, power=2)(sx.Tensor(data=[5.0])).to_numpy()
    array([0.1], dtype=float32)
    """

    starts_at_init_value = True

    def __init__(self, init_value: float, decay_steps: float, end_value: float = 0.0, power: float = 1.0) -> None:
        super().__init__(init_value)
        _check_positive("decay_steps", decay_steps)
        _check_positive("power", power)
        self.decay_steps, self.end_value, self.power = decay_steps, end_value, power

    def call(self, step: Tensor) -> Tensor:
        return node(_polynomial)(
            step, start=self.init_value, end=self.end_value, steps=self.decay_steps, power=self.power
        )


class LinearDecay(PolynomialDecay):
    """A straight line from `init_value` to `end_value` (0) in `decay_steps` steps; upwards as well as down.

    >>> import singax as sx
    >>> LinearDecay(0.4, 10, 0.2)(sx.Tensor(data=[5.0])).to_numpy()
    array([0.3], dtype=float32)
    """

    starts_at_init_value = True

    def __init__(self, init_value: float, decay_steps: float, end_value: float = 0.0) -> None:
        super().__init__(init_value, decay_steps, end_value)


class CosineDecay(DecayScheduler):
    """Half a cosine from `init_value` to `end_value` in `decay_steps` steps (Loshchilov and Hutter 2017).

    end + (init − end) · (1 + cos(π · step/decay_steps)) / 2; after `decay_steps` it stays at `end_value` (0).

    >>> import singax as sx
    >>> CosineDecay(0.4, 10)(sx.Tensor(data=[5.0])).to_numpy().round(3)
    array([0.2], dtype=float32)
    """

    starts_at_init_value = True

    def __init__(self, init_value: float, decay_steps: float, end_value: float = 0.0) -> None:
        super().__init__(init_value)
        _check_positive("decay_steps", decay_steps)
        self.decay_steps, self.end_value = decay_steps, end_value

    def call(self, step: Tensor) -> Tensor:
        return node(_cosine)(step, start=self.init_value, end=self.end_value, steps=self.decay_steps)


class InverseSquareRoot(DecayScheduler):
    """init_value · sqrt(steps / max(step, steps)): constant for `steps` steps, then falling as 1/sqrt(step).

    With `WarmUp` before it this is the schedule of the first Transformer (Vaswani et al. 2017).

    >>> import singax as sx
    >>> InverseSquareRoot(0.4, 4)(sx.Tensor(data=[16.0])).to_numpy()
    array([0.2], dtype=float32)
    """

    starts_at_init_value = True

    def __init__(self, init_value: float, steps: float) -> None:
        super().__init__(init_value)
        _check_positive("steps", steps)
        self.steps = steps

    def call(self, step: Tensor) -> Tensor:
        return node(_inverse_square_root)(step, start=self.init_value, steps=self.steps)


class PiecewiseConstant(DecayScheduler):
    """`values[i]` from step `boundaries[i − 1]` on: one value more than boundaries.

    **Raises** `ArgumentError` unless the boundaries grow and there is one value more.

    >>> import singax as sx
    >>> PiecewiseConstant([10, 20], [0.5, 0.25, 0.125])(sx.Tensor(data=[10.0])).to_numpy()
    array([0.25], dtype=float32)
    """

    starts_at_init_value = True

    def __init__(self, boundaries: Sequence[int], values: Sequence[float]) -> None:
        self.boundaries, self.values = tuple(boundaries), tuple(float(value) for value in values)
        growing = all(a < b for a, b in zip((0, *self.boundaries), self.boundaries, strict=False))
        if len(self.values) != len(self.boundaries) + 1 or not growing:
            raise ArgumentError(
                "PiecewiseConstant takes growing boundaries above 0, and one value more than boundaries. "
                f"Received: {list(boundaries)}, {list(values)}"
            )
        super().__init__(self.values[0])

    def call(self, step: Tensor) -> Tensor:
        return node(_piecewise)(step, boundaries=self.boundaries, values=self.values)


class WarmUp(DecayScheduler):
    """A straight line from `init_value` to the first value of `after` in `warmup_steps` steps, then `after`.

    **Args** after: a number, a scheduler or an optax schedule, whose step 0 is the end of the warm-up; warmup_steps:
    above 0; init_value (0).

    >>> import singax as sx
    >>> [round(float(WarmUp(LinearDecay(0.4, 10), 4)(sx.Tensor(data=[t]))), 2) for t in (0.0, 2.0, 4.0, 9.0)]
    [0.0, 0.2, 0.4, 0.2]
    """

    starts_at_init_value = True

    def __init__(self, after: Any, warmup_steps: float, init_value: float = 0.0) -> None:
        super().__init__(init_value)
        _check_positive("warmup_steps", warmup_steps)
        self.after, self.warmup_steps = as_schedule(after, "after"), warmup_steps

    def call(self, step: Tensor) -> Tensor:
        past = step._cell.array() - self.warmup_steps
        peak = self._peak(past)
        later = value_at(self.after, jnp.maximum(past, 0).astype(step.dtype)).reshape(1)
        return node(_warmed)(step, peak, later, start=self.init_value, steps=self.warmup_steps)

    def _peak(self, past: jax.Array) -> Any:
        if starts_at_init_value(self.after):
            return jnp.full((1,), self.after.init_value, jnp.float32)  # type: ignore[union-attr]
        return value_at(self.after, jnp.zeros_like(past)).reshape(1)


class WarmUpCosine(WarmUp):
    """From `init_value` (0) up to `peak` in `warmup_steps`, then along a cosine to `end_value` (0) at `total_steps`.

    **Raises** `ArgumentError` unless 0 < warmup_steps < total_steps.

    >>> import singax as sx
    >>> [round(float(WarmUpCosine(0.4, 4, 12)(sx.Tensor(data=[t]))), 2) for t in (0.0, 2.0, 4.0, 8.0, 12.0)]
    [0.0, 0.2, 0.4, 0.2, 0.0]
    """

    starts_at_init_value = True

    def __init__(
        self, peak: float, warmup_steps: float, total_steps: float, end_value: float = 0.0, init_value: float = 0.0
    ) -> None:
        if not 0 < warmup_steps < total_steps:
            raise ArgumentError(
                f"warmup_steps lie between 0 and total_steps. Received: {warmup_steps} of {total_steps}"
            )
        super().__init__(CosineDecay(peak, total_steps - warmup_steps, end_value), warmup_steps, init_value)


def _polynomial(step: jax.Array, *, start: float, end: float, steps: float, power: float) -> jax.Array:
    left = 1 - jnp.clip(step.astype(jnp.float32) / steps, 0, 1)
    return end + (start - end) * left**power


def _cosine(step: jax.Array, *, start: float, end: float, steps: float) -> jax.Array:
    done = jnp.clip(step.astype(jnp.float32) / steps, 0, 1)
    return end + (start - end) * (1 + jnp.cos(jnp.pi * done)) / 2


def _inverse_square_root(step: jax.Array, *, start: float, steps: float) -> jax.Array:
    return start * jnp.sqrt(steps / jnp.maximum(step.astype(jnp.float32), steps))


def _piecewise(step: jax.Array, *, boundaries: tuple[int, ...], values: tuple[float, ...]) -> jax.Array:
    passed = jnp.sum(step[:, None] >= jnp.asarray(boundaries, step.dtype)[None, :], axis=1)
    return jnp.asarray(values, jnp.float32)[passed]


def _warmed(step: jax.Array, peak: jax.Array, later: jax.Array, *, start: float, steps: float) -> jax.Array:
    done = step.astype(jnp.float32) / steps
    return jnp.where(done < 1, start + (peak - start) * done, later)


def _check_positive(name: str, value: float) -> None:
    if isinstance(value, bool) or not value > 0:
        raise ArgumentError(f"{name} must be above 0. Received: {value!r}")
