"""Nodes, backward, user-defined operations."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from models import MLP, blobs

import singax as sx
from singax import autograd
from singax.tensor import Tensor


@pytest.fixture(autouse=True)
def recording() -> Any:
    autograd.training = True


def leaf(value: Any, name: str) -> Tensor:
    return Tensor(data=value, stores_grad=True, name=name)


def test_training_flag_lives_in_one_place() -> None:
    assert sx.mode.training is True
    autograd.training = False
    assert sx.mode.training is False


def test_order_and_names() -> None:
    x, y = blobs()
    net = MLP()
    net.compile([x], use_graph=False)
    loss = net.loss(net.forward(sx.from_numpy(x)), sx.from_numpy(y))
    pairs = list(autograd.backward(loss))
    assert [p.name for p, _ in pairs] == ["fc2.b", "fc2.W", "fc1.b", "fc1.W"]
    assert [g.name for _, g in pairs] == ["fc2.b_g", "fc2.W_g", "fc1.b_g", "fc1.W_g"]
    assert autograd.gradients(loss).keys() == {id(p) for p, _ in pairs}


def test_fan_out_and_shared_parameters() -> None:
    a, b = leaf([2.0], "a"), leaf([3.0], "b")
    y = autograd.add(a, b)
    w = autograd.add(autograd.mul(y, a), y)  # (a + b) a + a + b
    grads = {p.name: float(g) for p, g in autograd.backward(w)}
    assert grads == {"a": 2 * 2.0 + 3.0 + 1, "b": 2.0 + 1}
    grads = {p.name: float(g) for p, g in autograd.backward(w, 2.0)}
    assert grads == {"a": 16.0, "b": 6.0}


def test_operators_are_recorded() -> None:
    w = leaf([3.0], "w")
    loss = (w * w - 2.0 * w + 1.0) ** 2 / 2.0
    assert float(autograd.gradients(loss)[id(w)]) == pytest.approx(2 * (3.0 - 1) ** 3)


def test_in_place_sum_of_losses_keeps_history() -> None:
    w = leaf([3.0], "w")
    total = Tensor(data=[0.0])
    for factor in (1.0, 2.0):
        total += w * factor
    assert float(autograd.gradients(total)[id(w)]) == 3.0


def test_indexing_and_reshape_carry_gradients() -> None:
    w = leaf([[1.0, 2.0], [3.0, 4.0]], "w")
    loss = w[0][:, 1].reshape((1,)) * 5.0
    np.testing.assert_array_equal(autograd.gradients(loss)[id(w)].to_numpy(), [[0, 5], [0, 0]])


def test_frozen_and_integer_inputs() -> None:
    w, frozen = leaf([2.0], "w"), leaf([3.0], "f")
    frozen.requires_grad = False
    loss = w * frozen
    assert [p.name for p, _ in autograd.backward(loss)] == ["w"]
    assert list(autograd.backward(Tensor(data=[1.0]) * Tensor(data=[2.0]))) == []


def test_loss_itself_may_store_its_gradient() -> None:
    w = leaf([2.0], "w")
    loss = w * w
    loss.stores_grad = True
    assert {p.name for p, _ in autograd.backward(loss)} == {"w", loss.name}


def test_errors() -> None:
    w = leaf([1.0, 2.0], "w")
    with pytest.raises(sx.errors.ShapeError, match="one element"):
        autograd.backward(w * w)
    with pytest.raises(sx.errors.ArgumentError, match="no operation was recorded"):
        autograd.backward(Tensor(data=[1.0]))
    autograd.training = False
    with pytest.raises(sx.errors.ArgumentError, match="training is False"):
        autograd.backward(leaf([1.0], "v") * 2.0 + Tensor(data=[1.0]))
    with pytest.raises(sx.errors.ArgumentError, match="starts from a Tensor"):
        autograd.backward(3.0)


def test_creator_backward_returns_raw_gradients() -> None:
    x, w = Tensor(data=[[1.0, 2.0]]), Tensor(data=[[3.0], [4.0]])
    y = autograd.matmul(x, w)
    dx, dw = y.creator.backward(np.ones((1, 1), np.float32))
    np.testing.assert_array_equal(dx, [[3, 4]])
    np.testing.assert_array_equal(dw, [[1], [2]])
    layer = sx.layer.Linear(1)
    out = layer(x)
    found = out.creator.backward(1.0)
    assert [g.shape for g in found] == [(1, 2), (2, 1), (1,)]
    assert autograd.relu(x).creator.backward(Tensor(data=[[1.0, 1.0]])).tolist() == [[1, 1]]
    ids = sx.from_numpy(np.array([0]))
    loss = autograd.softmax_cross_entropy(x, ids)
    dx = loss.creator.backward()
    assert dx.shape == (1, 2)


def test_leaves_have_dummies() -> None:
    x = Tensor(data=[1.0], name="x")
    assert isinstance(x.creator, autograd.Dummy)
    assert x.creator.src == []
    assert x.creator.shape == (1,)
    assert x.creator.output_name(0) == "x"


def test_the_graph_hangs_on_its_outputs() -> None:
    x = sx.from_numpy(np.ones((2, 3), np.float32))
    layer = sx.layer.Linear(4)
    y = layer(x)
    node = weakref.ref(y.creator)
    for _ in range(3):
        layer(x)
    del y
    gc.collect()
    assert node() is None


def test_node_records_any_jax_function() -> None:
    w = leaf([0.5], "w")
    fancy = autograd.node(lambda v, *, k: jax.lax.fori_loop(0, 3, lambda _, c: jnp.sin(c) * k, v) * 1.0)
    with pytest.raises(ValueError, match="Reverse-mode"):
        list(autograd.backward(autograd.node(lambda v: jax.lax.while_loop(lambda c: c[0] < 9, lambda c: c * 2, v))(w)))
    loss = fancy(w, k=2.0)
    expected = jax.grad(lambda v: jnp.sin(jnp.sin(jnp.sin(v) * 2) * 2) * 2)(0.5)
    assert float(autograd.gradients(loss)[id(w)]) == pytest.approx(float(expected), rel=1e-5)


class Cube(autograd.Operator):
    """Keeps its input on self, and counts."""

    calls = 0

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, x: jax.Array) -> jax.Array:
        self.x = x
        self.power = 3
        return self.scale * x**3

    def backward(self, dy: jax.Array) -> jax.Array:
        return dy * self.scale * self.power * self.x**2 + 100.0  # the +100 shows that this gradient is used


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit, jax.checkpoint], ids=["plain", "jit", "checkpoint"])
def test_user_operator_inside_transformations(wrap: Any) -> None:
    cube = sx.autograd.node(wrap(lambda v: Cube(2.0)(v)[0]))
    w = leaf([1.5], "w")
    loss = cube(w)
    assert float(loss) == pytest.approx(2 * 1.5**3)
    assert float(autograd.gradients(loss)[id(w)]) == pytest.approx(6 * 1.5**2 + 100)


def test_user_operator_under_scan_and_vmap() -> None:
    w = leaf([1.5], "w")
    scanned = autograd.node(lambda v: jax.lax.scan(lambda c, _: (Cube(1.0)(c)[0], None), v, None, length=2)[0])
    inner = 1.5**3
    expected = ((3 * inner**2) + 100) * (3 * 1.5**2) + 100
    assert float(autograd.gradients(scanned(w))[id(w)]) == pytest.approx(expected, rel=1e-5)
    many = leaf([1.0, 2.0], "m")
    total = autograd.node(lambda v: jnp.sum(jax.vmap(lambda s: Cube(1.0)(s)[0])(v)).reshape(1))(many)
    np.testing.assert_allclose(autograd.gradients(total)[id(many)].to_numpy(), [103, 112], rtol=1e-5)


def test_user_operator_eager_returns_a_tuple_and_can_go_backward_directly() -> None:
    operator = Cube(1.0)
    w = leaf([2.0], "w")
    out = operator(w)
    assert isinstance(out, tuple)
    assert len(out) == 1
    assert float(out[0].creator.backward(1.0)[0]) == pytest.approx(112)
    assert float(operator(leaf([3.0], "v"))[0]) == 27.0
    with pytest.raises(sx.errors.ArgumentError, match="called with Tensors"):
        operator(3.0)


def test_user_operator_checks_its_gradients() -> None:
    class Wrong(autograd.Operator):
        def forward(self, a: jax.Array, b: jax.Array) -> jax.Array:
            return a * b

        def backward(self, dy: jax.Array) -> Any:
            return dy

    y = Wrong()(leaf([1.0], "a"), leaf([2.0], "b"))[0]
    with pytest.raises(sx.errors.ArgumentError, match="one gradient per input, 2 in all"):
        list(autograd.backward(y))


def test_user_operator_in_a_compiled_step() -> None:
    class Net(MLP):
        def forward(self, x: jax.Array) -> jax.Array:
            return Cube(1.0)(super().forward(x))[0]

    x, y = blobs()
    found = []
    for use_graph in (True, False):
        sx.device.set_seed(0)
        net = Net(sx.opt.SGD(lr=1e-4))
        net.compile([x], use_graph=use_graph)
        net(x, y)
        found.append(net.fc1.W.to_numpy())
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5)


def test_handles_in_a_layer_work_with_operators_and_say_so_elsewhere() -> None:
    class Handles(sx.layer.Layer):
        raw = False

        def initialize(self, x: jax.Array) -> None:
            self.W = self.param((2, 2), "he_normal")

        def forward(self, x: jax.Array) -> Any:
            if self.raw:
                return jnp.sin(self.W)
            return x @ self.W + (1.0 - self.W) * autograd.tanh(self.W)

    x = sx.from_numpy(np.ones((2, 2), np.float32))
    layer = Handles()
    y = layer(x)
    w = layer.W.to_numpy()
    np.testing.assert_allclose(y.to_numpy(), np.ones((2, 2)) @ w + (1 - w) * np.tanh(w), rtol=1e-5)
    layer.raw = True
    with pytest.raises(TypeError) as caught:
        Handles.forward(layer, sx.from_numpy(np.ones((3, 2), np.float32)))
    assert any("self.W.data" in note for note in caught.value.__notes__)
