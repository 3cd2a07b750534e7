"""Tracing a forward in evaluation mode, once for each choice of numbers for its unknown sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr

from singax import mode
from singax.autograd.border import framed, is_tensor
from singax.autograd.recorder import unwrapped
from singax.errors import ExportError
from singax.layer import build, tree
from singax.layer.base import Layer
from singax.layer.inside import call_inside, generator_of
from singax.layer.tree import Branch
from singax.ops.operation import capturing
from singax.sonnx.exporter.inputs import Arguments
from singax.sonnx.exporter.recorded import LabelledFrame, Recorded
from singax.sonnx.exporter.symbolic import Dim, probes
from singax.storage import exchanged
from singax.tensor import Tensor

# Multiples, so that what has to divide a size does; the larger ones for models that need room, the odd ones for others.
_SCALES = ((4, 0), (192, 0), (2, 1), (1, 0))


@dataclass
class Capture:
    """A forward as equations: for each trace one program (parameters, then inputs) → outputs.

    `symbols` are the unknown sizes; `calls` the layers that were called, by the number in the labels of equations.
    """

    programs: tuple[ClosedJaxpr, ...]
    symbols: dict[str, Dim]
    parameters: list[tuple[str, Tensor]]
    calls: list[Branch]
    outputs: Any


@dataclass
class _Trace:
    """One trace of a forward."""

    run: Callable[..., Any]
    parameters: list[tuple[str, Tensor]]
    calls: list[Branch] = field(default_factory=list)
    outputs: Any = None

    def program(self, avals: Sequence[jax.ShapeDtypeStruct]) -> ClosedJaxpr:
        states = [jax.ShapeDtypeStruct(t.shape, t.dtype) for _, t in self.parameters]
        self.calls.clear()

        def arrays_only(states: Any, arrays: Any) -> list[Any]:
            leaves, self.outputs = jax.tree.flatten(self.run(states, arrays, self.calls))
            return [leaf for leaf in leaves if hasattr(leaf, "dtype")]

        try:
            with capturing():
                return jax.make_jaxpr(arrays_only)(states, list(avals))
        except NotImplementedError:  # a transformation that no captured operation has a rule for, such as jax.vmap
            self.calls.clear()
            return jax.make_jaxpr(arrays_only)(states, list(avals))


def captured(target: Any, given: Arguments) -> Capture:
    """The forward of a layer, or a function of arrays, as equations."""
    if isinstance(target, Recorded):
        trace = _Trace(target.run, target.parameters)
    else:
        trace = _of_layer(target, given) if isinstance(target, Layer) else _of_function(target, given)
    names = given.symbols
    if not names:
        return _capture(trace, given, [()])
    failure: Exception | None = None
    for scale, offset in _SCALES:
        try:
            return _capture(trace, given, probes(len(names), scale, offset))
        except Exception as error:
            failure = failure or error
    raise ExportError(
        f"the forward does not run for other sizes of {', '.join(names)}: give all sizes in the inputs, and pass "
        f"dynamic_batch=False if the batch must not vary. {type(failure).__name__}: {failure}"
    ) from failure


def _capture(trace: _Trace, given: Arguments, samples: list[tuple[int, ...]]) -> Capture:
    names = given.symbols
    chosen = [dict(zip(names, row, strict=True)) for row in samples]
    programs = tuple(trace.program([one.aval(sizes) for one in given.inputs]) for sizes in chosen)
    symbols = {name: Dim([sizes[name] for sizes in chosen]) for name in names}
    return Capture(programs, symbols, trace.parameters, list(trace.calls), trace.outputs)


def _of_layer(layer: Layer, given: Arguments) -> _Trace:
    forward = build.own_forward(layer)
    build.ensure(layer, forward, given.filled([_placeholder(one.shape, one.dtype) for one in given.inputs]), {})
    parameters = tree.tensors(layer)
    generator = generator_of(layer).cell
    cells = [tensor._cell for _, tensor in parameters] + [generator]

    def run(states: Sequence[Any], arrays: Sequence[Any], calls: list[Branch]) -> Any:
        frame = LabelledFrame(cells, generator, calls, compute=tree.compute_dtype(layer))
        with exchanged(cells, [*states, generator.array()]), framed(frame), mode.training_mode(False):
            return unwrapped(call_inside(frame, layer, forward, given.filled(arrays), {}))

    return _Trace(run, parameters)


def _of_function(function: Callable[..., Any], given: Arguments) -> _Trace:
    def run(states: Sequence[Any], arrays: Sequence[Any], calls: list[Branch]) -> Any:
        with mode.training_mode(False):
            out = function(*given.filled(arrays))
        return jax.tree.map(lambda v: v.data if isinstance(v, Tensor) else v, out, is_leaf=is_tensor)

    return _Trace(run, [])


def _placeholder(shape: tuple[int | str, ...], dtype: Any) -> Tensor:
    return Tensor(tuple(None if isinstance(n, str) else n for n in shape), dtype=dtype)
