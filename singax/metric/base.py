"""Metric: running sums that a call adds to, read when somebody asks."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from singax.errors import ArgumentError, StateError
from singax.layer import Layer
from singax.metric.sums import plus, total
from singax.mode import local, traced
from singax.recipes import Constant
from singax.tensor import Tensor

State = dict[str, jax.Array]


class Metric(Layer):
    """Base of the metrics: a few running sums on the device.

    `update(out, y, weight=None)`, or calling the metric, adds a batch: Tensors, JAX or NumPy arrays. It is one compiled
    program for each signature of the inputs, and waits for nothing. `compute()`, `result()` and `float(metric)` wait
    and read; `reset()` starts anew. Without samples a mean is NaN.

    **As pure functions**, for loops of your own under `jax.jit` or `lax.scan`: `init()` → state,
    `step(state, out, y, weight=None)` → state, `read(state)` → value (float32), `merge(state, state)` → state. The
    instance only holds the options then.

    **In a model**: as an attribute its sums are states of the model (`get_states`, checkpoints), and it may be updated
    in `train_one_batch` or `forward` of a compiled model: it becomes part of the program. Read and reset it outside of
    the step. A metric that is no attribute is refused in a compiled step, since its sums would hold tracers.

    **Precision**: sums are pairs of float32 numbers (see `singax.metric.sums`), whole numbers are exact up to 2⁴⁸;
    `compute()` adds the pairs in float64.

    To write one: hand the names and shapes of the sums to `super().__init__`, return what a batch adds to them from
    `increments`, and what they mean from `value`.

    >>> import jax.numpy as jnp
    >>> class Largest(Metric):
    ...     def __init__(self):
    ...         super().__init__(total=(), count=())
    ...     def increments(self, out, weight):
    ...         return {"total": jnp.max(out), "count": jnp.int32(1)}
    ...     def value(self, sums, xp):
    ...         return sums["total"] / sums["count"]
    >>> metric = Largest()
    >>> metric.update(jnp.arange(3.0)); metric.update(jnp.arange(5.0)); float(metric)
    3.0
    """

    _computes_wide = True

    def __init__(self, **sums: tuple[int, ...]) -> None:
        super().__init__()
        self._sums = tuple(sums.items())
        for name, shape in self._sums:
            pair = self.state((2, *shape))
            pair._cell.recipe = Constant(0)  # a fresh state, as `functional_step().init` makes it, starts at 0
            setattr(self, name, pair)

    # -- to override --------------------------------------------------------------------------------------------

    def increments(self, *inputs: Any, **weight: Any) -> dict[str, Any]:
        """What a batch adds to each sum: integers or floats of its shape."""
        raise NotImplementedError(f"{type(self).__name__} does not define increments")

    def value(self, sums: dict[str, Any], xp: Any) -> Any:
        """The metric for these sums; `xp` is NumPy or `jax.numpy`, whichever the sums belong to."""
        raise NotImplementedError(f"{type(self).__name__} does not define value")

    # -- as pure functions --------------------------------------------------------------------------------------

    def init(self) -> State:
        """The state before the first batch: a dict of arrays."""
        return {name: jnp.zeros((2, *shape), jnp.float32) for name, shape in self._sums}

    def step(self, state: State, *inputs: Any, weight: Any = None) -> State:
        """The state after a further batch. Pure: the metric itself is not touched."""
        inputs = tuple(map(jnp.asarray, inputs))
        added = self.increments(*map(jax.lax.stop_gradient, inputs), weight=weight)
        return {name: plus(state[name], jax.lax.stop_gradient(added[name])) for name, _ in self._sums}

    def read(self, state: State) -> Any:
        """The value of a state, as JAX arrays of float32."""
        return self.value({name: total(state[name], 32) for name, _ in self._sums}, jnp)

    def merge(self, one: State, other: State) -> State:
        """The state after the batches of both: of two devices, or two loops."""
        return {name: plus(plus(one[name], other[name][0]), other[name][1]) for name, _ in self._sums}

    # -- with a state of its own --------------------------------------------------------------------------------

    def update(self, *inputs: Any, weight: Any = None) -> None:
        """Add a batch.

        Raises `ShapeError` and `DTypeError` for inputs that do not fit, `StateError` where the sums cannot be stored.
        """
        *inputs, weight = map(_as_array, (*inputs, weight))  # type: ignore[assignment]
        self._check_storable([*inputs, weight])
        self.forward(*inputs, weight=weight)

    __call__ = update

    def _check_storable(self, values: list[Any]) -> None:
        """Raise `StateError` where the sums would become tracers that nobody carries on."""
        if local.frame is None and not local.tracing and any(map(traced, values)):
            raise StateError(
                f"{self._where} was updated inside jax.jit, grad, vmap or scan, where its sums cannot be stored: use "
                "its pure functions there, state = metric.step(state, out, y)"
            )
        step = local.step
        if local.tracing and step is not None and any(id(tensor._cell) not in step.cells for tensor in self._tensors()):
            raise StateError(
                f"{self._where} was updated in a compiled step, but is no attribute of the model: assign it to self in "
                "__init__, or update it outside of the step with what the step returns"
            )

    def forward(self, *inputs: Any, weight: Any = None) -> None:
        state = self.step({name: getattr(self, name).data for name, _ in self._sums}, *inputs, weight=weight)
        for name, _ in self._sums:
            setattr(self, name, state[name])

    def compute(self) -> Any:
        """The value of all batches so far, as a NumPy number or array of float64. Waits for them.

        Raises `TracedValueError` in a step that is being compiled.
        """
        sums = {name: total(getattr(self, name).to_numpy(), 64) for name, _ in self._sums}
        return np.asarray(self.value(sums, np))[()]

    result = compute

    def __float__(self) -> float:
        value = self.compute()
        if np.ndim(value):
            raise ArgumentError(f"{type(self).__name__} is an array: use compute(). Received shape {np.shape(value)}")
        return float(value)

    def reset(self) -> None:
        """Forget all batches."""
        for tensor in self._tensors():
            tensor.set_value(0.0)

    def _tensors(self) -> list[Tensor]:
        return [getattr(self, name) for name, _ in self._sums]


def _as_array(value: Any) -> Any:
    """The array behind a Tensor; numbers and lists as NumPy arrays, so that their values select no program."""
    if isinstance(value, Tensor):
        return value.data
    return np.asarray(value) if isinstance(value, bool | int | float | list | tuple) else value
