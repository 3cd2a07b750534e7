"""One abstract run of a method: its jaxpr, which layers were called with what, and what is kept for backward."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax

from singax import arguments
from singax.inspect.alike import BuildOnce, Likeness, Once
from singax.inspect.abstract import abstract_copy, build_forward, create_slots, struct
from singax.layer import tree
from singax.layer.tree import Branch
from singax.mode import NeedsBuild, StepContext, local
from singax.module import Module
from singax.program import MOST_RESTARTS, functionalize
from singax.tensor import Tensor

Struct = jax.ShapeDtypeStruct


@dataclass
class LayerCall:
    """One call of a layer: its path and class, and shapes and dtypes of its arrays."""

    path: str
    kind: str
    inputs: Any
    outputs: Any = None
    layer: Branch | None = field(default=None, repr=False)


@dataclass
class Update:
    """The jaxpr of updating one parameter, and for how many parameters it stands."""

    jaxpr: Any
    count: int


@dataclass
class Traced:
    """What an abstract run has shown. `kept` are positions among the outputs of the jaxpr, in blocks per recording."""

    module: Module
    jaxpr: Any
    calls: list[LayerCall]
    states: dict[str, Struct]
    inputs: list[Struct]
    outputs: Any
    kept: list[int]


class Watch:
    """The observer of an abstract run."""

    def __init__(self, module: Module) -> None:
        self.calls: list[LayerCall] = []
        self.kept: list[Any] = []
        self.likeness, self.once = Likeness(module), Once()
        self.builder = BuildOnce(self.likeness)
        self.updates: list[Update] = []
        self.gradients: list[Any] = []

    def layer(self, layer: Any, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Note the call, and run it."""
        if local.frame is not None and local.frame.building:
            return self.builder.run(layer, function, args, kwargs)
        call = LayerCall(layer._path, type(layer).__name__, shapes((args, kwargs)), layer=layer)
        self.calls.append(call)
        if self.likeness.repeats(layer):
            out, _ = self.once.run(self.likeness.signature(layer), layer, function, args, kwargs)
        else:
            out = function(layer, *args, **kwargs)
        call.outputs = shapes(out)
        return out

    def update(self, optimizer: Any, named: Any) -> None:
        """Keep the gradients; trace the update of one parameter of each shape."""
        groups: dict[Any, list[str]] = {}
        for key, (parameter, gradient) in named.items():
            groups.setdefault((parameter.shape, parameter.dtype, gradient.dtype), []).append(key)
        for keys in groups.values():
            jaxpr = optimizer.abstract_update({keys[0]: named[keys[0]]})
            self.updates.append(Update(jaxpr, len(keys)))
        self.gradients += [gradient for _, gradient in named.values()]

    def recorded(self, name: str, vjp: Any) -> None:
        """Keep the arrays that a recorded call holds until its backward pass."""
        self.kept += jax.tree.leaves(vjp)


class watching:
    """Make `watch` the observer for the block."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch

    def __enter__(self) -> Watch:
        self.saved, local.observer = local.observer, self.watch
        return self.watch

    def __exit__(self, *_: Any) -> None:
        local.observer = self.saved


def shapes(values: Any) -> Any:
    """Structs in place of arrays and Tensors."""
    return jax.tree.map(
        lambda v: Struct(tuple(v.shape), v.dtype) if hasattr(v, "dtype") else v,
        values,
        is_leaf=lambda v: isinstance(v, Tensor),
    )


def trace_step(module: Module, name: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Traced:
    """Trace the step `name` of a copy of `module`, in training mode."""
    copied = abstract_copy(module)
    function = getattr(type(module), name).__wrapped__
    packed = arguments.pack(function, inputs, kwargs)
    for _ in range(MOST_RESTARTS):
        create_slots(copied)
        cells = list(copied._current_bank().cells)
        try:
            found = _run(copied, function, cells, packed)
        except NeedsBuild:
            continue
        if found is not None:
            return found
    raise AssertionError("a step that creates layers each time is refused while it is traced")


def _run(module: Module, function: Callable[..., Any], cells: list[Any], packed: arguments.Packed) -> Traced | None:
    contexts: list[StepContext] = []
    pure = functionalize(module, function, cells, packed.form, True, contexts.append)
    watch, shown = Watch(module), []

    def run(values: list[Any], inputs: list[Any]) -> Any:
        new, out = pure(values, inputs)
        shown.append(shapes(out))
        return new, jax.tree.leaves(out), watch.gradients, watch.kept

    values = [struct(cell) for cell in cells]
    with watching(watch):
        jaxpr = jax.make_jaxpr(run)(values, packed.inputs)
    if module._ledger.after_trace(function.__name__, contexts[-1]):
        return None
    states = dict(zip(module._bank.paths, values, strict=True))
    count = len(jaxpr.jaxpr.outvars)
    return Traced(
        module, jaxpr, watch.calls, states, list(packed.inputs), shown[-1], list(range(count - len(watch.kept), count))
    )
