"""An estimate of the memory that a compiled program needs besides its arguments, from its jaxpr.

The rule. Operations that compute element by element, or only move elements, are fused into whoever reads them: their
results take no memory, and what they read stays until the last of those readers has run. All other results
(`dot_general`, convolutions, reductions, loops …) take memory from where they are computed to where they are read last.
Operations run in the order of the trace; those that no result needs do not run at all.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from singax.inspect.counting import inner_jaxprs
from singax.inspect.flat import Flat, Operation
from singax.inspect.flops import ELEMENTWISE, MOVING

_FUSED = ELEMENTWISE | MOVING
_LOOPS = ("scan", "while", "cond")


class Liveness:
    """Which values are there at the same time."""

    def __init__(self, flat: Flat, results: Iterable[int | None]) -> None:
        self._flat = flat
        self._results = {value for value in results if value is not None}
        self._operations = self._needed()
        self._roots: dict[int, frozenset[int]] = {}
        self._transient: dict[int, int] = {}

    def _needed(self) -> list[Operation]:
        """The operations that a result depends on."""
        wanted, found = set(self._results), []
        for operation in reversed(self._flat.operations):
            if any(value in wanted for value in operation.results):
                wanted.update(operation.inputs)
                found.append(operation)
        return found[::-1]

    def peak(self) -> int:
        """The most bytes that are taken at any time by values that are neither arguments nor constants."""
        sizes = self._flat.sizes
        steps = self._steps()
        last = {value: k for k, (read, _, _) in enumerate(steps) for value in read}
        ends: dict[int, list[int]] = {}
        for value, k in last.items():
            ends.setdefault(k, []).append(value)
        kept = self._kept_to_the_end()
        now = most = 0
        taken: set[int] = set()
        for k, (_, made, transient) in enumerate(steps):
            for value in made:
                if value not in taken and (value in last or value in kept):
                    taken.add(value)
                    now += sizes[value]
            most = max(most, now + transient)
            for value in ends.get(k, ()):
                if value in taken and value not in kept:
                    taken.discard(value)
                    now -= sizes[value]
        return most

    def _steps(self) -> list[tuple[frozenset[int], tuple[int, ...], int]]:
        """For each operation that takes memory: what it reads, what it makes, what it needs while it runs."""
        found = []
        for operation in self._operations:
            read = self._read(operation)
            if self._is_fused(operation):
                for value in operation.results:
                    self._roots[value] = read
            else:
                found.append((read, operation.results, self._inside(operation)))
        last = self._kept_roots()
        return [*found, (last, (), 0)]

    def _kept_roots(self) -> frozenset[int]:
        return frozenset().union(*(self._roots.get(value, frozenset((value,))) for value in self._results))

    def _read(self, operation: Operation) -> frozenset[int]:
        parts = [self._roots.get(value) or frozenset((value,)) for value in operation.inputs]
        return parts[0] if len(parts) == 1 else frozenset().union(*parts)

    def _is_fused(self, operation: Operation) -> bool:
        return operation.equation.primitive.name in _FUSED

    def _kept_to_the_end(self) -> set[int]:
        return self._results

    def _inside(self, operation: Operation) -> int:
        """What the body of a loop needs."""
        equation = operation.equation
        if equation.primitive.name not in _LOOPS:
            return 0
        if id(equation) not in self._transient:
            self._transient[id(equation)] = max(map(body_peak, inner_jaxprs(equation)), default=0)
        return self._transient[id(equation)]


def body_peak(body: Any) -> int:
    """The peak of a jaxpr on its own."""
    flat = Flat(body)
    return Liveness(flat, flat.results).peak()
