"""One abstract run of a method: its jaxpr, which layers were called with what, and what is kept for backward."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax

from singax.arguments import Packed
from singax.inspect.abstract import Borrowed, create_slots, struct
from singax.inspect.watch import LayerCall, Update, Watch, shapes, watching
from singax.inspect.xla import XlaMemory, xla_memory
from singax.layer import tree
from singax.mode import NeedsBuild, StepContext
from singax.module import Module
from singax.program import MOST_RESTARTS, functionalize

Struct = jax.ShapeDtypeStruct


@dataclass
class Traced:
    """What an abstract run of a method has shown.

    `kinds` says of each state whether it is a "parameter", a "state" of a layer, or belongs to an "optimizer".
    The jaxpr maps the states and the inputs to the new states, the outputs, the gradients, and what is kept for the
    backward pass; the four numbers of the results are `parts`.
    """

    module: Module
    jaxpr: Any
    states: dict[str, Struct]
    kinds: dict[str, str]
    inputs: list[Struct]
    outputs: Any
    calls: list[LayerCall]
    updates: list[Update]
    parts: tuple[int, ...]
    xla: XlaMemory | None = None

    def positions(self, part: int) -> range:
        """Where among the results of the jaxpr the states (0), outputs (1), gradients (2) or kept arrays (3) are."""
        start = sum(self.parts[:part])
        return range(start, start + self.parts[part])


def trace_method(
    module: Module, function: Callable[..., Any], packed: Packed, training: bool, xla: bool = False
) -> Traced:
    """Trace `function(module, …)`, where `module` is an abstract copy: what is missing in it is created.

    With `xla` it is also compiled.
    """
    borrowed = Borrowed(module._ledger.owners())
    try:
        for _ in range(MOST_RESTARTS):
            create_slots(module)
            try:
                found = _run(module, function, packed, training, Watch(module, borrowed))
            except NeedsBuild:
                continue
            if found is not None:
                found.xla = xla_memory(module, function, packed, training, borrowed) if xla else None
                return found
    finally:
        borrowed.end()
    raise AssertionError("a step that creates layers each time is refused while it is traced")


def _run(module: Module, function: Callable[..., Any], packed: Packed, training: bool, watch: Watch) -> Traced | None:
    cells = list(module._current_bank().cells)
    contexts: list[StepContext] = []
    shown: list[Any] = []
    pure = functionalize(module, function, cells, packed.form, training, contexts.append)

    def run(values: list[Any], inputs: list[Any]) -> Any:
        new, out = pure(values, inputs)
        shown[:] = [shapes(out), len(new), len(jax.tree.leaves(out)), len(watch.gradients), len(watch.kept)]
        return new, jax.tree.leaves(out), watch.gradients, watch.kept

    values = [struct(cell) for cell in cells]
    with watching(watch):
        jaxpr = jax.make_jaxpr(run)(values, packed.inputs)
    if training and module._ledger.after_trace(function.__name__, contexts[-1]):
        return None
    states = dict(zip(module._bank.paths, values, strict=True))
    inputs = list(packed.inputs)
    counts = tuple(shown[1:])
    return Traced(module, jaxpr, states, _kinds(module, states), inputs, shown[0], watch.calls, watch.updates, counts)


def _kinds(module: Module, states: dict[str, Struct]) -> dict[str, str]:
    own = {path: "parameter" if tensor.stores_grad else "state" for path, tensor in tree.tensors(module)}
    return {path: own.get(path, "state" if path == "rng" else "optimizer") for path in states}
