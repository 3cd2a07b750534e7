"""Sequential and Lambda."""

from __future__ import annotations

import copy
from collections import OrderedDict
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from models import Trained, assert_no_tracers, blobs, states

import singax as sx
from singax import layer
from singax.errors import ArgumentError, NameMismatchError
from singax.layer import Lambda, Linear, Sequential


class Net(Trained):
    def __init__(self, body: Any) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: jax.Array) -> jax.Array:
        return self.body(x)


class ByHand(Trained):
    def __init__(self) -> None:
        super().__init__()
        self.body = {"0": Linear(8), "2": Linear(3)}

    def forward(self, x: jax.Array) -> jax.Array:
        return self.body["2"](jax.nn.relu(self.body["0"](x)))


def test_the_same_numbers_as_layers_called_by_hand() -> None:
    x, y = blobs()
    found = []
    for net in (Net(Sequential(Linear(8), jax.nn.relu, Linear(3))), ByHand()):
        net.compile([sx.Placeholder((None, 5))])
        losses = [float(net(x, y)[1]) for _ in range(4)]
        net.eval()
        found.append((losses, net(x).to_numpy(), states(net)))
        assert_no_tracers(net)
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-6)
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-6)
    assert sorted(found[0][2]) == sorted(found[1][2])
    np.testing.assert_allclose(found[0][2]["body.2.W"], found[1][2]["body.2.W"], rtol=1e-6)


@pytest.mark.parametrize(
    "make",
    [
        lambda **named: Sequential(**named),
        lambda **named: Sequential(named),
        lambda **named: Sequential(OrderedDict(named)),
    ],
)
def test_named_layers(make: Any) -> None:
    net = make(first=Linear(4), act=jnp.tanh, last=Linear(2))
    assert net.infer_shape((3, 5)) == (3, 2)
    net(sx.Tensor(data=blobs()[0]))
    assert sorted(net.get_params()) == ["first.W", "first.b", "last.W", "last.b"]
    assert net["first"] is net.first is net[0]
    assert [type(item).__name__ for item in net] == ["Linear", "Lambda", "Linear"]


def test_like_a_list() -> None:
    net = Sequential(Linear(4), jnp.tanh)
    assert net.append(Linear(2)) is net
    assert len(net) == 3
    assert net[-1] is net["2"]
    part = net[1:]
    assert isinstance(part, Sequential)
    assert list(part) == [net[1], net[2]]
    assert part["2"] is net[2]
    assert net[2]._path == "2"
    part.append(jnp.sin).append(jnp.cos)
    assert part._names == ("1", "2", "3", "4")
    assert len(net) == 3
    with pytest.raises(IndexError):
        net[3]
    with pytest.raises(NameMismatchError, match="known: 0, 1, 2"):
        net["3"]


def test_a_slice_computes_with_the_layers_of_the_whole() -> None:
    x, y = blobs()

    class Features(Net):
        def forward(self, x: jax.Array) -> jax.Array:
            return self.body[2:](self.body[:2](x))

    net = Features(Sequential(Linear(8), jax.nn.relu, Linear(3)))
    net.compile([x])
    assert sorted(net.get_params()) == ["body.0.W", "body.0.b", "body.2.W", "body.2.b"]
    losses = [float(net(x, y)[1]) for _ in range(3)]
    whole = Net(Sequential(Linear(8), jax.nn.relu, Linear(3)))
    whole.compile([x])
    np.testing.assert_allclose(losses, [float(whole(x, y)[1]) for _ in range(3)], rtol=1e-6)
    net.eval()
    hidden = net.body[:2](sx.Tensor(data=x)).to_numpy()
    w, b = (net.get_params()[f"body.0.{name}"].to_numpy() for name in "Wb")
    np.testing.assert_allclose(hidden, np.maximum(x @ w + b, 0), rtol=1e-5, atol=1e-6)


def test_a_replaced_layer_takes_effect() -> None:
    x, _ = blobs()
    net = Net(Sequential(Linear(3), jnp.tanh))
    net.compile([x], is_train=False)
    before = net(x).to_numpy()
    net.body[1] = jax.nn.relu
    np.testing.assert_allclose(net(x).to_numpy(), np.maximum(np.arctanh(before), 0), rtol=1e-3, atol=1e-5)
    free = Sequential(jnp.sin)
    np.testing.assert_allclose(free(sx.Tensor(data=x)).to_numpy(), np.sin(x), rtol=1e-6)
    free.append(jnp.cos)
    np.testing.assert_allclose(free(sx.Tensor(data=x)).to_numpy(), np.cos(np.sin(x)), rtol=1e-6)


def test_several_inputs_go_to_the_first() -> None:
    a, b = np.float32([1, 2]), np.float32([3, 4])
    net = Sequential(layer.Add(), Lambda(lambda x: (x, 2 * x)), Lambda(lambda pair: pair[1]))
    np.testing.assert_array_equal(net(sx.Tensor(data=a), sx.Tensor(data=b)).to_numpy(), 2 * (a + b))
    scaled = Sequential(lambda x, by: x * by)
    np.testing.assert_array_equal(scaled(sx.Tensor(data=a), by=3.0).to_numpy(), 3 * a)


def test_empty() -> None:
    assert Sequential().infer_shape((2, 3)) == (2, 3)
    x = sx.Tensor(data=np.ones(2, np.float32))
    with pytest.raises(ArgumentError, match="only input"):
        Sequential()(x, x)


def test_shared_and_nested() -> None:
    x, _ = blobs()
    shared = Linear(5)
    net = Sequential(shared, Sequential(jnp.tanh, shared), shared)
    net(sx.Tensor(data=x))
    assert sorted(net.get_params()) == ["0.W", "0.b"]


def test_deep_copy() -> None:
    x = sx.Tensor(data=blobs()[0])
    net = Sequential(Linear(3), jnp.tanh)
    out = net(x).to_numpy()
    other = copy.deepcopy(net)
    np.testing.assert_array_equal(other(x).to_numpy(), out)
    assert other[0].W is not net[0].W
    assert other[0]._parent is other


@pytest.mark.parametrize("item", [3, None, "relu", layer.ReLU, [jnp.sin]])
def test_what_is_no_layer_is_refused(item: Any) -> None:
    for make in (Sequential, Lambda):
        with pytest.raises(ArgumentError, match="Received"):
            make(item)


@pytest.mark.parametrize("name", ["forward", "a.b", "", "name", 3])
def test_bad_names_are_refused(name: Any) -> None:
    with pytest.raises(ArgumentError, match="Received"):
        Sequential({name: jnp.sin})


def test_positional_and_named_are_refused() -> None:
    with pytest.raises(ArgumentError, match="not both"):
        Sequential(jnp.sin, cos=jnp.cos)


def test_errors_name_the_layer() -> None:
    x, _ = blobs()
    with pytest.raises(TypeError, match="cannot reshape") as caught:
        Net(Sequential(Linear(3), lambda x: x.reshape(7))).compile([x])
    assert any("body.1 (Lambda)" in note for note in caught.value.__notes__)
