"""Two steps, two halves, each updating only its own."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from models import assert_no_tracers, states

import singax as sx
from singax import autograd, layer


class GAN(sx.Module):
    """SINGA's shape of a GAN: one module, two nets, two steps."""

    def __init__(self, optimizers: int) -> None:
        super().__init__()
        self.gen_net, self.dis_net = Net(6), Net(1)
        self.loss = layer.BinaryCrossEntropy()
        self.optimizer = sx.opt.Adam(lr=0.01)
        self.second = sx.opt.SGD(lr=0.05, momentum=0.9, weight_decay=0.01) if optimizers == 2 else self.optimizer

    def forward(self, noise: jax.Array) -> jax.Array:
        return self.dis_net(self.gen_net(noise))

    def train_one_batch(self, noise: Any) -> Any:
        loss = self.loss(self.forward(noise), sx.tensor.ones((4, 1)))
        for p, g in autograd.backward(loss):
            if "gen_net" in p.name:
                self.optimizer.apply(p.name, p, g)
        return loss

    def train_one_batch_dis(self, real: Any, noise: Any) -> Any:
        out = autograd.cat([self.dis_net(real), self.forward(noise)])
        target = np.array([[1.0]] * 4 + [[0.0]] * 4, np.float32)
        loss = self.loss(out, sx.from_numpy(target))
        for p, g in autograd.backward(loss):
            if "dis_net" in p.name:
                self.second.apply(p.name, p, g)
        self.second.step()
        return loss


class Net(sx.Module):
    def __init__(self, out: int) -> None:
        super().__init__()
        self.fc1, self.fc2 = layer.Linear(8), layer.Linear(out)

    def forward(self, x: jax.Array) -> jax.Array:
        return jax.nn.sigmoid(self.fc2(jax.nn.relu(self.fc1(x))))


@pytest.mark.parametrize("use_graph", [True, False])
@pytest.mark.parametrize("optimizers", [1, 2])
def test_each_step_leaves_the_other_half_bit_equal(use_graph: bool, optimizers: int) -> None:
    rng = np.random.default_rng(0)
    noise, real = rng.normal(size=(4, 3)).astype(np.float32), rng.normal(size=(4, 6)).astype(np.float32)
    gan = GAN(optimizers)
    gan.compile([noise], use_graph=use_graph)
    for _ in range(3):
        for step, own in ((lambda: gan(noise), "gen_net"), (lambda: gan.train_one_batch_dis(real, noise), "dis_net")):
            before = states(gan)
            step()
            after = states(gan)
            for path in gan.get_params():
                assert np.array_equal(before[path], after[path]) == (own not in path), path
    assert_no_tracers(gan)
    if use_graph:
        assert [c.method for c in gan.compilations] == ["GAN.train_one_batch", "GAN.train_one_batch_dis"]


def test_slots_exist_for_the_own_half_only() -> None:
    rng = np.random.default_rng(0)
    noise, real = rng.normal(size=(4, 3)).astype(np.float32), rng.normal(size=(4, 6)).astype(np.float32)
    gan = GAN(2)
    gan.compile([noise])
    gan(noise)
    gan.train_one_batch_dis(real, noise)
    slots = [path for path in gan.state_dict() if path.startswith(("optimizer.m.", "optimizer.v.", "second.momentum."))]
    assert all(("gen_net" in path) == path.startswith("optimizer") for path in slots)
    assert len(slots) == 4 * 2 + 4
