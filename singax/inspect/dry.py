"""The dry run itself."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np

from singax import arguments
from singax.arguments import Packed
from singax.autograd.border import is_tensor
from singax.checked import integer
from singax.errors import ArgumentError, NameMismatchError, ShapeError
from singax.inspect.abstract import abstract
from singax.inspect.measure import Measured, kept_by, measured
from singax.inspect.quantity import PROBES, merged
from singax.inspect.report import DryRun
from singax.inspect.trace import Task, Traced, trace
from singax.module import Module, compute_dtype
from singax.tensor import Tensor

Struct = jax.ShapeDtypeStruct


@contextmanager
def uncollected() -> Iterator[None]:
    """No garbage collection in the block: a trace makes many objects, hardly any of them in cycles, and the collector
    would look at all of them again and again (0.88 of the time without it).
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class Plan:
    """What is to be traced: a method of a model with these arguments, for any size of the batch."""

    def __init__(
        self, module: Module, method: str, args: tuple[Any, ...], kwargs: dict[str, Any], precision: Any
    ) -> None:
        self.module, self.method, self.args, self.kwargs, self.precision = module, method, args, kwargs, precision
        self.function = _function(module, method)
        leaves = jax.tree.leaves((args, kwargs), is_leaf=is_tensor)
        self.shapes = [tuple(leaf.shape) for leaf in leaves if hasattr(leaf, "shape") and hasattr(leaf, "dtype")]
        self.is_open = any(None in shape for shape in self.shapes)
        self.batch = next((shape[0] for shape in self.shapes if shape), None)

    @property
    def trains(self) -> bool:
        """Whether the method runs in training mode."""
        return self.method != "forward"

    def measure(self, batch: int | None) -> Measured:
        """The numbers for one size of the batch; None: as the arguments say."""
        if self.trains:
            return self.seen(batch, True, measured)
        kept = self.seen(batch, True, kept_by)
        return self.seen(batch, False, lambda found: measured(found, kept))

    def seen(self, batch: int | None, training: bool, look: Callable[[Traced], Any], xla: bool = False) -> Any:
        """What `look` finds in one abstract run."""
        with uncollected(), abstract(self.module) as borrowed:
            if self.precision is not None:
                self.module.__dict__["_compute_dtype"] = compute_dtype(self.precision)
            task = Task(self.module, self.function, self._packed(batch), training, self.trains)
            return look(trace(task, borrowed, xla))

    def _packed(self, batch: int | None) -> Packed:
        if batch is None or self.is_open:
            return arguments.pack_shapes(self.function, self.args, self.kwargs, batch)
        change = lambda leaf: _resized(leaf, self.batch, batch)  # noqa: E731
        args, kwargs = jax.tree.map(change, (self.args, self.kwargs), is_leaf=is_tensor)
        return arguments.pack_shapes(self.function, args, kwargs)


def _resized(leaf: Any, old: int | None, new: int) -> Any:
    """An array argument with another first size, if that is the size of the batch."""
    if not isinstance(leaf, Tensor | jax.Array | np.ndarray | Struct) or not leaf.shape or leaf.shape[0] != old:
        return leaf
    return Struct((new, *leaf.shape[1:]), leaf.dtype)


def _function(module: Module, method: str) -> Callable[..., Any]:
    if method == "forward":
        return type(module).forward
    if method not in module._step_names:
        known = ", ".join(["forward", *sorted(module._step_names)])
        raise NameMismatchError(f"{type(module).__name__} has no step named {method!r}; dry_run knows: {known}")
    return getattr(type(module), method).__wrapped__


def _for_any_size(plan: Plan) -> Measured:
    """The numbers as functions of N. Raises `ShapeError` where a parameter depends on it."""
    found: Measured = merged([plan.measure(n) for n in PROBES])
    for row in found.layers:
        if not isinstance(row.parameters, int):
            raise ShapeError(
                f"the parameters of {row.path or plan.module._where} depend on a size that is None in the placeholder: "
                "give that size"
            )
    return found


def dry_run(
    module: Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    method: str,
    batch: int | None,
    precision: Any,
    xla: bool,
) -> DryRun:
    """See `Module.dry_run`."""
    batch = None if batch is None else integer("batch", batch, 1)
    if xla and any(None in shape for shape in Plan(module, method, args, kwargs, precision).shapes) and batch is None:
        raise ArgumentError("xla=True compiles for one size: give the batch, since a size is None")
    plan = Plan(module, method, args, kwargs, precision)
    symbolic = plan.is_open and batch is None
    found = _for_any_size(plan) if symbolic else plan.measure(batch)
    dtype = module._compute_dtype if precision is None else compute_dtype(precision)
    names = tuple(dict.fromkeys(repr(owner) for owner in module._ledger.owners())) if method != "forward" else ()
    shown = "float32" if dtype is None else np.dtype(dtype).name
    size = batch if batch is not None else None if symbolic else plan.batch
    compiled = plan.seen(batch, plan.trains, lambda traced: traced.xla, xla=True) if xla and not symbolic else None
    return DryRun(type(module).__name__, method, shown, names, size, found, plan.measure, compiled)
