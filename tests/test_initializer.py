"""Initializers: bounds, spread, names, functions."""

from __future__ import annotations

import math

import jax
import numpy as np
import pytest

import singax as sx
from singax import initializer, layer
from singax.tensor import Tensor

SHAPES = [(300, 200), (64, 32, 3, 3)]


def fans(shape: tuple[int, ...]) -> tuple[int, int]:
    return (shape[0], shape[1]) if len(shape) == 2 else (shape[1] * 9, shape[0] * 9)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("family", ["lecun", "glorot", "he"])
def test_families(shape: tuple[int, ...], family: str) -> None:
    fan_in, fan_out = fans(shape)
    variance = {"lecun": 1 / fan_in, "glorot": 2 / (fan_in + fan_out), "he": 2 / fan_in}[family]
    t = Tensor(shape)
    getattr(initializer, f"{family}_uniform")(t)
    values = t.to_numpy()
    assert np.abs(values).max() <= math.sqrt(3 * variance)
    assert values.std() == pytest.approx(math.sqrt(variance), rel=0.05)
    getattr(initializer, f"{family}_normal")(t)
    assert t.to_numpy().std() == pytest.approx(math.sqrt(variance), rel=0.05)
    assert abs(t.to_numpy().mean()) < 0.1 * math.sqrt(variance)


def test_eye_orthogonal_and_deprecated_forms() -> None:
    t = Tensor((4, 4))
    initializer.eye(t)
    np.testing.assert_array_equal(t.to_numpy(), np.eye(4))
    initializer.orthogonal(t, gain=2.0)
    np.testing.assert_allclose(t.to_numpy() @ t.to_numpy().T, 4 * np.eye(4), atol=1e-5)
    wide = Tensor((3, 8))
    initializer.orthogonal(wide)
    np.testing.assert_allclose(wide.to_numpy() @ wide.to_numpy().T, np.eye(3), atol=1e-5)
    big = Tensor((200, 100))
    for function, std in (
        (initializer.glorot, math.sqrt(2 / 300)),
        (initializer.msra, math.sqrt(2 / 200)),
        (initializer.xavier, math.sqrt(2 / 300)),
        (lambda t: initializer.gaussian(t, 200, 100), math.sqrt(4 / 300)),
    ):
        function(big)
        assert big.to_numpy().std() == pytest.approx(std, rel=0.05)
    with pytest.raises(sx.errors.ShapeError):
        initializer.eye(Tensor((3,)))


@pytest.mark.parametrize(
    "kernel_init",
    [
        "zeros",
        "ones",
        "he_uniform",
        0.5,
        initializer.he_normal,
        jax.nn.initializers.lecun_normal(),
        lambda t: t.set_value(2),
    ],
)
def test_layers_take_names_numbers_and_functions(kernel_init: object) -> None:
    fc = layer.Linear(6, kernel_init=kernel_init, bias_init=lambda key, shape, dtype: jax.numpy.full(shape, 3, dtype))
    fc(Tensor(data=np.ones((2, 6), np.float32)))
    assert fc.W.shape == (6, 6)
    assert fc.b.to_numpy().tolist() == [3.0] * 6
    expected = {"zeros": 0, "ones": 1}.get(str(kernel_init)) if isinstance(kernel_init, str) else None
    if expected is not None:
        assert (fc.W.to_numpy() == expected).all()


def test_host_and_traced_draws_have_the_same_distribution() -> None:
    init_fn, _ = layer_model().functional()
    x = np.ones((2, 300), np.float32)
    host, traced = init_fn(0, x), init_fn(jax.random.key(0), x)
    for path in host:
        assert np.std(host[path]) == pytest.approx(float(np.std(traced[path])), rel=0.1, abs=1e-6)


def layer_model() -> sx.Module:
    class Net(sx.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = layer.Linear(200, kernel_init="he_uniform")
            self.b = layer.Linear(200, kernel_init="orthogonal")

        def forward(self, x: jax.Array) -> jax.Array:
            return self.b(self.a(x))

    return Net()


def test_in_place_changes_inside_initialize_are_kept() -> None:
    class Scaled(layer.Layer):
        def initialize(self, x: jax.Array) -> None:
            self.W = Tensor((4, 4), stores_grad=True)
            initializer.he_normal(self.W)
            self.W *= 0.0
            self.W += 2.0
            self.given = Tensor(data=np.arange(4.0), stores_grad=True)
            self.copied = Tensor((2,), requires_grad=False)
            self.copied.copy_from_numpy(np.array([5.0, 6.0]))

        def forward(self, x: jax.Array) -> jax.Array:
            return x @ self.W + self.given

    scaled = Scaled()
    scaled(Tensor(data=np.ones((1, 4), np.float32)))
    np.testing.assert_array_equal(scaled.W.to_numpy(), np.full((4, 4), 2.0))
    assert scaled.given.to_numpy().tolist() == [0, 1, 2, 3]
    assert scaled.copied.to_numpy().tolist() == [5, 6]
    assert list(scaled.get_params()) == ["W", "given"]
