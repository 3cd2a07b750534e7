"""Models whose states are of all kinds, and how one is trained: for tests of checkpoints and their subprocesses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from models import MLP, Trained, blobs, images

import singax as sx


class Normed(Trained):
    """Convolution, BatchNorm, Linear."""

    def __init__(self, optimizer: Any = None) -> None:
        super().__init__(optimizer)
        self.conv, self.norm, self.head = sx.layer.Conv2d(4, 3), sx.layer.BatchNorm2d(), sx.layer.Linear(3)

    def forward(self, x: jax.Array) -> jax.Array:
        return self.head(jax.nn.relu(self.norm(self.conv(x))).mean((2, 3)))


class Dropped(Trained):
    """Linear, Dropout, Linear."""

    def __init__(self, optimizer: Any = None) -> None:
        super().__init__(optimizer)
        self.fc1, self.drop, self.fc2 = sx.layer.Linear(8), sx.layer.Dropout(0.4), sx.layer.Linear(3)

    def forward(self, x: jax.Array) -> jax.Array:
        return self.fc2(self.drop(jnp.tanh(self.fc1(x))))


class CharRNN(Trained):
    """An LSTM whose last state begins the next batch, as in SINGA's char-rnn example."""

    def __init__(self, optimizer: Any = None) -> None:
        super().__init__(optimizer)
        self.lstm, self.head = sx.layer.LSTM(None, 6), sx.layer.Linear(3)
        self.hx = sx.Tensor(data=np.zeros((16, 6), np.float32), requires_grad=False)
        self.cx = sx.Tensor(data=np.zeros((16, 6), np.float32), requires_grad=False)

    def forward(self, x: jax.Array) -> jax.Array:
        seq = jnp.stack([x, x[:, ::-1]])
        out, hx, cx = self.lstm(seq, (self.hx.data, self.cx.data))
        self.hx.data, self.cx.data = hx, cx
        return self.head(out[-1])


def adam() -> Any:
    """Adam with a rate that changes at every step."""
    return sx.opt.Adam(lr=sx.opt.ExponentialDecay(0.01, 3, 0.5))


CASES: dict[str, tuple[Callable[[], Any], Callable[[int], Any], str]] = {
    "momentum": (MLP, lambda step: blobs(seed=step), "float32"),
    "adam": (lambda: MLP(adam()), lambda step: blobs(seed=step), "float32"),
    "batchnorm": (Normed, lambda step: images(seed=step), "float32"),
    "dropout": (Dropped, lambda step: blobs(seed=step), "float32"),
    "charrnn": (CharRNN, lambda step: blobs(seed=step), "float32"),
    "float16": (MLP, lambda step: blobs(seed=step), "float16"),
}


def compiled(case: str) -> Any:
    """The model of a case, compiled."""
    make, batch, precision = CASES[case]
    net = make()
    net.compile([sx.Placeholder(batch(0)[0].shape)], precision=precision)
    return net


def trained(net: Any, case: str, steps: range) -> Any:
    """The model after the steps with these numbers."""
    for step in steps:
        net(*CASES[case][1](step))
    return net
