"""From a method to one XLA program.

`functionalize` is the one trick: put arrays into the handles, run the method, collect the new arrays and the outputs,
put back what the handles held. A `Runner` keeps the programs of one method: one per training flag, static arguments
and input shapes.
"""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from singax import arguments, mode
from singax.arguments import Packed
from singax.autograd.border import INNER_STATE, is_tensor
from singax.compilations import Compilation
from singax.device import step_times
from singax.dtypes import is_floating
from singax.errors import ArgumentError, StateError
from singax.interrupt import deferred_interrupts
from singax.mode import NeedsBuild, StepContext, concrete_array_type, local, refuse_foreign_trace, traced
from singax.storage import Bank, Cell, exchanged
from singax.tensor import Tensor

if TYPE_CHECKING:
    from singax.module import Module

logger = logging.getLogger("singax")

MOST_RESTARTS = 100
_CALLS_THROUGH_PYTHON = 3
_REPLACED = "a layer, an optimizer or its schedule was replaced"


@jax.tree_util.register_static
@dataclass(frozen=True)
class Static:
    """A result that is not an array, on its way out of a compiled function."""

    value: Any

    def __hash__(self) -> int:
        return id(type(self.value))


@dataclass
class Program:
    """A compiled method for one signature; it works on the first `count` states of the bank.

    `calls` counts the calls since the bank's `epoch`: see `Runner._guarded`.
    """

    call: Callable[..., Any]
    signature: tuple[Any, ...]
    count: int
    note: Compilation = field(repr=False)
    epoch: int = -1
    calls: int = 0

    def is_settled(self, bank: Bank) -> bool:
        """Whether JAX has seen arguments of this kind often enough to dispatch them without Python."""
        if self.epoch != bank.epoch:
            self.epoch, self.calls = bank.epoch, 0
        self.calls += 1
        return self.calls > _CALLS_THROUGH_PYTHON


def bare(out: Any) -> Any:
    """The results of a method as arrays, with `Static` around everything that is none."""
    return jax.tree.map(_bare_leaf, out, is_leaf=is_tensor)


def _bare_leaf(leaf: Any) -> Any:
    if isinstance(leaf, Tensor):
        return leaf._cell.array()
    if isinstance(leaf, jax.Array):
        return leaf
    if any(isinstance(v, Tensor) or traced(v) for v in getattr(leaf, "__dict__", {}).values()):
        raise ArgumentError(
            f"a step returned a {type(leaf).__name__} with Tensors inside, which JAX cannot look into: return a tuple, "
            "list or dict, or register the class with jax.tree_util.register_dataclass"
        )
    return Static(leaf)


def without_static(out: Any) -> Any:
    """The outputs of a traced method, with plain values in place of `Static`."""
    is_static = lambda leaf: type(leaf) is Static  # noqa: E731
    return jax.tree.map(lambda leaf: leaf.value if is_static(leaf) else leaf, out, is_leaf=is_static)


def as_results(out: Any) -> Any:
    """The outputs of a compiled function as fresh Tensors, in the structure that the method returned."""
    array = concrete_array_type()
    if type(out) is array:
        return Tensor._of(out, requires_grad=False)
    if type(out) is tuple:
        return tuple([Tensor._of(v, None, False) if type(v) is array else as_results(v) for v in out])
    if type(out) is Static:
        return out.value
    if isinstance(out, jax.Array):
        return Tensor._of(out, requires_grad=False)
    return jax.tree.map(as_results, out, is_leaf=lambda leaf: type(leaf) is Static)


def as_input(value: Any) -> Tensor:
    """A Tensor around an array argument of a step."""
    return Tensor._of(value, requires_grad=is_floating(value.dtype))


@contextmanager
def step_mode(module: Module, cells: Sequence[Cell], training: bool, tracing: bool) -> Iterator[StepContext]:
    """Run the body of a step: which module, which states it may change, traced or not."""
    saved = (local.step, local.tracing, local.generator)
    context = StepContext(module, {id(cell) for cell in cells})
    local.step, local.tracing, local.generator = context, tracing, module._generator
    try:
        with mode.training_mode(training):
            yield context
    finally:
        context.forget_history()
        local.step, local.tracing, local.generator = saved


def functionalize(
    module: Module,
    function: Callable[..., Any],
    cells: Sequence[Cell],
    form: Hashable,
    training: bool,
    observe: Callable[[StepContext], None] = lambda context: None,
) -> Callable[[Sequence[Any], list[Any]], tuple[list[Any], Any]]:
    """`function(module, …)` as a pure function: (state values, input arrays) → (new state values, outputs)."""

    def pure(values: Sequence[Any], inputs: list[Any]) -> tuple[list[Any], Any]:
        args, kwargs = arguments.unpack(form, inputs, as_input)
        with exchanged(cells, values), step_mode(module, cells, training, tracing=True) as context:
            out = bare(function(module, *args, **kwargs))
            observe(context)
            return [_carried(cell, old) for cell, old in zip(cells, values, strict=True)], out

    return pure


def _carried(cell: Cell, old: Any) -> Any:
    new = cell.get()
    if new is old:
        return old
    if new.shape != old.shape:
        raise StateError(f"a state of shape {old.shape} has become {new.shape} inside a step")
    return jax.lax.convert_element_type(new, old.dtype)


class Runner:
    """All programs of one method of one module.

    A step (`donates=True`) hands the whole state to XLA and stores the new one; any other method reads the state and
    stores back only what it has changed.
    """

    def __init__(self, module: Module, name: str, function: Callable[..., Any], donates: bool) -> None:
        self.module, self.name, self.function, self.donates = module, name, function, donates
        self.programs: dict[Hashable, Program] = {}
        self.seen: list[tuple[dict[str, str], tuple[Any, ...]]] = []

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        module = self.module
        packed = arguments.pack(self.function, args, kwargs)  # before the bank: reading a state lends it
        bank = module._settled_bank()
        quiet = not self.donates or _all_numpy(packed.inputs)
        program = self.programs.get((module.training, packed.form, packed.avals, bank.trained))
        if program is None or (program.signature is not bank.signature and not _still_fits(program, bank)):
            return self._first_run_explained(packed)
        if self.donates and not (program.is_settled(bank) and quiet):
            return as_results(self._guarded(bank, program, packed.inputs))
        return as_results(self._run(bank, program, packed.inputs))

    def _guarded(self, bank: Bank, program: Program, inputs: list[Any]) -> Any:
        """Run with Ctrl-C held back: for arguments of a new kind JAX's dispatch passes through Python, where an
        interrupt could lose the new state after the old one was donated.
        """
        with deferred_interrupts():
            return self._run(bank, program, inputs)

    def _run(self, bank: Bank, program: Program, inputs: list[Any]) -> Any:
        if step_times.verbosity:
            return step_times.timed(self.name, lambda: self._run_untimed(bank, program, inputs))
        return self._run_untimed(bank, program, inputs)

    def _run_untimed(self, bank: Bank, program: Program, inputs: list[Any]) -> Any:
        if self.donates:
            return bank.advance(program.call, inputs, program.count)
        changed, out = program.call(bank.values[: program.count], inputs)
        for index, value in changed.items():
            refuse_foreign_trace(value)
            bank.cells[index].set(value, lent=False)
        return out

    def _first_run_explained(self, packed: Packed) -> Any:
        try:
            return self._first_run(packed)
        except jax.errors.UnexpectedTracerError as error:
            error.add_note(INNER_STATE)
            raise

    def _first_run(self, packed: Packed) -> Any:
        for _ in range(MOST_RESTARTS):
            if self.donates:
                self.module._ledger.want_all_slots()
            bank = self.module._settled_bank()
            program = self._compile(bank, packed)
            if program is not None:
                break
        else:
            raise StateError(f"{self.name} creates new layers or states each time it is traced")
        self.programs[self.module.training, packed.form, packed.avals, bank.trained] = program
        self._report(program)
        return as_results(self._guarded(bank, program, packed.inputs))

    def _compile(self, bank: Bank, packed: Packed) -> Program | None:
        """Trace and compile; None when the trace has created layers or states, so that it must start again."""
        cells = list(bank.cells)
        contexts: list[StepContext] = []
        pure = self.pure(cells, packed, contexts.append)
        note = Compilation(self.name, arguments.describe(self.function, packed))
        jitted = jax.jit(pure, donate_argnums=0) if self.donates else jax.jit(functools.partial(_changes_only, pure))
        start = time.perf_counter()
        try:
            lowered = jitted.lower(bank.values, packed.inputs)
        except NeedsBuild:
            return None
        if self.donates and self.module._ledger.after_trace(self.function.__name__, contexts[-1]):
            return None
        traced = time.perf_counter()
        lowered.compile()
        note.trace_seconds, note.compile_seconds = traced - start, time.perf_counter() - traced
        return Program(jitted, bank.signature, len(cells), note)

    def pure(self, cells: list[Cell], packed: Packed, observe: Callable[[StepContext], None]) -> Callable[..., Any]:
        """The method as a function of (state values, input arrays)."""
        return functionalize(self.module, self.function, cells, packed.form, self.module.training, observe)

    def _report(self, program: Program) -> None:
        """Record the compilation and, from the second one on, log what had changed."""
        note = program.note
        described = {**note.arguments, "training": str(self.module.training)}
        if self.seen:
            changes = [_differences(old, described) + _state_changes(was, program.signature) for old, was in self.seen]
            note.changed = "; ".join(sorted(filter(None, changes), key=len)[0]) if any(changes) else _REPLACED
            logger.warning("%s is compiled again (program %d): %s", self.name, len(self.seen) + 1, note.changed)
        self.seen.append((described, program.signature))
        self.module.compilations.append(note)


def _all_numpy(inputs: list[Any]) -> bool:
    """Whether all inputs are host arrays; raises `StateError` for a tracer of somebody else's trace."""
    host = True
    for value in inputs:
        if type(value) is not np.ndarray:
            host = False
            if type(value) is not concrete_array_type():
                refuse_foreign_trace(value)
    return host


def _changes_only(pure: Callable[..., Any], values: Sequence[Any], inputs: list[Any]) -> tuple[dict[int, Any], Any]:
    new, out = pure(values, inputs)
    return {i: n for i, (n, old) in enumerate(zip(new, values, strict=True)) if n is not old}, out


def _still_fits(program: Program, bank: Bank) -> bool:
    """Whether the bank still begins with the states that the program was made for."""
    if bank.signature[: program.count] != program.signature:
        return False
    if len(bank.signature) == program.count:
        program.signature = bank.signature
    return True


def _differences(old: dict[str, str], new: dict[str, str]) -> list[str]:
    return [
        f"{name} changed from {old.get(name, 'absent')} to {new.get(name, 'absent')}"
        for name in [*new, *(set(old) - set(new))]
        if old.get(name) != new.get(name)
    ]


def _state_changes(old: tuple[Any, ...], new: tuple[Any, ...]) -> list[str]:
    before, after = {entry[0]: entry[1:] for entry in old}, {entry[0]: entry[1:] for entry in new}
    found = [f"the state {path} is new" for path in after if path not in before]
    found += [f"the state {path} is gone" for path in before if path not in after]
    for path in before.keys() & after.keys():
        (shape, dtype, trains), (new_shape, new_dtype, still) = before[path], after[path]
        if (shape, dtype) != (new_shape, new_dtype):
            found.append(f"the state {path} changed from {dtype}{list(shape)} to {new_dtype}{list(new_shape)}")
        elif trains != still:
            found.append(f"{path} was {'unfrozen' if still else 'frozen'}")
    return found
