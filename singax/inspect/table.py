"""A dry run as text: columns that line up, and one line for many layers that are alike."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from singax.inspect.display import Line, Nested, length_of, rich_table, tree_html
from singax.inspect.measure import LayerRow
from singax.inspect.quantity import bytes_text, count_text, described

if TYPE_CHECKING:
    from singax.inspect.report import DryRun

_HEAD = ("layer", "input → output", "parameters", "forward", "backward", "kept", "remat saves")
_WIDEST = 52


def text(report: DryRun) -> str:
    """The whole report."""
    return "\n".join([_title(report), "", *aligned([_HEAD, *_rows(report)]), "", *_totals(report)])


def table(report: DryRun) -> Any:
    """The whole report for a terminal, by rich."""
    return rich_table(_title(report), _HEAD, _rows(report), _totals(report))


def page(report: DryRun) -> str:
    """The whole report as HTML."""
    lines = []
    for row, times in collapsed(report.layers):
        cells = _cells(row, times)
        kind = f"{row.kind if row.name else ''}{f' ×{times}' if times > 1 else ''}"
        lines.append(Line(row.depth, row.name or row.kind, kind, cells[1:]))
    return tree_html(_title(report), _HEAD, lines, ["\n".join(_totals(report))])


def _rows(report: DryRun) -> list[tuple[str, ...]]:
    return [_cells(row, times) for row, times in collapsed(report.layers)]


def _title(report: DryRun) -> str:
    return f"{report.model}.{report.method}({', '.join(described(shape) for shape in report.inputs)})"


Row = TypeVar("Row", bound=Nested)


def collapsed(rows: Sequence[Row]) -> list[tuple[Row, int]]:
    """The rows, each with how many it stands for: of neighbours that are alike, the first is left."""
    found: list[tuple[Row, int]] = []
    place = 0
    while place < len(rows):
        length = length_of(rows, place)
        times = 1
        while _alike(rows, place, place + times * length, length):
            times += 1
        found.append((rows[place], times))
        found += collapsed(rows[place + 1 : place + length])
        place += times * length
    return found


def _alike(rows: Sequence[Nested], first: int, second: int, length: int) -> bool:
    if second + length > len(rows) or length_of(rows, second) != length:
        return False
    return all(_same(rows[first + k], rows[second + k]) for k in range(length))


def _same(a: Any, b: Any) -> bool:
    return dataclasses.replace(a, path="", name="") == dataclasses.replace(b, path="", name="")


def _cells(row: LayerRow, times: int) -> tuple[str, ...]:
    name = f"{row.name} " if row.name else ""
    mark = f" ×{times}" if times > 1 else ""
    called = "" if row.calls == 1 else " (not called)" if not row.calls else f" (called {row.calls} times)"
    shapes = f"{described(row.inputs)} → {described(row.outputs)}" if row.calls else ""
    numbers = [count_text(row.parameters), count_text(row.forward), count_text(row.backward)]
    sizes = [bytes_text(row.kept), bytes_text(row.remat_saves)]
    return ("  " * row.depth + name + row.kind + mark + called, shapes, *map(_dash, numbers), *map(_dash, sizes))


def _dash(text: str) -> str:
    return "" if text == "0" else text


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns of equal width: the first two to the left, the others to the right."""
    cut = [[_cut(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cut, strict=True)]
    lines = []
    for row in cut:
        cells = [cell.ljust(w) if k < 2 else cell.rjust(w) for k, (cell, w) in enumerate(zip(row, widths, strict=True))]
        lines.append("  ".join(cells).rstrip())
    return [lines[0], "─" * max(map(len, lines)), *lines[1:]]


def _cut(cell: str) -> str:
    return cell if len(cell) <= _WIDEST else cell[: _WIDEST - 1] + "…"


def _totals(report: DryRun) -> list[str]:
    memory = report.memory
    flops = [("forward", report.forward), ("backward", report.backward), ("update", report.update)]
    shown = ", ".join(f"{name} {count_text(value)}" for name, value in flops if value)
    parts = [(field.name, getattr(memory, field.name)) for field in dataclasses.fields(memory)]
    lines = [
        f"outputs      {described(report.outputs)}",
        f"operations   {shown or '0'} FLOP (a multiplication with its addition counts as 2)",
        "memory       " + ", ".join(f"{name} {bytes_text(value)}" for name, value in parts[:-1] if value),
        f"peak         {bytes_text(memory.peak)} (estimate{report.setting})",
    ]
    if report.unknown:
        lines.append("not counted  " + ", ".join(f"{name} ×{count}" for name, count in report.unknown.items()))
    if report.untrained:
        lines.append("no gradient reaches " + ", ".join(report.untrained))
    if report.xla is not None:
        lines.append(f"XLA          {report.xla}")
    return lines
