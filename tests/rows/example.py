"""Rows of the first layers and operations, to be joined by the other families."""

from __future__ import annotations

from catalogue import Row, floats

from singax import layer

ROWS = [
    Row(
        "layer.Linear",
        lambda: layer.Linear(3),
        [floats(2, 4)],
        lambda states, x: x @ states["W"] + states["b"],
        rejects=[[floats(2, 5)], [floats()]],
    ),
]
