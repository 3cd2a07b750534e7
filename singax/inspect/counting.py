"""Floating-point operations of a jaxpr, per layer and pass.

The body of a scan counts times its length, of the branches of a cond the largest. A loop of an unknown number of trips
is named: what is counted is one trip.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from singax.inspect.flops import REDUCTIONS, Flops, own_flops
from singax.inspect.scopes import HERE, Key, joined, scope_of
from singax.jaxprs import COMPOSITE, expanded, opened, programs_in

Table = dict[Key, Flops]
_NOT_RUN = frozenset({"jvp_jaxpr_fun", "fwd_jaxpr_thunk", "jvp_jaxpr_thunk", "bwd", "to_apply", "update_jaxpr"})


class Counter:
    """Counts jaxprs; each distinct inner jaxpr is looked at once."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, Table]] = {}

    def table(self, jaxpr: Any) -> Table:
        """Scope and pass → operations, of a (closed) jaxpr."""
        inner = opened(jaxpr)
        if id(inner) not in self._known:
            self._known[id(inner)] = inner, self._counted(inner)
        return self._known[id(inner)][1]

    def _counted(self, jaxpr: Any) -> Table:
        found: Table = {}
        for equation in jaxpr.eqns:
            scope = scope_of(equation)
            for below, flops in self._of(equation).items():
                found.setdefault(joined(scope, below), Flops()).add(flops)
        return found

    def _of(self, equation: Any) -> Table:
        name = equation.primitive.name
        parts = [self.table(jaxpr) for jaxpr in inner_jaxprs(equation)]
        if name == "scan":
            return _sum(parts, equation.params["length"])
        if name == "while":
            made = _sum(parts)
            made.setdefault(HERE, Flops()).unknown["while of an unknown number of trips"] = 1
            return made
        if name == "cond":
            return max(parts, key=lambda part: sum(flops.total for flops in part.values()))
        if parts and name not in REDUCTIONS and not name.startswith(("reduce", "scatter", "select_and")):
            return _sum(parts)
        return {HERE: own_flops(equation)}


def inner_jaxprs(equation: Any) -> Iterator[Any]:
    """The jaxprs that an equation runs."""
    if equation.primitive.name == COMPOSITE:
        return iter((opened(expanded(equation)),))
    return (opened(program) for name, program in programs_in(equation.params) if name not in _NOT_RUN)


def _sum(tables: Iterable[Table], times: float = 1) -> Table:
    made: Table = {}
    for table in tables:
        for key, flops in table.items():
            made.setdefault(key, Flops()).add(flops, times)
    return made
