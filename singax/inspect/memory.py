"""An estimate of the memory that a compiled program needs besides its arguments, from its jaxpr.

The rule, after what XLA does on CPUs:

- Operations that compute element by element, or only move elements, are fused into whoever reads them; their results
  take no memory, and what they read stays until those readers have run.
- `dot_general`, convolutions, reductions, loops and the like read arrays in memory: what is fused is written out for
  them, once for each layout (a convolution has layouts of its own). So are results of costly functions (exp, tanh …)
  with several readers, unless those are computed in one go.
- A parameter that a matrix product reads is copied first, since the new value takes its place.
- An operation runs as soon as what it reads is there, and a value goes when its last reader has run. Gradients go when
  their parameter is updated, which happens at once.
- What no result needs does not run at all. Loops need what their body needs, besides what goes in and comes out.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any

from singax.inspect.counting import inner_jaxprs
from singax.inspect.flat import LOOPS, Flat, Operation
from singax.inspect.flops import ELEMENTWISE, MOVING, names

_COSTLY = names("exp exp2 log log2 log1p expm1 tanh logistic erf erf_inv pow sin cos sqrt rsqrt")
_WRITTEN = frozenset({"gather", "concatenate", "random_bits", "threefry2x32", "sort", "top_k", "argmax", "argmin"})
_SAME_BYTES = frozenset({"reshape", "squeeze", "expand_dims", "copy", "stop_gradient", "optimization_barrier", "name"})
_BROADCASTS = frozenset({"broadcast_in_dim", "iota"})
_FUSED = (ELEMENTWISE | MOVING) - _WRITTEN
Roots = frozenset[int]


@dataclass(slots=True)
class Buffer:
    """An array in memory: its bytes, the step that writes it, the last step that reads it."""

    size: int
    written: int
    last: int


class Liveness:
    """Which buffers are there at the same time.

    `donated` are arguments whose place new values take; `brief` are results that are read once, at once.
    """

    def __init__(self, flat: Flat, results: Iterable[int | None], donated: Iterable[int] = (), brief: Any = ()) -> None:
        self._flat, self._donated, self._brief = flat, set(donated), set(brief)
        self._results = {value for value in results if value is not None}
        self._given = {*flat.arguments, *flat.constants}
        self._buffers: list[Buffer] = []
        self._roots: dict[int, Roots] = {}
        self._makers: dict[int, Operation] = {}
        self._alias: dict[int, int] = {}
        self._written: dict[Hashable, int] = {}
        self._inside: list[tuple[int, int]] = []
        self._readers: dict[int, list[Operation]] = {}
        self._place()

    def peak(self) -> int:
        """The most bytes that are taken at any time."""
        changes: dict[int, int] = {}
        for buffer in self._buffers:
            changes[buffer.written] = changes.get(buffer.written, 0) + buffer.size
            changes[buffer.last + 1] = changes.get(buffer.last + 1, 0) - buffer.size
        inside: dict[int, int] = {}
        for step, size in self._inside:
            inside[step] = max(size, inside.get(step, 0))
        now = most = 0
        for step in sorted({*changes, *inside}):
            now += changes.get(step, 0)
            most = max(most, now + inside.get(step, 0))
        return most

    def _place(self) -> None:
        """Find the buffers, in the order of the trace."""
        operations = needed(self._flat, self._results)
        for operation in operations:
            for value in operation.inputs:
                self._readers.setdefault(value, []).append(operation)
        for operation in operations:
            self._add(operation)
        end = max((buffer.written for buffer in self._buffers), default=0)
        for value in self._results:
            if self._flat_source(value) not in self._given:
                held = self._write_out(value, None)
                self._mark(held, self._step_after(held) if value in self._brief else end)

    def _add(self, operation: Operation) -> None:
        name = operation.equation.primitive.name
        if name in _SAME_BYTES or (name in ("transpose", "broadcast_in_dim") and self._is_view(operation)):
            source = self._flat_source(operation.inputs[0]) if operation.inputs else None
            if source is not None:
                self._alias[operation.results[0]] = source
                return
        for value in operation.results:
            self._makers[value] = operation
        if name in _FUSED and not (name == "pad" and _spreads(operation.equation)):
            self._fuse(operation, name in _COSTLY)
        elif name in _WRITTEN or name == "pad":
            self._run(operation, self._roots_of(operation.inputs))
        else:
            self._run(operation, self._inputs_of(operation))

    def _is_view(self, operation: Operation) -> bool:
        """Whether the result has the bytes of the operand in the same order, or a product reads it as it is."""
        sizes = [self._flat.sizes[value] for value in (*operation.inputs[:1], *operation.results)]
        return len(set(sizes)) == 1 and len(self._flat.avals[operation.results[0]].shape) <= 2

    def _fuse(self, operation: Operation, costly: bool) -> None:
        result, roots = operation.results[0], self._roots_of(operation.inputs)
        if costly and len({id(self._fused_into(reader)) for reader in self._readers.get(result, ())}) > 1:
            self._written[result, None] = self._new(self._flat.sizes[result], roots)
            self._roots[result] = frozenset((self._written[result, None],))
        else:
            for value in operation.results:
                self._roots[value] = roots

    def _fused_into(self, operation: Operation) -> Operation:
        """The last of the operations that compute in one go from here on: each has the next one as its only reader."""
        while operation.equation.primitive.name in _FUSED:
            readers = self._readers.get(operation.results[0], ())
            if len(readers) != 1 or operation.results[0] in self._results:
                break
            operation = readers[0]
        return operation

    def _run(self, operation: Operation, read: Roots) -> None:
        """An operation that writes its results to memory."""
        body = max(map(body_peak, inner_jaxprs(operation.equation)), default=0) if self._is_loop(operation) else 0
        step = self._step_after(read)
        for value in operation.results:
            size = 0 if value not in self._readers and value not in self._results else self._flat.sizes[value]
            self._buffers.append(Buffer(size, step, step))
            self._roots[value] = frozenset((len(self._buffers) - 1,))
        self._mark(read, step)
        if body:
            self._inside.append((step, body))

    def _is_loop(self, operation: Operation) -> bool:
        return operation.equation.primitive.name in LOOPS

    def _inputs_of(self, operation: Operation) -> Roots:
        """The buffers that an operation reads which cannot compute its operands on the way."""
        name, values = operation.equation.primitive.name, list(operation.inputs)
        if name.startswith("reduce_") and values:
            values = self._factors(values[0])
        tags = [_layout(operation.equation, place) for place in range(len(values))]
        parts = [self._write_out(value, tag) for value, tag in zip(values, tags, strict=True)]
        return frozenset().union(*parts)

    def _factors(self, value: int) -> list[int]:
        """A reduction multiplies on the way: the factors of its operand, if that is a product."""
        maker = self._makers.get(self._flat_source(value))
        if maker is None or maker.equation.primitive.name not in ("mul", "square", "integer_pow"):
            return [value]
        return list(maker.inputs)

    def _write_out(self, value: int, layout: Hashable) -> Roots:
        """The buffer that holds a value in some layout; it is written if there is none."""
        value = self._flat_source(value)
        copied = layout is not None and not self._is_result_of_run(value)
        if value in self._given and not (copied or value in self._donated):
            return frozenset()
        if self._is_result_of_run(value):
            return self._roots[value]
        key = (value, layout)
        if key not in self._written:
            self._written[key] = self._new(self._flat.sizes[value], self._roots.get(value, frozenset()))
            if layout is None and value in self._roots and self._joins(value):
                self._roots[value] = frozenset((self._written[key],))
        return frozenset((self._written[key],))

    def _joins(self, value: int) -> bool:
        """Whether it is made from two arrays of its size: once it is in memory, nobody computes it again."""
        count = math.prod(self._flat.avals[value].shape)
        return sum(self._is_full(self._flat_source(v), count) for v in self._makers[value].inputs) > 1

    def _is_full(self, value: int, count: int) -> bool:
        maker = self._makers.get(value)
        spread = maker is not None and maker.equation.primitive.name in _BROADCASTS
        return not spread and math.prod(self._flat.avals[value].shape) >= count

    def _is_result_of_run(self, value: int) -> bool:
        maker = self._makers.get(value)
        return maker is not None and maker.equation.primitive.name not in _FUSED

    def _flat_source(self, value: int) -> int:
        return self._alias.get(value, value)

    def _roots_of(self, values: Iterable[int]) -> Roots:
        parts = [self._roots.get(self._flat_source(value), frozenset()) for value in values]
        return parts[0] if len(parts) == 1 else frozenset().union(*parts)

    def _new(self, size: int, read: Roots) -> int:
        step = self._step_after(read)
        self._mark(read, step)
        self._buffers.append(Buffer(size, step, step))
        return len(self._buffers) - 1

    def _step_after(self, read: Roots) -> int:
        return max((self._buffers[k].written for k in read), default=-1) + 1

    def _mark(self, read: Roots, step: int) -> None:
        for k in read:
            self._buffers[k].last = max(self._buffers[k].last, step)


def needed(flat: Flat, results: Iterable[int]) -> list[Operation]:
    """The operations that a result depends on."""
    wanted, found = set(results), []
    for operation in reversed(flat.operations):
        if any(value in wanted for value in operation.results):
            wanted.update(operation.inputs)
            found.append(operation)
    return found[::-1]


def body_peak(body: Any) -> int:
    """The peak of a jaxpr on its own."""
    flat = Flat(body)
    return Liveness(flat, flat.results).peak()


def _spreads(equation: Any) -> bool:
    return any(interior for _, _, interior in equation.params["padding_config"])


def _layout(equation: Any, place: int) -> Hashable:
    """Which layout an operation wants its operand in; None for the usual one."""
    if equation.primitive.name == "conv_general_dilated" and math.prod(equation.outvars[0].aval.shape) > 1:
        numbers = equation.params["dimension_numbers"]
        return "conv", place, tuple(numbers.lhs_spec if place == 0 else numbers.rhs_spec)
    if equation.primitive.name == "dot_general" and equation.params["dimension_numbers"][1][0]:
        return "dot", id(equation), place
    return None
