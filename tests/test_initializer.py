"""Initializers: bounds, spread, names, functions."""

from __future__ import annotations

import math
from typing import Any

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
    ("fill", "std"),
    [
        (initializer.xavier, math.sqrt(2 / (64 + 32))),
        (initializer.glorot, math.sqrt(2 / (64 + 32))),
        (initializer.msra, math.sqrt(2 / 64)),
        (lambda t: initializer.fill(t, "xavier"), math.sqrt(2 / (64 + 32))),
        (lambda t: initializer.gaussian(t, 100), math.sqrt(2 / 100)),
        (lambda t: initializer.gaussian(t, 0, 50), math.sqrt(2 / 50)),
        (lambda t: initializer._random_fill(t, 3.0, "fan_in", "normal"), math.sqrt(3 / 288)),
        (lambda t: initializer._random_fill(t, 3.0, "fan_out", "uniform"), math.sqrt(3 / 576)),
        (lambda t: initializer._random_fill(t, 3.0, "fan_avg", "normal"), math.sqrt(6 / 864)),
    ],
)
def test_spread_for_a_convolution(fill: Any, std: float) -> None:
    """The deprecated forms look at the first two sizes, the others at the receptive field too."""
    t = Tensor((64, 32, 3, 3))
    fill(t)
    assert t.to_numpy().std() == pytest.approx(std, rel=0.05)
    assert abs(t.to_numpy().mean()) < 0.1 * std


def test_fans() -> None:
    assert initializer._compute_fans((2, 3)) == (2, 3)
    assert initializer._compute_fans((4, 3, 5, 6)) == (90, 120)
    assert initializer._compute_fans((5, 6, 3, 4), "channels_last") == (90, 120)
    assert initializer._compute_fans((9,)) == (3, 3)
    assert initializer._compute_fans((1, 2, 2, 1, 1, 4)) == (4, 4)


def test_orthogonal_in_any_shape() -> None:
    for shape in ((6, 2, 3), (3, 2), (2, 3, 4)):
        t = Tensor(shape)
        initializer.orthogonal(t, gain=0.5)
        flat = t.to_numpy().reshape(shape[0], -1)
        small = flat @ flat.T if flat.shape[0] <= flat.shape[1] else flat.T @ flat
        np.testing.assert_allclose(small, 0.25 * np.eye(min(flat.shape)), atol=1e-5)


@pytest.mark.parametrize(
    "call",
    [
        lambda: initializer.eye(Tensor((2, 2, 2))),
        lambda: initializer.orthogonal(Tensor((3,))),
        lambda: initializer.xavier(Tensor((3,))),
        lambda: initializer.msra(Tensor(())),
        lambda: initializer.gaussian(Tensor((3,))),
        lambda: initializer.he_normal(Tensor((3, 3), dtype=sx.int32)),
        lambda: initializer.he_normal(sx.Placeholder((None, 3))),
        lambda: initializer.fill(Tensor((3, 3)), "he"),
        lambda: initializer.fill(Tensor((3, 3)), None),
        lambda: initializer._random_fill(Tensor((3, 3)), 1.0, "fan", "normal"),
        lambda: initializer._random_fill(Tensor((3, 3)), 0.0, "fan_in", "normal"),
        lambda: initializer._random_fill(Tensor((3, 3)), 1.0, "fan_in", "gaussian"),
        lambda: initializer._compute_fans((3, 3, 3), "NCHW"),
    ],
)
def test_refused(call: Any) -> None:
    with pytest.raises(sx.errors.SingaxError):
        call()


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
