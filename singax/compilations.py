"""Which programs were made, for what, and why there was more than one."""

from __future__ import annotations

import html
from dataclasses import dataclass

_HEAD = ("program", "arguments", "trace", "compile", "what changed")


@dataclass
class Compilation:
    """One program: which method, for which arguments, how long it took, and what had changed since the last one."""

    method: str
    arguments: dict[str, str]
    changed: str = ""
    trace_seconds: float = 0.0
    compile_seconds: float = 0.0

    def cells(self) -> tuple[str, ...]:
        """What a table says about it."""
        shown = ", ".join(f"{name}: {value}" for name, value in self.arguments.items())
        return self.method, shown, f"{self.trace_seconds:.2f} s", f"{self.compile_seconds:.2f} s", self.changed


class Compilations(list[Compilation]):
    """`model.compilations`: a list of `Compilation` that prints as a table.

    >>> print(Compilations([Compilation("Net.train_one_batch", {"x": "float32[4,3]"}, "", 0.5, 1.25)]))
    program              arguments        trace   compile  what changed
    Net.train_one_batch  x: float32[4,3]  0.50 s  1.25 s
    """

    def __repr__(self) -> str:
        rows = [_HEAD, *(each.cells() for each in self)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)

    def _repr_html_(self) -> str:
        rows = [f"<tr>{''.join(f'<th>{name}</th>' for name in _HEAD)}</tr>"]
        rows += [f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in each.cells())}</tr>" for each in self]
        return f"<table>{''.join(rows)}</table>"
