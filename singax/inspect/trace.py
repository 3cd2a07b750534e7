"""One abstract run of a method: its jaxpr, which layers were called with what, and what is kept for backward."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax

from singax.arguments import Packed
from singax.inspect.abstract import Borrowed, create_slots, struct
from singax.inspect.watch import Guard, LayerCall, Update, Watch, shapes, watching
from singax.inspect.xla import XlaMemory, xla_memory
from singax.layer import tree
from singax.mode import NeedsBuild, StepContext
from singax.module import Module
from singax.program import MOST_RESTARTS, functionalize, without_static
from singax.storage import Cell

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


@dataclass
class Task:
    """What to trace: a function of an abstract model; `training` is the mode, `steps` whether optimizers run."""

    module: Module
    function: Callable[..., Any]
    packed: Packed
    training: bool
    steps: bool

    def states(self) -> tuple[list[str], list[Cell]]:
        """Paths and cells of the state that the function needs: for evaluation without those of the optimizers."""
        own = {id(tensor._cell) for _, tensor in tree.tensors(self.module)} | {id(self.module._generator.cell)}
        bank = self.module._current_bank()
        named = [(p, c) for p, c in zip(bank.paths, bank.cells, strict=True) if self.steps or id(c) in own]
        return [path for path, _ in named], [cell for _, cell in named]

    def pure(self, cells: list[Cell], observe: Callable[[StepContext], None]) -> Callable[..., Any]:
        """The function as one of (state values, input arrays)."""
        return functionalize(self.module, self.function, cells, self.packed.form, self.training, observe)


def trace(task: Task, borrowed: Borrowed, xla: bool = False) -> Traced:
    """Trace a function; what is missing in its module is created. With `xla` it is also compiled."""
    for _ in range(MOST_RESTARTS):
        if task.steps:
            create_slots(task.module)
        try:
            found = _run(task, Watch(task.module, borrowed))
        except NeedsBuild:
            continue
        if found is not None:
            found.xla = _compiled(task, borrowed) if xla else None
            return found
    raise AssertionError("a step that creates layers each time is refused while it is traced")


def _run(task: Task, watch: Watch) -> Traced | None:
    module, inputs = task.module, list(task.packed.inputs)
    paths, cells = task.states()
    contexts: list[StepContext] = []
    shown: list[Any] = []
    pure = task.pure(cells, contexts.append)

    def run(values: list[Any], inputs: list[Any]) -> Any:
        new, out = pure(values, inputs)
        shown[:] = [
            shapes(without_static(out)),
            len(new),
            len(jax.tree.leaves(out)),
            len(watch.gradients),
            len(watch.kept),
        ]
        return new, jax.tree.leaves(out), watch.gradients, watch.kept

    values = [struct(cell) for cell in cells]
    with watching(watch):
        jaxpr = jax.make_jaxpr(run)(values, inputs)
    if task.steps and module._ledger.after_trace(task.function.__name__, contexts[-1]):
        return None
    states = dict(zip(paths, values, strict=True))
    kinds, counts = _kinds(module, states), tuple(shown[1:])
    return Traced(module, jaxpr, states, kinds, inputs, shown[0], watch.calls, watch.updates, counts)


def _compiled(task: Task, borrowed: Borrowed) -> XlaMemory | None:
    """XLA's estimate, for a module that is complete."""
    cells = task.states()[1]
    pure = task.pure(cells, lambda context: None)
    run = pure if task.steps else lambda values, inputs: pure(values, inputs)[1]
    with watching(Guard(borrowed)):
        lowered = jax.jit(run, donate_argnums=0 if task.steps else ()).lower(
            [struct(cell) for cell in cells], list(task.packed.inputs)
        )
    return xla_memory(lowered)


def _kinds(module: Module, states: dict[str, Struct]) -> dict[str, str]:
    own = {path: "parameter" if tensor.stores_grad else "state" for path, tensor in tree.tensors(module)}
    return {path: own.get(path, "state" if path == "rng" else "optimizer") for path in states}
