"""The compiled step: equal to eager and to jax.grad, one trace per program, no tracer left behind."""

from __future__ import annotations

import logging
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from models import MLP, Trained, assert_equal_states, assert_no_tracers, blobs, images, states

import singax as sx
from singax import layer


class CNN(Trained):
    """Convolution, BatchNorm, Dropout."""

    def __init__(self, optimizer: Any = None) -> None:
        super().__init__(optimizer)
        self.conv = layer.Conv2d(4, 3, padding=1)
        self.bn = layer.BatchNorm2d()
        self.drop = layer.Dropout(0.25)
        self.head = layer.Linear(3)

    def forward(self, x: jax.Array) -> jax.Array:
        y = jax.nn.relu(self.bn(self.conv(x)))
        return self.head(self.drop(y.mean((2, 3))))


class CharRNN(Trained):
    """An LSTM whose state is carried from batch to batch."""

    def __init__(self, optimizer: Any = None) -> None:
        super().__init__(optimizer)
        self.lstm = layer.LSTM(5, 6)
        self.head = layer.Linear(3)
        self.h = sx.Tensor((4, 6), requires_grad=False).set_value(0.0)
        self.c = sx.Tensor((4, 6), requires_grad=False).set_value(0.0)

    def forward(self, x: jax.Array) -> jax.Array:
        hs, self.h, self.c = self.lstm(x, (self.h, self.c))
        return self.head(hs.reshape(-1, 6))


def _mlp() -> tuple[sx.Module, tuple[np.ndarray, np.ndarray]]:
    return MLP(), blobs()


def _cnn() -> tuple[sx.Module, tuple[np.ndarray, np.ndarray]]:
    return CNN(), images()


def _rnn() -> tuple[sx.Module, tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3, 4, 5)).astype(np.float32)
    return CharRNN(), (x, rng.integers(0, 3, 12).astype(np.int32))


MODELS = [_mlp, _cnn, _rnn]


@pytest.mark.parametrize("make", MODELS)
def test_compiled_equals_eager(make: Any) -> None:
    found = []
    for use_graph in (True, False):
        sx.device.set_seed(3)
        model, (x, y) = make()
        model.compile([sx.Placeholder(x.shape)], use_graph=use_graph)
        losses = [float(model(x, y)[1]) for _ in range(4)]
        found.append((losses, states(model)))
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-5)
    for path, value in found[0][1].items():
        np.testing.assert_allclose(value, found[1][1][path], rtol=1e-4, atol=1e-6, err_msg=path)


@pytest.mark.parametrize("make", MODELS)
def test_compiled_equals_jax_grad_of_the_functional_form(make: Any) -> None:
    model, (x, y) = make()
    model.optimizer = sx.opt.SGD(lr=0.5)
    model.compile([sx.Placeholder(x.shape)])
    before = states(model)
    _, apply_fn = model.functional()
    params = set(model.get_params())
    key = jnp.asarray(before["rng"])

    def loss_of(trained: dict[str, jax.Array]) -> jax.Array:
        fixed = {p: v for p, v in before.items() if p not in params and p in model.get_states()}
        out, _ = apply_fn({**fixed, **trained}, x, train=True, key=key)
        return sx.ops.softmax_cross_entropy(out, jnp.asarray(y))[0]

    value, grads = jax.jit(jax.value_and_grad(loss_of))({p: jnp.asarray(before[p]) for p in params})
    _, loss = model(x, y)
    np.testing.assert_allclose(float(loss), value, rtol=1e-5)
    after = states(model)
    for path in params:
        np.testing.assert_allclose(after[path], before[path] - 0.5 * grads[path], rtol=1e-4, atol=1e-6, err_msg=path)


def test_one_trace_over_a_hundred_steps_and_one_more_for_each_change(caplog: pytest.LogCaptureFixture) -> None:
    traces = 0

    class Counted(MLP):
        def train_one_batch(self, x: Any, y: Any, option: str = "plain") -> Any:
            nonlocal traces
            traces += 1
            return super().train_one_batch(x, y)

    x, y = blobs()
    net = Counted()
    net.compile([sx.Placeholder((None, 5))])
    for _ in range(100):
        net(x, y)
    assert traces == 1
    for rate in (0.2, 0.05):
        net.optimizer.lr = rate
        net(x, y)
    assert traces == 1
    with caplog.at_level(logging.WARNING, "singax"):
        net(x, y, "other")
        assert traces == 2
        assert "option changed from absent to 'other'" in caplog.text
        net(x[:8], y[:8])
        assert traces == 3
        assert "x changed from float32[16,5] to float32[8,5]" in caplog.text
    net(x, y)
    net(x[:8], y[:8])
    net(x, y, "other")
    assert traces == 3
    assert [c.method for c in net.compilations] == ["Counted.train_one_batch"] * 3


def test_a_new_learning_rate_takes_effect() -> None:
    x, y = blobs()
    net = MLP(sx.opt.SGD(lr=0.1))
    net.compile([x])
    net(x, y)
    net.optimizer.lr = 0.0
    before = states(net)
    net(x, y)
    after = states(net)
    np.testing.assert_array_equal(before["fc1.W"], after["fc1.W"])


def test_a_schedule_does_not_recompile() -> None:
    x, y = blobs()
    net = MLP(sx.opt.SGD(lr=sx.opt.ExponentialDecay(0.5, 1, 0.5)))
    net.compile([x])
    rates = []
    for _ in range(4):
        rates.append(float(net.optimizer.lr_value))
        net(x, y)
    assert rates == [0.5, 0.25, 0.125, 0.0625]
    assert len(net.compilations) == 1


@pytest.mark.parametrize("make", MODELS)
def test_no_handle_holds_a_tracer(make: Any) -> None:
    model, (x, y) = make()
    model.compile([sx.Placeholder(x.shape)])
    assert_no_tracers(model)
    model(x, y)
    assert_no_tracers(model)
    before = states(model)
    with pytest.raises(ValueError, match=r"received|Received"):
        model(x, y[:-1])
    assert_no_tracers(model)
    assert_equal_states(states(model), before)
    model.infer_shape(x.shape)
    assert_no_tracers(model)
    model.eval()
    model(x)
    assert_no_tracers(model)


def test_a_step_that_fails_after_the_update_changes_nothing() -> None:
    class Failing(MLP):
        fail = False

        def train_one_batch(self, x: Any, y: Any, fail: bool = False) -> Any:
            out = super().train_one_batch(x, y)
            if fail:
                raise RuntimeError("after the update")
            return out

    x, y = blobs()
    net = Failing()
    net.compile([x])
    net(x, y)
    before = states(net)
    with pytest.raises(RuntimeError, match="after the update"):
        net(x, y, fail=True)
    assert_no_tracers(net)
    assert_equal_states(states(net), before)
    net(x, y)


def test_abstract_pass_leaves_state_and_key_alone() -> None:
    net = CNN()
    x, y = images()
    net.compile([sx.Placeholder(x.shape)])
    net(x, y)
    before = states(net)
    net.compile([sx.Placeholder((7, 2, 8, 8))])
    assert_equal_states(states(net), before)


def test_fresh_results_on_every_call() -> None:
    x, y = blobs()
    net = MLP()
    net.compile([x])
    first = net(x, y)[1]
    value = float(first)
    second = net(x, y)[1]
    assert second is not first
    assert float(first) == value
    assert float(second) != value


def test_new_arguments_are_honoured() -> None:
    x, y = blobs()
    net = MLP(sx.opt.SGD(lr=0.0))
    net.compile([x])
    a, b = net(x, y)[0].to_numpy(), net(x * 2, y)[0].to_numpy()
    assert not np.allclose(a, b)
    tx, ty = sx.from_numpy(x), sx.from_numpy(y)
    np.testing.assert_array_equal(net(tx, ty)[0].to_numpy(), a)
    tx.copy_from_numpy(x * 2)
    np.testing.assert_array_equal(net(tx, ty)[0].to_numpy(), b)


def test_results_of_any_structure() -> None:
    class Rich(MLP):
        def train_one_batch(self, x: Any, y: Any) -> Any:
            out, loss = super().train_one_batch(x, y)
            return {"out": out, "parts": [loss, (loss, 3.5)], "name": "rich", "none": None, "w": self.fc1.W}

    x, y = blobs()
    net = Rich()
    net.compile([x])
    for _ in range(3):
        found = net(x, y)
    assert found["name"] == "rich"
    assert found["none"] is None
    assert found["parts"][1][1] == 3.5
    assert found["out"].shape == (16, 3)
    np.testing.assert_array_equal(found["w"].to_numpy(), net.fc1.W.to_numpy())
    net(x, y)
    assert np.isfinite(found["w"].to_numpy()).all()  # a result survives the donation of later steps


def test_raw_jax_in_forward_has_the_right_gradient() -> None:
    class Raw(Trained):
        def __init__(self) -> None:
            super().__init__(sx.opt.SGD(lr=1.0))
            self.fc = layer.Linear(3)

        def forward(self, x: jax.Array) -> jax.Array:
            y = self.fc(x)
            y, _ = jax.lax.scan(lambda c, s: (jnp.sin(c) + s, None), y, jnp.arange(3.0))
            return jax.lax.cond(y.sum() > 0, lambda v: v * 2, lambda v: v * 3, y)

    x, y = blobs()
    net = Raw()
    net.compile([x])
    before = states(net)

    def loss_of(W: jax.Array, b: jax.Array) -> jax.Array:
        h = x @ W + b
        for s in range(3):
            h = jnp.sin(h) + s
        h = jnp.where(h.sum() > 0, h * 2, h * 3)
        return -jnp.mean(jax.nn.log_softmax(h)[jnp.arange(16), y])

    grads = jax.grad(loss_of, (0, 1))(before["fc.W"], before["fc.b"])
    net(x, y)
    after = states(net)
    np.testing.assert_allclose(before["fc.W"] - after["fc.W"], grads[0], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(before["fc.b"] - after["fc.b"], grads[1], rtol=1e-4, atol=1e-6)


def test_use_graph_false_lets_python_look_at_values() -> None:
    seen = []

    class Looking(MLP):
        def train_one_batch(self, x: Any, y: Any) -> Any:
            out, loss = super().train_one_batch(x, y)
            seen.append(float(loss))
            return out, loss

    x, y = blobs()
    net = Looking()
    net.compile([x], use_graph=False)
    net(x, y)
    net(x, y)
    assert len(seen) == 2
    net.graph(True)
    with pytest.raises(sx.errors.TracedValueError, match=r"being compiled(.|\n)*use_graph=False(.|\n)*jax.debug.print"):
        net(x, y)
    assert_no_tracers(net)


def test_evaluation_is_compiled_and_changes_nothing() -> None:
    model, (x, y) = _cnn()
    model.compile([sx.Placeholder(x.shape)])
    model(x, y)
    before = states(model)
    model.eval()
    a, b = model(x).to_numpy(), model(x).to_numpy()
    np.testing.assert_array_equal(a, b)
    assert_equal_states(states(model), before)
    assert [c.method for c in model.compilations] == ["CNN.train_one_batch", "CNN.forward"]


def test_char_rnn_state_is_carried_and_reset() -> None:
    model, (x, y) = _rnn()
    model.compile([sx.Placeholder(x.shape)])
    model(x, y)
    first = model.h.to_numpy()
    assert np.abs(first).max() > 0
    model(x, y)
    assert not np.array_equal(model.h.to_numpy(), first)
    model.h.set_value(0.0)
    assert np.abs(model.h.to_numpy()).max() == 0
    model(x, y)
    assert len(model.compilations) == 1


def test_static_arguments_must_be_hashable() -> None:
    class Listed(MLP):
        def train_one_batch(self, x: Any, y: Any, options: Any = None) -> Any:
            return super().train_one_batch(x, y)

    x, y = blobs()
    net = Listed()
    net.compile([x])
    with pytest.raises(sx.errors.StaticArgumentError, match="options is a set"):
        net(x, y, options={1, 2})


def test_marked_steps_are_compiled_too() -> None:
    class Two(MLP):
        @sx.step
        def warm_up(self, x: Any, y: Any) -> Any:
            loss = self.loss(self.forward(x), y)
            self.optimizer(loss)
            return loss

    x, y = blobs()
    net = Two()
    net.compile([x])
    net.warm_up(x, y)
    net.warm_up(x, y)
    net(x, y)
    assert [c.method for c in net.compilations] == ["Two.warm_up", "Two.train_one_batch"]


def test_several_losses_in_one_step() -> None:
    class Both(MLP):
        def train_one_batch(self, x: Any, y: Any, weight: float = 0.5) -> Any:
            out = self.forward(x)
            loss = self.loss(out, y)
            loss += weight * penalty(self.fc1.W)
            self.optimizer(loss)
            return loss

    penalty = sx.autograd.node(lambda w: jnp.sum(w * w).reshape(1))
    x, y = blobs()
    net = Both(sx.opt.SGD(lr=1.0))
    net.compile([x])
    before = states(net)

    def loss_of(W: jax.Array) -> jax.Array:
        h = jnp.tanh(x @ W + before["fc1.b"]) @ before["fc2.W"] + before["fc2.b"]
        return -jnp.mean(jax.nn.log_softmax(h)[jnp.arange(16), y]) + 0.5 * jnp.sum(W * W)

    net(x, y)
    np.testing.assert_allclose(
        before["fc1.W"] - states(net)["fc1.W"], jax.grad(loss_of)(before["fc1.W"]), rtol=1e-4, atol=1e-6
    )


def test_optimizer_outside_the_model_joins_its_state() -> None:
    class Bare(sx.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = layer.Linear(3)
            self.loss = layer.SoftMaxCrossEntropy()

        def forward(self, x: jax.Array) -> jax.Array:
            return self.fc(x)

        def train_one_batch(self, x: Any, y: Any) -> Any:
            loss = self.loss(self.forward(x), y)
            sgd(loss)
            return loss

    sgd = sx.opt.SGD(lr=0.1, momentum=0.9)
    x, y = blobs()
    net = Bare()
    net.compile([x])
    losses = [float(net(x, y)) for _ in range(5)]
    assert losses[-1] < losses[0]
    assert_no_tracers(net)
    assert int(sgd.step_counter) == 5
    assert len(net.compilations) == 1


def test_deprecated_hooks_warn() -> None:
    class Hooked(sx.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = layer.Linear(3)

        def forward(self, x: jax.Array) -> jax.Array:
            return self.fc(x)

    x, y = blobs()
    net = Hooked()
    net.loss = layer.SoftMaxCrossEntropy()
    net.optim = sx.opt.SGD(lr=0.1)
    net.compile([x])
    with pytest.warns(DeprecationWarning, match="define train_one_batch"):
        _, loss = net(x, y)
    assert float(net(x, y)[1]) < float(loss)
    assert [c.method for c in net.compilations] == ["Hooked.train_one_batch"]


def test_training_without_a_step_says_what_to_do() -> None:
    class NoStep(sx.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = layer.Linear(3)

        def forward(self, x: jax.Array) -> jax.Array:
            return self.fc(x)

    net = NoStep()
    net.compile([sx.Placeholder((2, 5))])
    with pytest.raises(sx.errors.ArgumentError, match="define it, or call eval"):
        net(np.ones((2, 5), np.float32), np.zeros(2, np.int32))


def test_graph_alg_is_accepted() -> None:
    net = MLP()
    net.compile([sx.Placeholder((2, 5))], graph_alg="sequence")
    assert net.sequential


def test_a_step_cannot_smuggle_a_tracer_out() -> None:
    class Leaky(MLP):
        def train_one_batch(self, x: Any, y: Any) -> Any:
            out, loss = super().train_one_batch(x, y)
            self.last = loss
            return out, loss

    x, y = blobs()
    net = Leaky()
    net.compile([x])
    with pytest.raises(sx.errors.StateError, match=r"Leaky\.last"):
        net(x, y)
    assert_no_tracers(net)


def test_untrained_parameters_are_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    class Half(MLP):
        def train_one_batch(self, x: Any, y: Any, option: str = "a") -> Any:
            cut = sx.autograd.node(jax.lax.stop_gradient)
            out = self.forward(x)
            loss = self.loss(cut(out), y) if option == "cut" else self.loss(out, y)
            if option != "unknown":
                self.optimizer(loss)
            return loss

    x, y = blobs()
    net = Half()
    net.compile([x])
    with caplog.at_level(logging.WARNING, "singax"):
        net(x, y, "unknown")
        assert "no gradient reached fc1.W, fc1.b, fc2.W, fc2.b" in caplog.text
        caplog.clear()
        net(x, y, "unknown")
        net(x[:4], y[:4], "unknown")
        assert "no gradient reached" not in caplog.text


def test_a_changed_attribute_is_honoured_eagerly_and_after_compile() -> None:
    class Switched(MLP):
        factor = 1.0

        def forward(self, x: jax.Array) -> jax.Array:
            return super().forward(x) * self.factor

    x, y = blobs()
    net = Switched(sx.opt.SGD(lr=0.0))
    net.compile([x], use_graph=False)
    plain = net(x, y)[0].to_numpy()
    net.factor = 2.0
    np.testing.assert_allclose(net(x, y)[0].to_numpy(), 2 * plain, rtol=1e-6)
    net.compile([x])
    np.testing.assert_allclose(net(x, y)[0].to_numpy(), 2 * plain, rtol=1e-6)
    net.factor = 3.0
    net.compile([x])
    np.testing.assert_allclose(net(x, y)[0].to_numpy(), 3 * plain, rtol=1e-6)


def test_a_filled_placeholder_is_a_constant_of_the_abstract_pass() -> None:
    class Indexed(sx.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = layer.Linear(2)

        def forward(self, x: jax.Array, index: Any) -> jax.Array:
            start = int(np.asarray(index)[0])  # possible only where the index is known
            return self.fc(x[:, start : start + 2])

    net = Indexed()
    net.compile([sx.Placeholder((4, 5)), sx.from_numpy(np.array([3]))], is_train=False)
    assert net.fc.W.shape == (2, 2)


def test_data_parallel_on_eight_devices() -> None:
    x, y = blobs()
    reference = MLP()
    reference.compile([x])
    for _ in range(3):
        reference(x, y)
    sx.device.set_seed(0)
    net = MLP()
    net.compile([x])
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("data",))
    split, whole = (jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*axes)) for axes in (("data",), ()))
    for p in net.get_params().values():
        p.to_device(whole)
    for _ in range(3):
        out, _ = net(jax.device_put(x, split), jax.device_put(y, split))
    assert out.data.sharding.is_equivalent_to(split, 2)
    assert len(net.compilations) == 1
    for path, value in states(reference).items():
        np.testing.assert_allclose(states(net)[path], value, rtol=1e-5, atol=1e-6, err_msg=path)
