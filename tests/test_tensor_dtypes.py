"""SINGA's table of result dtypes, and where JAX's own rules hold instead."""

from __future__ import annotations

import operator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import singax as sx
from singax import autograd, layer
from singax.tensor import Tensor

ARITHMETIC = [operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv]
COMPARISONS = [operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne]

F32 = np.array([4.0, -3.0], np.float32)
I32 = np.array([4, -3], np.int32)
F16 = F32.astype(np.float16)

TABLE: list[tuple[Any, Any, str]] = [
    (F32, F32, "float32"),
    (F32, 2, "float32"),
    (F32, 2.5, "float32"),
    (I32, np.array([2, 2], np.int32), "int32"),
    (I32, 2, "float32"),
    (I32, 2.5, "float32"),
    (I32, True, "float32"),
    (I32, F32, "float32"),
    (F16, F16, "float32"),
    (F16, F32, "float32"),
    (F16, I32, "float32"),
    (F16, 2, "float32"),
    (I32, F16, "float32"),
    (np.array([True, False]), 2, "float32"),
    (I32.astype(np.int8), I32, "int32"),
    (F32.astype(jnp.bfloat16), F32.astype(jnp.bfloat16), "bfloat16"),
    (F32.astype(jnp.bfloat16), 2, "bfloat16"),
    (F32.astype(jnp.bfloat16), F32, "float32"),
]
NAMES = [f"{getattr(a, 'dtype', 'number')}-{getattr(b, 'dtype', b)}" for a, b, _ in TABLE]


@pytest.mark.parametrize(("a", "b", "dtype"), TABLE, ids=NAMES)
def test_result_dtypes(a: Any, b: Any, dtype: str) -> None:
    left, right = Tensor(data=a), Tensor(data=b) if isinstance(b, np.ndarray) else b
    wide_a, wide_b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    for operation in ARITHMETIC + COMPARISONS:
        found = operation(left, right)
        assert found.dtype == dtype, operation
        expected = operation(wide_a, wide_b)
        if dtype == "int32" and operation is operator.truediv:
            expected = np.trunc(expected)
        np.testing.assert_allclose(found.to_numpy().astype(np.float64), expected.astype(np.float64), rtol=1e-2)


def test_numbers_on_the_left() -> None:
    t = Tensor(data=I32)
    for found, expected in [(1 + t, 1 + I32), (1 - t, 1 - I32), (2 * t, 2 * I32), (12 / t, 12 / I32), (2**t, 2.0**I32)]:
        assert found.dtype == sx.float32
        np.testing.assert_allclose(found.to_numpy(), expected.astype(np.float32))
    assert sum([t, t]).dtype == sx.float32  # 0 + t, as in SINGA
    assert (np.ones(2, np.int32) + t).dtype == sx.int32


def test_integer_quotients_lose_the_fraction() -> None:
    large = Tensor(data=np.array([2**30 + 1, -7]))
    assert (large / Tensor(data=np.array([1, 2]))).to_numpy().tolist() == [2**30 + 1, -3]
    assert (large // Tensor(data=np.array([1, 2]))).to_numpy().tolist() == [2**30 + 1, -4]


def test_with_64_bits() -> None:
    """In JAX's x64 mode a number beside integers is a float64, and float16 stays below what it meets."""
    with jax.enable_x64(True):
        assert (Tensor(data=I32) + 1).dtype == sx.float64
        assert (Tensor(data=np.arange(2)) * Tensor(data=np.arange(2))).dtype == sx.int64
        assert (Tensor(data=F16) + Tensor(data=np.ones(2))).dtype == sx.float64
        assert (Tensor(data=F32) * 2.5).dtype == sx.float32
        assert Tensor(data=F32).as_type("float64").dtype == sx.float64


def test_in_place_forms_keep_the_dtype() -> None:
    for dtype in ("int32", "float16", "bfloat16", "float32"):
        t = Tensor(data=[4, 2], dtype=dtype)
        t += 1
        t -= Tensor(data=[1, 1])
        t *= 3
        assert (t.dtype, t.to_numpy().tolist()) == (np.dtype(dtype), [12, 6])
    ids = Tensor(data=[4])
    with pytest.raises(sx.errors.DTypeError):
        ids /= 2


def test_layers_follow_jax() -> None:
    class Narrow(layer.Layer):
        def initialize(self, x: jax.Array) -> None:
            self.W = self.param((2,), "ones", np.float16)
            self.count = Tensor(data=[1, 2], requires_grad=False)

        def forward(self, x: jax.Array) -> Any:
            assert (self.count + 1).dtype == np.int32
            assert (self.count < 3).dtype == np.int32
            return x * self.W, self.W * 2

    for out in Narrow()(Tensor(data=F16)):
        assert out.dtype == sx.float16


def test_compiled_steps_follow_singa() -> None:
    class Step(sx.Module):
        def forward(self, x: jax.Array) -> jax.Array:
            return x

        def train_one_batch(self, x: Tensor, ids: Tensor) -> Any:
            return x + x, ids + 1, ids / ids, ids < 3

    net = Step()
    net.compile([sx.Placeholder((2,), dtype="float16")])
    assert [out.dtype for out in net(F16, I32)] == ["float32", "float32", "int32", "float32"]


def test_gradients_come_back_in_the_dtype_of_the_operand() -> None:
    autograd.training = True
    w = Tensor(data=F16, stores_grad=True)
    loss = sx.tensor.sum(w * w)
    assert loss.dtype == sx.float32
    ((_, grad),) = autograd.backward(loss)
    assert grad.dtype == sx.float16
    np.testing.assert_allclose(grad.to_numpy(), 2 * F16)


@pytest.mark.parametrize("dtype", ["int", "float", "float16", 0, 1, 2, "bfloat16", np.int32, jnp.float32, bool])
def test_conversions_by_any_name(dtype: Any) -> None:
    wanted = sx.dtypes.canonical(dtype)
    t = Tensor(data=[1.75, -1.75])
    made = t.as_type(dtype)
    assert (made.dtype, t.dtype) == (wanted, sx.float32)
    np.testing.assert_array_equal(made.to_numpy(), np.array([1.75, -1.75], np.float32).astype(wanted))
    assert t.to_type(dtype) is t
    assert t.dtype == wanted
    assert Tensor((2,)).to_type(dtype).dtype == wanted


def test_conversions_inside_a_layer() -> None:
    """A parameter converted in initialize keeps its values; one converted in forward keeps its gradient."""

    class Converts(layer.Layer):
        def initialize(self, x: jax.Array) -> None:
            self.W = Tensor((2,), stores_grad=True).set_value(1.5)
            self.half = Tensor((2,), stores_grad=True).set_value(2.5).to_type("float16")
            self.fresh = Tensor((2,), stores_grad=True)
            self.fresh += 3

        def forward(self, x: jax.Array) -> jax.Array:
            return (x * self.W.as_type("bfloat16") * self.half.clone() * self.fresh).sum().reshape(1)

    made = Converts()
    autograd.training = True
    loss = made(Tensor(data=F32))
    grads = {p.name: g.to_numpy().tolist() for p, g in autograd.backward(loss)}
    assert (made.half.dtype, made.half.to_numpy().tolist()) == (sx.float16, [2.5, 2.5])
    assert made.fresh.to_numpy().tolist() == [3, 3]
    assert grads["W"] == [30.0, -22.5]
    assert set(grads) == {"W", "half", "fresh"}
