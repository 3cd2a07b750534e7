"""Batch and layer normalisation, against formulas in NumPy, onnx.reference and finite differences."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads
from twins import normal, onnx_of

import singax as sx
from singax import ops

SHAPES = [(6, 3), (4, 3, 2, 5), (2, 3, 4)]


def normalised(x: Any, axes: tuple[int, ...], eps: float = 1e-5) -> np.ndarray:
    x = np.asarray(x, np.float64)
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


def per_channel(values: Any, x: Any) -> Any:
    return np.asarray(values).reshape(1, -1, *(1,) * (x.ndim - 2))


def batch_axes(x: Any) -> tuple[int, ...]:
    return (0, *range(2, x.ndim))


@pytest.mark.parametrize("shape", SHAPES)
def test_batch_norm_values(shape: tuple[int, ...]) -> None:
    x, scale, bias = normal(*shape) * 2 + 100, normal(3, seed=1), normal(3, seed=2)
    y, mean, var = jax.jit(ops.batch_norm)(x, scale, bias)
    axes = batch_axes(x)
    expected = normalised(x, axes) * per_channel(scale, x) + per_channel(bias, x)
    np.testing.assert_allclose(y, expected, atol=1e-4)
    np.testing.assert_allclose(mean, np.mean(x, axes), rtol=1e-5)
    np.testing.assert_allclose(var, np.var(x, axes), rtol=1e-4)


@pytest.mark.parametrize("shape", SHAPES)
def test_inference_matches_its_twin(shape: tuple[int, ...]) -> None:
    inputs = [normal(*shape), *(normal(3, seed=s) for s in (1, 2, 3)), jnp.square(normal(3, seed=4)) + 0.1]
    y = ops.batch_norm_inference(*inputs, eps=1e-3)
    np.testing.assert_allclose(y, onnx_of(ops.batch_norm_inference, inputs, eps=1e-3), atol=1e-5)
    assert ops.batch_norm_inference.twin.convert({}) == {"epsilon": 1e-5}


@pytest.mark.parametrize("shape", SHAPES)
def test_batch_norm_gradients(shape: tuple[int, ...]) -> None:
    arguments = normal(*shape), normal(3, seed=1), normal(3, seed=2)
    weights = normal(*shape, seed=3)
    check_grads(jax.jit(lambda *a: ops.batch_norm(*a)[0] * weights), arguments, order=1, atol=2e-2, rtol=2e-2)


@pytest.mark.parametrize("axis", [-1, 1, -2])
def test_layer_norm_values_and_gradients(axis: int) -> None:
    x = normal(4, 3, 5)
    scale, bias = normal(*x.shape[axis:], seed=1), normal(*x.shape[axis:], seed=2)
    y = jax.jit(lambda *a: ops.layer_norm(*a, axis=axis))(x, scale, bias)
    axes = tuple(range(axis % 3, 3))
    np.testing.assert_allclose(y, normalised(x, axes) * scale + bias, atol=1e-5)
    np.testing.assert_allclose(y, onnx_of(ops.layer_norm, [x, scale, bias], axis=axis), atol=1e-4)
    np.testing.assert_allclose(ops.layer_norm(x, scale, axis=axis), y - bias, atol=1e-5)
    check_grads(jax.jit(lambda *a: ops.layer_norm(*a, axis=axis)), (x, scale, bias), order=1, atol=2e-2, rtol=2e-2)


def test_rms_norm() -> None:
    x, scale = normal(4, 3, 5) + 1, normal(3, 5, seed=1)
    y = ops.rms_norm(x, scale, axis=1, eps=1e-3)
    wide = np.asarray(x, np.float64)
    expected = wide / np.sqrt((wide**2).mean((1, 2), keepdims=True) + 1e-3) * scale
    np.testing.assert_allclose(y, expected, atol=1e-5)
    np.testing.assert_allclose(y, onnx_of(ops.rms_norm, [x, scale], opset=23, axis=1, eps=1e-3), atol=1e-5)
    check_grads(jax.jit(lambda *a: ops.rms_norm(*a, axis=1)), (x, scale), order=1, atol=2e-2, rtol=2e-2)


@pytest.mark.parametrize("shape", [(3, 6), (2, 6, 4), (2, 6, 3, 2)])
@pytest.mark.parametrize("groups", [1, 3, 6])
def test_group_norm(shape: tuple[int, ...], groups: int) -> None:
    x, scale, bias = normal(*shape) + 10, normal(6, seed=1), normal(6, seed=2)
    if math.prod(shape[1:]) // groups == 1:
        return
    y = ops.group_norm(x, scale, bias, groups=groups, eps=1e-3)
    parts = np.split(np.asarray(x), groups, axis=1)
    standard = np.concatenate([normalised(part, tuple(range(1, x.ndim)), 1e-3) for part in parts], axis=1)
    np.testing.assert_allclose(y, standard * per_channel(scale, x) + per_channel(bias, x), atol=1e-4)
    if len(shape) > 2:
        twin = onnx_of(ops.group_norm, [x, scale, bias], opset=21, groups=groups, eps=1e-3)
        np.testing.assert_allclose(y, twin, atol=1e-4)
    weights = normal(*shape, seed=3)
    call = jax.jit(lambda *a: ops.group_norm(*a, groups=groups) * weights)
    check_grads(call, (x, scale, bias), order=1, atol=3e-2, rtol=3e-2)


@pytest.mark.parametrize("shape", [(2, 3, 7), (2, 3, 4, 2)])
def test_instance_norm(shape: tuple[int, ...]) -> None:
    x, scale, bias = normal(*shape) + 10, normal(3, seed=1), normal(3, seed=2)
    y = ops.instance_norm(x, scale, bias)
    axes = tuple(range(2, x.ndim))
    np.testing.assert_allclose(y, normalised(x, axes) * per_channel(scale, x) + per_channel(bias, x), atol=1e-4)
    np.testing.assert_allclose(y, onnx_of(ops.instance_norm, [x, scale, bias]), atol=1e-4)
    np.testing.assert_allclose(y, ops.group_norm(x, scale, bias, groups=3), atol=1e-4)
    weights = normal(*shape, seed=3)
    call = jax.jit(lambda *a: ops.instance_norm(*a) * weights)
    check_grads(call, (x, scale, bias), order=1, atol=3e-2, rtol=3e-2)


def test_without_scale_and_bias() -> None:
    x = np.asarray(normal(2, 4, 5))
    for layer, axes in ((sx.layer.InstanceNorm(affine=False), (2,)), (sx.layer.GroupNorm(1, affine=False), (1, 2))):
        np.testing.assert_allclose(layer(sx.Tensor(data=x)).to_numpy(), normalised(x, axes), atol=1e-4)
        assert layer.get_params() == {}


@pytest.mark.parametrize("momentum", [0.9, 0.1])
@pytest.mark.parametrize("shape", SHAPES)
def test_running_statistics(shape: tuple[int, ...], momentum: float) -> None:
    layer = sx.layer.BatchNorm(3, momentum=momentum)
    mean, var = np.zeros(3), np.ones(3)
    sx.autograd.training = True
    for seed in range(3):
        x = np.asarray(normal(*shape, seed=seed)) + seed
        y = layer(sx.Tensor(data=x)).to_numpy()
        np.testing.assert_allclose(y, normalised(x, batch_axes(x)), atol=1e-4)
        mean = (1 - momentum) * mean + momentum * x.mean(batch_axes(x))
        var = (1 - momentum) * var + momentum * x.var(batch_axes(x), ddof=1)
    np.testing.assert_allclose(layer.running_mean.to_numpy(), mean, rtol=1e-4)
    np.testing.assert_allclose(layer.running_var.to_numpy(), var, rtol=1e-4)
    sx.autograd.training = False
    y = layer(sx.Tensor(data=x)).to_numpy()
    expected = (x - per_channel(mean, x)) / np.sqrt(per_channel(var, x) + 1e-5)
    np.testing.assert_allclose(y, expected, atol=1e-4)
    np.testing.assert_allclose(layer.running_mean.to_numpy(), mean, rtol=1e-4)


def test_one_value_per_channel() -> None:
    layer = sx.layer.BatchNorm2d(momentum=0.5)
    sx.autograd.training = True
    y = layer(sx.Tensor(data=np.full((1, 3), 4.0, np.float32)))
    np.testing.assert_array_equal(y.to_numpy(), np.zeros((1, 3)))
    np.testing.assert_allclose(layer.running_mean.to_numpy(), np.full(3, 2.0))
    np.testing.assert_allclose(layer.running_var.to_numpy(), np.full(3, 0.5))


def test_parameters_states_and_legacy_forms() -> None:
    for arguments in ((), (3,), (3, 0.1), (99, 0.1)):
        layer = sx.layer.BatchNorm2d(*arguments)
        assert layer.momentum == 0.9  # as in SINGA, the positional momentum is replaced
        layer.initialize(sx.Placeholder((2, 3, 4, 4)))
        assert list(layer.get_params()) == ["scale", "bias"]
        assert {n: t.shape for n, t in layer.get_states().items()} == dict.fromkeys(
            ["scale", "bias", "running_mean", "running_var"], (3,)
        )
    values = [layer.get_states()[n].to_numpy()[0] for n in ("scale", "bias", "running_mean", "running_var")]
    assert values == [1, 0, 0, 1]
    assert sx.layer.BatchNorm2d(3, 0.1, momentum=0.2).momentum == 0.2


def test_gradient_reaches_input_and_parameters_but_no_state() -> None:
    sx.autograd.training = True
    layer = sx.layer.BatchNorm2d()
    x = sx.Tensor(data=np.asarray(normal(4, 3)), requires_grad=True)
    loss = sx.layer.MeanSquareError()(layer(x), sx.Tensor(data=np.asarray(normal(4, 3, seed=1))))
    assert {parameter.name for parameter, _ in sx.autograd.backward(loss)} == {"scale", "bias"}


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_statistics_are_float32(dtype: str) -> None:
    sx.autograd.training = True
    x = jnp.asarray(normal(512, 2) + 30, dtype)
    layer = sx.layer.BatchNorm2d(momentum=1.0)
    y = layer(sx.Tensor(data=x))
    assert (y.dtype, layer.scale.dtype) == (x.dtype, x.dtype)
    assert layer.running_mean.dtype == layer.running_var.dtype == jnp.float32
    np.testing.assert_allclose(layer.running_mean.to_numpy(), np.asarray(x, np.float64).mean(0), rtol=1e-5)
    np.testing.assert_allclose(y.to_numpy().astype(np.float32), normalised(x, (0,)), atol=0.02)
    for norm in (sx.layer.LayerNorm(), sx.layer.GroupNorm(1)):
        z = norm(sx.Tensor(data=x.T))
        assert z.dtype == x.dtype
        np.testing.assert_allclose(z.to_numpy().astype(np.float32), normalised(x.T, (1,)), atol=0.02)
    z = sx.layer.RMSNorm()(sx.Tensor(data=x.T))
    wide = np.asarray(x.T, np.float64)
    expected = wide / np.sqrt((wide**2).mean(1, keepdims=True))
    np.testing.assert_allclose(z.to_numpy().astype(np.float32), expected, rtol=0.01)
    z = sx.layer.InstanceNorm()(sx.Tensor(data=x.T[:, None]))
    np.testing.assert_allclose(z.to_numpy().astype(np.float32)[:, 0], normalised(x.T, (1,)), atol=0.02)


@pytest.mark.parametrize(
    ("layer", "shape", "sizes"),
    [
        (sx.layer.LayerNorm(), (2, 3, 4), {"scale": (4,), "bias": (4,)}),
        (sx.layer.LayerNorm(1, bias=False), (2, 3, 4), {"scale": (3, 4)}),
        (sx.layer.RMSNorm(), (2, 3, 4), {"scale": (4,)}),
        (sx.layer.RMSNorm(axis=-2), (2, 3, 4), {"scale": (3, 4)}),
        (sx.layer.GroupNorm(2), (2, 4, 3), {"scale": (4,), "bias": (4,)}),
        (sx.layer.InstanceNorm(), (2, 3, 4, 4), {"scale": (3,), "bias": (3,)}),
        (sx.layer.BatchNorm1d(), (2, 3, 4), {"scale": (3,), "bias": (3,)}),
        (sx.layer.BatchNorm3d(), (2, 3, 2, 1, 2), {"scale": (3,), "bias": (3,)}),
        (sx.layer.BatchNorm2d(), (2, 3), {"scale": (3,), "bias": (3,)}),
        (sx.layer.BatchNorm2d(), (2, 3, 4, 4), {"scale": (3,), "bias": (3,)}),
    ],
)
def test_inferred_shape_is_the_real_one(layer: Any, shape: Any, sizes: Any) -> None:
    assert layer.infer_shape(shape) == shape
    assert layer(sx.Tensor(data=np.ones(shape, np.float32))).shape == shape
    assert {name: t.shape for name, t in layer.get_params().items()} == sizes


def test_initializers() -> None:
    for layer in (
        sx.layer.BatchNorm2d(scale_init=2.0, bias_init="ones"),
        sx.layer.LayerNorm(-1, 1e-5, True, 2.0, "ones"),
    ):
        y = layer(sx.Tensor(data=np.zeros((2, 3), np.float32)))
        np.testing.assert_array_equal(y.to_numpy(), np.ones((2, 3)))
        np.testing.assert_array_equal(layer.scale.to_numpy(), np.full(3, 2.0))


def make_layers() -> list[sx.layer.Layer]:
    return [
        sx.layer.Conv2d(4, 3),
        sx.layer.BatchNorm2d(),
        sx.layer.LayerNorm(),
        sx.layer.MaxPool2d(3, 2, 1),
        sx.layer.AvgPool2d(3, 2, 1),
        sx.layer.GlobalAvgPool2d(),
        sx.layer.GroupNorm(2),
        sx.layer.InstanceNorm(affine=False),
        sx.layer.RMSNorm(),
        sx.layer.ConvTranspose2d(4, 3),
        sx.layer.SeparableConv2d(4, 3),
        sx.layer.LpPool2d(2, 3),
        sx.layer.AdaptiveAvgPool(4),
        sx.layer.AdaptiveMaxPool(4),
    ]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_no_implicit_promotion(dtype: str) -> None:
    x = sx.Tensor(data=jnp.ones((2, 2, 6, 6), dtype))
    with jax.numpy_dtype_promotion("strict"), jax.numpy_rank_promotion("raise"):
        for layer in make_layers():
            for training in (False, True):
                sx.autograd.training = training
                assert layer(x).dtype == x.dtype


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: sx.layer.BatchNorm2d(3, 0.9, 1e-5), "Received 3 positional arguments"),
        (lambda: sx.layer.BatchNorm2d(momentum=1.5), "momentum must be a number from 0 to 1.* Received: 1.5"),
        (lambda: sx.layer.BatchNorm2d(eps=-1), "eps must be .* Received: -1"),
        (lambda: sx.layer.GroupNorm(0), "groups must be an integer from 1 up. Received: 0"),
        (lambda: sx.layer.RMSNorm(1.5), "axis must be an integer. Received: 1.5"),
        (lambda: sx.layer.InstanceNorm(eps="small"), "eps must be .* Received: 'small'"),
        (lambda: sx.layer.LayerNorm((3, 4)), r"axis must be an integer. Received: \(3, 4\)"),
    ],
)
def test_refused_arguments(make: Any, message: str) -> None:
    with pytest.raises(sx.errors.ArgumentError, match=message):
        make()


def test_refused_inputs() -> None:
    layer = sx.layer.BatchNorm2d()
    with pytest.raises(sx.errors.ShapeError, match=r"\(N, C, H, W\) or \(N, C\). Received shape \(2, 3, 4\)"):
        layer.infer_shape((2, 3, 4))
    with pytest.raises(sx.errors.DTypeError, match="Received dtype int32"):
        layer.infer_shape(sx.Placeholder((2, 3), dtype=sx.int32))
    layer.initialize(sx.Placeholder((2, 3)))
    for training in (False, True):
        sx.autograd.training = training
        with pytest.raises(sx.errors.ShapeError, match=r"BatchNorm2d: batch_norm.*\(3,\). Received shape \(2, 4\)"):
            layer(sx.Tensor(data=np.zeros((2, 4), np.float32)))
    with pytest.raises(sx.errors.ShapeError, match=r"at least one value per channel. Received shape \(0, 3\)"):
        ops.batch_norm(jnp.zeros((0, 3)), jnp.ones(3), jnp.zeros(3))
    with pytest.raises(sx.errors.ShapeError, match=r"an axis 2. Received shape \(2, 3\)"):
        sx.layer.LayerNorm(2).infer_shape((2, 3))
    norm = sx.layer.LayerNorm()
    norm.initialize(sx.Placeholder((2, 3)))
    with pytest.raises(sx.errors.ShapeError, match=r"from axis -1. Received: \(\(3,\), \(3,\)\) for shape \(2, 4\)"):
        norm(sx.Tensor(data=np.zeros((2, 4), np.float32)))
    with pytest.raises(sx.errors.ArgumentError, match=r"groups that divide the channels of \(2, 3\). Received: 2"):
        sx.layer.GroupNorm(2).infer_shape((2, 3))
    with pytest.raises(sx.errors.ShapeError, match=r"at least one value per channel. Received shape \(2, 3\)"):
        sx.layer.InstanceNorm().infer_shape((2, 3))
    with pytest.raises(sx.errors.ShapeError, match=r"\(N, C, W\) or \(N, C\). Received shape \(2, 3, 4, 4\)"):
        sx.layer.BatchNorm1d().infer_shape((2, 3, 4, 4))
    with pytest.raises(sx.errors.ShapeError, match=r"\(N, C, …\) or \(N, C\). Received shape \(3,\)"):
        sx.layer.BatchNorm().infer_shape((3,))
    with pytest.raises(sx.errors.ShapeError, match=r"rms_norm expected parameters like the input from axis -1"):
        ops.rms_norm(normal(2, 3), normal(2))
    for norm in (sx.layer.GroupNorm(1), sx.layer.RMSNorm(), sx.layer.LayerNorm()):
        with pytest.raises(sx.errors.DTypeError, match="Received dtype int32"):
            norm.infer_shape(sx.Placeholder((2, 3), dtype=sx.int32))
