"""Rows of the layers that hold other layers."""

from __future__ import annotations

import flax.linen as nn
import numpy as np
from catalogue import Row, floats
from flax import nnx

from singax import layer, ops


def _two_layers(w: np.ndarray, b: np.ndarray, x: np.ndarray) -> np.ndarray:
    return np.tanh(np.tanh(x @ w[0] + b[0]) @ w[1] + b[1])


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
    Row(
        "layer.Repeat",
        lambda: layer.Repeat(lambda: layer.Sequential(layer.Linear(3), ops.tanh), 2),
        [floats(2, 3)],
        lambda states, x: _two_layers(states["0.W"], states["0.b"], x),
        rejects=[[floats(2, 4)]],
    ),
    Row(
        "layer.Repeat",
        lambda: layer.Repeat(layer.BatchNorm2d, 2, remat=True),
        [floats(4, 3)],
        training=True,
        rejects=[[floats(2, 3, 4)]],
        note="state",
    ),
    Row(
        "layer.FromFlax",
        lambda: layer.FromFlax(nn.Dense(2)),
        [floats(3, 4)],
        lambda states, x: x @ states["kernel"] + states["bias"],
    ),
    Row(
        "layer.FromFlax",
        lambda: layer.FromFlax(nnx.Linear, 4, 2),
        [floats(3, 4)],
        lambda states, x: x @ states["kernel"] + states["bias"],
        note="nnx",
    ),
]
