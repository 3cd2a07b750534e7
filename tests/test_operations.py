"""What the rows of operations do not say: twins, dtypes, ties and ends, the tape, and messages."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from catalogue import Row
from jax.test_util import check_grads
from rows import elementwise, shape_ops
from subjects import assert_close, drawn, is_spec
from twins import normal, onnx_of

import singax as sx
from singax import autograd, ops
from singax.errors import ArgumentError, DTypeError, ShapeError

X = normal(3, 4)
Y = normal(3, 4, seed=1)
IMAGES = normal(2, 8, 4, 6)
HALVES = jnp.asarray([-2.5, -1.5, -0.5, -0.2, 0.49999997, 0.5, 1.5, 2.5, 3.3], jnp.float32)
BITS = jnp.asarray([[0, 1, 1], [1, 0, 2]], jnp.float32)

ROWS = [row for row in [*elementwise.ROWS, *shape_ops.ROWS] if isinstance(row.make(), ops.Operation)]
# ONNX has these with other dtypes: its logic takes booleans.
TWINS = [row for row in ROWS if row.make().twin.op_type and row.note != "of integers"]


@pytest.mark.parametrize("row", TWINS, ids=str)
def test_twins(row: Row) -> None:
    """The ONNX operator computes the same."""
    operation, inputs = row.make(), drawn(row.inputs)
    ours = jax.tree.leaves(jax.jit(functools.partial(operation, **row.attributes))(*inputs))
    constants = [np.zeros(0, np.float32) if c is None else c for c in operation.twin.constant_inputs(row.attributes)]
    theirs = onnx_of(operation, [*jax.tree.leaves(inputs), *constants], len(ours), **row.attributes)
    assert_close(ours[0], theirs, 1e-5, 1e-5)


TO_FLOATS = {
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "celu", "cos", "cosh", "cossim", "div", "elu", "erf", "exp",
    "gelu", "hardsigmoid", "hardswish", "leakyrelu", "log", "log_softmax", "mean", "mish", "reciprocal", "reduce_mean",
    "selu", "shrink", "sigmoid", "sin", "sinh", "softmax", "softplus", "softsign", "sqrt", "tan", "tanh",
    "thresholded_relu",
}  # fmt: skip
WIDENED = {"cumsum": "int8 uint8", "reduce_prod": "", "reduce_sum": ""}  # which keep their dtype; booleans are counted
FIXED = {"argmax": "int32", "argmin": "int32", "logical_and": "float32", "logical_not": "float32", "cast": "",
         "logical_or": "float32", "logical_xor": "float32", "onehot": "float32", "shape": "int32"}  # fmt: skip
NO_BOOLEANS = {"negative", "sign", "sub"}  # nor has NumPy
OTHERS = {"cast", "gather", "gemm", "integer_div", "lookup", "scatter_elements", "take"}  # see test_integers
COUNTED = {"clip", "floordiv", "fmod", "integer_mod", "pow", "relu", *WIDENED}


def _expected(name: str, dtype: str) -> str | None:
    """The dtype of a result for inputs of `dtype`; None: refused."""
    whole = jnp.issubdtype(dtype, jnp.integer)
    if name in FIXED:
        return FIXED[name]
    if name in TO_FLOATS:
        return "float32" if whole or dtype == "bool" else dtype
    if name in WIDENED and whole and dtype not in WIDENED[name]:
        return {"int8": "int32", "uint8": "uint32"}.get(dtype, dtype)
    if dtype == "bool" and name in NO_BOOLEANS:
        return None
    if dtype == "bool" and name in COUNTED:
        return "int32"
    return "float32" if dtype == "bool" and any(part in name for part in ("less", "greater", "equal")) else dtype


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int32", "int8", "uint8", "bool"])
def test_dtypes(dtype: str) -> None:
    """Narrow floats stay as they are; integers and booleans work where NumPy's do, with NumPy's kind of result."""
    for row in ROWS:
        name = row.make().name
        if (
            name in ("gather", "gemm", "integer_div", "lookup", "take", "scatter_elements", "cast")
            or row.note == "ends that cross"
        ):
            continue

        def of_dtype(spec: Any, name: str = name) -> Any:
            return jax.ShapeDtypeStruct(spec.shape, spec.dtype if name == "where" and spec.dtype == "bool" else dtype)

        inputs = jax.tree.map(of_dtype, list(row.inputs), is_leaf=is_spec)
        call = functools.partial(row.make(), **row.attributes)
        wanted = _expected(name, dtype)
        if wanted is None:
            with pytest.raises(DTypeError, match=name):
                jax.eval_shape(call, *inputs)
        elif not (name == "clip" and dtype not in ("float16", "bfloat16")):  # limits of floats make floats of integers
            assert jax.tree.leaves(jax.eval_shape(call, *inputs))[0].dtype == wanted, (name, dtype)


def test_integers() -> None:
    whole = jnp.arange(6).reshape(2, 3)
    for value in (
        ops.gather(whole, whole % 2),
        ops.clip(whole, min=1, max=3),
        ops.scatter_elements(whole, whole % 2, whole + 1.5),
        ops.embedding(jnp.asarray([1.0]), whole),
        autograd.clip(sx.Tensor(data=np.asarray(whole, np.int32)), 1.0, 3.0),
    ):
        assert value.dtype == jnp.int32
    assert autograd.clip(sx.Tensor(data=X), 0, 1).dtype == jnp.float32
    small = jnp.asarray([0, 3, 255], jnp.uint8)
    assert ops.clip(small, min=-1, max=300).tolist() == [0, 3, 255]
    assert ops.clip(small, max=4).dtype == jnp.uint8
    assert ops.exp(jnp.asarray([True, False])).tolist() == pytest.approx([np.e, 1])
    assert ops.topk(jnp.asarray([-128, 127, 0], jnp.int8), k=2, largest=False)[0].tolist() == [-128, 0]
    np.testing.assert_array_equal(ops.gather(X, jnp.asarray([4, 9.0]), axis=1), X[:, [0, 1]])


def test_steps_have_gradient_zero() -> None:
    for operation in (ops.sign, ops.ceil, ops.floor, ops.round, ops.rounde):
        np.testing.assert_array_equal(jax.grad(lambda x, f=operation: f(x).sum())(HALVES), np.zeros(9))
        assert operation(jnp.asarray([2, -3])).tolist() == ([1, -1] if operation is ops.sign else [2, -3])
    assert ops.round(HALVES).tolist() == [-3, -2, -1, 0, 0, 1, 2, 3, 3]
    np.testing.assert_array_equal(ops.rounde(HALVES), np.round(HALVES))


def test_remainders_have_the_sign_of_python() -> None:
    a, b = np.meshgrid([5.5, -5.5, 4.0, -4.0, 0.0], [2.0, -2.0, np.inf])
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(ops.mod(a, b), np.mod(a, b).astype(np.float32))
    assert ops.mod(jnp.asarray([5, -5]), -3).tolist() == [-1, -2]
    assert ops.fmod(jnp.asarray([5, -5]), -3).tolist() == [2, -2]
    with ops.capturing():
        jaxpr = jax.make_jaxpr(ops.mod)(jnp.asarray([5]), 3)
    assert jaxpr.eqns[-1].params["operation"].twin.op_type == "Mod"


def test_masks_are_taken_where_their_values_are_known() -> None:
    mask = np.array([True, False, True])
    np.testing.assert_array_equal(ops.take(X, mask), np.asarray(X)[mask])
    with pytest.raises(ShapeError, match=r"take expected a mask whose values are known.* shape \(3,\)"):
        jax.jit(ops.take)(X, mask)


def test_cast_passes_gradients_between_floats() -> None:
    gradient = jax.grad(lambda x: ops.cast(x, to="bfloat16").astype(jnp.float32).sum())(X)
    np.testing.assert_array_equal(gradient, np.ones((3, 4)))


def test_reshape_of_nothing() -> None:
    empty = jnp.zeros((3, 0))
    assert ops.reshape(empty, shape=(0, 5), allowzero=True).shape == (0, 5)
    assert ops.reshape(empty, shape=(0, 0)).shape == (3, 0)
    assert ops.reshape.twin.convert({"shape": (0, 5), "allowzero": True}) == {"allowzero": 1}
    assert ops.space_to_depth_crd(jnp.zeros((2, 3, 4, 0)), blocksize=2).shape == (2, 12, 2, 0)
    assert autograd.softmax(jnp.zeros((2, 0, 3))).shape == (2, 0, 3)


def test_cossim_and_losses() -> None:
    x, y = np.asarray(X), np.asarray(Y)
    np.testing.assert_allclose(ops.cossim(X * 1e25, Y * 1e-25), ops.cossim(X, Y), rtol=1e-5)
    assert jnp.isfinite(jax.grad(lambda x: ops.cossim(x, Y).sum())(X.at[0].set(0))).all()

    p, t = jax.nn.softmax(X), jnp.eye(4)[jnp.asarray([1, 0, 3])]
    expected = -(np.asarray(t) * np.log(np.asarray(p))).sum() / 3
    np.testing.assert_allclose(ops.cross_entropy(p, t), [expected], rtol=1e-5)
    check_grads(lambda p: ops.cross_entropy(p, t), (p,), order=1, modes=["rev"], atol=1e-2, rtol=1e-2, eps=1e-3)
    sure = ops.cross_entropy(t, t.astype(jnp.int32))
    assert sure.tolist() == [0.0]
    assert jnp.isfinite(jax.grad(lambda p: ops.cross_entropy(p, t)[0])(t)).all()

    loss = ops.ranking_loss(X, Y, M=0.3)
    np.testing.assert_allclose(loss, [np.maximum(0, 0.3 - x + y).mean()], rtol=1e-5)
    check_grads(ops.ranking_loss, (X, Y), order=1, modes=["rev"], atol=1e-2, rtol=1e-2)


def test_add_bias_is_made_of_operations_with_twins() -> None:
    with ops.capturing():
        jaxpr = jax.make_jaxpr(lambda x, b: ops.add_bias(x, b, axis=1))(X, normal(3))
    assert [eqn.params["operation"].name for eqn in jaxpr.eqns] == ["reshape", "add"]


def test_space_to_depth_undoes_depth_to_space() -> None:
    for mode, back in (("DCR", ops.space_to_depth), ("CRD", ops.space_to_depth_crd)):
        np.testing.assert_array_equal(back(ops.depth_to_space(IMAGES, blocksize=2, mode=mode), blocksize=2), IMAGES)
        t = sx.Tensor(data=IMAGES)
        there = autograd.depth_to_space(t, 2, mode)
        np.testing.assert_array_equal(autograd.space_to_depth(there, 2, mode).to_numpy(), IMAGES)


def test_clip_passes_the_gradient_at_its_ends() -> None:
    gradient = jax.grad(lambda x: ops.clip(x, min=-1.0, max=1.0).sum())(jnp.asarray([-2.0, -1.0, 0.0, 1.0, 2.0]))
    assert gradient.tolist() == [0, 1, 1, 1, 0]
    assert jnp.isnan(ops.clip(jnp.asarray(jnp.nan), min=0.0))


def test_equal_extremes_share_the_gradient() -> None:
    for operation in (ops.min, ops.max):
        gradients = jax.grad(lambda x, y, f=operation: f(x, y).sum(), argnums=(0, 1))(X, X)
        np.testing.assert_array_equal(gradients[0] + gradients[1], np.ones((3, 4)))


def test_cast_to_every_dtype_and_its_onnx_number() -> None:
    for to in ("float32", "float16", "bfloat16", "int8", "uint8", "int32", "bool"):
        assert ops.cast(X, to=to).dtype == jnp.dtype(to)
        number = ops.cast.twin.convert({"to": to})["to"]
        assert number == getattr(onnx.TensorProto, to.upper().replace("FLOAT32", "FLOAT"))
    t = sx.Tensor(data=X)
    assert autograd.cast(t, 2).dtype == jnp.int32
    assert autograd.cast(t, sx.float16).dtype == jnp.float16
    with pytest.raises(ArgumentError, match="cast expected a dtype of 32 bits"):
        ops.cast(X, to="float64")
    with pytest.raises(DTypeError, match="unknown dtype 'nonsense'"):
        autograd.cast(t, "nonsense")


def test_constant_of_shape() -> None:
    made = autograd.constant_of_shape(sx.Tensor(data=np.array([2, 3], np.int32)), 1.5)
    assert made.dtype == jnp.float32
    np.testing.assert_array_equal(made.to_numpy(), np.full((2, 3), 1.5))
    with pytest.raises(ArgumentError, match=r"constant_of_shape expected integers .* Received: \[1\.5\]"):
        ops.constant_of_shape(jnp.asarray([1.5]))


RECORDED: list[tuple[Any, Any, Any]] = [
    (lambda x: autograd.reduce_sum(x, [1], 0), (3,), lambda g: np.broadcast_to(g[:, None], (3, 4))),
    (lambda x: autograd.reduce_sum(x, keepdims=0), (1, 1), lambda g: np.full((3, 4), g)),
    (lambda x: autograd.reduce_mean(x, None, 1), (1, 1), lambda g: np.full((3, 4), g / 12)),
    (lambda x: autograd.transpose(x, (1, 0)), (4, 3), lambda g: g.T),
    (lambda x: autograd.transpose(x, perm=(1, 0)), (4, 3), lambda g: g.T),
    (lambda x: autograd.reshape(x, [2, -1]), (2, 6), lambda g: g.reshape(3, 4)),
    (lambda x: autograd.reshape(x, shape=(6, 2)), (6, 2), lambda g: g.reshape(3, 4)),
    (lambda x: autograd.flatten(x, 0), (1, 12), lambda g: g.reshape(3, 4)),
    (lambda x: autograd.cat((x, x), 1), (3, 8), lambda g: g[:, :4] + g[:, 4:]),
    (lambda x: autograd.unsqueeze(x), (3, 4, 1), lambda g: g[..., 0]),
    (lambda x: autograd.unsqueeze(x, [0, 2]), (1, 3, 1, 4), lambda g: g[0, :, 0]),
    (lambda x: autograd.squeeze(autograd.unsqueeze(x, 0)), (3, 4), None),
    (lambda x: autograd.slice(x, [0, 1], [2, 3], [0, 1]), (2, 2), lambda g: np.pad(g, ((0, 1), (1, 1)))),
    (lambda x: autograd.tile(x, 2), (3, 8), lambda g: g[:, :4] + g[:, 4:]),
    (lambda x: autograd.tile(x, [2, 1, 1]), (2, 3, 4), lambda g: g.sum(0)),
    (lambda x: autograd.expand(x, [2, 3, 4]), (2, 3, 4), lambda g: g.sum(0)),
    (lambda x: autograd.expand(x, (6, 4)), (6, 4), lambda g: g[:3] + g[3:]),
    (lambda x: autograd.pad(x, "constant", [1, 0, 0, 2]), (4, 6), lambda g: g[1:, :4]),
    (lambda x: autograd.upsample(x, "nearest", [1.0, 2.0]), (3, 8), lambda g: g[:, ::2] + g[:, 1::2]),
    (lambda x: autograd.gather(x, 0, [1, 1]), (2, 4), lambda g: np.stack([0 * g[0], g[0] + g[1], 0 * g[0]])),
    (lambda x: autograd.where(x, x, [[0], [1], [0]]), (3, 4), lambda g: g),
    (lambda x: autograd.min(x, sx.Tensor(data=X - 1)), (3, 4), None),
    (lambda x: autograd.sum(x, x), (3, 4), lambda g: 2 * g),
    (lambda x: autograd.leakyrelu(x, 0.1), (3, 4), lambda g: np.where(np.asarray(X) > 0, g, 0.1 * g)),
    (lambda x: autograd.floor(x), (3, 4), lambda g: 0 * g),
    (lambda x: autograd.scatter_elements(x, [[0], [1]], [[5.0], [6.0]], 1), (3, 4), None),
    (lambda x: autograd.gemm(x, sx.Tensor(data=Y), None, 2.0, 1.0, 0, 1), (3, 3), None),
    (lambda x: autograd.add_bias(x, sx.Tensor(data=normal(3)), 1), (3, 4), None),
]


@pytest.mark.parametrize("index", range(len(RECORDED)))
def test_records(index: int) -> None:
    call, shape, expected = RECORDED[index]
    autograd.training = True
    x = sx.Tensor(data=X, requires_grad=True, stores_grad=True)
    y = call(x)
    assert y.shape == shape
    dy = normal(*shape, seed=5)
    ((_, gradient),) = autograd.backward(autograd.reduce_sum(autograd.mul(y, sx.Tensor(data=dy))))
    assert gradient.shape == (3, 4)
    if expected is not None:
        np.testing.assert_allclose(gradient.to_numpy(), expected(np.asarray(dy)), rtol=1e-5)


def test_creator_backward_as_singas_tests_use_it() -> None:
    autograd.training = True
    x, y = sx.Tensor(data=X), sx.Tensor(data=Y)
    dy = np.asarray(normal(3, 4, seed=2))
    z = autograd.max(x, y)
    dx, dz = z.creator.backward(dy)
    np.testing.assert_array_equal(dx, np.where(X > Y, dy, 0))
    np.testing.assert_array_equal(dz, np.where(X > Y, 0, dy))
    pieces = autograd.split(x, 1, [1, 3])
    assert isinstance(pieces, tuple)
    only_second = pieces[1].creator.backward(None, dy[:, 1:])
    np.testing.assert_array_equal(only_second, np.pad(dy[:, 1:], ((0, 0), (1, 0))))
    assert [p.shape for p in autograd.split(x, 1, None, 2)] == [(3, 2), (3, 2)]
    erf = autograd.erf(x).creator.backward(dy)
    np.testing.assert_allclose(erf, dy * 2 / np.sqrt(np.pi) * np.exp(-(np.asarray(X) ** 2)), rtol=1e-5)


def test_softmax_normalises_over_all_axes_from_its_axis_on() -> None:
    t = sx.Tensor(data=IMAGES)
    np.testing.assert_allclose(autograd.softmax(t).to_numpy().sum((1, 2, 3)), np.ones(2), rtol=1e-5)
    np.testing.assert_allclose(autograd.softmax(t, -1).to_numpy(), ops.softmax(IMAGES, axis=-1), rtol=1e-5)
    np.testing.assert_allclose(autograd.softmax(sx.Tensor(data=X), axis=0).to_numpy().sum(), 1, rtol=1e-5)
    with pytest.raises(ArgumentError, match="softmax expected an axis from -4 to 3"):
        autograd.softmax(t, 4)


def test_results_without_gradient() -> None:
    autograd.training = True
    x = sx.Tensor(data=BITS)
    assert autograd.nonzero(x).to_numpy().tolist() == [[0, 0, 1, 1], [1, 2, 0, 2]]
    assert autograd.shape(x).to_numpy().tolist() == [2, 3]
    hot = autograd.onehot(-1, sx.Tensor(data=np.array([1, 0], np.int32)), 2, [0.0, 1.0])
    assert hot.to_numpy().tolist() == [[0, 1], [1, 0]]
    assert autograd._and(x, x).dtype == jnp.float32
    assert not np.asarray(autograd._not(x).creator.backward(np.ones((2, 3), np.float32))).any()
    ones = sx.Tensor(data=np.ones((1, 1), np.float32))
    assert autograd.squeeze(ones).shape == (1, 1)
    assert autograd.squeeze(ones, [0]).shape == (1,)


def test_inside_a_compiled_step_and_a_layer() -> None:
    class Net(sx.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = sx.layer.Linear(4)

        def forward(self, x: Any) -> Any:
            first, second = autograd.split(self.fc(x), 1, [2, 2])
            y = autograd.where(autograd.elu(first), autograd.clip(second, 0.0), autograd.greater(first, second))
            return autograd.reduce_mean(y, [1], 0)

    model = Net()
    x = sx.Tensor(data=X)
    model.compile([x], is_train=False, use_graph=True)
    assert model(x).shape == (3,)


Wrong = tuple[Any, type[Exception], str]

WRONG: list[Wrong] = [
    (lambda: ops.squeeze(X, axes=(0,)), ShapeError, r"squeeze expected axes of size 1.* \(0,\) of shape \(3, 4\)"),
    (lambda: ops.reduce_sum(X, axes=(2,)), ShapeError, "reduce_sum expected an axis from -2 to 1. Received: 2"),
    (lambda: ops.reduce_mean(X, axes=(0, -2)), ShapeError, "reduce_mean expected different axes"),
    (lambda: ops.unsqueeze(X, axes=(4,)), ShapeError, "unsqueeze expected an axis from -3 to 2. Received: 4"),
    (lambda: ops.split(X, axis=1, parts=(1, 2)), ShapeError, r"split expected parts that add up to 4.*\(1, 2\)"),
    (lambda: ops.tile(X, repeats=(2,)), ShapeError, r"tile expected .* for each of 2 axes. Received: \(2,\)"),
    (lambda: ops.expand(X, shape=(5,)), ShapeError, r"expand expected a shape that \(3, 4\).* Received: \(5,\)"),
    (lambda: ops.pad(X, pads=(1, 1)), ShapeError, r"pad expected 4 pads.* Received: \(1, 1\)"),
    (lambda: ops.pad(X, mode="wrap", pads=(0,) * 4), ArgumentError, "pad expected mode among .* Received: 'wrap'"),
    (lambda: ops.upsample(X, mode="linear", scales=(1, 1)), ArgumentError, "upsample expected mode .*'linear'"),
    (lambda: ops.upsample(X, scales=(1,)), ShapeError, "upsample expected a scale for each of 2 axes"),
    (lambda: ops.depth_to_space(X, blocksize=2), ShapeError, r"depth_to_space expected images.* \(3, 4\)"),
    (lambda: ops.depth_to_space(IMAGES, blocksize=3), ShapeError, "depth_to_space expected channels divisible by 3"),
    (lambda: ops.space_to_depth(IMAGES, blocksize=4), ShapeError, "space_to_depth expected rows and columns"),
    (lambda: ops.slice(X, starts=(0,), ends=(1, 2)), ArgumentError, "slice expected starts, ends"),
    (lambda: ops.slice(X, starts=(0,), ends=(1,), steps=(0,)), ArgumentError, "steps other than 0"),
    (
        lambda: ops.gather(X, jnp.asarray([True])),
        DTypeError,
        "gather expected indices of integers. Received dtype bool",
    ),
    (lambda: ops.scatter_elements(X, X[:1], Y), ShapeError, r"scatter_elements expected .* \(1, 4\) and \(3, 4\)"),
    (lambda: ops.gemm(X, Y), ShapeError, r"gemm expected \(n, k\) and \(k, m\).* \(3, 4\) and \(3, 4\)"),
    (lambda: ops.gemm(X, Y.T, X), ShapeError, r"gemm expected .*\(3, 3\).* \(3, 4\)"),
    (lambda: ops.add_bias(X, X[0], axis=1), ShapeError, r"add_bias expected x \(n, m\) and b \(n,\) for axis 1"),
    (lambda: ops.max(X, IMAGES), ShapeError, r"max expected shapes that broadcast.* \(3, 4\), \(2, 8, 4, 6\)"),
    (lambda: ops.mean(), ArgumentError, "mean expected at least one array. Received none"),
    (lambda: ops.where(X, X, Y[:, :2]), ShapeError, "where expected shapes that broadcast together"),
    (lambda: ops.prelu(X[0], Y), ShapeError, r"prelu expected a slope that broadcasts to \(4,\)"),
    (lambda: ops.cossim(X, Y[:1]), ShapeError, r"cossim expected equal shapes. Received: \(3, 4\) and \(1, 4\)"),
    (lambda: ops.cross_entropy(X, Y[0]), ShapeError, "cross_entropy expected equal shapes"),
    (lambda: ops.ranking_loss(X, Y[0]), ShapeError, "ranking_loss expected equal shapes"),
    (lambda: ops.onehot(jnp.asarray([1]), depth=2, values=(1.0,)), ArgumentError, "onehot expected values"),  # type: ignore[arg-type]
    (lambda: ops.reshape(X, shape=(5, -1)), ShapeError, r"reshape expected a shape of 12 elements.* \(5, -1\)"),
    (lambda: ops.cat([X, X[:, :2]]), ShapeError, r"cat expected shapes .* axis 0. Received: \(3, 4\), \(3, 2\)"),
    (lambda: jax.jit(ops.nonzero)(X), ShapeError, r"nonzero expected an array whose values are known.* shape \(3, 4\)"),
    (lambda: autograd.tile(X, 1.5), ArgumentError, "tile expected integers as repeats. Received: 1.5"),
    (lambda: autograd.split(X, 1, None, 3), ShapeError, r"split expected an axis that divides .* 3. Received: 1"),
    (lambda: autograd.split(X, 1), ArgumentError, "split expected parts or num_output"),
    (lambda: autograd.transpose(X), ArgumentError, "transpose expected a permutation"),
    (lambda: autograd.elu(X, "a"), ArgumentError, "elu expected a number as alpha. Received: 'a'"),  # type: ignore[arg-type]
    (lambda: autograd.space_to_depth(X, 2, "RCD"), ArgumentError, "space_to_depth expected mode .* 'RCD'"),
]


@pytest.mark.parametrize("index", range(len(WRONG)))
def test_refused(index: int) -> None:
    call, kind, message = WRONG[index]
    with pytest.raises(kind, match=message):
        call()


def test_star_import_brings_the_names_only() -> None:
    from singax.autograd import functional

    names = functional.__all__
    assert len(names) == len(set(names))
    assert all(callable(getattr(functional, name)) and hasattr(autograd, name) for name in names)
    assert not {"np", "ops", "dispatch", "Any", "mode", "node", "annotations"} & set(names)
