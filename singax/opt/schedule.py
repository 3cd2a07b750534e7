"""Schedules: values that depend on the number of steps taken.

SINGA's schedulers are called with the step as a Tensor of shape (1,); optax schedules, which are functions of an array,
are accepted wherever a scheduler is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from singax.autograd.recorder import node
from singax.errors import ArgumentError
from singax.tensor import Tensor


class DecayScheduler:
    """Base class: override `call(step)`, which maps a Tensor of shape (1,) to one. `init_value` is the value at 0."""

    def __init__(self, init_value: float) -> None:
        self.init_value = init_value

    def __call__(self, step: Tensor) -> Tensor:
        if not isinstance(step, Tensor):
            raise ArgumentError(f"a scheduler is called with the step as a Tensor. Received: {type(step).__name__}")
        return self.call(step)

    def call(self, step: Tensor) -> Tensor:
        """The value at `step`."""
        raise NotImplementedError(f"{type(self).__name__} does not define call")


class Constant(DecayScheduler):
    """Always `init_value`, as a float32 Tensor of shape (1,)."""

    def call(self, step: Tensor) -> Tensor:
        return node(_constant)(step, value=self.init_value)


class ExponentialDecay(DecayScheduler):
    """`init_value · decay_rate ** (step / decay_steps)`, the exponent rounded down when `staircase`.

    >>> import singax as sx
    >>> ExponentialDecay(0.1, 10, 0.5, staircase=True)(sx.Tensor(data=[25.0])).to_numpy()
    array([0.025], dtype=float32)
    """

    def __init__(self, init_value: float, decay_steps: float, decay_rate: float, staircase: bool = False) -> None:
        super().__init__(init_value)
        if decay_steps <= 0:
            raise ArgumentError(f"decay_steps must be positive. Received: {decay_steps}")
        self.decay_steps, self.decay_rate, self.staircase = decay_steps, decay_rate, staircase

    def call(self, step: Tensor) -> Tensor:
        return node(_exponential)(
            step, start=self.init_value, steps=self.decay_steps, rate=self.decay_rate, staircase=self.staircase
        )


def _constant(step: jax.Array, *, value: float) -> jax.Array:
    return jnp.full((1,), value, jnp.float32)


def _exponential(step: jax.Array, *, start: float, steps: float, rate: float, staircase: bool) -> jax.Array:
    exponent = step.astype(jnp.float32) / steps
    return start * jnp.power(rate, jnp.floor(exponent) if staircase else exponent)


Schedule = DecayScheduler | Callable[[Any], Any]


def as_schedule(value: Any, name: str) -> Schedule:
    """A schedule for a number, a scheduler or an optax schedule; `ArgumentError` for anything else."""
    if isinstance(value, bool) or not (callable(value) or hasattr(value, "__float__")):
        raise ArgumentError(f"{name} is a number, a DecayScheduler or an optax schedule. Received: {value!r}")
    return value if callable(value) else Constant(float(value))


def starts_at_zero(schedule: Schedule) -> bool:
    """Whether this is the constant 0, or a scheduler whose `init_value` is 0 (SINGA's rule for leaving a term out)."""
    return isinstance(schedule, DecayScheduler) and schedule.init_value == 0


def value_at(schedule: Schedule, step: Any) -> jax.Array:
    """The value of `schedule` at the array `step` of shape (1,), as a float32 scalar."""
    if isinstance(schedule, Constant):
        return jnp.float32(schedule.init_value)
    if isinstance(schedule, DecayScheduler):
        found = schedule(Tensor._of(step, requires_grad=False))
        return jnp.reshape(found._cell.array(), ()).astype(jnp.float32)
    return jnp.asarray(schedule(step[0]), jnp.float32).reshape(())
