"""Pooling layers and operations, against loops, onnx.reference and finite differences."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads
from models import images
from twins import normal, onnx_of

import singax as sx
from singax import ops
from singax.ops.window import NO_PADDING, output_size


def naive(x: Any, kernel: Any, stride: Any, padding: Any, reduce: Any) -> np.ndarray:
    """Pooling as loops: padding is nan, and `reduce` leaves nan out."""
    x = np.asarray(x)
    rows, columns = output_size(x.shape[2:], kernel, stride, padding)
    x = np.pad(x, ((0, 0), (0, 0), *padding), constant_values=np.nan)
    y = np.zeros((*x.shape[:2], rows, columns), np.float32)
    for i, j in np.ndindex(rows, columns):
        top, left = i * stride[0], j * stride[1]
        y[:, :, i, j] = reduce(x[:, :, top : top + kernel[0], left : left + kernel[1]], axis=(2, 3))
    return y


CASES = [
    {"kernel": (2, 2), "stride": (2, 2), "padding": NO_PADDING},
    {"kernel": (3, 3), "stride": (2, 1), "padding": ((1, 1), (1, 1))},
    {"kernel": (3, 2), "stride": (2, 3), "padding": ((2, 0), (0, 1))},
    {"kernel": (1, 3), "stride": (1, 3), "padding": NO_PADDING},
    {"kernel": (4, 3), "stride": (4, 3), "padding": NO_PADDING},
    {"kernel": (5, 4), "stride": (2, 2), "padding": ((2, 1), (1, 3))},
]


@pytest.mark.parametrize("case", CASES)
def test_values(case: dict[str, Any]) -> None:
    x = normal(2, 3, 9, 10)
    largest = jax.jit(lambda x: ops.max_pool2d(x, **case))(x)
    mean = jax.jit(lambda x: ops.avg_pool2d(x, **case))(x)
    np.testing.assert_array_equal(largest, naive(x, reduce=np.nanmax, **case))
    np.testing.assert_allclose(mean, naive(x, reduce=np.nanmean, **case), atol=1e-5)
    np.testing.assert_array_equal(largest, onnx_of(ops.max_pool2d, [x], **case))
    np.testing.assert_allclose(mean, onnx_of(ops.avg_pool2d, [x], **case), atol=1e-5)


@pytest.mark.parametrize("case", CASES)
def test_gradients(case: dict[str, Any]) -> None:
    x = jnp.asarray(np.random.default_rng(0).permutation(90).reshape(1, 1, 9, 10) / 10, jnp.float32)
    for pool in (ops.max_pool2d, ops.avg_pool2d):
        call = jax.jit(lambda x, pool=pool: pool(x, **case))
        check_grads(call, (x,), order=1, atol=1e-2, rtol=1e-2, eps=1e-2)


@pytest.mark.parametrize("case", [CASES[0], CASES[1], CASES[5]])
def test_the_first_of_equal_values_gets_the_gradient(case: dict[str, Any]) -> None:
    gradient = jax.grad(lambda x: ops.max_pool2d(x, **case).sum())(jnp.zeros((1, 1, 6, 6)))
    windows = ops.max_pool2d(jnp.zeros((1, 1, 6, 6)), **case).size
    assert float(gradient.sum()) == windows
    np.testing.assert_array_equal(gradient, jnp.round(gradient))
    if case is CASES[0]:
        np.testing.assert_array_equal(gradient[0, 0, :2, :2], [[1, 0], [0, 0]])


@pytest.mark.parametrize("position", [0, 1, 2, 3])
def test_nan_is_passed_on(position: int) -> None:
    x = jnp.arange(4.0).at[position].set(jnp.nan).reshape(1, 1, 2, 2)
    assert jnp.isnan(ops.max_pool2d(x, kernel=(2, 2))).all()


def test_small_windows_need_no_select_and_scatter() -> None:
    for case in CASES[:5]:
        gradient = jax.make_jaxpr(jax.grad(lambda x, case=case: ops.max_pool2d(x, **case).sum()))(normal(1, 1, 9, 10))
        assert "select_and" not in str(gradient)
        assert "reduce_window" not in str(gradient)


def test_twin_attributes_have_defaults() -> None:
    expected = {"kernel_shape": [2, 3], "strides": [2, 3], "pads": [0, 0, 0, 0]}
    assert ops.max_pool2d.twin.convert({"kernel": (2, 3)}) == expected
    assert ops.avg_pool2d.twin.convert({"kernel": (2, 3), "padding": ((1, 0), (0, 2))})["pads"] == [1, 0, 0, 2]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision(dtype: str) -> None:
    x = jnp.asarray(normal(1, 1, 8, 8) + 10, dtype)
    for case in (CASES[0], CASES[1]):
        for pool, reduce in ((ops.max_pool2d, np.nanmax), (ops.avg_pool2d, np.nanmean)):
            y = pool(x, **case)
            assert y.dtype == x.dtype
            expected = naive(np.asarray(x, np.float32), reduce=reduce, **case)
            np.testing.assert_array_equal(y, jnp.asarray(expected, dtype))


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (sx.layer.MaxPool2d(2), (4, 2, 4, 4)),
        (sx.layer.MaxPool2d(3), (4, 2, 2, 2)),
        (sx.layer.MaxPool2d(2, 2, padding=0), (4, 2, 4, 4)),
        (sx.layer.MaxPool2d((8, 1)), (4, 2, 1, 8)),
        (sx.layer.AvgPool2d([3, 2], [2, 1], [1, 0]), (4, 2, 4, 7)),
        (sx.layer.AvgPool2d(3, 3, (0, 1, 2, 0)), (4, 2, 3, 3)),
        (sx.layer.Pooling2d(3, 1, 1, False), (4, 2, 8, 8)),
        (sx.layer.Pooling2d(3, 3, None, pad_mode="SAME_LOWER"), (4, 2, 3, 3)),
        (sx.layer.GlobalAvgPool2d(), (4, 2, 1, 1)),
        (sx.layer.GlobalMaxPool2d(), (4, 2, 1, 1)),
    ],
)
def test_inferred_shape_is_the_real_one(layer: sx.layer.Layer, shape: tuple[int, ...]) -> None:
    assert layer.infer_shape((4, 2, 8, 8)) == shape
    assert layer(sx.Tensor(data=images()[0])).shape == shape


def test_layers_call_their_operation() -> None:
    x = images()[0]
    t = sx.Tensor(data=x)
    same = {"kernel": (3, 3), "stride": (2, 2), "padding": ((0, 1), (0, 1))}
    upper, lower = (sx.layer.AvgPool2d(3, 2, pad_mode=f"SAME_{side}")(t).to_numpy() for side in ("UPPER", "LOWER"))
    np.testing.assert_allclose(upper, naive(x, reduce=np.nanmean, **same), atol=1e-5)
    same["padding"] = ((1, 0), (1, 0))
    np.testing.assert_allclose(lower, naive(x, reduce=np.nanmean, **same), atol=1e-5)
    np.testing.assert_allclose(sx.layer.GlobalAvgPool2d()(t).to_numpy(), x.mean((2, 3), keepdims=True), atol=1e-6)
    np.testing.assert_array_equal(sx.layer.GlobalMaxPool2d()(t).to_numpy(), x.max((2, 3), keepdims=True))
    assert sx.layer.GlobalAveragePool is sx.layer.GlobalAvgPool2d


def test_global_pools_take_other_ranks_and_match_their_twins() -> None:
    images, sequences = normal(2, 3, 4, 5), normal(2, 3, 4)
    for pool, reduce in ((ops.global_average_pool, np.mean), (ops.global_max_pool, np.max)):
        np.testing.assert_allclose(pool(images), onnx_of(pool, [images]), atol=1e-6)
        np.testing.assert_allclose(pool(sequences)[..., 0], reduce(np.asarray(sequences), axis=2), atol=1e-6)
        check_grads(pool, (sequences,), order=1, atol=1e-2, rtol=1e-2)


def test_functional_names() -> None:
    x = images()[0]
    t = sx.Tensor(data=x)
    first = sx.autograd.globalaveragepool(t).to_numpy()
    last = sx.autograd.globalaveragepool(sx.Tensor(data=x.transpose(0, 2, 3, 1)), "channels_last").to_numpy()
    assert (first.shape, last.shape) == ((4, 2, 1, 1), (4, 1, 1, 2))
    np.testing.assert_allclose(first.ravel(), last.ravel(), atol=1e-6)
    with pytest.raises(sx.errors.ArgumentError, match="Received: 'NHWC'"):
        sx.autograd.globalaveragepool(t, "NHWC")
    assert sx.autograd.max_pool2d(t, kernel=(2, 2)).shape == (4, 2, 4, 4)


def test_gradient_is_recorded() -> None:
    sx.autograd.training = True
    t = sx.Tensor(data=images()[0], requires_grad=True)
    y = sx.layer.AvgPool2d(4)(t)
    dx = y.creator.backward(np.ones(y.shape, np.float32))
    np.testing.assert_allclose(np.asarray(dx), np.full(t.shape, 1 / 16), atol=1e-6)


def test_refused() -> None:
    with pytest.raises(sx.errors.ArgumentError, match=r"kernel_size must be .* Received: \(2, 2, 2\)"):
        sx.layer.MaxPool2d((2, 2, 2))
    with pytest.raises(sx.errors.ArgumentError, match="None goes only with pad_mode SAME_UPPER"):
        sx.layer.MaxPool2d(2, 2, None)
    with pytest.raises(sx.errors.ArgumentError, match=r"smaller than the kernel \(2, 2\). Received: \(\(2, 2\)"):
        sx.layer.MaxPool2d(2, 2, 2).infer_shape((1, 1, 8, 8))
    for layer in (sx.layer.MaxPool2d(4), sx.layer.AvgPool2d(4)):
        with pytest.raises(sx.errors.ShapeError, match=r"at least \(4, 4\) after padding.* Received: \(3, 8\)"):
            layer.infer_shape((1, 1, 3, 8))
        with pytest.raises(sx.errors.ShapeError, match=r"\(N, C, H, W\). Received shape \(8, 8\)"):
            layer.infer_shape((8, 8))
        with pytest.raises(sx.errors.DTypeError, match="Received dtype int32"):
            layer.infer_shape(sx.Placeholder((1, 1, 8, 8), dtype=sx.int32))
    with pytest.raises(sx.errors.ShapeError, match=r"\(N, C, …\).* Received shape \(8, 8\)"):
        sx.layer.GlobalMaxPool2d().infer_shape((8, 8))
