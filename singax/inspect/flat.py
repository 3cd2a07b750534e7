"""A jaxpr as one list of operations on numbered values: calls of inner functions are written out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from singax import dtypes
from singax.inspect.counting import inner_jaxprs
from singax.inspect.scopes import OUTSIDE, Key, joined, scope_of
from singax.jaxprs import opened

LOOPS = frozenset({"scan", "while", "cond"})


def nbytes(aval: Any) -> int:
    """Bytes of an array with this shape and dtype (random keys count as their words)."""
    return dtypes.nbytes(getattr(aval, "shape", ()), aval.dtype)


@dataclass(slots=True)
class Operation:
    """One equation: its inputs and results by number, and the scope in which it stands."""

    equation: Any
    inputs: tuple[int, ...]
    results: tuple[int, ...]
    scope: Key


class Flat:
    """`operations` in order; `avals[i]` and `sizes[i]` (bytes) of value i; `arguments` and `results` of the whole."""

    def __init__(self, jaxpr: Any, around: Key = OUTSIDE) -> None:
        self.operations: list[Operation] = []
        self.avals: list[Any] = []
        self.sizes: list[int] = []
        self._seen: dict[int, tuple[Any, Key, Any]] = {}
        inner = opened(jaxpr)
        self.constants = [self._new(var.aval) for var in inner.constvars]
        self.arguments = [self._new(var.aval) for var in inner.invars]
        self.results = self._inline(inner, self.constants + self.arguments, around)

    def _new(self, aval: Any) -> int:
        self.avals.append(aval)
        self.sizes.append(nbytes(aval))
        return len(self.avals) - 1

    def _inline(self, jaxpr: Any, given: Sequence[int | None], around: Key) -> list[int | None]:
        """Write out the operations of `jaxpr`; None stands for a literal."""
        known: dict[Any, int | None] = dict(zip([*jaxpr.constvars, *jaxpr.invars], given, strict=True))
        look = lambda var: None if hasattr(var, "val") else known[var]  # noqa: E731
        for equation in jaxpr.eqns:
            scope, body = self._known(equation)
            scope = joined(around, scope)
            inputs = [look(var) for var in equation.invars]
            if body is None:
                results: Sequence[int | None] = [self._new(var.aval) for var in equation.outvars]
                self._append(equation, inputs, results, scope)
            else:
                results = self._inline(body, [*self._constants(body), *inputs], scope)
            known.update(zip(equation.outvars, results, strict=True))
        return [look(var) for var in jaxpr.outvars]

    def _append(self, equation: Any, inputs: Sequence[int | None], results: Sequence[Any], scope: Key) -> None:
        read = tuple([i for i in inputs if i is not None])
        self.operations.append(Operation(equation, read, tuple(results), scope))

    def _constants(self, body: Any) -> list[int]:
        return [self._new(var.aval) for var in body.constvars]

    def _known(self, equation: Any) -> tuple[Key, Any]:
        """The scope of an equation, and the jaxpr to write out in its place, if any."""
        if id(equation) not in self._seen:
            self._seen[id(equation)] = equation, scope_of(equation), written_out(equation)
        return self._seen[id(equation)][1:]


def written_out(equation: Any) -> Any:
    """The inner jaxpr of an equation that is a plain call of a function, else None."""
    if equation.primitive.name in LOOPS:
        return None
    bodies = list(inner_jaxprs(equation))
    if len(bodies) != 1 or len(bodies[0].invars) != len(equation.invars):
        return None
    return bodies[0] if len(bodies[0].outvars) == len(equation.outvars) else None


def result_scope(operation: Operation, result: int) -> Key:
    """The scope in which a result was computed, looking into loops."""
    return _scope_in(operation.equation, operation.results.index(result), operation.scope)


def _scope_in(equation: Any, index: int, scope: Key) -> Key:
    body = next(inner_jaxprs(equation), None)
    loop = equation.primitive.name in ("while", "cond")
    if body is None or loop or index >= len(body.outvars):
        return scope
    out = body.outvars[index]
    for inner in body.eqns:
        place = next((k for k, made in enumerate(inner.outvars) if made is out), None)
        if place is not None:
            return _scope_in(inner, place, joined(scope, scope_of(inner)))
    return scope
