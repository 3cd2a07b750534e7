"""Rows of the layers that hold other layers."""

from __future__ import annotations

import numpy as np
from catalogue import Row, floats

from singax import layer, ops

ROWS = [
    Row("layer.Lambda", lambda: layer.Lambda(ops.sin), [floats(3, 4)], lambda states, x: np.sin(x)),
    Row(
        "layer.Sequential",
        lambda: layer.Sequential(layer.Linear(4), ops.tanh, layer.Linear(2)),
        [floats(2, 3)],
        lambda states, x: np.tanh(x @ states["0.W"] + states["0.b"]) @ states["2.W"] + states["2.b"],
        rejects=[[floats(2, 3, 4, 5, 6)]],
    ),
    Row(
        "layer.Remat",
        lambda: layer.Remat(layer.Sequential(layer.Linear(4), ops.tanh, layer.Linear(2))),
        [floats(2, 3)],
        lambda states, x: np.tanh(x @ states["0.W"] + states["0.b"]) @ states["2.W"] + states["2.b"],
        rejects=[[floats(2, 3, 4, 5, 6)]],
    ),
    Row(
        "layer.Remat",
        lambda: layer.Remat(layer.BatchNorm2d()),
        [floats(4, 3)],
        training=True,
        rejects=[[floats(2, 3, 4)]],
        note="state",
    ),
]
