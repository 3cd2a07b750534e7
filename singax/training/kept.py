"""A copy of everything that a step changes, to go back to."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from singax.module import Module
from singax.storage import copied_array


class Kept:
    """Copies of all parameters, states, optimizer slots, counters and random keys of a model, on its devices."""

    def __init__(self, module: Module) -> None:
        bank = module._settled_bank()
        self.paths, self.cells = list(bank.paths), list(bank.cells)
        self.values = [copied_array(value) for value in bank.values]

    def restore(self) -> None:
        """Give the model these values again. States that have joined it since keep theirs."""
        for cell, value in zip(self.cells, self.values, strict=True):
            cell.set(copied_array(value), lent=False)

    def not_finite(self) -> list[str]:
        """Paths of the values that hold NaN or infinity."""
        floats = [k for k, v in enumerate(self.values) if jnp.issubdtype(v.dtype, jnp.floating)]
        finite = jax.device_get(_all_finite([self.values[k] for k in floats]))
        return [self.paths[k] for k, fine in zip(floats, finite, strict=True) if not fine]


@jax.jit
def _all_finite(values: list[jax.Array]) -> list[jax.Array]:
    return [jnp.isfinite(value).all() for value in values]
