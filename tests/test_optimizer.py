"""Optimizers against a NumPy transcription of SINGA's formulas, 20 steps; schedules; states; any optax."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import optax
import pytest
from models import MLP, blobs, states

import singax as sx
from singax import opt

Rule = Callable[[np.ndarray, np.ndarray, dict[str, np.ndarray], int], np.ndarray]


def sgd(lr: float, mu: float = 0, damp: float = 0, wd: float = 0, nesterov: bool = False) -> Rule:
    def rule(w: np.ndarray, g: np.ndarray, s: dict[str, np.ndarray], t: int) -> np.ndarray:
        g = g + wd * w
        if mu:
            s["v"] = mu * s.get("v", np.zeros_like(w)) + (1 - damp) * g
            g = g + mu * s["v"] if nesterov else s["v"]
        return w - lr * g

    return rule


def rmsprop(lr: float, rho: float = 0.9, eps: float = 1e-8, wd: float = 0) -> Rule:
    def rule(w: np.ndarray, g: np.ndarray, s: dict[str, np.ndarray], t: int) -> np.ndarray:
        g = g + wd * w
        s["r"] = rho * s.get("r", np.zeros_like(w)) + (1 - rho) * g**2
        return w - lr * g / np.sqrt(s["r"] + eps)

    return rule


def adagrad(lr: float, eps: float = 1e-8, wd: float = 0) -> Rule:
    def rule(w: np.ndarray, g: np.ndarray, s: dict[str, np.ndarray], t: int) -> np.ndarray:
        g = g + wd * w
        s["h"] = s.get("h", np.zeros_like(w)) + g**2
        return w - lr * g / np.sqrt(s["h"] + eps)

    return rule


def adam(lr: float, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8, wd: float = 0, late: float = 0) -> Rule:
    def rule(w: np.ndarray, g: np.ndarray, s: dict[str, np.ndarray], t: int) -> np.ndarray:
        g = g + wd * w
        s["m"] = b1 * s.get("m", np.zeros_like(w)) + (1 - b1) * g
        s["v"] = b2 * s.get("v", np.zeros_like(w)) + (1 - b2) * g**2
        direction = (s["m"] / (1 - b1 ** (t + 1))) / (np.sqrt(s["v"] / (1 - b2 ** (t + 1))) + eps)
        return w - lr * (direction + late * w)

    return rule


CASES: dict[str, tuple[Callable[[], opt.Optimizer], Rule]] = {
    "sgd": (lambda: opt.SGD(0.1), sgd(0.1)),
    "sgd_decay": (lambda: opt.SGD(0.1, weight_decay=0.05), sgd(0.1, wd=0.05)),
    "sgd_momentum": (lambda: opt.SGD(0.05, momentum=0.9), sgd(0.05, 0.9)),
    "sgd_dampened": (lambda: opt.SGD(0.05, 0.9, 0.3, 0.01), sgd(0.05, 0.9, 0.3, 0.01)),
    "sgd_nesterov": (lambda: opt.SGD(0.05, 0.9, weight_decay=0.01, nesterov=True), sgd(0.05, 0.9, 0, 0.01, True)),
    "rmsprop": (lambda: opt.RMSProp(0.01), rmsprop(0.01)),
    "rmsprop_all": (lambda: opt.RMSProp(0.01, 0.8, 1e-4, 0.02), rmsprop(0.01, 0.8, 1e-4, 0.02)),
    "adagrad": (lambda: opt.AdaGrad(0.1), adagrad(0.1)),
    "adagrad_all": (lambda: opt.AdaGrad(0.1, 1e-3, 0.02), adagrad(0.1, 1e-3, 0.02)),
    "adam": (lambda: opt.Adam(0.01), adam(0.01)),
    "adam_all": (lambda: opt.Adam(0.01, 0.8, 0.95, 1e-5, 0.02), adam(0.01, 0.8, 0.95, 1e-5, 0.02)),
    "adamw": (lambda: opt.AdamW(0.01, weight_decay=0.1), adam(0.01, late=0.1)),
}


def _gradient(w: np.ndarray, t: int) -> np.ndarray:
    return np.sin(3 * w + t) + 0.1 * w


@pytest.mark.parametrize("name", CASES)
def test_twenty_steps_equal_the_formula(name: str) -> None:
    make, rule = CASES[name]
    optimizer = make()
    w = np.linspace(-1, 1, 7)
    tensor = sx.Tensor(data=w, dtype=sx.float32, stores_grad=True)
    slots: dict[str, np.ndarray] = {}
    for t in range(20):
        g = _gradient(w, t)
        w = rule(w, g, slots, t)
        optimizer.apply("w", tensor, sx.Tensor(data=g, dtype=sx.float32))
        optimizer.step()
        np.testing.assert_allclose(tensor.to_numpy(), w, rtol=2e-4, atol=1e-5)
    assert optimizer.get_states()["step_counter"] == 20


@pytest.mark.parametrize("name", CASES)
def test_compiled_equals_eager_and_compiles_once(name: str) -> None:
    x, y = blobs()
    found = []
    for use_graph in (True, False):
        sx.device.set_seed(0)
        net = MLP(CASES[name][0]())
        net.compile([x], use_graph=use_graph)
        for _ in range(4):
            net(x, y)
        found.append(states(net))
        assert len(net.compilations) == use_graph
    assert sorted(found[0]) == sorted(found[1])
    for path, value in found[0].items():
        np.testing.assert_allclose(value, found[1][path], rtol=1e-3, atol=1e-5, err_msg=path)


def test_slot_names_are_singas() -> None:
    expected = {
        opt.SGD: {"moments"},
        opt.RMSProp: {"running_average"},
        opt.AdaGrad: {"history"},
        opt.Adam: {"m", "v"},
    }
    for cls, slots in expected.items():
        optimizer = cls(lr=0.1, momentum=0.9) if cls is opt.SGD else cls(lr=0.1)
        w = sx.Tensor(data=[1.0, 2.0], stores_grad=True)
        optimizer.apply("w", w, sx.Tensor(data=[1.0, 1.0]))
        found = optimizer.get_states()
        assert set(found) == slots | {"step_counter"}
        assert all(set(found[slot]) == {"w"} for slot in slots)


@pytest.mark.parametrize("cls", [opt.SGD, opt.RMSProp, opt.AdaGrad, opt.Adam, opt.AdamW])
def test_states_round_trip(cls: Any) -> None:
    def make() -> Any:
        return cls(0.05, momentum=0.9) if cls is opt.SGD else cls(0.05)

    start = np.array([0.3, -0.2], np.float32)
    a, w = make(), sx.Tensor(data=start, stores_grad=True)
    for t in range(3):
        a.apply("w", w, sx.Tensor(data=_gradient(w.to_numpy(), t)))
        a.step()
    b, other = make(), sx.Tensor(data=w.to_numpy(), stores_grad=True)
    b.set_states(a.get_states())
    for optimizer, tensor in ((a, w), (b, other)):
        optimizer.apply("w", tensor, sx.Tensor(data=[0.5, 0.25]))
    np.testing.assert_array_equal(w.to_numpy(), other.to_numpy())
    with pytest.raises(sx.errors.NameMismatchError, match="wings"):
        b.set_states({"wings": {}})


def test_layers_with_equal_names_have_slots_of_their_own() -> None:
    optimizer = opt.SGD(0.1, momentum=0.9)
    a, b = (sx.Tensor(data=[1.0], stores_grad=True, name="W") for _ in range(2))
    optimizer.apply("W", a, sx.Tensor(data=[1.0]))
    optimizer.apply("W", b, sx.Tensor(data=[3.0]))
    assert [float(t) for t in optimizer.get_states()["moments"].values()] == [1.0, 3.0]


def test_schedulers() -> None:
    smooth = opt.ExponentialDecay(0.1, 4, 0.5)
    stairs = opt.ExponentialDecay(0.1, 4, 0.5, staircase=True)
    for t in range(10):
        step = sx.Tensor(data=[float(t)])
        np.testing.assert_allclose(smooth(step).to_numpy(), [0.1 * 0.5 ** (t / 4)], rtol=1e-5)
        np.testing.assert_allclose(stairs(step).to_numpy(), [0.1 * 0.5 ** (t // 4)], rtol=1e-5)
    assert float(opt.Constant(0.3)(sx.Tensor(data=[7.0]))) == pytest.approx(0.3)
    with pytest.raises(sx.errors.ArgumentError, match="step as a Tensor"):
        smooth(3)


@pytest.mark.parametrize("use_graph", [True, False])
def test_a_users_scheduler_and_an_optax_schedule(use_graph: bool) -> None:
    class Halving(opt.DecayScheduler):
        def call(self, step: sx.Tensor) -> sx.Tensor:
            return self.init_value / (step + 1.0)

    x, y = blobs()
    for schedule in (Halving(0.5), lambda count: 0.5 / (count + 1.0)):
        net = MLP(opt.SGD(lr=schedule))
        net.compile([x], use_graph=use_graph)
        rates = []
        for _ in range(3):
            rates.append(float(net.optimizer.lr_value))
            net(x, y)
        np.testing.assert_allclose(rates, [0.5, 0.25, 0.5 / 3], rtol=1e-6)


def test_a_momentum_schedule() -> None:
    optimizer = opt.SGD(0.1, momentum=opt.ExponentialDecay(0.9, 1, 0.5))
    w = sx.Tensor(data=[0.0], stores_grad=True)
    v, value = 0.0, 0.0
    for t in range(4):
        v = 0.9 * 0.5**t * v + 1.0
        value -= 0.1 * v
        optimizer.apply("w", w, sx.Tensor(data=[1.0]))
        optimizer.step()
    assert float(w) == pytest.approx(value, rel=1e-5)


def test_a_new_schedule_compiles_again_and_a_new_number_does_not() -> None:
    x, y = blobs()
    net = MLP(opt.SGD(0.1))
    net.compile([x])
    net(x, y)
    net.optimizer.lr = 0.2
    net(x, y)
    assert len(net.compilations) == 1
    net.optimizer.lr = opt.ExponentialDecay(0.4, 1, 0.5)
    net(x, y)
    net(x, y)
    assert len(net.compilations) == 2
    assert float(net.optimizer.lr_value) == pytest.approx(0.4 * 0.5**4)


@pytest.mark.parametrize("use_graph", [True, False])
def test_any_optax_transformation(use_graph: bool) -> None:
    tx = optax.chain(optax.clip_by_global_norm(0.5), optax.adam(optax.cosine_decay_schedule(0.05, 10)))
    x, y = blobs()
    net = MLP(opt.Optax(tx))
    net.compile([x], use_graph=use_graph)
    _, apply_fn = net.functional()
    params = {path: p.to_numpy() for path, p in net.get_params().items()}
    state = tx.init(params)

    def loss_of(p: dict[str, Any]) -> Any:
        return sx.ops.softmax_cross_entropy(apply_fn(p, x), y)[0]

    import jax

    for _ in range(5):
        net(x, y)
        updates, state = tx.update(jax.grad(loss_of)(params), state, params)
        params = optax.apply_updates(params, updates)
    for path, value in params.items():
        np.testing.assert_allclose(net.get_params()[path].to_numpy(), value, rtol=1e-3, atol=1e-5, err_msg=path)
    assert len(net.compilations) == use_graph


def test_bad_arguments() -> None:
    for make, words in (
        (lambda: opt.SGD(momentum=-1), "momentum must not be negative"),
        (lambda: opt.SGD(weight_decay=-1), "weight_decay must not be negative"),
        (lambda: opt.SGD(nesterov=True), "Nesterov"),
        (lambda: opt.SGD(momentum=0.9, dampening=0.1, nesterov=True), "Nesterov"),
        (lambda: opt.SGD(lr="fast"), "lr is a number"),
        (lambda: opt.Optax(3), "GradientTransformation"),
        (lambda: opt.ExponentialDecay(0.1, 0, 0.5), "decay_steps"),
    ):
        with pytest.raises(sx.errors.ArgumentError, match=words):
            make()
    w = sx.Tensor(data=[1.0, 2.0], stores_grad=True)
    with pytest.raises(sx.errors.ShapeError, match=r"w has shape \(2,\); its gradient has shape \(3,\)"):
        opt.SGD().apply("w", w, sx.Tensor(data=[1.0, 2.0, 3.0]))


def test_a_frozen_parameter_gets_no_update_and_no_slot() -> None:
    x, y = blobs()
    net = MLP(opt.SGD(0.1, momentum=0.9, weight_decay=0.1))
    net.compile([x])
    net.fc1.W.requires_grad = False
    before = states(net)
    net(x, y)
    after = states(net)
    np.testing.assert_array_equal(before["fc1.W"], after["fc1.W"])
    assert "optimizer.momentum.fc1.W" not in after
    assert not np.array_equal(before["fc1.b"], after["fc1.b"])


def test_freezing_between_steps_takes_effect_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    x, y = blobs()
    net = MLP()
    net.compile([x])
    net(x, y)
    net.fc1.W.requires_grad = False
    before = states(net)
    net(x, y)
    np.testing.assert_array_equal(states(net)["fc1.W"], before["fc1.W"])
    assert "fc1.W was frozen" in caplog.text
    net.fc1.W.requires_grad = True
    net(x, y)
    assert not np.array_equal(states(net)["fc1.W"], before["fc1.W"])
