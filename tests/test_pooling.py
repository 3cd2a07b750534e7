"""Pooling layers and operations, against loops, onnx.reference and finite differences."""

from __future__ import annotations

import copy
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import windows
from jax.test_util import check_grads
from models import images
from twins import normal, onnx_of

import singax as sx
from singax import ops

# One, two and three axes; sizes of x are (11), (9, 10), (5, 6, 4).
CASES: list[dict[str, Any]] = [
    {"kernel": (2, 2), "stride": (2, 2)},
    {"kernel": (3, 3), "stride": (2, 1), "padding": ((1, 1), (1, 1))},
    {"kernel": (3, 2), "stride": (2, 3), "padding": ((2, 0), (0, 1))},
    {"kernel": (1, 3)},
    {"kernel": (4, 3), "stride": (4, 3)},
    {"kernel": (5, 4), "stride": (2, 2), "padding": ((2, 1), (1, 3))},
    {"kernel": (3, 4), "stride": (2, 1), "dilation": (2, 3)},
    {"kernel": (2, 4), "stride": (2, 3), "padding": ((1, 0), (1, 1)), "ceil_mode": True},
    {"kernel": (4,)},
    {"kernel": (3,), "stride": (2,), "padding": ((1, 1),), "ceil_mode": True},
    {"kernel": (2, 3, 2)},
    {"kernel": (4, 2, 3), "stride": (1, 2, 2), "padding": ((1, 0), (0, 1), (1, 1))},
]


def sizes(case: dict[str, Any]) -> tuple[int, ...]:
    return {1: (11,), 2: (9, 10), 3: (5, 6, 4)}[len(case["kernel"])]


@pytest.mark.parametrize("case", CASES)
def test_values(case: dict[str, Any]) -> None:
    x = normal(2, 3, *sizes(case))
    largest, mean, norm = jax.jit(
        lambda x: (ops.max_pool(x, **case), ops.avg_pool(x, **case), ops.lp_pool(x, p=3, **case))
    )(x)
    np.testing.assert_array_equal(largest, windows.pool(np.nanmax, x, **case))
    np.testing.assert_allclose(mean, windows.pool(np.nanmean, x, **case), atol=1e-5)
    np.testing.assert_allclose(norm, windows.pool(windows.p_norm(3), x, **case), rtol=1e-5)
    np.testing.assert_array_equal(largest, onnx_of(ops.max_pool, [x], **case))
    np.testing.assert_allclose(mean, onnx_of(ops.avg_pool, [x], **case), atol=1e-5)
    if not case.get("ceil_mode"):  # the reference counts what lies beyond the padding
        np.testing.assert_allclose(norm, onnx_of(ops.lp_pool, [x], p=3, **case), rtol=1e-5)


@pytest.mark.parametrize("case", [case for case in CASES if "padding" in case])
def test_padding_that_counts(case: dict[str, Any]) -> None:
    x = normal(2, 3, *sizes(case))
    mean = ops.avg_pool(x, count_include_pad=True, **case)
    np.testing.assert_allclose(mean, windows.mean_with_padding(x, **case), atol=1e-5)
    np.testing.assert_allclose(mean, onnx_of(ops.avg_pool, [x], count_include_pad=True, **case), atol=1e-5)


@pytest.mark.parametrize("p", [1, 2, 3])
def test_p_norms(p: int) -> None:
    x = normal(2, 3, 4, 5)
    expected = (np.abs(np.asarray(x, np.float64)) ** p).sum((2, 3), keepdims=True) ** (1 / p)
    np.testing.assert_allclose(ops.global_lp_pool(x, p=p), expected, rtol=1e-5)
    y = ops.lp_pool(x, p=p, kernel=(2, 2))
    np.testing.assert_allclose(y, windows.pool(windows.p_norm(p), x, kernel=(2, 2)), rtol=1e-5)
    zero = jnp.zeros((1, 1, 4))
    for pool in (lambda x: ops.lp_pool(x, p=p, kernel=(2,)), lambda x: ops.global_lp_pool(x, p=p)):
        check_grads(pool, (x[0] + 3,), order=1, atol=1e-2, rtol=1e-2)
        np.testing.assert_array_equal(jax.grad(lambda x, pool=pool: pool(x).sum())(zero), zero)
        assert jnp.isnan(pool(zero.at[0, 0, 0].set(jnp.nan))).any()


def test_the_last_window_of_a_short_input() -> None:
    x = jnp.arange(4.0).reshape(1, 1, 4)
    np.testing.assert_array_equal(ops.max_pool(x, kernel=(5,), ceil_mode=True), [[[3]]])
    np.testing.assert_array_equal(ops.avg_pool(x, kernel=(3,), stride=(3,), ceil_mode=True), [[[1, 3]]])


def test_what_lacks_for_the_last_window_lacks_at_the_end() -> None:
    x, case = normal(1, 1, 10), {"kernel": (5,), "stride": (3,), "padding": ((1, 1),), "ceil_mode": True}
    mean = ops.avg_pool(x, **case)  # onnx.reference moves the windows by half of what lacks, and for AveragePool only
    np.testing.assert_allclose(mean, windows.pool(np.nanmean, x, **case), atol=1e-5)
    np.testing.assert_array_equal(ops.max_pool(x, **case), onnx_of(ops.max_pool, [x], **case))


ADAPTIVE = [((11,), (4,)), ((6, 9), (3, 3)), ((7, 5), (3, 8)), ((5, 4), (1, 1)), ((3, 5, 4), (2, 3, 4))]


@pytest.mark.parametrize(("given", "wanted"), ADAPTIVE)
def test_adaptive(given: Any, wanted: Any) -> None:
    x = normal(2, 3, *given)
    for pool, reduce in ((ops.adaptive_avg_pool, np.mean), (ops.adaptive_max_pool, np.max)):
        expected = windows.adaptive(reduce, x, wanted)
        np.testing.assert_allclose(pool(x, output_size=wanted), expected, atol=1e-6)
        half = pool(x.astype(jnp.bfloat16), output_size=wanted)
        assert half.dtype == jnp.bfloat16
        np.testing.assert_allclose(half.astype(jnp.float32), expected, atol=0.02)
    check_grads(lambda x: ops.adaptive_avg_pool(x, output_size=wanted), (x,), order=1, atol=1e-2, rtol=1e-2)


def test_adaptive_layers() -> None:
    x = normal(1, 2, 6, 5)
    t = sx.Tensor(data=np.asarray(x))
    assert sx.layer.AdaptiveAvgPool(3)(t).shape == (1, 2, 3, 3)
    assert sx.layer.AdaptiveAvgPool2d((None, 1))(t).shape == (1, 2, 6, 1)
    assert sx.layer.AdaptiveMaxPool([2, 2]).infer_shape((None, 2, None, 5)) == (None, 2, 2, 2)
    assert sx.layer.AdaptiveAvgPool1d(2).infer_shape((None, 2, 5)) == (None, 2, 2)
    with ops.capturing():
        jaxpr = jax.make_jaxpr(lambda x: ops.adaptive_avg_pool(x, output_size=(3, 5)))(x)
    assert jaxpr.eqns[0].params["operation"] is ops.avg_pool
    for wanted in (0, True, "2", (2, -1), 1.5):
        with pytest.raises(sx.errors.ArgumentError, match="output_size must be an integer from 1 up, None, or"):
            sx.layer.AdaptiveAvgPool(wanted)
    with pytest.raises(sx.errors.ShapeError, match="an output size for each of 2 axes"):
        sx.layer.AdaptiveAvgPool((1, 2, 3))(t)


@pytest.mark.parametrize(
    ("layer", "reduce"),
    [
        (sx.layer.MaxPool1d(3, 2, 1), np.nanmax),
        (sx.layer.AvgPool1d(2, 2, (0, 1)), np.nanmean),
        (sx.layer.LpPool1d(3, 2, 2, pad_mode="SAME_LOWER"), windows.p_norm(2)),
    ],
)
def test_one_axis_takes_sequences_and_rows_of_images(layer: Any, reduce: Any) -> None:
    x = np.asarray(normal(2, 3, 9))
    padding = {"max_pool": (1, 1), "avg_pool": (0, 1), "lp_pool": (1, 1)}[layer.operation.name]
    expected = windows.pool(reduce, x, kernel=layer.window.kernel, stride=(2,), padding=(padding,))
    np.testing.assert_allclose(layer(sx.Tensor(data=x)).to_numpy(), expected, atol=1e-5)
    rows = layer(sx.Tensor(data=x[:, :, None])).to_numpy()  # SINGA's (N, C, 1, W)
    np.testing.assert_allclose(rows, expected[:, :, None], atol=1e-5)
    two = layer(sx.Tensor(data=np.stack([x, -x], 2))).to_numpy()
    np.testing.assert_allclose(two[:, :, 0], expected, atol=1e-5)
    assert layer.infer_shape((None, 3, 1, 9)) == (None, *rows.shape[1:])


@pytest.mark.parametrize("case", CASES)
def test_gradients(case: dict[str, Any]) -> None:
    shape = sizes(case)
    order = np.random.default_rng(0).permutation(math.prod(shape)) + 1
    x = jnp.asarray(order.reshape(1, 1, *shape) / 10, jnp.float32)
    call = jax.jit(lambda x: (ops.max_pool(x, **case), ops.avg_pool(x, **case), ops.lp_pool(x, **case)))
    check_grads(call, (x,), order=1, atol=1e-2, rtol=1e-2, eps=1e-2)


@pytest.mark.parametrize("case", [CASES[0], CASES[1], CASES[5]])
def test_the_first_of_equal_values_gets_the_gradient(case: dict[str, Any]) -> None:
    gradient = jax.grad(lambda x: ops.max_pool(x, **case).sum())(jnp.zeros((1, 1, 6, 6)))
    windows = ops.max_pool(jnp.zeros((1, 1, 6, 6)), **case).size
    assert float(gradient.sum()) == windows
    np.testing.assert_array_equal(gradient, jnp.round(gradient))
    if case is CASES[0]:
        np.testing.assert_array_equal(gradient[0, 0, :2, :2], [[1, 0], [0, 0]])


@pytest.mark.parametrize("position", [0, 1, 2, 3])
def test_nan_is_passed_on(position: int) -> None:
    x = jnp.arange(4.0).at[position].set(jnp.nan).reshape(1, 1, 2, 2)
    assert jnp.isnan(ops.max_pool(x, kernel=(2, 2))).all()


def test_small_windows_need_no_select_and_scatter() -> None:
    for case in [*CASES[:5], CASES[6], *CASES[8:11]]:
        x = normal(1, 1, *sizes(case))
        gradient = jax.make_jaxpr(jax.grad(lambda x, case=case: ops.max_pool(x, **case).sum()))(x)
        assert "select_and" not in str(gradient)
        assert "reduce_window" not in str(gradient)


def test_twin_attributes_have_defaults() -> None:
    assert ops.max_pool.twin.convert({"kernel": (2, 3)}) == {"kernel_shape": [2, 3], "strides": [2, 3]}
    given = {"kernel": (2,), "stride": (1,), "dilation": (3,), "ceil_mode": True, "count_include_pad": False, "p": 3}
    expected = {"kernel_shape": [2], "strides": [1], "dilations": [3], "ceil_mode": 1, "p": 3}
    assert ops.lp_pool.twin.convert(given) == expected
    assert ops.avg_pool.twin.convert({"kernel": (2, 3), "padding": ((1, 0), (0, 2))})["pads"] == [1, 0, 0, 2]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision(dtype: str) -> None:
    x = jnp.asarray(normal(1, 1, 8, 8) + 10, dtype)
    for case in (CASES[0], CASES[1]):
        for pool, reduce in ((ops.max_pool, np.nanmax), (ops.avg_pool, np.nanmean)):
            y = pool(x, **case)
            assert y.dtype == x.dtype
            expected = windows.pool(reduce, np.asarray(x, np.float32), **case)
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
        (sx.layer.MaxPool2d(3, 3, ceil_mode=True, dilation=1), (4, 2, 3, 3)),
        (sx.layer.LpPool2d(2, 3, dilation=3), (4, 2, 3, 3)),
        (sx.layer.GlobalAvgPool2d(), (4, 2, 1, 1)),
        (sx.layer.GlobalLpPool(), (4, 2, 1, 1)),
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
    np.testing.assert_allclose(upper, windows.pool(np.nanmean, x, **same), atol=1e-5)
    same["padding"] = ((1, 0), (1, 0))
    np.testing.assert_allclose(lower, windows.pool(np.nanmean, x, **same), atol=1e-5)
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
    with pytest.raises(sx.errors.ArgumentError, match=r"smaller than the kernel \(2, 2\),.* Received: \(\(2, 2\)"):
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
    with pytest.raises(sx.errors.ShapeError, match=r"max_pool expected an input \(N, C, W\)"):
        sx.layer.MaxPool1d(2).infer_shape((2, 8))
    with pytest.raises(sx.errors.ArgumentError, match="each window covers a value"):
        ops.max_pool(normal(1, 1, 1), kernel=(2,), stride=(1,), dilation=(3,), padding=((2, 2),))
    with pytest.raises(sx.errors.ArgumentError, match=r"lp_pool expected an integer p of 1 or more\. Received: 0"):
        sx.layer.LpPool2d(2, 0).infer_shape((1, 1, 4, 4))
    with pytest.raises(sx.errors.ArgumentError, match="goes only with a mean"):
        sx.layer.Pooling2d(2, count_include_pad=True)
    with pytest.raises(sx.errors.ArgumentError, match="output_size of 1 or more"):
        ops.adaptive_max_pool(normal(1, 1, 4), output_size=(0,))


def test_copies_share_the_operation() -> None:
    for layer in (sx.layer.LpPool1d(2), sx.layer.AvgPool2d(2), sx.layer.Conv1d(2, 2)):
        assert copy.deepcopy(layer).operation is layer.operation
