"""What is kept for the backward pass: by which layer it was made, and what `Remat` around a layer would save."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from singax.inspect.flat import Flat, Operation, result_scope
from singax.inspect.scopes import Key
from singax.jaxprs import scan_counts

Layers = Sequence[tuple[int, int]]
"""For each layer its parent's number, and the number after the last layer below it."""


class Kept:
    """`own[k]`: bytes that the operations of layer k itself have made and that are kept until the backward pass;
    `saved[k]`: what `Remat` around layer k would save. `given`: bytes of states and inputs that are kept, which are
    there anyway.
    """

    def __init__(self, flat: Flat, kept: Iterable[int | None], layers: Layers) -> None:
        self.own, self.given = [0] * len(layers), 0
        self._layers = layers
        self._saved, self._cost = [0] * len(layers), [0] * len(layers)
        self._analyse(flat, {value for value in kept if value is not None}, 0, 1)

    @property
    def total(self) -> int:
        """All bytes that are kept and were computed."""
        return sum(self.own)

    @property
    def saved(self) -> list[int]:
        """What Remat would save, per layer; 0 where it would not."""
        return [max(0, saved - cost) for saved, cost in zip(self._saved, self._cost, strict=True)]

    def _analyse(self, flat: Flat, kept: set[int], above: int, times: int) -> None:
        """Count what a flat program keeps; `above` is the layer whose loop it is the body of."""
        makers = {result: operation for operation in flat.operations for result in operation.results}
        self.given += sum(flat.sizes[value] for value in kept if value not in makers) if not above else 0
        readers = self._forward_readers(flat)
        for value, operation in makers.items():
            maker = self._number(result_scope(operation, value))
            if value in kept:
                self._keep(maker, flat.sizes[value] * times, above)
            if not operation.scope.backward:
                numbers = readers.get(value, set())
                size, where = flat.sizes[value] * times, self._number(operation.scope)
                self._weigh(where, numbers, size, value in kept, above)
        for operation in flat.operations:
            if operation.equation.primitive.name == "scan" and not operation.scope.backward:
                self._look_into(operation, kept, times)

    def _keep(self, maker: int, size: int, above: int) -> None:
        if not above:
            self.own[maker] += size

    def _weigh(self, maker: int, readers: set[int], size: int, kept: bool, above: int) -> None:
        """Note for which layers this value would be dropped by Remat, and for which it would have to be kept."""
        if kept:
            for layer in self._up(maker, above):
                if all(layer <= reader < self._layers[layer][1] for reader in readers):
                    self._saved[layer] += size
            return
        for layer in {
            layer for reader in readers for layer in self._up(reader, above) if not self._holds(layer, maker)
        }:
            self._cost[layer] += size

    def _look_into(self, operation: Operation, kept: set[int], times: int) -> None:
        """The body of a loop: what one trip keeps, as often as it runs."""
        params = operation.equation.params
        body = Flat(params["jaxpr"], operation.scope)
        _, carried = scan_counts(params)
        stacked = operation.results[carried:]
        inner = {body.results[carried + k] for k, value in enumerate(stacked) if value in kept}
        layer = self._number(operation.scope)
        if layer and inner:
            found = {value for value in inner if value is not None}
            self._analyse(body, found, layer, times * params["length"])

    def _up(self, layer: int, above: int) -> Iterator[int]:
        """The layer and those around it, up to the one above (without it)."""
        while layer > above:
            yield layer
            layer = self._layers[layer][0]

    def _holds(self, layer: int, inner: int) -> bool:
        return layer <= inner < self._layers[layer][1]

    def _number(self, scope: Key) -> int:
        number = scope.number or 0
        return number if 0 <= number < len(self._layers) else 0

    def _forward_readers(self, flat: Flat) -> dict[int, set[int]]:
        """For each value the numbers of the layers whose forward reads it."""
        found: dict[int, set[int]] = {}
        for operation in flat.operations:
            if not operation.scope.backward:
                for value in operation.inputs:
                    found.setdefault(value, set()).add(self._number(operation.scope))
        return found


def kept_bytes(flat: Flat, kept: Iterable[Any]) -> int:
    """The bytes of these values, each counted once."""
    return sum(flat.sizes[value] for value in {value for value in kept if value is not None})
