"""Small models that many tests share."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import singax as sx
from singax.mode import traced


class Trained(sx.Module):
    """A model with a loss and an optimizer; `train_one_batch` is the usual one."""

    def __init__(self, optimizer: Any = None) -> None:
        super().__init__()
        self.loss = sx.layer.SoftMaxCrossEntropy()
        self.optimizer = sx.opt.SGD(lr=0.1, momentum=0.9) if optimizer is None else optimizer

    def train_one_batch(self, x: Any, y: Any) -> Any:
        out = self.forward(x)
        loss = self.loss(out, y)
        self.optimizer(loss)
        return out, loss


class MLP(Trained):
    """5 → 8 → 3."""

    def __init__(self, optimizer: Any = None, hidden: int = 8) -> None:
        super().__init__(optimizer)
        self.fc1 = sx.layer.Linear(hidden)
        self.fc2 = sx.layer.Linear(3)

    def forward(self, x: jax.Array) -> jax.Array:
        return self.fc2(jnp.tanh(self.fc1(x)))


def trained(net: Any = None, steps: int = 3) -> Any:
    """A model for `blobs()`, an MLP unless it is given, compiled and after some steps on them."""
    net = MLP() if net is None else net
    net.compile([sx.Placeholder((16, 5))])
    x, y = blobs()
    for _ in range(steps):
        net(x, y)
    return net


def blobs(n: int = 16, features: int = 5, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and three classes that a small network separates."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, features)).astype(np.float32)
    return x, ((x[:, 0] > 0).astype(np.int32) + (x[:, 1] > 0)).astype(np.int32)


def images(n: int = 4, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Images (n, 2, 8, 8) and three classes."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 2, 8, 8)).astype(np.float32), rng.integers(0, 3, n).astype(np.int32)


def states(model: sx.Module) -> dict[str, np.ndarray]:
    """A NumPy copy of the whole state."""
    return {path: np.array(value) for path, value in model.state_dict().items()}


def assert_equal_states(a: dict[str, Any], b: dict[str, Any]) -> None:
    """Same names, same bits."""
    assert sorted(a) == sorted(b)
    for path in a:
        np.testing.assert_array_equal(a[path], b[path], err_msg=path)


def assert_no_tracers(model: sx.Module) -> None:
    """No handle of the model, its optimizers or its generator holds a tracer."""
    for cell in [*model._bank.cells, model._generator.cell]:
        assert not traced(cell.get())
    for _, tensor in sx.layer.tree.tensors(model, owners=True):
        assert not traced(tensor._cell.get())
