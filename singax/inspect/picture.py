"""A graph as SVG: boxes in rows from top to bottom, arrows as curves, with colours that are legible on light and dark.

The rows are longest paths; an arrow over several rows gets a place in each of them (Sugiyama et al. 1981), and within a
row everything stands in the order of the mean place of its neighbours.
"""

from __future__ import annotations

import html
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

CHARACTER, SMALL, HEIGHT, GAP, ROW, MARGIN, STRAIGHT = 7.3, 6.2, 40.0, 24.0, 84.0, 16.0, 18.0
SWEEPS = 8


@dataclass(frozen=True)
class Box:
    """`key`, a title, a smaller line below it, and what it is: "layer", "operation" or "end"."""

    key: str
    title: str
    below: str
    kind: str


@dataclass(frozen=True)
class Arrow:
    """From one box to another, with a shape beside it."""

    start: str
    end: str
    label: str


@dataclass
class Place:
    """Where a box, or (`box` None) an arrow on its way, stands; `x`, `y` is its middle."""

    box: Box | None
    rank: int
    label: str = ""
    x: float = 0.0
    y: float = 0.0
    above: list[Place] = field(default_factory=list)
    below: list[Place] = field(default_factory=list)

    @property
    def width(self) -> float:
        if self.box is None:
            return 8.0
        return max(len(self.box.title) * CHARACTER, len(self.box.below) * SMALL, 30.0) + 20.0

    @property
    def room(self) -> float:
        """The width that is kept free: for the box, and for a label to the right of its middle."""
        return max(self.width, 2 * (len(self.label) * SMALL + 10.0)) + GAP


def drawn(boxes: Sequence[Box], arrows: Sequence[Arrow]) -> str:
    """The picture."""
    places, ways = laid_out(boxes, arrows)
    wide = max([p.x + p.room / 2 for p in places], default=0.0) + MARGIN
    high = max([p.y for p in places], default=0.0) + HEIGHT / 2 + MARGIN
    parts = [_path(way) for way in ways]
    parts += [_label(p) for p in places if p.label]
    parts += [_box(p) for p in places if p.box is not None]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide:.0f} {high:.0f}" width="{wide:.0f}" '
        f'height="{high:.0f}" font-family="DejaVu Sans Mono,Menlo,Consolas,monospace">'
        '<defs><marker id="singax-tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto"><path d="M0 0L8 4L0 8z" fill="#777"/></marker></defs>' + "".join(parts) + "</svg>"
    )


def laid_out(boxes: Sequence[Box], arrows: Sequence[Arrow]) -> tuple[list[Place], list[list[Place]]]:
    """All places with their coordinates, and for each arrow the places that it passes."""
    ranks = _ranks(boxes, arrows)
    found = {box.key: Place(box, ranks[box.key]) for box in boxes}
    places, ways = list(found.values()), []
    for arrow in arrows:
        start, end = found[arrow.start], found[arrow.end]
        start.label = start.label or arrow.label
        way = [start, *(Place(None, rank) for rank in range(start.rank + 1, end.rank)), end]
        places += way[1:-1]
        for one, other in itertools.pairwise(way):
            one.below.append(other)
            other.above.append(one)
        ways.append(way)
    rows: list[list[Place]] = [[] for _ in range(max(ranks.values(), default=-1) + 1)]
    for place in places:
        rows[place.rank].append(place)
    _order(rows)
    _spread(rows)
    return places, ways


def _ranks(boxes: Sequence[Box], arrows: Sequence[Arrow]) -> dict[str, int]:
    """The longest way to each box. Arrows that would go backwards (a layer between two parts of another) stay out."""
    order = {box.key: k for k, box in enumerate(boxes)}
    into: dict[str, list[str]] = {box.key: [] for box in boxes}
    for arrow in arrows:
        if order[arrow.start] < order[arrow.end]:
            into[arrow.end].append(arrow.start)
    ranks: dict[str, int] = {}
    for box in boxes:
        ranks[box.key] = max((ranks[key] + 1 for key in into[box.key]), default=0)
    return ranks


def _order(rows: list[list[Place]]) -> None:
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        for row in rows if down else reversed(rows):
            _place_in_order(rows)
            row.sort(key=lambda place: _mean(place.above if down else place.below, place.x))
    _place_in_order(rows)


def _place_in_order(rows: list[list[Place]]) -> None:
    for row in rows:
        for k, place in enumerate(row):
            place.x = k - (len(row) - 1) / 2


def _mean(places: Sequence[Place], default: float) -> float:
    return sum(place.x for place in places) / len(places) if places else default


def _spread(rows: list[list[Place]]) -> None:
    """Coordinates: rows one below the other; within a row near the neighbours, without touching."""
    for rank, row in enumerate(rows):
        x = 0.0
        for place in row:
            place.x, place.y = x + place.room / 2, MARGIN + HEIGHT / 2 + rank * ROW
            x += place.room
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        for row in rows if down else reversed(rows):
            _settle(row, [_mean(place.above if down else place.below, place.x) for place in row])
    left = min((place.x - place.room / 2 for row in rows for place in row), default=0.0)
    for row in rows:
        for place in row:
            place.x += MARGIN - left


def _settle(row: Sequence[Place], wanted: Sequence[float]) -> None:
    """As near to the wanted places as the order and the room allow: from both sides, then the mean."""
    left, right = [0.0] * len(row), [0.0] * len(row)
    for k, place in enumerate(row):
        least = left[k - 1] + (row[k - 1].room + place.room) / 2 if k else wanted[k]
        left[k] = max(wanted[k], least)
    for k in range(len(row) - 1, -1, -1):
        most = right[k + 1] - (row[k + 1].room + row[k].room) / 2 if k + 1 < len(row) else wanted[k]
        right[k] = min(wanted[k], most)
    for place, a, b in zip(row, left, right, strict=True):
        place.x = (a + b) / 2


def _box(place: Place) -> str:
    box = place.box
    assert box is not None, "only boxes are drawn as boxes"
    fill, line = {"layer": ("#dbe7f8", "#4a6fa5"), "operation": ("#f3f3f3", "#999"), "end": ("#e3f3e1", "#5a9a55")}[
        box.kind
    ]
    x, y, w = place.x - place.width / 2, place.y - HEIGHT / 2, place.width
    title_y = place.y - 3 if box.below else place.y + 4
    texts = f'<text x="{place.x:.1f}" y="{title_y:.1f}" font-size="12">{html.escape(box.title)}</text>'
    if box.below:
        texts += f'<text x="{place.x:.1f}" y="{place.y + 12:.1f}" font-size="10">{html.escape(box.below)}</text>'
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{HEIGHT:.0f}" rx="5" fill="{fill}" stroke="{line}"/>'
        f'<g text-anchor="middle" fill="#111">{texts}</g>'
    )


def _label(place: Place) -> str:
    y = place.y + HEIGHT / 2 + 14
    return f'<text x="{place.x + 6:.1f}" y="{y:.1f}" font-size="10" fill="#777">{html.escape(place.label)}</text>'


def _path(way: Sequence[Place]) -> str:
    """From the lower edge of the first place to the upper edge of the last. Below each row lines run straight down
    beside the labels, and bend after that.
    """
    text = f"M{way[0].x:.1f} {way[0].y + HEIGHT / 2:.1f}"
    for start, end in itertools.pairwise(way):
        y, to_y = start.y + HEIGHT / 2 + STRAIGHT, end.y - HEIGHT / 2
        middle = (y + to_y) / 2
        text += f"V{y:.1f}C{start.x:.1f} {middle:.1f} {end.x:.1f} {middle:.1f} {end.x:.1f} {to_y:.1f}"
        text += f"V{end.y + HEIGHT / 2:.1f}" if end.box is None else ""
    return f'<path d="{text}" fill="none" stroke="#777" stroke-width="1.2" marker-end="url(#singax-tip)"/>'
