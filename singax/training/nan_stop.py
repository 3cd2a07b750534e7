"""Ends a training whose numbers are no numbers any more, and says where that began."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from singax.arguments import pack
from singax.functional import step_function
from singax.inspect.watch import Onlooker, watching
from singax.layer import tree
from singax.module import Module
from singax.program import functionalize
from singax.training.batches import Arguments
from singax.training.callback import Callback
from singax.training.results import scalars


class NaNStop(Callback):
    """Ends the training at a number that is not finite, and names the first layer whose output was not.

    It keeps a copy of the model's states, and the batches since. When a number of a step is NaN or infinite, or a state
    is, the steps are done again one by one from the copy, up to the step that broke; the model is left with its states
    before that step, and `layer` is the path of the first layer in it with an output that is not finite (None where the
    forward pass was fine, and the update was not). Compile the model before `fit`: where the first steps create the
    parameters, there is nothing from before them to go back to.
    """

    def __init__(self) -> None:
        self.layer: str | None = None
        self.batches: list[Arguments] = []
        self.kept: dict[str, Any] | None = None

    def on_step_end(self, step: int, arguments: Arguments) -> None:
        """Keep the batch; start anew where the first step has created further states."""
        self.batches.append(arguments)
        if self.kept is None or len(self.model._current_bank().cells) != len(self.kept):
            self.kept, self.batches = self.model.state_dict(), []

    def on_epoch_begin(self, epoch: int) -> None:
        """Keep the states of the beginning."""
        if self.kept is None and self.model._bank_version >= 0:
            self.model._ledger.want_all_slots()
            self.kept = self.model.state_dict()

    def on_numbers(self, steps: list[dict[str, float]]) -> None:
        """Look at the numbers of some steps, and at the states after them."""
        now = self.model.state_dict()
        if all(math.isfinite(v) for numbers in steps for v in numbers.values()) and not _not_finite(now):
            self.kept, self.batches = now, []
        else:
            self._search()

    def _search(self) -> None:
        assert self.kept is not None, "numbers come after a step"
        before = self.kept
        self.model.load_state_dict(before)
        for arguments in self.batches:
            args, kwargs = arguments
            numbers = list(scalars(self.model(*args, **kwargs)).values())
            after = self.model.state_dict()
            broken = _not_finite(after)
            if broken or not all(np.isfinite(value).all() for value in jax.device_get(numbers)):
                self.model.load_state_dict(before)
                self.layer = first_not_finite(self.model, arguments)
                self.stop(_reason(self.layer, broken))
                return
            before = after
        self.stop("a number was not finite, but not when the steps were done again")


def _not_finite(states: dict[str, jax.Array]) -> list[str]:
    """Paths of the states that hold NaN or infinity."""
    floats = {path: value for path, value in states.items() if jnp.issubdtype(value.dtype, jnp.floating)}
    finite = jax.device_get(_all_finite(list(floats.values())))
    return [path for path, fine in zip(floats, finite, strict=True) if not fine]


@jax.jit
def _all_finite(values: list[jax.Array]) -> list[jax.Array]:
    return [jnp.isfinite(value).all() for value in values]


def _reason(layer: str | None, broken: list[str]) -> str:
    if layer is not None:
        return f"the output of {layer or 'the model'} is not finite"
    return f"all outputs were finite, but the update made {', '.join(broken[:3]) or 'the loss'} not finite"


class _Finite(Onlooker):
    """An observer that notes, while a step runs, which layers have outputs that are not finite."""

    def __init__(self, module: Module) -> None:
        self.paths = {id(layer): path for path, layer in tree.layers(module)}
        self.calls: list[str] = []
        self.bad: list[int] = []

    def layer(self, layer: Any, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run it, and look at its output when the program runs."""
        out = function(layer, *args, **kwargs)
        number = len(self.calls)
        self.calls.append(self.paths.get(id(layer), type(layer).__name__))
        floats = [leaf for leaf in jax.tree.leaves(out) if jnp.issubdtype(leaf.dtype, jnp.floating)]
        for leaf in floats:
            jax.debug.callback(self._note, number, jnp.isfinite(leaf).all())
        return out

    def _note(self, number: Any, finite: Any) -> None:
        if not finite:
            self.bad.append(int(number))


def first_not_finite(module: Module, arguments: Arguments, method: str = "train_one_batch") -> str | None:
    """The path of the first layer whose output is not finite in a step with these arguments, None if there is none.

    Calls count as finished from the inside out, in the order of the forward pass. The model stays as it is.
    """
    bank, watch = module._settled_bank(), _Finite(module)
    function = step_function(module, method)
    packed = pack(function, *arguments)
    pure = functionalize(module, function, list(bank.cells), packed.form, True)
    with watching(watch):
        jax.block_until_ready(jax.jit(pure)(list(bank.values), packed.inputs))
    jax.effects_barrier()
    return watch.calls[min(watch.bad)] if watch.bad else None
