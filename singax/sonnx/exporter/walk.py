"""From equations to nodes: calls are inlined, what only depends on constants is computed, the rest is lowered."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Literal

from singax.errors import ExportError
from singax.jaxprs import CALLS, COMPOSITE, expanded
from singax.sonnx.exporter import lowering, twins
from singax.sonnx.exporter.equations import Aval, Differing, Equation, aval_of, constant_of, rows
from singax.sonnx.exporter.graph import Graph, Ref, Session, constant
from singax.sonnx.exporter.lowering import complex_numbers
from singax.sonnx.exporter.registry import Call, lowering_of
from singax.sonnx.exporter.symbolic import Dim, is_static, merged_size

# Primitives that stand for the program in one of their parameters.
_INLINED = {
    **CALLS, "core_call": "call_jaxpr", "custom_vjp_call_jaxpr": "fun_jaxpr", "custom_lin": "call_jaxpr",
    "run_state": "jaxpr",
}  # fmt: skip
MOST_FOLDED = 1 << 22  # elements; what is larger is computed when the file runs

Programs = tuple[ClosedJaxpr, ...]


class Walker:
    """Walks one program and everything inside it."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def __call__(self, graph: Graph, programs: Programs, inputs: Sequence[Ref]) -> list[Ref]:
        """Write a program into a graph; returns its outputs."""
        first = programs[0].jaxpr
        known: dict[Any, Ref] = {}
        constants = [constant_ref([p.consts[k] for p in programs]) for k in range(len(programs[0].consts))]
        known.update(zip([*first.constvars, *first.invars], [*constants, *inputs], strict=True))
        outer = self.session.scope
        for equation in rows([program.jaxpr for program in programs], outer):
            self.session.scope = equation.scope
            operands = self._operands(equation, known)
            results = self._results(graph, equation, operands)
            known.update(zip(equation.variants[0].outvars, results, strict=True))
        self.session.scope = outer
        return [_read(known, [p.jaxpr.outvars[k] for p in programs]) for k in range(len(first.outvars))]

    def _operands(self, equation: Equation, known: dict[Any, Ref]) -> list[Ref]:
        variables = zip(*[eqn.invars for eqn in equation.variants], strict=True)
        return [_read(known, row) for row in variables]

    def _results(self, graph: Graph, equation: Equation, operands: list[Ref]) -> list[Ref]:
        try:
            results = self._lowered(graph, equation, operands)
        except ExportError as error:
            self.session.problem(str(error))
            results = [Ref("") for _ in equation.outputs]
        for ref, aval in zip(results, equation.outputs, strict=True):
            _describe(graph, ref, aval)
        return results

    def _lowered(self, graph: Graph, equation: Equation, operands: list[Ref]) -> list[Ref]:
        key = _INLINED.get(equation.name)
        if key is not None:
            return self(graph, equation.inner(key), operands)
        if equation.name == COMPOSITE:
            return self(graph, tuple(map(expanded, equation.variants)), operands)
        folded = _folded(equation, operands)
        if folded is not None:
            return folded
        results = self._by_its_kind(Call(graph, equation, self), operands)
        return [results] if isinstance(results, Ref) else list(results)

    def _by_its_kind(self, call: Call, operands: list[Ref]) -> Ref | Sequence[Ref]:
        equation = call.equation
        dtypes = [ref.dtype for ref in operands] + [aval.dtype for aval in equation.outputs]
        if any(map(complex_numbers.is_complex, dtypes)):
            return complex_numbers.lowered(call, operands)
        if equation.name == twins.PRIMITIVE:
            return twins.lowered(call, operands)
        found = lowering_of(equation.name)
        if found is None:
            raise ExportError(lowering.refusal(equation.name))
        return found(call, *operands)


def _describe(graph: Graph, ref: Ref, aval: Aval) -> None:
    ref.shape, ref.dtype = aval.shape, aval.dtype
    graph.has_axes(ref)


def _read(known: dict[Any, Ref], atoms: Sequence[Any]) -> Ref:
    if isinstance(atoms[0], Literal):
        return constant_ref([atom.val for atom in atoms], aval_of([atom.aval for atom in atoms]))
    return known[atoms[0]]


def constant_ref(values: Sequence[Any], aval: Aval | None = None) -> Ref:
    """A constant; one that differs between the traces is remembered as a number that follows from the symbols."""
    value = constant_of(values)
    if isinstance(value, Differing):
        dtype = value.samples[0].dtype if aval is None else aval.dtype
        shape = tuple(merged_size(sizes) for sizes in zip(*[v.shape for v in value.samples], strict=True))
        return Ref(None, shape, dtype, samples=value.samples)
    return constant(value if aval is None else np.asarray(value, aval.dtype))


def _folded(equation: Equation, operands: list[Ref]) -> list[Ref] | None:
    """The results as constants, if all operands are and nothing depends on an unknown size."""
    values = [ref.value for ref in operands]
    if any(value is None for value in values) or not _foldable(equation):
        return None
    eqn = equation.variants[0]
    with jax.default_device(jax.devices("cpu")[0]):
        made = eqn.primitive.bind(*values, **eqn.params)
    return [constant(np.asarray(value)) for value in (made if eqn.primitive.multiple_results else [made])]


def _foldable(equation: Equation) -> bool:
    outputs = equation.outputs
    if equation.name.startswith(("random_", "threefry")) or equation.name in ("scan", "while", "cond"):
        return False
    if not all(is_static(aval.shape) and math.prod(cast(Any, aval.shape)) <= MOST_FOLDED for aval in outputs):
        return False
    attributes = [eqn.params.get("attributes") for eqn in equation.variants]
    return attributes.count(attributes[0]) == len(attributes) and not _has_unknown(equation.params)


def _has_unknown(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_unknown, value.values()))
    if isinstance(value, tuple | list):
        return any(map(_has_unknown, value))
    return isinstance(value, Dim)
