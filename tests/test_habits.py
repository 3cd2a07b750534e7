"""What users of SINGA, PyTorch and JAX do by habit, and what once went wrong with it."""

from __future__ import annotations

import dataclasses
import gc
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from models import MLP, assert_no_tracers, blobs, states

import singax as sx
from singax import autograd, layer, opt
from singax.tensor import Tensor


class Wrapped(MLP):
    """A sublayer that is handed to a JAX transformation as it is."""

    wrap: Any = staticmethod(lambda f: f)

    def forward(self, x: jax.Array) -> jax.Array:
        return self.fc2(type(self).wrap(self.fc1)(x))


@pytest.mark.parametrize("wrap", [jax.checkpoint, jax.jit, lambda f: lambda x: jax.lax.cond(x.sum() < 1e9, f, f, x)])
def test_a_layer_object_inside_a_transformation_is_trained(wrap: Any) -> None:
    x, y = blobs()
    found = []
    for transformation in (lambda f: f, wrap):
        sx.device.set_seed(0)
        net = type("Net", (Wrapped,), {"wrap": staticmethod(transformation)})()
        net.compile([sx.Placeholder((None, 5))])
        losses = [float(net(x, y)[1]) for _ in range(3)]
        net.eval()
        first = net(x).to_numpy()
        net.set_params({"fc1.W": np.zeros((5, 8), np.float32)})
        found.append((losses, first, net(x).to_numpy(), states(net)["fc1.b"]))
    for plain, transformed in zip(*found, strict=True):
        np.testing.assert_allclose(plain, transformed, rtol=1e-5, atol=1e-6)


def test_a_replaced_optimizer_or_layer_takes_effect() -> None:
    x, y = blobs()
    net = MLP(opt.SGD(0.0))
    net.act = layer.ReLU()
    net.compile([x])
    net(x, y)
    before = states(net)
    net.optimizer = opt.SGD(0.0, weight_decay=0.5)
    net(x, y)
    np.testing.assert_array_equal(states(net)["fc1.W"], before["fc1.W"])
    net.optimizer = opt.SGD(0.5)
    net(x, y)
    assert not np.array_equal(states(net)["fc1.W"], before["fc1.W"])


def test_a_replaced_parameterless_layer_takes_effect() -> None:
    class Net(MLP):
        def __init__(self) -> None:
            super().__init__()
            self.act = layer.ReLU()

        def forward(self, x: jax.Array) -> jax.Array:
            return self.act(super().forward(x))

    x, _ = blobs()
    net = Net()
    net.compile([x], is_train=False)
    a = net(x).to_numpy()
    net.act = layer.Tanh()
    assert not np.allclose(net(x).to_numpy(), a)


def test_training_under_jit_is_refused_and_harmless() -> None:
    x, y = blobs()
    net = MLP()
    net.compile([x])
    net(x, y)
    with pytest.raises(sx.errors.StateError, match="functional_step"):
        jax.jit(lambda a, b: net(a, b)[1].data)(x, y)
    net(x, y)
    assert_no_tracers(net)
    drop, norm = layer.Dropout(), layer.BatchNorm2d()
    autograd.training = True
    norm(Tensor(data=x))
    for free in (drop, norm):
        with pytest.raises(sx.errors.StateError, match="functional"):
            jax.jit(lambda a, free=free: free(Tensor(data=a)).data)(x)
    assert np.isfinite(norm.running_mean.to_numpy()).all()
    drop(Tensor(data=x))


def test_except_exception_does_not_swallow_the_build() -> None:
    class Careless(MLP):
        def __init__(self) -> None:
            super().__init__()
            self.second = opt.SGD(0.1, momentum=0.9)

        def train_one_batch(self, x: Any, y: Any) -> Any:
            out = self.forward(x)
            loss = self.loss(out, y)
            try:
                self.optimizer(loss)
            except Exception as error:  # what a careless user writes
                print(error)
            return out, loss

    x, y = blobs()
    net = Careless()
    net.compile([x])
    losses = [float(net(x, y)[1]) for _ in range(3)]
    assert losses[2] < losses[1] < losses[0]


@pytest.mark.parametrize(
    "keep", [lambda self, loss: setattr(self, "logs", {"loss": loss}), lambda self, loss: setattr(self, "logs", [loss])]
)
def test_keeping_a_traced_tensor_in_a_container_is_refused(keep: Any) -> None:
    class Keeping(MLP):
        def train_one_batch(self, x: Any, y: Any) -> Any:
            out, loss = super().train_one_batch(x, y)
            keep(self, loss)
            return out, loss

    x, y = blobs()
    net = Keeping()
    net.compile([x])
    with pytest.raises(sx.errors.StateError, match=r"Keeping\.logs"):
        net(x, y)
    assert_no_tracers(net)
    net.state_dict()


def test_conversion_to_the_same_dtype_is_a_copy() -> None:
    x, y = blobs()
    net = MLP()
    net.compile([x])
    net(x, y)
    kept = net.fc1.W.as_type("float32")
    before = net.fc1.W.to_numpy()
    net(x, y)
    np.testing.assert_array_equal(kept.to_numpy(), before)


def test_resume_into_a_freshly_compiled_model() -> None:
    x, y = blobs()
    a = MLP()
    a.compile([x])
    a(x, y)
    saved = states(a)
    a(x, y)
    b = MLP()
    b.compile([x])
    b.load_state_dict(saved)
    b(x, y)
    for path, value in states(a).items():
        np.testing.assert_array_equal(value, states(b)[path], err_msg=path)


def test_freezing_back_and_forth_compiles_twice() -> None:
    x, y = blobs()
    net = MLP()
    net.compile([x])
    for step in range(6):
        net.fc1.W.requires_grad = bool(step % 2)
        net(x, y)
    assert len(net.compilations) == 2
    assert net.compilations[1].changed


def test_not_equal_as_a_condition() -> None:
    a, nan = Tensor(data=[1.0]), Tensor(data=[float("nan")])
    assert bool(a != a) is False
    assert bool(a != 1.0) is False
    assert a != 2.0
    assert nan != nan


@pytest.mark.parametrize(
    "make", [lambda: opt.SGD(0.1, momentum=0.9), lambda: opt.Adam(0.01), lambda: opt.RMSProp(0.01)]
)
def test_bfloat16_slots_stay_bfloat16(make: Any) -> None:
    x, y = blobs()
    found = []
    for use_graph in (True, False):
        sx.device.set_seed(0)
        net = MLP(make())
        net.compile([sx.Placeholder(x.shape, dtype=sx.bfloat16)], use_graph=use_graph)
        for _ in range(5):
            net(jnp.asarray(x, jnp.bfloat16), y)
        assert {str(v.dtype) for path, v in net.state_dict().items() if "fc" in path} == {"bfloat16"}
        found.append(net.fc1.W.to_numpy().astype(np.float32))
    np.testing.assert_allclose(found[0], found[1], rtol=0.05, atol=0.02)


def test_operators_made_for_each_call_share_their_programs() -> None:
    class Scale(autograd.Operator):
        compiled = 0

        def __init__(self, k: float) -> None:
            super().__init__()
            self.k = k

        def forward(self, x: jax.Array) -> jax.Array:
            Scale.compiled += 1
            return x * self.k

        def backward(self, dy: jax.Array) -> jax.Array:
            return dy * self.k

    autograd.training = True
    x = Tensor(data=[1.0, 2.0])
    for _ in range(5):
        assert Scale(2.0)(x)[0].to_numpy().tolist() == [2.0, 4.0]
    assert Scale.compiled == 1
    assert Scale(3.0)(x)[0].to_numpy().tolist() == [3.0, 6.0]


def test_a_state_called_rng_is_refused_by_name() -> None:
    class Named(MLP):
        def __init__(self) -> None:
            super().__init__()
            self.rng = Tensor((3,), requires_grad=False).set_value(0)

    with pytest.raises(sx.errors.NameMismatchError, match="'rng'"):
        Named().compile([sx.Placeholder((2, 5))])


def test_optax_parameter_by_parameter_equals_optax() -> None:
    optimizer, tx = opt.Optax(optax.adam(0.1)), optax.adam(0.1)
    ours = {k: Tensor(data=[2.0], stores_grad=True, name=k) for k in "wb"}
    theirs = {k: jnp.array([2.0]) for k in "wb"}
    state = tx.init(theirs)
    for t in range(3):
        grads = {k: jnp.array([1.0 + t]) for k in "wb"}
        for k in "wb":
            optimizer.apply(k, ours[k], grads[k])
        optimizer.step()
        updates, state = tx.update(grads, state)
        theirs = optax.apply_updates(theirs, updates)
    for k in "wb":
        np.testing.assert_allclose(ours[k].to_numpy(), theirs[k], rtol=1e-6)
    with pytest.raises(sx.errors.ArgumentError, match="part of its transformation"):
        optimizer.lr = 0.1


def test_an_object_that_jax_cannot_look_into_is_refused() -> None:
    @dataclasses.dataclass
    class Out:
        loss: Any

    class Net(MLP):
        def train_one_batch(self, x: Any, y: Any) -> Any:
            return Out(super().train_one_batch(x, y)[1])

    x, y = blobs()
    net = Net()
    net.compile([x])
    with pytest.raises(sx.errors.ArgumentError, match="register_dataclass"):
        net(x, y)


def test_updates_by_hand_are_not_reported_as_missing(caplog: pytest.LogCaptureFixture) -> None:
    class ByHand(MLP):
        def train_one_batch(self, x: Any, y: Any) -> Any:
            loss = self.loss(self.forward(x), y)
            for p, g in autograd.backward(loss):
                p -= 0.1 * g
            return loss

    x, y = blobs()
    net = ByHand()
    net.compile([x])
    losses = [float(net(x, y)) for _ in range(3)]
    assert losses[2] < losses[0]
    assert "no gradient" not in caplog.text


def test_a_state_written_inside_a_checkpoint_says_why() -> None:
    class Net(MLP):
        def __init__(self) -> None:
            super().__init__()
            self.norm = layer.BatchNorm2d()

        def forward(self, x: jax.Array) -> jax.Array:
            return self.fc2(jax.checkpoint(lambda v: self.norm(self.fc1(v)))(x))

    x, y = blobs()
    net = Net()
    net.compile([x])
    with pytest.raises(jax.errors.UnexpectedTracerError) as caught:
        net(x, y)
    assert any("assigns a state" in note for note in caught.value.__notes__)
    assert_no_tracers(net)


def test_formatting_and_running_sums() -> None:
    x, y = blobs()
    net = MLP()
    net.compile([x])
    total: Any = 0
    for _ in range(20):
        total = total + net(x, y)[1]
    assert f"{total:.3f}" == f"{float(total):.3f}"
    assert f"{total}".startswith("Tensor")
    gc.collect()
    assert not isinstance(total._creator, autograd.Node)


def test_federated_averaging_by_hand() -> None:
    x, y = blobs()
    clients = [MLP(), MLP()]
    for seed, client in enumerate(clients):
        sx.device.set_seed(seed)
        client.compile([x])
        client(x, y)
    names = list(clients[0].get_states())
    average = {n: sum(c.get_states()[n] for c in clients) / 2 for n in names}
    expected = {n: np.mean([c.get_states()[n].to_numpy() for c in clients], axis=0) for n in names}
    for client in clients:
        client.set_states(average)
        client(x, y)
    for n in names:
        np.testing.assert_allclose(average[n].to_numpy(), expected[n], rtol=1e-5, atol=1e-6)
