"""Schedules: values that depend on the number of steps taken.

SINGA's schedulers are called with the step as a Tensor of shape (1,); optax schedules, which are functions of an array,
are accepted wherever a scheduler is. Further schedulers stand in `decays.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from singax.autograd.recorder import node
from singax.errors import ArgumentError
from singax.tensor import Tensor


class DecayScheduler:
    """Base class: override `call(step)`, which maps a Tensor of shape (1,) to one. `init_value` is SINGA's name for the
    value to begin with.

    >>> import singax as sx
    >>> class Halving(DecayScheduler):
    ...     def call(self, step):
    ...         return self.init_value / (step + 1.0)
    >>> float(Halving(0.5)(sx.Tensor(data=[1.0])))
    0.25
    """

    starts_at_init_value: ClassVar[bool] = False

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

    starts_at_init_value = True

    def call(self, step: Tensor) -> Tensor:
        return node(_constant)(step, value=self.init_value)


class ExponentialDecay(DecayScheduler):
    """`init_value · decay_rate ** (step / decay_steps)`, the exponent rounded down when `staircase`.

    **Raises** `ArgumentError` unless decay_steps > 0.

    >>> import singax as sx
    >>> ExponentialDecay(0.1, 10, 0.5, staircase=True)(sx.Tensor(data=[25.0])).to_numpy()
    array([0.025], dtype=float32)
    """

    starts_at_init_value = True

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


def is_zero(schedule: Schedule) -> bool:
    """Whether this is the constant 0, so that its term can be left out."""
    return isinstance(schedule, Constant) and schedule.init_value == 0


def starts_at_init_value(schedule: Schedule) -> bool:
    """Whether the value at step 0 is known to be `init_value`, without calling the schedule."""
    return bool(type(schedule).__dict__.get("starts_at_init_value", False))


def value_at(schedule: Schedule, step: Any) -> jax.Array:
    """The value of `schedule` at the array `step` of shape (1,), as a float32 scalar."""
    if isinstance(schedule, Constant):
        return jnp.float32(schedule.init_value)
    if isinstance(schedule, DecayScheduler):
        found = schedule(Tensor._of(step, requires_grad=False))
        array = found._cell.array() if isinstance(found, Tensor) else jnp.asarray(found)
        return jnp.reshape(array, ()).astype(jnp.float32)
    return jnp.asarray(schedule(step[0]), jnp.float32).reshape(())


class Hyper(dict[str, Any]):
    """The values of an optimizer's schedules at the current step: name → float32 scalar."""

    def __init__(self, schedules: Mapping[str, Schedule], step: Any = None) -> None:
        """`step` is an array of shape (1,); without it only the structure counts, and the values are 0."""
        super().__init__(
            {name: np.float32(0) if step is None else value_at(found, step) for name, found in schedules.items()}
        )
        self._schedules = dict(schedules)

    def absent(self, name: str) -> bool:
        """Whether the value is the constant 0, so that its term can be left out."""
        return is_zero(self._schedules[name])


class Rate:
    """A learning rate: a schedule, and its value at the current step in a Tensor, which compiled steps read."""

    def __init__(self, lr: Any, name: str) -> None:
        self.schedule = as_schedule(lr, name)
        self.value = Tensor(data=self.at(0), requires_grad=False, name=name)

    def at(self, step: int) -> np.ndarray:
        """The value at a step, on the host, shape (1,)."""
        if step == 0 and starts_at_init_value(self.schedule):
            return np.array([self.schedule.init_value], np.float32)  # type: ignore[union-attr]
        with jax.ensure_compile_time_eval():
            return np.asarray(value_at(self.schedule, jnp.array([step], jnp.int32)), np.float32).reshape(1)

    def change(self, lr: Any, step: int) -> bool:
        """A new number or schedule; whether compiled steps must be compiled again (never for number after number)."""
        schedule = as_schedule(lr, self.value.name)
        again = not (isinstance(schedule, Constant) and isinstance(self.schedule, Constant))
        self.schedule = schedule
        self.rewind(step)
        return again

    def rewind(self, step: int) -> None:
        """Set the value to that of `step`."""
        self.value.copy_from_numpy(self.at(step))

    def move(self, count: Any) -> None:
        """Set the value to that of the array `count`, in a trace or outside."""
        if not isinstance(self.schedule, Constant):
            self.value.data = value_at(self.schedule, count).reshape(1)

    @property
    def shown(self) -> str:
        """How a repr shows it."""
        return str(self.schedule.init_value) if isinstance(self.schedule, Constant) else "schedule"
