"""The layers of a model: shapes, parameters and states."""

from __future__ import annotations

import io
import math
from dataclasses import dataclass
from typing import Any

from singax.arguments import as_placeholders
from singax.dtypes import nbytes
from singax.inspect.display import Line, rich_table, tree_html
from singax.inspect.dry import dry_run
from singax.inspect.placed import Placed, placed, row_at
from singax.inspect.quantity import bytes_text, count_text, described
from singax.inspect.table import aligned, collapsed
from singax.layer import tree
from singax.module import Module
from singax.tensor import Tensor

_HEAD = ("layer", "input → output", "parameters", "frozen", "bytes", "states")


@dataclass(frozen=True)
class SummaryRow:
    """One layer. Numbers include those of the layers below it.

    `path`, `name`, `kind` (its class), `depth`, `shapes` ("" where they are not known), `parameters` and `frozen` (how
    many numbers; frozen ones do not train), `parameter_bytes`, `state_bytes`; `built`: whether its parameters exist.
    """

    path: str
    name: str
    kind: str
    depth: int
    shapes: str
    parameters: int
    frozen: int
    parameter_bytes: int
    state_bytes: int
    built: bool


@dataclass(frozen=True)
class Summary:
    """What `Module.summary` returns: print it, show it in a notebook, or read its `rows` (the model itself first)."""

    model: str
    rows: tuple[SummaryRow, ...]
    notes: tuple[str, ...] = ()
    depth: int | None = None

    def __getitem__(self, path: str) -> SummaryRow:
        return row_at(self.rows, path)

    def _shown(self) -> list[tuple[str, ...]]:
        """The cells of the rows that are shown: of neighbours that are alike, the first."""
        shown = [row for row in self.rows if self.depth is None or row.depth <= self.depth]
        return [_cells(row, times) for row, times in collapsed(shown)]

    def __rich__(self) -> Any:
        return rich_table(self.model, _HEAD, self._shown(), self.notes)

    def __str__(self) -> str:
        try:
            from rich.console import Console
        except ImportError:
            return "\n".join([self.model, *aligned([_HEAD, *self._shown()]), *self.notes])
        written = io.StringIO()
        Console(file=written, width=200, color_system=None, force_jupyter=False).print(self)
        return "\n".join(line.rstrip() for line in written.getvalue().splitlines())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        lines = []
        for row, times in collapsed(self.rows):
            mark = f" ×{times}" if times > 1 else ""
            cells = _cells(row, times)[1:]
            lines.append(Line(row.depth, row.name or self.model, (row.kind if row.name else "") + mark, cells))
        return tree_html(self.model, _HEAD, lines, self.notes, 2 if self.depth is None else self.depth)


def _cells(row: SummaryRow, times: int) -> tuple[str, ...]:
    name = (f"{row.name} {row.kind}" if row.name else row.kind) + (f" ×{times}" if times > 1 else "")
    if not row.built:
        return ("  " * row.depth + name, row.shapes, "not built yet", "", "", "")
    numbers = [f"{row.parameters:,}" if row.parameters else "", f"{row.frozen:,}" if row.frozen else ""]
    sizes = [bytes_text(n) if n else "" for n in (row.parameter_bytes, row.state_bytes)]
    return ("  " * row.depth + name, row.shapes, *numbers, *sizes)


def summary(module: Module, inputs: tuple[Any, ...], depth: int | None) -> Summary:
    """See `Module.summary`."""
    notes: list[str] = []
    if not inputs and module._inputs_seen is not None:
        inputs = tuple(as_placeholders(module._inputs_seen))
    if inputs:
        try:
            return _summary_of_trace(module, inputs, depth)
        except Exception as error:  # whatever forward of the user raises: a table is shown all the same
            notes.append(f"shapes are not known: {str(error).splitlines()[0]}")
    rows = tuple(map(_row_of_tree, placed(module)))
    return Summary(type(module).__name__, rows, (*notes, _total(rows)), depth)


def _summary_of_trace(module: Module, inputs: tuple[Any, ...], depth: int | None) -> Summary:
    report = dry_run(module, inputs, {}, "forward", None, None, False)
    frozen = _frozen(module)
    rows = []
    for row in report.layers:
        below = sum(n for path, n in frozen.items() if not row.path or path.startswith(row.path + tree.SEPARATOR))
        shapes = f"{described(row.inputs)} → {described(row.outputs)}" if row.calls else "not called"
        sizes = (row.parameters, below, row.parameter_bytes, row.state_bytes)
        rows.append(SummaryRow(row.path, row.name, row.kind, row.depth, shapes, *sizes, True))  # type: ignore[arg-type]
    return Summary(report.model, tuple(rows), (_total(tuple(rows)),), depth)


def _row_of_tree(at: Placed) -> SummaryRow:
    tensors = [tensor for _, tensor in tree.tensors(at.layer) if None not in tensor.shape]
    parameters = [t for t in tensors if t.stores_grad]
    count, frozen = (sum(math.prod(t.shape) for t in some) for some in (parameters, filter(_is_frozen, parameters)))
    states = [t for t in tensors if not t.stores_grad]
    held, kept = (sum(nbytes(t.shape, t.dtype) for t in some) for some in (parameters, states))
    built = not tree.unbuilt(at.layer)
    return SummaryRow(at.path, at.name, at.kind, at.depth, "", count, frozen, held, kept, built)


def _frozen(module: Module) -> dict[str, int]:
    """How many numbers of each parameter do not train."""
    return {path: math.prod(t.shape) for path, t in tree.tensors(module) if _is_frozen(t)}


def _is_frozen(tensor: Tensor) -> bool:
    return tensor.stores_grad and not tensor.requires_grad


def _total(rows: tuple[SummaryRow, ...]) -> str:
    top = rows[0]
    if not top.built:
        return f"{top.parameters:,} parameters so far: compile the model, or give summary() its inputs"
    frozen = f", {top.frozen:,} of them frozen" if top.frozen else ""
    return f"{top.parameters:,} parameters ({count_text(top.parameters)}, {bytes_text(top.parameter_bytes)}){frozen}"
