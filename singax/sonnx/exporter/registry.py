"""Which function lowers which primitive of JAX.

>>> @lowers("sin_of_an_example")
... def sine(call: Call, x: Ref) -> Ref:
...     return call.graph.op("Sin", x)
>>> lowering_of("sin_of_an_example") is sine
True
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from jax.extend.core import ClosedJaxpr

from singax.sonnx.exporter.equations import Aval, Equation
from singax.sonnx.exporter.graph import Graph, Ref

Walk = Callable[[Graph, tuple[ClosedJaxpr, ...], Sequence[Ref]], list[Ref]]
Lowering = Callable[..., Ref | Sequence[Ref]]


@dataclass(frozen=True)
class Call:
    """One equation to be lowered: the graph it goes to, and how programs inside it are walked.

    A lowering receives the call and a Ref for each operand, and returns a Ref for each result, with the dtypes of
    `equation.outputs`. `walk(graph, programs, inputs)` writes an inner program, which `equation.inner` gives, into a
    graph and returns its outputs.
    """

    graph: Graph
    equation: Equation
    walk: Walk

    @property
    def params(self) -> dict[str, Any]:
        """The parameters of the equation; integers that differ between the traces are `Dim`s."""
        return self.equation.params

    @property
    def out(self) -> Aval:
        """Shape and dtype of the first result."""
        return self.equation.outputs[0]

    @property
    def opset(self) -> int:
        """The version of ONNX's operators that the file is written for."""
        return self.graph.session.opset


_LOWERINGS: dict[str, Lowering] = {}


def lowers(*primitives: str) -> Callable[[Lowering], Lowering]:
    """Register the decorated function for these primitives."""

    def register(function: Lowering) -> Lowering:
        for name in primitives:
            _LOWERINGS[name] = function
        return function

    return register


def lowering_of(primitive: str) -> Lowering | None:
    """The lowering of a primitive, if there is one."""
    return _LOWERINGS.get(primitive)
