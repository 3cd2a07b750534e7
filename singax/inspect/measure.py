"""From a trace to numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax

from singax.inspect.counting import Counter, Table
from singax.inspect.flat import Flat, nbytes
from singax.inspect.flops import Flops
from singax.inspect.kept import Kept, kept_bytes
from singax.inspect.memory import Liveness
from singax.inspect.placed import placed
from singax.inspect.quantity import Quantity, Shape
from singax.inspect.scopes import OUTSIDE, joined
from singax.inspect.trace import Traced
from singax.inspect.watch import LayerCall
from singax.layer import tree
from singax.tensor import Tensor


@dataclass(frozen=True)
class LayerRow:
    """One layer. Numbers include those of the layers below it.

    `path`, `name` (the path from its parent), `kind` (its class), `depth` in the tree, `calls` (how often it is
    called); `inputs` and `outputs` of its first call (None for a layer that was not called); `parameters` (a count),
    `parameter_bytes`, `state_bytes`; `forward` and `backward` (floating-point operations); `kept` (bytes kept for the
    backward pass); `remat_saves` (how many of them `Remat` around it would save).
    """

    path: str
    name: str
    kind: str
    depth: int
    calls: int
    inputs: Any
    outputs: Any
    parameters: Quantity
    parameter_bytes: Quantity
    state_bytes: Quantity
    forward: Quantity
    backward: Quantity
    kept: Quantity
    remat_saves: Quantity


@dataclass(frozen=True)
class Memory:
    """Bytes: `parameters`, `states` (of layers, and the random key), `optimizer` (its slots, rate and counters),
    `inputs`, `outputs`, `gradients`, `kept` (for the backward pass, besides parameters and inputs), `temporaries`
    (everything that is no argument, at the worst moment: an estimate) and `peak`, the estimate of all together.
    """

    parameters: Quantity
    states: Quantity
    optimizer: Quantity
    inputs: Quantity
    outputs: Quantity
    gradients: Quantity
    kept: Quantity
    temporaries: Quantity
    peak: Quantity


@dataclass(frozen=True)
class Measured:
    """All that a dry run has found out for one size of the batch.

    `forward`, `backward` and `update` are floating-point operations; `unknown` names what could not be counted, and how
    often it occurs; `untrained` lists parameters that no gradient reaches, where the model has one step only.
    """

    inputs: tuple[jax.ShapeDtypeStruct | Shape, ...]
    outputs: Any
    layers: tuple[LayerRow, ...]
    memory: Memory
    forward: Quantity
    backward: Quantity
    update: Quantity
    unknown: dict[str, Quantity]
    untrained: tuple[str, ...]


def measured(traced: Traced, kept: Kept | None = None) -> Measured:
    """Count. `kept` for the backward pass is found in the trace, if it is not given."""
    layers = Tree(traced)
    counter, flat = Counter(), Flat(traced.jaxpr)
    passes = _passes(counter.table(traced.jaxpr), layers)
    update = Flops()
    for one in traced.updates:
        update.add(sum_of(counter.table(one.jaxpr)), one.count)
    kept = Kept(flat, _results(flat, traced, 3), layers.ranges) if kept is None else kept
    total = sum_of(counter.table(traced.jaxpr))
    total.add(update)
    sums = [layers.summed([flops.total for flops in one]) for one in passes]
    return Measured(
        tuple(traced.inputs),
        traced.outputs,
        layers.rows(sums[0], sums[1], layers.summed(kept.own), kept.saved),
        _memory(traced, flat, kept.total),
        sums[0][0],
        sums[1][0],
        update.total,
        dict(sorted(total.unknown.items())),
        _untrained(traced),
    )


def kept_by(traced: Traced) -> Kept:
    """What a trace keeps for the backward pass."""
    flat = Flat(traced.jaxpr)
    return Kept(flat, _results(flat, traced, 3), Tree(traced).ranges)


def _results(flat: Flat, traced: Traced, *parts: int) -> list[int | None]:
    """The values of some parts of the results of a trace."""
    return [flat.results[place] for part in parts for place in traced.positions(part)]


def sum_of(table: Table) -> Flops:
    """Everything in a table."""
    total = Flops()
    for flops in table.values():
        total.add(flops)
    return total


def _passes(table: Table, layers: Tree) -> tuple[list[Flops], list[Flops]]:
    found = ([Flops() for _ in layers.ranges], [Flops() for _ in layers.ranges])
    for key, flops in table.items():
        number = joined(OUTSIDE, key).number or 0
        found[key.backward][number if 0 <= number < len(layers.ranges) else 0].add(flops)
    return found


def _memory(traced: Traced, flat: Flat, kept: int) -> Memory:
    held = dict.fromkeys(("parameter", "state", "optimizer"), 0)
    for path, struct in traced.states.items():
        held[traced.kinds[path]] += nbytes(struct)
    temporaries = _temporaries(traced, flat)
    inputs = sum(map(nbytes, traced.inputs))
    outputs = sum(nbytes(struct) for struct in jax.tree.leaves(traced.outputs) if hasattr(struct, "dtype"))
    gradients = kept_bytes(flat, _results(flat, traced, 2))
    peak = sum(held.values()) + inputs + temporaries
    return Memory(
        held["parameter"], held["state"], held["optimizer"], inputs, outputs, gradients, kept, temporaries, peak
    )


def _untrained(traced: Traced) -> tuple[str, ...]:
    """Parameters without a gradient, for a model that is trained by one step alone."""
    alone = traced.parts[2] > 0 and len(traced.module._step_names) == 1
    return tuple(traced.module._ledger.untrained()) if alone else ()


def _temporaries(traced: Traced, flat: Flat) -> int:
    """The estimate of everything that is no argument; the update of a parameter reads its gradient at once."""
    states = flat.arguments[: len(traced.states)]
    changed = {path for path, kind in traced.kinds.items() if kind == "parameter"} if traced.updates else set()
    donated = [value for value, path in zip(states, traced.states, strict=True) if path in changed]
    return Liveness(flat, _results(flat, traced, 0, 1, 2), donated, _results(flat, traced, 2)).peak()


class Tree:
    """The layers of a traced model, numbered as they stand in the tree."""

    def __init__(self, traced: Traced) -> None:
        self._traced = traced
        self._layers = placed(traced.module)
        self.ranges = [(layer.parent, layer.end) for layer in self._layers]

    def summed(self, own: Sequence[float]) -> list[float]:
        """For each layer the sum over itself and everything below."""
        total = list(own)
        for number in range(len(total) - 1, 0, -1):
            total[self.ranges[number][0]] += total[number]
        return total

    def rows(
        self, forward: list[float], backward: list[float], kept: list[float], saved: list[int]
    ) -> tuple[LayerRow, ...]:
        """One row for each layer."""
        held = [self.summed(numbers) for numbers in self._held()]
        calls: dict[int, list[Any]] = {}
        for call in self._traced.calls:
            calls.setdefault(call.number, []).append(call)
        made = []
        for number, at in enumerate(self._layers):
            first = (calls.get(number) or [LayerCall(number, None)])[0]
            columns: tuple[Any, ...] = (*held, forward, backward, kept, saved)
            numbers = [part[number] for part in columns]
            count = len(calls.get(number, ()))
            made.append(LayerRow(at.path, at.name, at.kind, at.depth, count, first.inputs, first.outputs, *numbers))
        return tuple(made)

    def _held(self) -> list[list[float]]:
        """Parameters, their bytes and the bytes of states, of each layer itself; a shared Tensor counts once."""
        found: list[list[float]] = [[0] * len(self._layers) for _ in range(3)]
        seen: set[int] = set()
        for number, at in enumerate(self._layers):
            for _, value in tree.members(at.layer):
                if not isinstance(value, Tensor) or id(value._cell) in seen or None in value.shape:
                    continue
                seen.add(id(value._cell))
                size = nbytes(value._cell.get())
                if value.stores_grad:
                    found[0][number] += math.prod(value.shape)
                    found[1][number] += size
                else:
                    found[2][number] += size
        return found
