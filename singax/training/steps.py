"""Running steps singly, or many in one program, whichever is wanted or quicker; nobody waits for results here."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from singax.autograd.border import is_tensor
from singax.errors import ArgumentError
from singax.module import Module
from singax.training.batches import Arguments, target_of
from singax.training.results import array_of, joined, output, scalars
from singax.training.runners import train_batches

MEASURED = 16
"""How many steps "auto" puts into one program, if that is quicker."""


@dataclass
class Done:
    """Steps that were dispatched: how many, their numbers (name → an array of one number per step), and for metrics
    the output and the target of all of them as one batch, and the `weight` of its rows where `fit` fills batches up."""

    count: int
    numbers: dict[str, Any]
    output: Any
    target: Any
    weight: Any = None


class Steps:
    """Runs the training steps of a model.

    `size` is how many batches `run` takes at once. With "auto", four blocks of the first steps are timed, two of each
    kind of which the first compiles; the numbers are the same either way.
    """

    def __init__(self, model: Module, per_call: int | str, pads: bool = False) -> None:
        if per_call != "auto" and (isinstance(per_call, bool) or not isinstance(per_call, int) or per_call < 1):
            raise ArgumentError(f"steps_per_call must be an integer from 1 up or 'auto'. Received: {per_call!r}")
        self.model, self.pads = model, pads
        self.measuring: list[float] | None = [] if per_call == "auto" else None
        self.size: int = MEASURED if isinstance(per_call, str) else per_call

    def run(self, batches: list[Arguments]) -> list[Done]:
        """Run a step for each batch; a full block of alike ones in one program."""
        if len(batches) < self.size or self.size == 1 or not _alike(batches):
            return [self._single(batch) for batch in batches]
        if self.measuring is None:
            return [self._many(batches)]
        return self._timed(batches, self.measuring)

    def _timed(self, batches: list[Arguments], times: list[float]) -> list[Done]:
        start = time.perf_counter()
        done = [self._many(batches)] if len(times) < 2 else [self._single(batch) for batch in batches]
        jax.block_until_ready([each.numbers for each in done])
        times.append(time.perf_counter() - start)
        if len(times) == 4:
            self.measuring, self.size = None, MEASURED if times[1] < times[3] else 1
        return done

    def _single(self, batch: Arguments) -> Done:
        args, kwargs = batch
        result = self.model.train_one_batch(*args, **kwargs)
        return Done(1, scalars(result), output(result), array_of(target_of(batch)), self._weight(kwargs))

    def _many(self, batches: list[Arguments]) -> Done:
        args, kwargs = stacked = jax.tree.map(_stacked, *batches, is_leaf=is_tensor)
        result = train_batches(self.model, args, kwargs, "train_one_batch")
        weight = self._weight(kwargs)
        target = joined(target_of(stacked))
        return Done(
            len(batches), scalars(result, 1), output(result, 1), target, None if weight is None else weight.reshape(-1)
        )

    def _weight(self, kwargs: dict[str, Any]) -> Any:
        """0 for the rows that filling up has added; None where nothing is filled up."""
        return kwargs["weight"] if self.pads else None


def _alike(batches: list[Arguments]) -> bool:
    """Whether all batches have the same structure, shapes and dtypes, and hold nothing but arrays."""
    forms = []
    for batch in batches:
        leaves, tree = jax.tree.flatten(batch, is_leaf=is_tensor)
        if not all(hasattr(leaf, "shape") and hasattr(leaf, "dtype") for leaf in leaves):
            return False
        forms.append((tree, [(tuple(leaf.shape), np.dtype(leaf.dtype)) for leaf in leaves]))
    return all(form == forms[0] for form in forms)


def _stacked(*leaves: Any) -> Any:
    arrays = [array_of(leaf) for leaf in leaves]
    return np.stack(arrays) if all(isinstance(a, np.ndarray) for a in arrays) else jnp.stack(arrays)
