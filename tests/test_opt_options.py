"""The options of every optimizer, each against a NumPy computation, for SINGA's rules and for any optax chain."""

from __future__ import annotations

import copy
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from models import MLP, assert_equal_states, assert_no_tracers, blobs, states

import singax as sx
from singax import autograd, opt
from singax.tensor import Tensor

KINDS: dict[str, Any] = {
    "sgd": lambda **options: opt.SGD(0.1, **options),
    "optax": lambda **options: opt.Optax(optax.sgd(0.1), **options),
}


def gradients(net: MLP, x: Any, y: Any) -> dict[str, np.ndarray]:
    """Gradients at the model's parameters, by JAX alone."""
    _, apply_fn = net.functional()
    params = {path: jnp.asarray(p.to_numpy()) for path, p in net.get_params().items()}
    grads = jax.grad(lambda p: sx.ops.softmax_cross_entropy(apply_fn(p, x), y)[0])(params)
    return {path: np.asarray(g) for path, g in grads.items()}


def parameters(net: MLP) -> dict[str, np.ndarray]:
    return {path: p.to_numpy() for path, p in net.get_params().items()}


def compiled(optimizer: Any, use_graph: bool = True) -> MLP:
    sx.device.set_seed(0)
    net = MLP(optimizer)
    net.compile([blobs()[0]], use_graph=use_graph)
    return net


def close(found: dict[str, Any], expected: dict[str, Any]) -> None:
    for path, value in expected.items():
        np.testing.assert_allclose(found[path], value, rtol=2e-4, atol=1e-6, err_msg=path)


both = pytest.mark.parametrize("use_graph", [True, False])
kinds = pytest.mark.parametrize("kind", KINDS)


@both
@kinds
def test_clip_value_then_clip_norm(kind: str, use_graph: bool) -> None:
    x, y = blobs()
    net = compiled(KINDS[kind](clip_value=0.05, clip_norm=0.1), use_graph)
    for _ in range(3):
        expected = parameters(net)
        grads = {path: np.clip(g, -0.05, 0.05) for path, g in gradients(net, x, y).items()}
        norm = np.sqrt(sum((g**2).sum() for g in grads.values()))
        assert norm > 0.1
        net(x, y)
        close(parameters(net), {path: w - 0.1 * grads[path] * 0.1 / norm for path, w in expected.items()})
    assert len(net.compilations) == use_graph


def test_a_small_norm_is_left_alone_and_half_precision_does_not_overflow() -> None:
    w = Tensor(data=np.zeros(4, np.float16), stores_grad=True, name="w")
    opt.SGD(1.0, clip_norm=2.0).apply_gradients([(w, Tensor(data=np.full(4, 0.5, np.float16)))])
    np.testing.assert_array_equal(w.to_numpy(), np.full(4, -0.5, np.float16))
    opt.SGD(1.0, clip_norm=1.0).apply_gradients([(w, Tensor(data=np.full(4, 3e4, np.float16)))])
    np.testing.assert_allclose(w.to_numpy(), np.full(4, -1.0), rtol=1e-3)


@both
@kinds
def test_accumulation(kind: str, use_graph: bool) -> None:
    """Parameters change at each third step only, by the mean of three gradients; counters count updates."""
    net = compiled(KINDS[kind](accumulate=3), use_graph)
    batches = [blobs(seed=seed) for seed in range(6)]
    for first in (0, 3):
        start, grads = parameters(net), [gradients(net, *batches[first + i]) for i in range(3)]
        for i in range(3):
            for path, value in parameters(net).items():
                np.testing.assert_array_equal(value, start[path])
            net(*batches[first + i])
        close(parameters(net), {path: w - 0.1 * np.mean([g[path] for g in grads], 0) for path, w in start.items()})
    assert net.optimizer.get_states()["step_counter"] == 2
    assert len(net.compilations) == use_graph


def test_accumulation_equals_the_large_batch() -> None:
    x, y = blobs(32)
    small = compiled(opt.Adam(0.05, accumulate=2, clip_norm=0.1))
    large = compiled(opt.Adam(0.05, clip_norm=0.1))
    for _ in range(3):
        small(x[:16], y[:16]), small(x[16:], y[16:])
        large(x, y)
    close(parameters(small), parameters(large))


def test_a_schedule_counts_updates() -> None:
    net = compiled(opt.SGD(opt.LinearDecay(0.4, 4), accumulate=2))
    rates = []
    for _ in range(5):
        rates.append(float(net.optimizer.lr_value))
        net(*blobs())
    np.testing.assert_allclose(rates, [0.4, 0.4, 0.3, 0.3, 0.2], rtol=1e-6)


@both
@kinds
def test_average(kind: str, use_graph: bool) -> None:
    x, y = blobs()
    net = compiled(KINDS[kind](average=0.8), use_graph)
    seen: list[dict[str, np.ndarray]] = []
    assert net.optimizer.averaged() == {}
    for _ in range(4):
        net(x, y)
        seen.append(parameters(net))
    weights = 0.8 ** np.arange(3, -1, -1)
    expected = {path: sum(w * s[path] for w, s in zip(weights / weights.sum(), seen, strict=True)) for path in seen[0]}
    close({path: t.to_numpy() for path, t in net.optimizer.averaged().items()}, expected)
    net.eval()
    plain = net(x).to_numpy()
    with net.optimizer.averaged_weights():
        close(parameters(net), expected)
        averaged = net(x).to_numpy()
    assert np.abs(averaged - plain).max() > 1e-4
    np.testing.assert_array_equal(net(x).to_numpy(), plain)
    for path, value in parameters(net).items():
        np.testing.assert_array_equal(value, seen[-1][path])
    net.train()
    net(x, y)
    assert len(net.compilations) == (2 if use_graph else 0)


def test_training_within_the_block_is_refused() -> None:
    x, y = blobs()
    net = compiled(opt.SGD(0.1, average=0.5))
    net(x, y)
    before = parameters(net)

    def train_within() -> None:
        with net.optimizer.averaged_weights():
            net(x, y)

    with pytest.raises(sx.errors.StateError, match=r"the changes are lost.*fc1\.W"):
        train_within()
    for path, value in parameters(net).items():
        np.testing.assert_array_equal(value, before[path])
    with pytest.raises(sx.errors.ArgumentError, match="SGD keeps no average"):
        opt.SGD(0.1).averaged()


def test_average_of_half_precision_is_kept_in_float32() -> None:
    w = Tensor(data=np.ones(2, np.float16), stores_grad=True, name="w")
    optimizer = opt.SGD(0.1, average=0.5, accumulate=2)
    optimizer.apply("w", w, Tensor(data=np.ones(2, np.float16)))
    held = optimizer.get_states()
    assert held["average"]["w"].dtype == held["accumulated"]["w"].dtype == np.float32
    assert optimizer.averaged()["w"].dtype == np.float16


@both
def test_groups(use_graph: bool) -> None:
    """Weight decay off for biases, a rate of its own for one layer, half the rate for another parameter."""
    x, y = blobs()
    groups = {"*": {"weight_decay": 0.1}, "*.b": {"weight_decay": 0}, "fc2.*": {"lr": 0.02}, "fc1.b": {"lr_scale": 0.5}}
    net = compiled(opt.SGD(0.1, weight_decay=0.3, groups=groups), use_graph)
    for _ in range(3):
        w, g = parameters(net), gradients(net, x, y)
        net(x, y)
        expected = {
            "fc1.W": w["fc1.W"] - 0.1 * (g["fc1.W"] + 0.1 * w["fc1.W"]),
            "fc1.b": w["fc1.b"] - 0.05 * g["fc1.b"],
            "fc2.W": w["fc2.W"] - 0.02 * (g["fc2.W"] + 0.1 * w["fc2.W"]),
            "fc2.b": w["fc2.b"] - 0.02 * g["fc2.b"],
        }
        close(parameters(net), expected)
    net.optimizer.groups["fc2.*"]["lr"] = 0.0
    net.optimizer.groups["fc1.b"]["lr_scale"] = 0.0
    before = parameters(net)
    net(x, y)
    for path, value in parameters(net).items():
        assert np.array_equal(value, before[path]) == (path != "fc1.W")
    assert len(net.compilations) == use_graph


def test_groups_with_a_schedule_and_without_a_slot() -> None:
    x, y = blobs()
    groups = {"fc1.*": {"lr": opt.LinearDecay(0.4, 4), "momentum": 0}}
    net = compiled(opt.SGD(0.1, momentum=0.9, groups=groups))
    for step in range(3):
        w, g = parameters(net), gradients(net, x, y)
        net(x, y)
        close(parameters(net), {"fc1.W": w["fc1.W"] - (0.4 - 0.1 * step) * g["fc1.W"]})
    assert set(net.optimizer.get_states()["moments"]) == {"fc2.W", "fc2.b"}


def test_groups_of_an_optax_chain_scale_the_update() -> None:
    x, y = blobs()
    net = compiled(opt.Optax(optax.sgd(0.1), groups={"fc2.*": {"lr_scale": 0.5}}))
    w, g = parameters(net), gradients(net, x, y)
    net(x, y)
    close(parameters(net), {path: w[path] - (0.05 if "fc2" in path else 0.1) * g[path] for path in w})


@both
@kinds
@pytest.mark.parametrize("freeze", ["fc1.*", ["fc1.W", "*1.b"]])
def test_freeze(kind: str, freeze: Any, use_graph: bool, caplog: pytest.LogCaptureFixture) -> None:
    x, y = blobs()
    optimizer = KINDS[kind](freeze=freeze, average=0.9)
    net = compiled(optimizer, use_graph)
    w, g = parameters(net), gradients(net, x, y)
    net(x, y)
    close(parameters(net), {path: w[path] - 0.1 * g[path] * ("fc2" in path) for path in w})
    np.testing.assert_array_equal(parameters(net)["fc1.W"], w["fc1.W"])
    assert not [path for path in net.state_dict() if path.startswith("optimizer") and "fc1" in path]
    assert set(optimizer.averaged()) == {"fc2.W", "fc2.b"}
    assert "no gradient reached" not in caplog.text


@pytest.mark.parametrize("options", [{"freeze": "fc3.*"}, {"groups": {"fc3.*": {"lr": 1.0}}}])
def test_a_pattern_that_matches_nothing(options: dict[str, Any]) -> None:
    net = compiled(opt.SGD(0.1, **options))
    before = states(net)
    with pytest.raises(sx.errors.NameMismatchError, match=r"no parameter matches 'fc3\.\*'.*fc1\.W"):
        net(*blobs())
    assert_no_tracers(net)
    assert_equal_states({path: states(net)[path] for path in before}, before)


class Overflowing(sx.Module):
    """The gradient of w is `factor`, which passes through float16 on its way."""

    def __init__(self, optimizer: Any) -> None:
        super().__init__()
        self.w = Tensor(data=[1.0, 2.0], stores_grad=True)
        self.optimizer = optimizer

    def forward(self, factor: jax.Array) -> jax.Array:
        return ((self.w.data.astype(jnp.float16) * factor.astype(jnp.float16)).astype(jnp.float32)).sum()[None]

    def train_one_batch(self, factor: Any) -> Any:
        loss = self.forward(factor)
        self.optimizer(loss)
        return loss


@both
@pytest.mark.parametrize("options", [{}, {"accumulate": 1, "average": 0.5}])
def test_loss_scale(options: dict[str, Any], use_graph: bool) -> None:
    optimizer = opt.Adam(0.1, loss_scale=opt.LossScale(1024.0, growth_interval=2), **options)
    net = Overflowing(optimizer)
    factor = np.ones(2, np.float32)
    net.compile([factor], use_graph=use_graph)
    plain = Overflowing(opt.Adam(0.1, **options))
    plain.compile([factor])
    scales = []
    for step in range(6):
        before = states(net)
        bad = step in (1, 2)
        net(factor * (1000 if bad else 0.5))  # 1000 · 1024 is beyond float16
        scales.append(float(optimizer.loss_scale.scale))
        after = states(net)
        for path in before:
            if path.startswith(("w", "optimizer.m", "optimizer.v", "optimizer.step", "optimizer.average")):
                changed = not np.array_equal(before[path], after[path])
                assert changed != bad, path
        if not bad:
            plain(factor * 0.5)
    assert scales == [1024, 512, 256, 256, 512, 512]
    assert optimizer.get_states()["step_counter"] == 4
    np.testing.assert_allclose(net.w.to_numpy(), plain.w.to_numpy(), rtol=1e-5)
    assert len(net.compilations) == use_graph
    assert_no_tracers(net)


def test_loss_scale_keeps_small_gradients() -> None:
    """1e-8 is 0 in float16; times 2**15 it is not."""
    w = Tensor(data=[0.0], stores_grad=True, name="w")
    autograd.training = True
    tiny = autograd.node(lambda w: (w.astype(jnp.float16) * 1.0).astype(jnp.float32) * 1e-8)
    optimizer = opt.SGD(1.0)
    optimizer(tiny(w))
    assert float(w) == 0
    optimizer.loss_scale = opt.LossScale()
    optimizer(tiny(w))
    np.testing.assert_allclose(float(w), -1e-8, rtol=1e-2)


def test_a_skipped_step_is_not_accumulated() -> None:
    net = Overflowing(opt.SGD(1.0, accumulate=2, loss_scale=opt.LossScale(1024.0)))
    factor = np.ones(2, np.float32)
    net.compile([factor])
    for scale in (0.5, 1000, 1.5):
        net(factor * scale)
    np.testing.assert_allclose(net.w.to_numpy(), [0.0, 1.0], rtol=1e-6)
    assert net.optimizer.get_states()["step_counter"] == 1


def test_a_loss_scale_given_later_takes_effect() -> None:
    net = Overflowing(opt.SGD(0.1))
    factor = np.ones(2, np.float32)
    net.compile([factor])
    net(factor)
    net.optimizer.loss_scale = opt.LossScale(2.0**10)
    before = net.w.to_numpy()
    net(factor * 1000)
    np.testing.assert_array_equal(net.w.to_numpy(), before)
    assert float(net.optimizer.loss_scale.scale) == 512


def test_one_by_one_is_refused_where_all_gradients_are_needed() -> None:
    w = Tensor(data=[1.0], stores_grad=True)
    for options, word in (({"clip_norm": 1.0}, "clip_norm"), ({"loss_scale": opt.LossScale()}, "loss_scale")):
        with pytest.raises(sx.errors.ArgumentError, match=f"{word} looks at all gradients together"):
            opt.SGD(0.1, **options).apply("w", w, Tensor(data=[1.0]))


def test_options_survive_a_deep_copy_and_a_state_round_trip() -> None:
    x, y = blobs()
    options = {"accumulate": 2, "average": 0.9, "loss_scale": opt.LossScale(8.0), "groups": {"*.b": {"lr": 0.3}}}
    net = compiled(opt.RMSProp(0.01, **options))
    for _ in range(3):
        net(x, y)
    twin = copy.deepcopy(net)
    other = compiled(opt.RMSProp(0.01, **{**options, "loss_scale": opt.LossScale(4.0)}))
    other.set_params(net.get_params())
    other.optimizer.set_states(net.optimizer.get_states())
    for model in (net, twin, other):
        model(x, y)
    expected = states(net)
    assert_equal_states(states(twin), expected)
    assert_equal_states(states(other), {**expected, "rng": states(other)["rng"]})


def test_bad_options() -> None:
    for make, words in (
        (lambda: opt.SGD(clip_norm=0), "clip_norm must be above 0"),
        (lambda: opt.SGD(clip_value=-1.0), "clip_value must be above 0"),
        (lambda: opt.SGD(accumulate=0), "accumulate is a number of steps"),
        (lambda: opt.SGD(accumulate=1.5), "accumulate is a number of steps"),
        (lambda: opt.SGD(average=1.0), "average is a decay"),
        (lambda: opt.SGD(loss_scale=1024.0), "loss_scale is a LossScale or None. Received: float"),
        (lambda: opt.SGD(freeze=[3]), "freeze is a name pattern"),
        (lambda: opt.SGD(groups=["*"]), "groups is a dict"),
        (lambda: opt.SGD(groups={"*": {}}), "is a dict of options"),
        (lambda: opt.SGD(groups={"*": {"beta_1": 0.9}}), "no option 'beta_1'; this optimizer knows: dampening, lr"),
        (lambda: opt.SGD(groups={"*": {"weight_decay": -1}}), "weight_decay must not be negative"),
        (lambda: opt.Optax(optax.sgd(0.1), groups={"*": {"lr": 1.0}}), r"knows: lr_scale"),
        (lambda: opt.LossScale(0.5), "initial ≥ minimum"),
        (lambda: opt.LossScale(factor=1.0), "factor > 1"),
        (lambda: opt.Adafactor(decay_rate=0.0), "0 < decay_rate"),
        (lambda: opt.Muon(steps=0), "steps must be 1 or more"),
    ):
        with pytest.raises(sx.errors.ArgumentError, match=words):
            make()
    with pytest.raises(TypeError, match="momentumm"):
        opt.SGD(0.1, momentumm=0.9)
    optimizer = opt.SGD(groups={"*": {"lr": 0.1, "weight_decay": 0.1}})
    everything = optimizer.groups["*"]
    for option, value in (("weight_decay", 0.2), ("lr", opt.Constant(0.1)), ("lr_scale", 0.1)):
        with pytest.raises(sx.errors.ArgumentError, match="only a rate"):
            everything[option] = value
    with pytest.raises(sx.errors.DTypeError, match=r"floating parameters\. Received: int32"):
        opt.SGD().apply("w", Tensor(data=[1], stores_grad=True), Tensor(data=[1]))


def test_device_check() -> None:
    a, b = Tensor(data=[1.0]), Tensor(data=[1.0], device=jax.devices()[3])
    opt.SGD().device_check(a, b)
    assert b.data.devices() == a.data.devices()


def test_a_hyperparameter_is_an_attribute() -> None:
    """Reading gives its schedule; setting one compiles again, slots included."""
    x, y = blobs()
    net = compiled(opt.SGD(0.1))
    net(x, y)
    assert net.optimizer.momentum.init_value == 0
    net.optimizer.momentum = 0.9
    w, g = parameters(net), gradients(net, x, y)
    net(x, y)
    close(parameters(net), {path: w[path] - 0.1 * g[path] for path in w})
    w, more = parameters(net), gradients(net, x, y)
    net(x, y)
    close(parameters(net), {path: w[path] - 0.1 * (0.9 * g[path] + more[path]) for path in w})
    assert len(net.compilations) == 2
    with pytest.raises(sx.errors.ArgumentError, match="must not be negative"):
        net.optimizer.momentum = -1.0
    assert net.optimizer.momentum.init_value == 0.9
    with pytest.raises(AttributeError, match="SGD has no attribute 'beta_1'"):
        _ = net.optimizer.beta_1


def test_float16_with_a_loss_scale_trains_as_float32() -> None:
    x, y = blobs()
    found = []
    for precision in ("float32", "float16"):
        sx.device.set_seed(0)
        net = MLP(opt.SGD(0.5, momentum=0.9, loss_scale=opt.LossScale(2.0**24)))
        net.compile([x], precision=precision)
        losses = [float(net(x, y)[1]) for _ in range(20)]
        found.append((losses, float(net.optimizer.loss_scale.scale), int(net.optimizer.step_counter)))
        assert len(net.compilations) == 1
    (wide, _, count), (narrow, scale, fewer) = found
    assert count == 20
    assert 8 <= fewer < 20  # the first steps only find the scale
    assert scale < 2.0**24
    np.testing.assert_allclose(narrow[-1], wide[fewer - 1], rtol=0.05)
