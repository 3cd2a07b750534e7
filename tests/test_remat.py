"""Remat: the same numbers, fewer residuals."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from models import MLP, Trained, assert_equal_states, assert_no_tracers, blobs, states

import singax as sx
from singax import autograd, layer
from singax.errors import ArgumentError, StateError
from singax.layer import BatchNorm2d, Dropout, Linear, Remat, Repeat
from singax.tensor import Tensor


class Block(layer.Layer):
    """Parameters, states and random numbers."""

    def __init__(self, size: int = 5) -> None:
        super().__init__()
        self.fc1, self.norm, self.drop, self.fc2 = Linear(16), BatchNorm2d(), Dropout(0.3), Linear(size)

    def forward(self, x: jax.Array, scale: Any = None, flag: bool = False) -> jax.Array:
        y = self.fc2(self.drop(jnp.tanh(self.norm(self.fc1(x)))))
        return x + (y if scale is None else y * scale) * (2 if flag else 1)


class Net(Trained):
    def __init__(self, wrap: Callable[[layer.Layer], layer.Layer]) -> None:
        super().__init__()
        self.first, self.block, self.drop, self.head = Dropout(0.1), wrap(Block()), Dropout(0.2), Linear(3)

    def forward(self, x: jax.Array) -> jax.Array:
        return self.head(self.drop(self.block(self.first(x))))


WRAPPERS: dict[str, Callable[[layer.Layer], layer.Layer]] = {
    "default": Remat,
    "policy": lambda block: Remat(block, "dots_saveable", prevent_cse=False),
    "function": lambda block: Remat(block, jax.checkpoint_policies.everything_saveable),
    "nested": lambda block: Remat(Remat(block)),
}


def trained(wrap: Callable[[layer.Layer], layer.Layer], use_graph: bool = True, steps: int = 3) -> tuple[Any, ...]:
    sx.device.set_seed(3)
    x, y = blobs()
    net = Net(wrap)
    net.compile([sx.Placeholder((None, 5))], use_graph=use_graph)
    losses = [float(net(x, y)[1]) for _ in range(steps)]
    assert_no_tracers(net)
    found = states(net)
    net.eval()
    return losses, net(x).to_numpy(), found


@pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS)
def test_the_same_numbers_names_and_states_as_without(wrap: Any) -> None:
    plain, wrapped = trained(lambda block: block), trained(wrap)
    np.testing.assert_allclose(plain[0], wrapped[0], rtol=1e-5)
    np.testing.assert_allclose(plain[1], wrapped[1], rtol=1e-4, atol=1e-5)
    assert sorted(plain[2]) == sorted(wrapped[2])
    for path, value in plain[2].items():
        np.testing.assert_allclose(value, wrapped[2][path], rtol=1e-4, atol=1e-5, err_msg=path)
    np.testing.assert_array_equal(plain[2]["rng"], wrapped[2]["rng"])


def test_eager_equals_compiled() -> None:
    compiled, eager = trained(Remat), trained(Remat, use_graph=False)
    np.testing.assert_allclose(compiled[0], eager[0], rtol=1e-5)
    for path, value in compiled[2].items():
        np.testing.assert_allclose(value, eager[2][path], rtol=1e-4, atol=1e-5, err_msg=path)


def test_functional() -> None:
    x, _ = blobs()
    found = []
    for wrap in (lambda block: block, Remat):
        init, apply = Net(wrap).functional()
        variables = init(0, x)

        def loss(v: Any, apply: Any = apply) -> Any:
            out, new = apply(v, x, train=True, key=jax.random.key(7))
            return (out**2).mean(), new

        found.append(jax.jit(jax.value_and_grad(loss, has_aux=True))(variables))
    for plain, wrapped in zip(*map(jax.tree.leaves, found), strict=True):
        np.testing.assert_allclose(plain, wrapped, rtol=1e-4, atol=1e-6)
    assert np.abs(found[1][0][1]["block.norm.running_mean"]).max() > 0


def test_a_functional_step_under_scan() -> None:
    x, y = blobs()
    step = Net(Remat).functional_step()
    state = step.init(0, x, y)
    final, _ = jax.lax.scan(lambda s, _: step(s, x, y), state, None, length=3)
    net = Net(Remat)
    net.compile([x])
    for _ in range(3):
        net(x, y)
    for path, value in states(net).items():
        np.testing.assert_allclose(final[path], value, rtol=1e-3, atol=1e-5, err_msg=path)


def _residual_bytes(block: layer.Layer, x: np.ndarray) -> int:
    """Bytes that are kept from the forward for the backward pass, without computing anything."""

    class Only(sx.Module):
        def __init__(self) -> None:
            super().__init__()
            self.block = block

        def forward(self, x: jax.Array) -> jax.Array:
            return self.block(x)

    init, apply = Only().functional()
    variables = init(0, x)
    vjp = jax.eval_shape(
        lambda v: jax.vjp(lambda w: apply(w, x, train=True, key=jax.random.key(0))[0], v)[1], variables
    )
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(vjp))


def test_fewer_residuals_are_kept() -> None:
    x = blobs(n=512)[0]
    plain = _residual_bytes(Block(), x)
    nothing = _residual_bytes(Remat(Block()), x)
    dots = _residual_bytes(Remat(Block(), "dots_saveable"), x)
    everything = _residual_bytes(Remat(Block(), "everything_saveable"), x)
    parameters = 4 * (5 * 16 + 16 + 16 + 16 + 16 * 5 + 5)
    hidden = 512 * 16 * 4
    assert nothing <= x.nbytes + parameters + 64 < hidden
    assert hidden <= dots < everything <= plain


def test_repeated_blocks_keep_their_inputs_alone() -> None:
    x = blobs(n=512)[0]
    parameters = 3 * 4 * (5 * 16 + 16 + 16 + 16 + 16 * 5 + 5)
    plain = _residual_bytes(Repeat(Block, 3), x)
    rematerialised = _residual_bytes(Repeat(Block, 3, remat=True), x)
    assert rematerialised <= 3 * x.nbytes + parameters + 256
    assert plain >= rematerialised + 3 * 512 * 16 * 4


def test_alone_with_arguments_of_all_kinds() -> None:
    x = blobs()[0]
    outs = []
    for make in (Block, lambda: Remat(Block())):
        sx.device.set_seed(1)
        block = make()
        out = block(Tensor(data=x), Tensor(data=[2.0]), flag=True)
        # a layer without a model draws under the name of its class, so the values are copied
        block.set_params({path: np.full(t.shape, 0.1, np.float32) for path, t in block.get_params().items()})
        assert sorted(block.get_params()) == [
            "fc1.W", "fc1.b", "fc2.W", "fc2.b", "norm.bias", "norm.scale",
        ]  # fmt: skip
        out = block(Tensor(data=x), Tensor(data=[2.0]), flag=True)
        other = block(Tensor(data=x), None)
        outs.append((out.to_numpy(), other.to_numpy()))
    np.testing.assert_allclose(outs[0][0], outs[1][0], rtol=1e-6)
    np.testing.assert_allclose(outs[0][1], outs[1][1], rtol=1e-6)


def test_gradients_of_an_eager_call() -> None:
    autograd.training = True
    x = blobs()[0]
    found = []
    for make in (lambda: Linear(3), lambda: Remat(Linear(3))):
        fc = make()
        value = Tensor(data=x)
        fc(value)
        fc.set_params({"W": np.ones((5, 3), np.float32)})
        pairs = autograd.backward(autograd.reduce_sum(autograd.sin(fc(value))))
        found.append({p.name: g.to_numpy() for p, g in pairs})
    assert sorted(found[0]) == sorted(found[1]) == ["W", "b"]
    for name in "Wb":
        np.testing.assert_allclose(found[0][name], found[1][name], rtol=1e-5)


def test_outputs_that_are_no_arrays() -> None:
    class Odd(layer.Layer):
        def forward(self, x: jax.Array) -> Any:
            return {"y": x * 2, "n": 3, "text": "a", "none": None, "host": np.ones(2, np.float32)}

    out = Remat(Odd())(Tensor(data=[1.0]))
    assert (out["n"], out["text"], out["none"]) == (3, "a", None)
    assert out["y"].to_numpy().tolist() == [2.0]
    assert out["host"].to_numpy().tolist() == [1.0, 1.0]


def test_shapes_and_paths() -> None:
    block = Block()
    remat = Remat(block)
    assert remat.infer_shape((None, 5)) == (None, 5)
    assert remat.layer is block
    net = Net(lambda _: remat)
    net.compile([sx.Placeholder((4, 5))])
    assert block.fc1._where == "block.fc1 (Linear)"
    assert net.block.get_params().keys() == {p for p in net.get_params() if p.startswith("block.")}
    with pytest.raises(sx.errors.ShapeError, match=r"block\.norm"):
        net.block(Tensor((2, 3, 5)).set_value(0))


def test_an_unused_parameter_is_reported_as_without(caplog: pytest.LogCaptureFixture) -> None:
    class Unused(layer.Layer):
        def initialize(self, x: jax.Array) -> None:
            self.used, self.idle = self.param((5,), "ones"), self.param((5,), "ones")

        def forward(self, x: jax.Array) -> jax.Array:
            return x * self.used.data

    class Idle(MLP):
        def __init__(self) -> None:
            super().__init__()
            self.block = Remat(Unused())

        def forward(self, x: jax.Array) -> jax.Array:
            return super().forward(self.block(x))

    x, y = blobs()
    net = Idle()
    net.compile([x])
    net(x, y)
    assert "no gradient reached block.idle." in caplog.text


def test_a_tied_parameter_of_another_layer() -> None:
    class Tied(layer.Layer):
        def __init__(self, other: Linear) -> None:
            super().__init__()
            self.__dict__["other"] = (lambda: other,)  # no member

        def forward(self, x: jax.Array) -> jax.Array:
            return x @ self.other[0]().W.data.T

    class Model(Trained):
        def __init__(self, wrap: Any) -> None:
            super().__init__()
            self.fc = Linear(8)
            self.back = wrap(Tied(self.fc))
            self.head = Linear(3)

        def forward(self, x: jax.Array) -> jax.Array:
            return self.head(self.back(self.fc(x)))

    x, y = blobs()
    found = []
    for wrap in (lambda block: block, Remat):
        net = Model(wrap)
        net.compile([x])
        found.append(([float(net(x, y)[1]) for _ in range(3)], states(net)))
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-5)
    np.testing.assert_allclose(found[0][1]["fc.W"], found[1][1]["fc.W"], rtol=1e-5)


def test_a_foreign_state_is_refused() -> None:
    counter = Tensor((1,), requires_grad=False).set_value(0)

    class Counting(layer.Layer):
        def forward(self, x: jax.Array) -> jax.Array:
            counter.data = counter.data + x.sum()
            return x

    class Model(MLP):
        def __init__(self) -> None:
            super().__init__()
            self.counter, self.count = counter, Remat(Counting())

        def forward(self, x: jax.Array) -> jax.Array:
            return super().forward(self.count(x))

    x, y = blobs()
    net = Model()
    net.compile([x])
    with pytest.raises(StateError, match="not part of the layer"):
        net(x, y)
    assert_no_tracers(net)


def test_deep_copy_and_states() -> None:
    x, y = blobs()
    net = Net(Remat)
    net.compile([x])
    net(x, y)
    other = copy.deepcopy(net)
    assert_equal_states(states(net), states(other))
    net(x, y)
    other(x, y)
    assert_equal_states(states(net), states(other))
    fresh = Net(lambda block: block)
    fresh.compile([x])
    fresh.set_states(net.get_states())
    fresh.eval()
    net.eval()
    np.testing.assert_allclose(fresh(x).to_numpy(), net(x).to_numpy(), rtol=1e-6)


@pytest.mark.parametrize("bad", [jnp.sin, Linear, None, "x"])
def test_what_is_no_layer_is_refused(bad: Any) -> None:
    with pytest.raises(ArgumentError, match="Received"):
        Remat(bad)


@pytest.mark.parametrize("bad", ["save_only_these_names", 3, True, jax.checkpoint_policies])
def test_what_is_no_policy_is_refused(bad: Any) -> None:
    with pytest.raises(ArgumentError, match="expected a policy"):
        Remat(Linear(2), bad)
