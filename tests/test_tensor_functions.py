"""SINGA's module functions on Tensors against NumPy, their results in place, and what they refuse."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import singax as sx
from singax import autograd, layer, tensor
from singax.errors import SingaxError
from singax.tensor import Tensor

A = np.array([[1.0, -2.0, 0.5], [3.0, 4.0, -0.25]], np.float32)
B = np.array([[2.0, 0.5, -1.0], [1.0, 2.0, 4.0]], np.float32)
P = np.abs(A)
V2, V3 = np.array([10.0, 20.0], np.float32), np.array([1.0, 2.0, 4.0], np.float32)
D = np.arange(24, dtype=np.float32).reshape(2, 3, 4) / 7
E = np.arange(24, dtype=np.float32).reshape(4, 3, 2) / 5


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


# name, arguments (arrays become Tensors), what NumPy says
TABLE: list[tuple[str, tuple[Any, ...], Any]] = [
    ("abs", (A,), np.abs(A)),
    ("exp", (A,), np.exp(A)),
    ("ceil", (A,), np.ceil(A)),
    ("log", (P,), np.log(P)),
    ("sigmoid", (A,), 1 / (1 + np.exp(-A))),
    ("sign", (A,), np.sign(A)),
    ("sqrt", (P,), np.sqrt(P)),
    ("square", (A,), A * A),
    ("tanh", (A,), np.tanh(A)),
    ("softmax", (A,), softmax(A)),
    ("softmax", (V3,), softmax(V3)),
    ("softmax", (D,), softmax(D)),
    ("pow", (P, 2), P**2),
    ("pow", (P, B), P**B),
    ("pow", (2.0, A), 2.0**A),
    ("lt", (A, B), A < B),
    ("le", (A, 1), A <= 1),
    ("gt", (A, 0.5), A > 0.5),
    ("ge", (A, B), A >= B),
    ("eq", (A, 4), A == 4),
    ("add", (A, B), A + B),
    ("add", (A, 2), A + 2),
    ("sub", (A, V3), A - V3),
    ("eltwise_mult", (A, B), A * B),
    ("div", (A, B), A / B),
    ("div", (1.0, B), 1 / B),
    ("mult", (A, B.T), A @ B.T),
    ("mult", (A, V3), A @ V3),
    ("mult", (V2, A), V2 @ A),
    ("mult", (D, B.T.repeat(2, 0)[:4]), D @ B.T.repeat(2, 0)[:4]),
    ("mult", (D, D.transpose(0, 2, 1)), D @ D.transpose(0, 2, 1)),
    ("mult", (A, B.T, None, 0.5), 0.5 * A @ B.T),
    ("sum", (A,), A.sum().reshape(1, 1)),
    ("sum", (A, 0), A.sum(0)),
    ("sum", (A, -1), A.sum(1)),
    ("sum", (A, (0, 1)), A.sum().reshape(1, 1)),
    ("sum", (D, (0, 2)), D.sum((0, 2))),
    ("sum", (V3, 0), V3.sum().reshape(1, 1)),
    ("average", (A, 0), A.mean(0)),
    ("average", (A, 1), A.mean(1)),
    ("average", (D, (0, 2)), D.mean((0, 2))),
    ("sum_columns", (A,), A.sum(1, keepdims=True)),
    ("sum_rows", (A,), A.sum(0, keepdims=True)),
    ("contiguous", (A,), A),
    ("reshape", (A, (3, 2)), A.reshape(3, 2)),
    ("reshape", (A, -1), A.reshape(-1)),
    ("transpose", (D,), D.transpose()),
    ("transpose", (D, (1, 0, 2)), D.transpose(1, 0, 2)),
    ("transpose", (D, [-1, 0, 1]), D.transpose(-1, 0, 1)),
    ("concatenate", ([A, B], 0), np.concatenate([A, B], 0)),
    ("concatenate", ((A, V2[:, None]), -1), np.concatenate([A, V2[:, None]], -1)),
    ("repeat", (A, 2), A.repeat(2)),
    ("repeat", (A, 2, 1), A.repeat(2, 1)),
    ("repeat", (A, [1, 0, 3], -1), A.repeat([1, 0, 3], -1)),
    ("repeat", (V2, (2, 1)), V2.repeat((2, 1))),
    ("einsum", ("ij,kj->ik", A, B), np.einsum("ij,kj->ik", A, B)),
    ("einsum", ("ij->ji", A), A.T),
    ("einsum", ("ki,kj->kij", A, B), np.einsum("ki,kj->kij", A, B)),
    ("einsum", ("ij,kj,j->ik", A, B, V3), np.einsum("ij,kj,j->ik", A, B, V3)),
    ("einsum", ("ii->i", A[:, :2]), np.diagonal(A[:, :2])),
    ("einsum", ("...ij,jk", D, B.T.repeat(2, 0)[:4]), D @ B.T.repeat(2, 0)[:4]),
    ("tensordot", (A, B), np.tensordot(A, B).reshape(1, 1)),
    ("tensordot", (D, E, ([1, 2], [1, 0])), np.tensordot(D, E, ([1, 2], [1, 0]))),
    ("tensordot", (D, E, ([-2], [1])), np.tensordot(D, E, ([-2], [1]))),
    ("tensordot", (A, B, 0), np.tensordot(A, B, 0)),
    ("tensordot", (A, V3, (1, 0)), A @ V3),
    ("zeros_like", (A,), np.zeros_like(A)),
    ("ones_like", (A,), np.ones_like(A)),
    ("to_host", (A,), A),
]  # fmt: skip


def as_tensors(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return Tensor(data=value)
    return type(value)(map(as_tensors, value)) if isinstance(value, list | tuple) else value


@pytest.mark.parametrize(("name", "args", "expected"), TABLE, ids=[f"{r[0]}-{i}" for i, r in enumerate(TABLE)])
def test_value(name: str, args: Any, expected: np.ndarray) -> None:
    """The value and the shape are NumPy's, but (1, 1) where SINGA has no 0-d results."""
    found = getattr(tensor, name)(*as_tensors(args))
    assert isinstance(found, Tensor)
    assert found.shape == expected.shape
    assert found.dtype == sx.float32
    np.testing.assert_allclose(found.to_numpy(), np.asarray(expected, np.float32), rtol=1e-5, atol=1e-6)


INSIDE: list[Callable[[Any], Any]] = [
    tensor.abs,
    tensor.softmax,
    tensor.transpose,
    lambda x: tensor.sum(x, 0),
    lambda x: tensor.mult(x, x.T if isinstance(x, jax.Array) else x.T()),
    lambda x: tensor.einsum("ij,kj->ik", x, B),
    lambda x: tensor.concatenate([x, B], 1),
    lambda x: tensor.repeat(x, 2, 0),
    lambda x: tensor.lt(x, 1.0),
]


def test_inside_a_layer_they_take_and_give_arrays() -> None:
    class Uses(layer.Layer):
        def forward(self, x: jax.Array) -> list[jax.Array]:
            outs = [function(x) for function in INSIDE]
            assert all(isinstance(out, jax.Array) for out in outs)
            return outs

    given = Tensor(data=A)
    for function, found in zip(INSIDE, Uses()(given), strict=True):
        np.testing.assert_allclose(found.to_numpy(), function(given).to_numpy(), rtol=1e-5, atol=1e-6)


def test_average_is_a_number_where_nothing_is_left() -> None:
    for t, axis in ((V3, None), (V3, 0), (A, None)):
        found = tensor.average(Tensor(data=t), axis)
        assert type(found) is float
        assert found == pytest.approx(float(t.mean()))
    assert tensor.average(Tensor(data=[1, 2])) == 1.5


def test_results_into_a_tensor() -> None:
    """`ret` and `out` receive the result, keep their dtype, and are returned."""
    a, b = Tensor(data=A), Tensor(data=B)
    for name, expected in (("add", A + B), ("sub", A - B), ("eltwise_mult", A * B), ("div", A / B)):
        ret = Tensor(A.shape)
        alias = ret.copy()
        assert getattr(tensor, name)(a, b, ret) is ret
        np.testing.assert_allclose(alias.to_numpy(), expected, rtol=1e-6)
        getattr(tensor, name)(a, 2.0, ret=a.clone())
    out = Tensor((2, 3), dtype="float16")
    assert tensor.pow(a, 2, out=out) is out
    assert out.dtype == sx.float16
    np.testing.assert_allclose(out.to_numpy(), (A**2).astype(np.float16))
    assert tensor.softmax(a, out=a).to_numpy().sum() == pytest.approx(2)
    total = Tensor((3,))
    assert tensor.sum(b, 0, out=total) is total
    np.testing.assert_allclose(total.to_numpy(), B.sum(0))
    ids = Tensor(data=[1, 2])
    assert tensor.add(ids, 1, ret=ids).to_numpy().tolist() == [2, 3]
    for wrong in (Tensor((3, 2)), Tensor((2, 3), dtype=sx.int32), "a", A.copy()):
        with pytest.raises(SingaxError):
            tensor.add(a, b, ret=wrong)


def test_mult_into_c() -> None:
    c = Tensor(data=np.ones((2, 2), np.float32))
    assert tensor.mult(Tensor(data=A), Tensor(data=B.T), c, 2.0, 0.5) is c
    np.testing.assert_allclose(c.to_numpy(), 2 * A @ B.T + 0.5, rtol=1e-6)
    fresh = Tensor((2, 2))
    tensor.mult(Tensor(data=A), Tensor(data=B.T), fresh, beta=0.0)
    np.testing.assert_allclose(fresh.to_numpy(), A @ B.T, rtol=1e-6)
    nans = Tensor((2, 2)).set_value(math.nan)
    tensor.mult(Tensor(data=A), Tensor(data=B.T), nans)
    assert np.isfinite(nans.to_numpy()).all()


def test_in_place_functions() -> None:
    y = Tensor(data=B)
    assert tensor.axpy(2, Tensor(data=A), y) is y
    np.testing.assert_allclose(y.to_numpy(), B + 2 * A)
    m = Tensor(data=A)
    assert tensor.add_column(2.0, Tensor(data=V2), 0.5, m) is m
    np.testing.assert_allclose(m.to_numpy(), 0.5 * A + 2 * V2[:, None])
    assert tensor.add_row(2.0, Tensor(data=V3), 0.0, m) is m
    np.testing.assert_allclose(m.to_numpy(), np.broadcast_to(2 * V3, (2, 3)))
    ids = Tensor(data=[1, 2])
    assert tensor.axpy(2, ids, ids).to_numpy().tolist() == [3, 6]
    for call in (tensor.add_column, tensor.add_row):
        for v in (Tensor(data=np.ones(5, np.float32)), Tensor(data=A)):
            with pytest.raises(sx.errors.ShapeError, match="matrix"):
                call(1.0, v, 1.0, m)


def test_deprecated_methods() -> None:
    for name, v, expected in [
        ("add_column", V2, A + V2[:, None]), ("add_row", V3, A + V3), ("div_column", V2, A / V2[:, None]),
        ("div_row", V3, A / V3), ("mult_column", V2, A * V2[:, None]), ("mult_row", V3, A * V3),
    ]:  # fmt: skip
        t = Tensor(data=A)
        with pytest.deprecated_call():
            assert getattr(t, name)(Tensor(data=v)) is None
        np.testing.assert_allclose(t.to_numpy(), expected, rtol=1e-6)
        with pytest.deprecated_call(), pytest.raises(sx.errors.ShapeError, match=name):
            getattr(t, name)(Tensor(data=np.ones(7, np.float32)))


def test_fills() -> None:
    t = Tensor((100,))
    assert tensor.bernoulli(0.0, t) is t
    assert t.to_numpy().sum() == 0
    assert tensor.uniform(2, 3, t) is t
    assert 2 <= t.to_numpy().min() <= t.to_numpy().max() <= 3
    assert tensor.gaussian(100, 0.1, t) is t
    assert t.to_numpy().mean() == pytest.approx(100, abs=0.1)


def test_copying_parts() -> None:
    dst, src = Tensor((2, 3)).set_value(0), Tensor(data=np.arange(4), dtype=sx.int32)
    tensor.copy_data_to_from(dst, src, 2, 3, 1)
    assert dst.to_numpy().tolist() == [[0, 0, 0], [1, 2, 0]]
    tensor.copy_data_to_from(dst, src, 4)
    assert dst.to_numpy().tolist() == [[0, 1, 2], [3, 2, 0]]
    for bad in ((5,), (2, 5), (2, 0, 3), (-1,), (1, -1), ("a",), (1.5,)):
        with pytest.raises(SingaxError):
            tensor.copy_data_to_from(dst, src, *bad)


def test_carrying_values_in_and_out() -> None:
    narrowed = [
        (np.float64, "float32"),
        (np.int64, "int32"),
        (np.uint8, "uint8"),
        (bool, "bool"),
        (np.float16, "float16"),
    ]
    for dtype, kept in narrowed:
        assert tensor.from_numpy(np.ones(2, dtype)).dtype == kept
    assert tensor.from_numpy(np.float64(2.5)).shape == ()
    assert tensor.from_numpy(A, "cpu:1").data.devices() == {jax.devices()[1]}
    raw = jnp.ones(2)
    assert tensor.from_raw_tensor(raw).data is raw
    assert [t.shape for t in tensor.from_raw_tensors([raw, A])] == [(2,), (2, 3)]
    assert tensor._call_singa_func(jnp.add, raw, Tensor(data=[1.0, 2.0])).to_numpy().tolist() == [2, 3]
    t = Tensor(data=[1.0])
    tensor.copy_from_numpy(t, np.array([2.0]))
    assert float(t) == 2
    assert tensor.to_numpy(jnp.ones(2)).tolist() == [1, 1]
    assert (tensor.product((2, 3, 4)), tensor.product([5])) == (24, 5)
    assert [tensor.sizeof(d) for d in (0, 1, 2, tensor.float32, tensor.float16, tensor.int32, "bfloat16")] == [
        4, 2, 4, 4, 2, 4, 2,
    ]  # fmt: skip
    placed = Tensor((2,), device="cpu:3", dtype=sx.int32)
    like = tensor.ones_like(placed)
    assert (like.dtype, like.device, placed.is_filled()) == (sx.int32, placed.device, False)


def test_ieee_instead_of_aborts() -> None:
    zero, minus = Tensor(data=[0.0]), Tensor(data=[-1.0])
    assert float(tensor.log(zero)) == -math.inf
    assert math.isnan(float(tensor.log(minus)))
    assert math.isnan(float(tensor.sqrt(minus)))
    assert float(tensor.div(minus, zero)) == -math.inf
    assert math.isnan(float(zero / zero))


def test_integers_count_as_floats_where_results_are_not_whole() -> None:
    t = Tensor(data=[1, 4])
    for name in ("exp", "log", "sqrt", "tanh", "softmax"):
        assert getattr(tensor, name)(t).dtype == sx.float32, name
    for name in ("abs", "sign", "ceil", "square"):
        assert getattr(tensor, name)(t).dtype == sx.int32, name
    assert tensor.sum(t).to_numpy().tolist() == [[5]]


def test_gradients_flow_through_module_functions() -> None:
    autograd.training = True
    w = Tensor(data=A, stores_grad=True, name="w")
    loss = tensor.sum(tensor.mult(tensor.square(w), Tensor(data=B.T)))
    ((_, grad),) = autograd.backward(loss)
    np.testing.assert_allclose(grad.to_numpy(), 2 * A * B.sum(0), rtol=1e-5)
    narrow = Tensor(data=np.zeros(2, np.float16))
    narrow += tensor.sum(w, 1)  # float32 into float16: the gradient comes back in float32
    ((_, grad),) = autograd.backward(tensor.sum(narrow))
    assert grad.dtype == sx.float32
    np.testing.assert_allclose(grad.to_numpy(), np.ones_like(A))
    ((_, grad),) = autograd.backward(tensor.sum(w.as_type("bfloat16")))
    assert grad.dtype == sx.float32
    autograd.training = False
    assert tensor.square(w).requires_grad


@pytest.mark.parametrize(
    ("change", "slope"),
    [
        (lambda t: tensor.add(t, t, ret=t), 2.0),
        (lambda t: tensor.pow(t, 2, out=t), 4.0),
        (lambda t: tensor.axpy(2.0, t, t), 3.0),
        (lambda t: tensor.mult(t, t, t, beta=1.0), 5.0),
        (lambda t: tensor.sum(t, out=t), 1.0),
        (lambda t: tensor.copy_data_to_from(t, t, 1), 1.0),
        (lambda t: t.__iadd__(t), 2.0),
    ],
)
def test_results_into_an_operand_keep_its_history(change: Callable[[Tensor], Any], slope: float) -> None:
    """The derivative at 2 of what is computed in place from a Tensor and put into it."""
    autograd.training = True
    w = Tensor(data=[[2.0]], stores_grad=True)
    t = w * 1
    change(t)
    ((_, grad),) = autograd.backward(t)
    assert float(grad) == slope


def test_compiled_steps_use_them() -> None:
    """The same numbers call by call and as one program; an in-place result is carried to the next step."""

    class Net(sx.Module):
        def __init__(self) -> None:
            super().__init__()
            self.total = Tensor((3,), requires_grad=False).set_value(0)

        def forward(self, x: jax.Array) -> jax.Array:
            return tensor.tanh(x) + tensor.zeros((3,))

        def train_one_batch(self, x: Tensor) -> Any:
            out = self.forward(x)
            tensor.axpy(2, tensor.sum(out, 0), self.total)
            return tensor.einsum("ij->j", out), x.T(), out[0], tensor.add(x, 1)

    results = []
    for use_graph in (True, False):
        net = Net()
        net.compile([sx.Placeholder((2, 3))], use_graph=use_graph)
        for _ in range(2):
            outs = net(A)
        results.append([net.total.to_numpy(), *(o.to_numpy() for o in outs)])
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)
    np.testing.assert_allclose(results[0][0], 4 * np.tanh(A).sum(0), rtol=1e-5)


def test_tensors_made_inside_a_forward_are_filled_there() -> None:
    class Noisy(sx.Module):
        def forward(self, x: jax.Array) -> jax.Array:
            noise = tensor.random(x.shape)
            mask = tensor.ones(x.shape).bernoulli(1.0)
            return x + noise.data * mask.data + tensor.zeros_like(x)

    model = Noisy()
    model.compile([sx.Placeholder(A.shape)], is_train=False)
    first, second = model(A).to_numpy(), model(A).to_numpy()
    assert ((first >= A) & (first <= A + 1)).all()
    assert (first != second).any()


def t(*shape: int) -> Tensor:
    return tensor.ones(shape)


REFUSED: list[tuple[str, Callable[[], Any]]] = [
    ("abs of text", lambda: tensor.abs("a")),
    ("exp of None", lambda: tensor.exp(None)),
    ("softmax of a number", lambda: tensor.softmax(Tensor(data=1.0))),
    ("pow with other shapes", lambda: tensor.pow(t(2, 3), t(4))),
    ("add with other shapes", lambda: t(2, 3) + t(4)),
    ("add text", lambda: t(2) + "a"),
    ("add None", lambda: t(2) + None),
    ("text minus", lambda: "a" - t(2)),
    ("lt text", lambda: tensor.lt(t(2), "a")),
    ("eq text", lambda: tensor.eq(t(2), "a")),
    ("mult with wrong sizes", lambda: tensor.mult(t(2, 3), t(2, 3))),
    ("mult of numbers", lambda: tensor.mult(Tensor(data=1.0), t(2))),
    ("mult into a wrong C", lambda: tensor.mult(t(2, 3), t(3, 2), t(3, 3))),
    ("mult with alpha as text", lambda: tensor.mult(t(2, 3), t(3, 2), alpha="a")),
    ("sum over a wrong axis", lambda: tensor.sum(t(2, 3), 2)),
    ("sum over text", lambda: tensor.sum(t(2, 3), "a")),
    ("sum over one axis twice", lambda: tensor.sum(t(2, 3), (0, -2))),
    ("sum of text", lambda: tensor.sum("a")),
    ("average over a wrong axis", lambda: tensor.average(t(3), 1)),
    ("sum_columns of a vector", lambda: tensor.sum_columns(t(3))),
    ("sum_rows of three axes", lambda: tensor.sum_rows(t(3, 3, 3))),
    ("reshape to another size", lambda: tensor.reshape(t(2, 3), (4,))),
    ("reshape to text", lambda: tensor.reshape(t(2, 3), "ab")),
    ("transpose by too few axes", lambda: tensor.transpose(t(2, 3), (0,))),
    ("transpose by one axis twice", lambda: t(2, 3).transpose((0, 0))),
    ("transpose out of range", lambda: t(2, 3).transpose((0, 2))),
    ("concatenate one Tensor", lambda: tensor.concatenate(t(2), 0)),
    ("concatenate nothing", lambda: tensor.concatenate([], 0)),
    ("concatenate unequal ranks", lambda: tensor.concatenate([t(2), t(2, 2)], 0)),
    ("concatenate along text", lambda: tensor.concatenate([t(2), t(2)], "a")),
    ("repeat by a fraction", lambda: tensor.repeat(t(2), 1.5)),
    ("repeat by less than nothing", lambda: t(2).repeat(-1)),
    ("repeat by too many numbers", lambda: t(2).repeat([1, 2, 3])),
    ("repeat along a wrong axis", lambda: t(2).repeat(2, 1)),
    ("einsum without operands", lambda: tensor.einsum("ij->i")),
    ("einsum of a wrong rank", lambda: tensor.einsum("ijk->i", t(2, 3))),
    ("einsum of unequal sizes", lambda: tensor.einsum("ij,jk->ik", t(2, 3), t(2, 3))),
    ("einsum of too many operands", lambda: tensor.einsum("ij,jk->ik", t(2, 3))),
    ("einsum without subscripts", lambda: tensor.einsum(t(2), t(2))),
    ("einsum of nonsense", lambda: tensor.einsum("i!j->", t(2, 3))),
    ("tensordot of unequal sizes", lambda: tensor.tensordot(t(2, 3), t(2, 3), 1)),
    ("tensordot over too many axes", lambda: tensor.tensordot(t(2, 3), t(2, 3), 3)),
    ("tensordot over three lists", lambda: tensor.tensordot(t(2), t(2), ([0], [0], [0]))),
    ("tensordot over text", lambda: tensor.tensordot(t(2), t(2), "ab")),
    ("axpy with text", lambda: tensor.axpy("a", t(2), t(2))),
    ("axpy into an array", lambda: tensor.axpy(1.0, t(2), np.ones(2))),
    ("axpy of unequal shapes", lambda: tensor.axpy(1.0, t(3), t(2))),
    ("a half into integers", lambda: tensor.axpy(0.5, Tensor(data=[1]), Tensor(data=[1]))),
    ("bernoulli above 1", lambda: tensor.bernoulli(1.5, t(2))),
    ("bernoulli of nan", lambda: tensor.bernoulli(math.nan, t(2))),
    ("gaussian with text", lambda: tensor.gaussian("a", 1, t(2))),
    ("gaussian of negative spread", lambda: tensor.gaussian(0, -1, t(2))),
    ("uniform into an array", lambda: tensor.uniform(0, 1, np.ones(2))),
    ("product of nothing", lambda: tensor.product(())),
    ("sizeof nonsense", lambda: tensor.sizeof("float33")),
    ("to_host of an array", lambda: tensor.to_host(np.ones(2))),
    ("from_numpy of text", lambda: tensor.from_numpy("a")),
    ("from_numpy of a ragged list", lambda: tensor.from_numpy([[1], [1, 2]])),
    ("from_numpy to a nonsense device", lambda: tensor.from_numpy([1], object())),
    ("zeros of a negative size", lambda: tensor.zeros((-1,))),
    ("zeros of nonsense", lambda: tensor.zeros(None)),
    ("copy text in", lambda: t(2).copy_from_numpy(np.array(["a", "b"]))),
    ("copy text data", lambda: t(2).copy_data("ab")),
    ("set to text", lambda: t(2).set_value("a")),
    ("set an integer to nan", lambda: Tensor((2,), dtype=sx.int32).set_value(math.nan)),
    ("set a small integer to a large one", lambda: Tensor((2,), dtype="uint8").set_value(256)),
    ("as_type of nonsense", lambda: t(2).as_type("text")),
    ("as_type of 64 bits", lambda: t(2).as_type("float64")),
    ("to_device nonsense", lambda: t(2).to_device(3)),
    ("index with a fraction", lambda: t(2)[1.5]),
    ("index with text in a slice", lambda: t(2)["a":"b"]),
    ("index with step 0", lambda: t(2)[::0]),
    ("index with floats", lambda: t(2)[np.ones(2)]),
    ("index with a mask of another shape", lambda: t(2)[np.ones(3, bool)]),
]


@pytest.mark.parametrize(("what", "call"), REFUSED, ids=[r[0] for r in REFUSED])
def test_refused(what: str, call: Callable[[], Any]) -> None:
    """Bad input gives one error of ours, which says something."""
    with pytest.raises(SingaxError) as caught:
        call()
    assert len(str(caught.value)) > 20
