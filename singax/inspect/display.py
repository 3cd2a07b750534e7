"""Trees with columns: as HTML that needs no script and takes its colours from the page around it, and for terminals."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

_STYLE = """<style>
.singax{font:13px/1.5 ui-monospace,Menlo,Consolas,"DejaVu Sans Mono",monospace;color:inherit;overflow-x:auto}
.singax .row{display:grid;column-gap:14px;padding:1px 4px;white-space:nowrap;min-width:max-content;
border-bottom:1px solid rgba(128,128,128,.18)}
.singax .row>span:nth-child(n+3){text-align:right}
.singax .head{font-weight:bold;border-bottom:1px solid rgba(128,128,128,.7)}
.singax summary{display:block;cursor:pointer;list-style:none}
.singax summary::-webkit-details-marker{display:none}
.singax .mark{display:inline-block;width:1.1em;opacity:.6}
.singax details[open]>summary .mark::before{content:"▾"}
.singax details:not([open])>summary .mark::before{content:"▸"}
.singax .kind{opacity:.65}
.singax p{margin:6px 4px;white-space:pre-wrap}
</style>"""


@dataclass(frozen=True)
class Line:
    """A row of a tree: how deep it stands, its name, what comes after the name, and the other cells."""

    depth: int
    name: str
    kind: str
    cells: tuple[str, ...]


class Nested(Protocol):
    """A row that stands at some depth of a tree."""

    @property
    def depth(self) -> int: ...


def length_of(rows: Sequence[Nested], place: int) -> int:
    """How many rows belong to the one at `place`: itself, and those below it."""
    end = place + 1
    while end < len(rows) and rows[end].depth > rows[place].depth:
        end += 1
    return end - place


def rich_table(title: str, head: Sequence[str], rows: Iterable[Sequence[str]], notes: Sequence[str]) -> Any:
    """A table for terminals: the first two columns to the left, wrapped where the terminal is narrow, the others, which
    are numbers, to the right and whole.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, title=Text(title), title_justify="left", caption_justify="left")
    table.caption = Text("\n".join(notes)) if notes else None
    for k, name in enumerate(head):
        table.add_column(name, justify="left" if k < 2 else "right", no_wrap=k > 1, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def tree_html(title: str, head: Sequence[str], lines: Sequence[Line], notes: Sequence[str], opened: int = 2) -> str:
    """A collapsible tree; the first `opened` levels are open."""
    names = max([len(head[0]), *(2 * line.depth + len(line.name) + len(line.kind) + 4 for line in lines)])
    widths = [max(map(len, column)) for column in zip(head[1:], *(line.cells for line in lines), strict=True)]
    columns = " ".join(f"{width + 1}ch" for width in (names, *widths))
    style = f'style="grid-template-columns:{columns}"'
    top = f'<div class="row head" {style}>{"".join(f"<span>{html.escape(cell)}</span>" for cell in head)}</div>'
    said = "".join(f"<p>{html.escape(note)}</p>" for note in notes)
    body = "".join(_lines(lines, 0, len(lines), style, opened))
    return f'{_STYLE}<div class="singax"><p><b>{html.escape(title)}</b></p>{top}{body}{said}</div>'


def _lines(lines: Sequence[Line], start: int, end: int, style: str, opened: int) -> list[str]:
    found, place = [], start
    while place < end:
        after = place + length_of(lines, place)
        row = _row(lines[place], style, after > place + 1)
        if after > place + 1:
            inner = "".join(_lines(lines, place + 1, after, style, opened))
            mark = " open" if lines[place].depth < opened else ""
            row = f"<details{mark}><summary>{row}</summary>{inner}</details>"
        found.append(row)
        place = after
    return found


def _row(line: Line, style: str, opens: bool) -> str:
    mark = '<span class="mark"></span>' if opens else '<span class="mark">·</span>'
    kind = f' <span class="kind">{html.escape(line.kind)}</span>' if line.kind else ""
    first = f'<span style="padding-left:{2 * line.depth}ch">{mark}{html.escape(line.name)}{kind}</span>'
    rest = "".join(f"<span>{html.escape(cell)}</span>" for cell in line.cells)
    return f'<div class="row" {style}>{first}{rest}</div>'
