"""Randomness: masks differ between steps, are equal under rematerialisation, and follow the seed."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from models import MLP, Trained, blobs, states

import singax as sx
from singax import layer


class Masks(Trained):
    """Returns the dropout mask of each step, next to a parameter that it trains."""

    def __init__(self) -> None:
        super().__init__(sx.opt.SGD(lr=0.0))
        self.drop = layer.Dropout(0.5)
        self.fc = layer.Linear(3)

    def forward(self, x: jax.Array) -> Any:
        kept = self.drop(jnp.ones((4, 8)))
        return self.fc(x), kept

    def train_one_batch(self, x: Any, y: Any) -> Any:
        out, kept = self.forward(x)
        self.optimizer(self.loss(out, y))
        return kept


@pytest.mark.parametrize("use_graph", [True, False])
def test_masks_differ_between_steps_and_follow_the_seed(use_graph: bool) -> None:
    x, y = blobs()
    runs = []
    for seed in (5, 5, 6):
        sx.device.get_default_device().SetRandSeed(seed)
        net = Masks()
        net.compile([x], use_graph=use_graph)
        runs.append([net(x, y).to_numpy() for _ in range(3)])
    assert not np.array_equal(runs[0][0], runs[0][1])
    assert not np.array_equal(runs[0][1], runs[0][2])
    np.testing.assert_array_equal(runs[0], runs[1])
    assert not np.array_equal(runs[0], runs[2])


def test_eager_and_compiled_draw_the_same_masks() -> None:
    x, y = blobs()
    found = []
    for use_graph in (True, False):
        sx.device.set_seed(0)
        net = Masks()
        net.compile([x], use_graph=use_graph)
        found.append([net(x, y).to_numpy() for _ in range(3)])
    np.testing.assert_array_equal(found[0], found[1])


def test_reseeding_after_compile() -> None:
    x, y = blobs()
    net = Masks()
    net.compile([x])
    first = net(x, y).to_numpy()
    net(x, y)
    sx.device.set_seed(0)
    np.testing.assert_array_equal(net(x, y).to_numpy(), first)
    assert len(net.compilations) == 1


class Checkpointed(MLP):
    """Dropout inside a block that is rematerialised in backward."""

    remat = True

    def __init__(self) -> None:
        super().__init__(sx.opt.SGD(lr=1.0))
        self.drop = layer.Dropout(0.5)

    def forward(self, x: jax.Array) -> jax.Array:
        def block(h: jax.Array) -> jax.Array:
            return self.drop(jnp.tanh(self.fc1(h)))

        return self.fc2((jax.checkpoint(block) if self.remat else block)(x))


def test_masks_are_equal_under_rematerialisation() -> None:
    x, y = blobs()
    found = []
    for remat in (True, False):
        sx.device.set_seed(0)
        net = Checkpointed()
        net.remat = remat
        net.compile([x])
        net(x, y)
        net(x, y)
        found.append(states(net))
    for path, value in found[0].items():
        np.testing.assert_allclose(value, found[1][path], rtol=1e-5, atol=1e-6, err_msg=path)


def test_fills_follow_the_seed() -> None:
    found = []
    for _ in range(2):
        sx.device.set_seed(7)
        t = sx.Tensor((1000,))
        found.append([t.uniform(-2, 3).to_numpy(), t.gaussian(1, 2).to_numpy(), t.bernoulli(0.25).to_numpy()])
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)
    u, g, b = found[0]
    assert u.min() >= -2
    assert u.max() <= 3
    assert abs(g.mean() - 1) < 0.3
    assert abs(g.std() - 2) < 0.3
    assert set(np.unique(b)) == {0.0, 1.0}
    assert abs(b.mean() - 0.25) < 0.06


def test_fills_inside_a_compiled_step_differ_from_step_to_step() -> None:
    class Noisy(MLP):
        def __init__(self) -> None:
            super().__init__()
            self.noise = sx.Tensor((3,), requires_grad=False).set_value(0.0)

        def train_one_batch(self, x: Any, y: Any) -> Any:
            self.noise.uniform(-1, 1)
            super().train_one_batch(x, y)
            return self.noise

    x, y = blobs()
    net = Noisy()
    net.compile([x])
    a, b = net(x, y).to_numpy(), net(x, y).to_numpy()
    assert not np.array_equal(a, b)
    assert np.abs(a).max() <= 1
