"""Tensor and Placeholder: fills, operators, conversions, what they refuse."""

from __future__ import annotations

import copy
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import singax as sx
from singax import tensor
from singax.tensor import Tensor


def test_constructor_and_defaults() -> None:
    t = Tensor((2, 3))
    assert (t.shape, t.dtype, t.requires_grad, t.stores_grad) == ((2, 3), sx.float32, True, False)
    assert t.is_dummy()
    assert not t.is_filled()
    assert (t.ndim(), t.size(), t.memsize()) == (2, 6, 24)
    named = Tensor((1,), dtype=tensor.int32, name="ids", stores_grad=True)
    assert not named.is_dummy()
    assert named.dtype == np.int32
    assert Tensor(data=[[1.0, 2.0]]).dtype == sx.float32
    assert Tensor(data=np.arange(3)).dtype == sx.int32
    assert Tensor(data=np.arange(3), dtype=sx.float32).to_numpy().tolist() == [0, 1, 2]
    assert Tensor(data=True).dtype == sx.bool_


@pytest.mark.parametrize("name", [sx.int32, "int32", np.int32, jnp.int32, 2, "int"])
def test_dtypes_by_any_name(name: Any) -> None:
    assert Tensor((1,), dtype=name).dtype == sx.int32


def test_bfloat16_and_unknown_dtypes() -> None:
    assert Tensor((2,), dtype="bfloat16").set_value(1.5).to_numpy().tolist() == [1.5, 1.5]
    assert Tensor((1,), dtype=1).dtype == sx.float16
    for bad in ("float33", 7, object(), str, object, "datetime64[s]"):
        with pytest.raises(sx.errors.DTypeError, match="unknown dtype"):
            Tensor((1,), dtype=bad)
    with pytest.raises(sx.errors.DTypeError, match="holds numbers"):
        Tensor(data=["a"])


def test_reading_an_unfilled_tensor_says_how_to_fill_it() -> None:
    t = sx.Placeholder((2, 3), name="x")
    for read in (t.to_numpy, lambda: t.data, lambda: t + 1, lambda: float(t), lambda: np.asarray(t)):
        with pytest.raises(sx.errors.UnfilledError, match=r"x: (.|\n)*copy_from_numpy, uniform"):
            read()


def test_fills_return_self_and_fill() -> None:
    t = Tensor((50,))
    assert t.set_value(2) is t
    assert t.to_numpy().tolist() == [2.0] * 50
    assert t.uniform(0, 1) is t
    assert 0 <= t.to_numpy().min() <= t.to_numpy().max() <= 1
    assert t.gaussian(0, 1) is t
    assert t.bernoulli(1.0).to_numpy().sum() == 50
    assert Tensor((2,), dtype=sx.int32).set_value(2.9).to_numpy().tolist() == [2, 2]
    with pytest.raises(sx.errors.DTypeError, match="floating"):
        Tensor((2,), dtype=sx.int32).gaussian(0, 1)
    with pytest.raises(sx.errors.ArgumentError, match="probability"):
        t.bernoulli(2)
    with pytest.raises(sx.errors.ShapeError, match="unknown size"):
        sx.Placeholder((None, 2)).set_value(0)


def test_copy_from_numpy_converts_and_reshapes() -> None:
    t = Tensor((2, 2), dtype=sx.int32)
    t.copy_from_numpy(np.array([1.0, 2.0, 3.0, 4.0]))
    assert t.to_numpy().tolist() == [[1, 2], [3, 4]]
    with pytest.raises(sx.errors.ShapeError, match=r"holds 4 elements, shape \(2, 2\); received 3, shape \(3,\)"):
        t.copy_from_numpy(np.zeros(3))
    p = sx.Placeholder((None, 2))
    p.copy_from_numpy(np.ones((5, 2)))
    assert p.shape == (5, 2)
    with pytest.raises(sx.errors.ShapeError):
        sx.Placeholder((None, 2)).copy_from_numpy(np.ones((5, 3)))


def test_copy_from_and_copy_data() -> None:
    t = Tensor((2,))
    t.copy_from(np.array([1, 2]))
    t.copy_data(Tensor(data=[3.0, 4.0]))
    assert t.to_numpy().tolist() == [3, 4]
    t.copy_from(jnp.array([5.0, 6.0]))
    assert t.to_numpy().tolist() == [5, 6]
    with pytest.raises(sx.errors.ShapeError):
        t.copy_data(Tensor(data=[1.0]))


def test_copy_shares_and_clone_does_not() -> None:
    a = Tensor(data=[1.0, 2.0], stores_grad=True, name="a")
    shallow, deep = a.copy(), a.clone()
    a += 1
    assert shallow.to_numpy().tolist() == [2, 3]
    assert deep.to_numpy().tolist() == [1, 2]
    assert (deep.stores_grad, deep.name == "a") == (False, False)
    again = copy.deepcopy(a)
    assert (again.name, again.stores_grad) == ("a", True)


def test_operators_follow_numpy() -> None:
    a, b = np.array([[1.0, -2.0], [3.0, 4.0]], np.float32), np.array([2.0, 0.5], np.float32)
    ta, tb = Tensor(data=a), Tensor(data=b)
    pairs = [
        (ta + tb, a + b),
        (ta - 1, a - 1),
        (2 - ta, 2 - a),
        (ta * tb, a * b),
        (ta / tb, a / b),
        (1 / ta, 1 / a),
        (ta // tb, a // b),
        (ta % tb, a % b),
        (tb**2, b**2),
        (2**tb, 2**b),
        (ta @ ta, a @ a),
        (ta @ tb, a @ b),
        (-ta, -a),
        (abs(ta), abs(a)),
        (ta < tb, a < b),
        (ta <= 1, a <= 1),
        (ta > tb, a > b),
        (ta >= 1, a >= 1),
        (ta == tb, a == b),
        (ta != tb, a != b),
        (b + ta, b + a),
        (a @ tb, a @ b),
        (np.float32(2) * ta, 2 * a),
        (ta.T(), a.T),
        (ta.reshape((4,)), a.reshape(4)),
        (ta.transpose((1, 0)), a.T),
    ]
    for found, expected in pairs:
        value = found.to_numpy() if isinstance(found, Tensor) else np.asarray(found)
        np.testing.assert_allclose(value, np.asarray(expected, np.float32), rtol=1e-6)
    assert (ta < tb).dtype == sx.float32
    assert (Tensor(data=[1, 2]) < Tensor(data=[2, 2])).dtype == sx.int32


def test_division_by_zero_is_ieee() -> None:
    assert np.isinf((Tensor(data=[1.0]) / 0.0).to_numpy()).all()


def test_builtin_sum() -> None:
    assert sum([Tensor(data=[1.0]), Tensor(data=[2.0])]).to_numpy().tolist() == [3.0]


def test_in_place_operators() -> None:
    t = Tensor(data=[2.0, 4.0])
    same = t
    t += 1
    t -= Tensor(data=[1.0, 1.0])
    t *= 3
    t /= 2
    assert same is t
    assert t.to_numpy().tolist() == [3.0, 6.0]
    fresh = Tensor((2,))
    fresh += 1  # a tensor never written starts from zeros
    assert fresh.to_numpy().tolist() == [1, 1]
    ints = Tensor(data=[1, 2])
    with pytest.raises(sx.errors.DTypeError, match="in place"):
        ints += 0.5
    with pytest.raises((sx.errors.ShapeError, ValueError)):
        t += Tensor(data=np.ones((3, 2)))


def test_indexing_keeps_the_axis_of_an_int() -> None:
    a = np.arange(12.0, dtype=np.float32).reshape(3, 4)
    t = Tensor(data=a)
    for key, expected in [
        (0, a[0:1]), (-1, a[-1:]), ((slice(None), 1), a[:, 1:2]), (slice(0, 3, 2), a[::2]),
        ((..., slice(1, 3)), a[..., 1:3]), (None, a[None]), (np.int64(1), a[1:2]),
    ]:  # fmt: skip
        np.testing.assert_array_equal(t[key].to_numpy(), expected)
    np.testing.assert_array_equal(t[np.array([2, 0])].to_numpy(), a[[2, 0]])
    np.testing.assert_array_equal(t[[2, 0]].to_numpy(), a[[2, 0]])
    with pytest.raises(IndexError, match="out of range"):
        t[3]
    with pytest.raises(sx.errors.ArgumentError):
        t["a"]
    with pytest.raises(TypeError):
        iter(t)


def test_truth_and_equality() -> None:
    t = Tensor(data=[0.0])
    assert t
    assert (t == None) is False  # noqa: E711
    assert not (t > 1)
    assert t < 1
    with pytest.raises(sx.errors.ShapeError):
        bool(Tensor(data=[1.0, 2.0]) > 0)
    with pytest.raises(TypeError):
        hash(t)
    with pytest.raises(sx.errors.ArgumentError, match="compared with"):
        _ = t == "a"


def test_python_numbers() -> None:
    t = Tensor(data=[[2.5]])
    assert (float(t), int(t), t.item()) == (2.5, 2, 2.5)
    with pytest.raises(sx.errors.ShapeError, match="exactly one"):
        Tensor(data=[1.0, 2.0]).item()


def test_raw_jax_on_a_tensor_fails_loudly() -> None:
    t = Tensor(data=[1.0], name="t")
    for raw in (lambda: jnp.sin(t), lambda: jnp.ones(1) + t, lambda: jnp.sum(t), lambda: jnp.dot(t, t)):
        with pytest.raises(sx.errors.RawCallError, match=r"autograd.node\(function\)"):
            raw()
    with pytest.raises(TypeError):
        np.exp(t)
    with pytest.raises(sx.errors.RawCallError):
        jax.jit(lambda v: v)(t)


def test_conversions() -> None:
    t = Tensor(data=[1.7, -1.7])
    assert t.as_type(sx.int32).to_numpy().tolist() == [1, -1]
    assert t.dtype == sx.float32
    assert t.to_type("float16").dtype == sx.float16
    t.reset_like(Tensor((3,), dtype=sx.int32))
    assert (t.shape, t.dtype, t.is_filled()) == ((3,), sx.int32, False)
    got = Tensor(data=[1.0]).to_numpy()
    got[0] = 5  # a copy: writable, and the tensor does not notice


def test_devices() -> None:
    t = Tensor(data=[1.0])
    t.to_device(jax.devices()[3])
    assert t.data.devices() == {jax.devices()[3]}
    t.uniform(0, 1)
    assert t.data.devices() == {jax.devices()[3]}
    t.to_host()
    assert t.device == sx.device.create_cpu_device()
    placed = Tensor((2,), device="cpu:2").set_value(1)
    assert placed.data.devices() == {jax.devices()[2]}


def test_module_functions() -> None:
    assert tensor.zeros((2,)).to_numpy().tolist() == [0, 0]
    assert tensor.ones((2,)).to_numpy().tolist() == [1, 1]
    assert tensor.random((3,)).to_numpy().min() >= 0
    assert tensor.zeros_like(tensor.ones((2, 2))).shape == (2, 2)
    assert tensor.ones_like(Tensor(data=[3])).to_numpy().tolist() == [1]
    assert sx.to_numpy(sx.from_numpy(np.array([1.5]))).dtype == np.float32
    assert sx.PlaceHolder is sx.Placeholder


def test_repr_never_raises() -> None:
    assert repr(Tensor((2, 3), name="w")) == "Tensor 'w' float32[2,3] (no values yet)"
    assert repr(sx.Placeholder((None, 3), name="x")) == "Placeholder 'x' float32[?,3] (no values yet)"
    assert repr(Tensor(data=[1.0, 2.5], name="w")) == "Tensor 'w' float32[2] [1. , 2.5]"
    assert repr(Tensor(data=np.zeros(100), name="w")) == "Tensor 'w' float32[100]"
    t = Tensor(data=jnp.ones(2), name="w")
    t._cell.get().delete()
    assert "deleted" in repr(t)


def test_bad_shapes() -> None:
    for bad in ((-1,), (1.5,), ("a",), (True,)):
        with pytest.raises(sx.errors.ShapeError, match="sizes from 0 up"):
            Tensor(bad)


def test_64_bits_warn_at_compile() -> None:
    class Sum(sx.Module):
        def forward(self, x: jax.Array) -> jax.Array:
            return x.sum()

    with pytest.warns(UserWarning, match=r"x has dtype float64(.|\n)*treated as float32"):
        Sum().compile([sx.Placeholder((2,), dtype="float64", name="x")], is_train=False)
    assert sx.Placeholder((2,), dtype="int64").dtype == np.int64
