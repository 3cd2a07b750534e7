"""The report of a dry run."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from singax.checked import integer
from singax.inspect import budget
from singax.inspect.measure import LayerRow, Measured, Memory
from singax.inspect.placed import row_at
from singax.inspect.quantity import Quantity
from singax.inspect.table import page, table, text
from singax.inspect.xla import XlaMemory


@dataclass(frozen=True)
class DryRun:
    """What a method of a model would do: shapes, parameters, operations and memory. Print it, or read its fields.

    Where a size of the inputs was None, numbers are `constant + slope · N`, and `at(n)` gives those for N = n.

    **Fields** `model`, `method`, `inputs`, `outputs` (shapes, in the structure that the method returns), `layers` (a
    tuple of `LayerRow`, in the order of the tree, the model itself first), `memory` (a `Memory`), `forward`,
    `backward`, `update` (floating-point operations), `unknown` (what could not be counted, and how often it occurs),
    `untrained` (parameters that no gradient reaches), `precision`, `optimizers`, `batch`, `xla` (an `XlaMemory`, if
    asked for).
    """

    model: str
    method: str
    precision: str
    optimizers: tuple[str, ...]
    batch: int | None
    found: Measured = field(repr=False)
    again: Callable[[int], Measured] = field(repr=False, compare=False)
    xla: XlaMemory | None = None

    @property
    def inputs(self) -> tuple[Any, ...]:
        """Shapes and dtypes of the arrays among the arguments."""
        return self.found.inputs

    @property
    def outputs(self) -> Any:
        """Shapes and dtypes of what the method returns."""
        return self.found.outputs

    @property
    def layers(self) -> tuple[LayerRow, ...]:
        """One row for each layer, the model itself first."""
        return self.found.layers

    @property
    def memory(self) -> Memory:
        """Bytes."""
        return self.found.memory

    @property
    def forward(self) -> Quantity:
        """Floating-point operations of the forward pass."""
        return self.found.forward

    @property
    def backward(self) -> Quantity:
        """Floating-point operations of the backward pass."""
        return self.found.backward

    @property
    def update(self) -> Quantity:
        """Floating-point operations of the optimizers."""
        return self.found.update

    @property
    def unknown(self) -> dict[str, Quantity]:
        """What could not be counted, and how often it occurs."""
        return self.found.unknown

    @property
    def untrained(self) -> tuple[str, ...]:
        """Parameters that no gradient reaches."""
        return self.found.untrained

    @property
    def parameters(self) -> Quantity:
        """How many numbers the parameters are."""
        return self.layers[0].parameters

    def __getitem__(self, path: str) -> LayerRow:
        """The row of the layer with this path. Raises `ArgumentError` if there is none."""
        return row_at(self.layers, path)

    def at(self, batch: int) -> DryRun:
        """The report for another size of the batch (of N)."""
        batch = integer("batch", batch, 1)
        return dataclasses.replace(self, batch=batch, found=self.again(batch), xla=None)

    def fits(self, memory: Any, batch: int | None = None) -> budget.Fit:
        """Whether a step fits into `memory`, and the largest batch that does.

        **Args**
          memory: bytes, or a text such as "80GB" (decimal) or "80GiB" (binary).
          batch: the batch that is asked about; default that of the report.

        **Returns** a `Fit`: true if it fits; its `largest` is the largest batch that does.
        """
        return budget.fit(self, memory, batch)

    @property
    def setting(self) -> str:
        """What the estimate is for."""
        parts = [f"batch {self.batch}"] if self.batch is not None else []
        parts += [self.precision, *self.optimizers]
        return f": {', '.join(parts)}" if parts else ""

    def __str__(self) -> str:
        return text(self)

    def __rich__(self) -> Any:
        return table(self)

    def _repr_html_(self) -> str:
        return page(self)
