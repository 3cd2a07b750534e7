"""Reading the moving average of the parameters, and evaluating with it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax

from singax.errors import ArgumentError, StateError
from singax.mode import local
from singax.opt.features import AVERAGE, Features
from singax.opt.slots import Slots
from singax.storage import copied_array
from singax.tensor import Tensor


class Averaging:
    """Mixin of Optimizer."""

    _features: Features
    _slots: Slots
    step_counter: Tensor

    def averaged(self) -> dict[str, Tensor]:
        """Name → averaged parameter, for every parameter that the optimizer updates (`average=` in its options).

        a_t = (1 − d)/(1 − dᵗ) · Σ_i d^(t−i) w_i over the parameters w_1 … w_t after each update. Before the first
        update it is the parameters themselves. Raises `ArgumentError` for an optimizer without `average`.
        """
        return {key: Tensor._of(value, key, False) for key, (_, value) in self._averages().items()}

    @contextmanager
    def averaged_weights(self) -> Iterator[None]:
        """Within the block the model has the averaged parameters: to evaluate, or to save them.

        Raises `StateError` at the end if the parameters were changed within the block (the changes are lost).

        >>> import singax as sx
        >>> w = sx.Tensor(data=[1.0], stores_grad=True)
        >>> sgd = sx.opt.SGD(1.0, average=0.5)
        >>> for _ in range(2): sgd.apply("w", w, sx.Tensor(data=[1.0])); sgd.step()
        >>> with sgd.averaged_weights(): print(w.to_numpy().round(3))
        [-0.667]
        >>> w.to_numpy()
        array([-1.], dtype=float32)
        """
        if local.step is not None:
            raise StateError("averaged_weights belongs outside steps: evaluate or save the model in its block")
        averages = self._averages()
        saved = [(cell, cell.get(), cell.lent) for cell, _ in averages.values()]
        for cell, value in averages.values():
            cell.set(value, lent=False)
        try:
            yield
            changed = [key for key, (cell, value) in averages.items() if cell.get() is not value]
        finally:
            for cell, value, lent in saved:
                cell.set(value, lent)
        if changed:
            raise StateError(
                "parameters were changed while the averaged ones stood in their place, and the changes are lost: train "
                f"outside the block. Received new values for: {', '.join(changed)}"
            )

    def _averages(self) -> dict[str, tuple[Any, jax.Array]]:
        """Key → (cell of the parameter, a copy of its average in its dtype)."""
        if self._features.average is None:
            raise ArgumentError(
                f"{type(self).__name__} keeps no average: give it average=0.999 or the like. Received: average=None"
            )
        held = self._slots.held.get(AVERAGE, {})
        begun = local.tracing or int(self.step_counter.to_numpy()[0]) > 0
        found = {}
        for key, cell in self._slots.cells().items():
            if key not in held:
                continue
            value = cell.array()
            average = held[key]._cell.array().astype(value.dtype) if begun else value
            shared = average is value or average is held[key]._cell.get()
            found[key] = (cell, copied_array(average) if shared and not local.tracing else average)
        return found
