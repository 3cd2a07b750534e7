"""Convolution layers and operations, against NumPy, onnx.reference and finite differences."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import windows
from jax.test_util import check_grads
from models import images, states
from twins import normal, onnx_of

import singax as sx
from singax import ops
from singax.ops.grouped_convolution import grouped_conv, plain_conv
from singax.ops.window import window

# Sizes of x, sizes of a kernel, and the window. One, two and three axes.
CASES: list[tuple[Any, Any, dict[str, Any]]] = [
    ((7,), (3,), {}),
    ((7,), (2,), {"stride": (2,), "padding": ((1, 2),), "dilation": (3,), "groups": 2}),
    ((6, 7), (3, 2), {"stride": (2, 1), "padding": ((1, 1), (2, 2))}),
    ((6, 7), (3, 2), {"stride": (1, 2), "padding": ((0, 1), (2, 1)), "dilation": (2, 1), "groups": 2}),
    ((6, 7), (3, 2), {"padding": ((1, 1), (1, 1)), "dilation": (1, 2), "groups": 4}),
    ((3, 4, 5), (2, 1, 3), {"stride": (1, 2, 1), "padding": ((1, 0), (0, 0), (0, 2)), "groups": 2}),
]


def operands(sizes: Any, kernel: Any, groups: int = 1, transposed: bool = False) -> list[jax.Array]:
    """x with 4 channels, kernels for 8, and a bias."""
    shape = (4, 8 // groups) if transposed else (8, 4 // groups)
    return [normal(2, 4, *sizes), normal(*shape, *kernel, seed=1), normal(8, seed=2)]


@pytest.mark.parametrize(("sizes", "kernel", "case"), CASES)
def test_values(sizes: Any, kernel: Any, case: dict[str, Any]) -> None:
    arrays = operands(sizes, kernel, case.get("groups", 1))
    y = jax.jit(lambda *a: ops.conv(*a, **case))(*arrays)
    np.testing.assert_allclose(y, windows.conv(*arrays, **case), atol=1e-4)
    if not (len(sizes) == 3 and case.get("groups", 1) > 1):  # the reference cannot
        np.testing.assert_allclose(y, onnx_of(ops.conv, arrays, **case), atol=1e-4)


@pytest.mark.parametrize(("sizes", "kernel", "case"), CASES[1::2])
def test_gradients(sizes: Any, kernel: Any, case: dict[str, Any]) -> None:
    call = jax.jit(lambda *a: ops.conv(*a, **case))
    check_grads(call, operands(sizes, kernel, case.get("groups", 1)), order=1, atol=1e-2, rtol=1e-2)


@pytest.mark.parametrize(
    ("channels", "kernels", "groups", "kernel"),
    [(6, 12, 6, (3, 2)), (18, 9, 9, (2, 2)), (4, 6, 2, (2, 3)), (10, 10, 10, (28,))],
)
def test_both_ways_to_convolve_in_groups(channels: int, kernels: int, groups: int, kernel: Any) -> None:
    sizes = (30,) if len(kernel) == 1 else (6, 7)
    x, W = normal(2, channels, *sizes), normal(kernels, channels // groups, *kernel, seed=1)
    found = window("conv", kernel, (2,) * len(kernel), ((1, 0),) * len(kernel))
    expected = windows.conv(x, W, groups=groups, stride=found.stride, padding=found.padding)
    for convolve in (grouped_conv, plain_conv):
        np.testing.assert_allclose(convolve(x, W, found, groups), expected, atol=1e-4)
    if math.prod(kernel) < 10:
        call = jax.jit(lambda x, W: grouped_conv(x, W, found, groups))
        check_grads(call, (x, W), order=1, atol=1e-2, rtol=1e-2)


TRANSPOSED: list[tuple[Any, Any, dict[str, Any]]] = [
    ((5,), (3,), {}),
    ((5,), (2,), {"stride": (3,), "padding": ((1, 0),), "output_padding": (2,), "dilation": (2,)}),
    ((3, 4), (3, 2), {"stride": (2, 1), "padding": ((1, 0), (0, 1)), "output_padding": (1, 0)}),
    ((3, 4), (3, 2), {"stride": (2, 3), "padding": ((3, 1), (0, 2)), "dilation": (1, 2), "groups": 2}),
    ((3, 4), (1, 1), {"stride": (2, 2), "groups": 4}),
    ((2, 3, 2), (2, 1, 3), {"stride": (2, 1, 2), "padding": ((0, 1), (0, 0), (1, 1)), "groups": 2}),
]


@pytest.mark.parametrize(("sizes", "kernel", "case"), TRANSPOSED)
def test_transposed_values(sizes: Any, kernel: Any, case: dict[str, Any]) -> None:
    arrays = operands(sizes, kernel, case.get("groups", 1), transposed=True)
    y = jax.jit(lambda *a: ops.conv_transpose(*a, **case))(*arrays)
    np.testing.assert_allclose(y, windows.conv_transpose(*arrays, **case), atol=1e-4)
    if case.get("groups", 1) == 1:  # the reference cannot
        np.testing.assert_allclose(y, onnx_of(ops.conv_transpose, arrays, **case), atol=1e-4)


@pytest.mark.parametrize(("sizes", "kernel", "case"), TRANSPOSED[1::2])
def test_transposed_gradients(sizes: Any, kernel: Any, case: dict[str, Any]) -> None:
    arrays = operands(sizes, kernel, case.get("groups", 1), transposed=True)
    check_grads(jax.jit(lambda *a: ops.conv_transpose(*a, **case)), arrays, order=1, atol=1e-2, rtol=1e-2)


@pytest.mark.parametrize(("sizes", "kernel", "case"), TRANSPOSED[::2])
def test_the_transpose_is_the_gradient_of_the_convolution(sizes: Any, kernel: Any, case: dict[str, Any]) -> None:
    more = case.get("output_padding", (0,) * len(sizes))
    case = {name: value for name, value in case.items() if name != "output_padding"}
    x, W, _ = operands(sizes, kernel, case.get("groups", 1), transposed=True)
    y = ops.conv_transpose(x, W, output_padding=more, **case)
    _, pull = jax.vjp(lambda v: ops.conv(v, W, **case), jnp.zeros_like(y))
    np.testing.assert_allclose(y, pull(x)[0], atol=1e-4)


def test_twin_attributes() -> None:
    assert ops.conv.twin.convert({}) == {"group": 1}
    given = {"padding": ((1, 2), (3, 4)), "stride": (2, 1), "dilation": (1, 3), "groups": 2}
    expected = {"pads": [1, 3, 2, 4], "strides": [2, 1], "dilations": [1, 3], "group": 2}
    assert ops.conv.twin.convert(given) == expected
    assert ops.conv_transpose.twin.convert({"output_padding": (1, 0)}) == {"output_padding": [1, 0], "group": 1}
    assert "dilations" not in ops.conv.twin.convert({"dilation": (1, 1)})


def test_captured_whole() -> None:
    x = images()[0]
    for conv in (sx.layer.Conv2d(4, 3), sx.layer.ConvTranspose2d(4, 3)):
        conv(sx.Tensor(data=x))
        with ops.capturing():
            jaxpr = jax.make_jaxpr(conv.operation)(x, conv.W.data, conv.b.data)
        assert [str(e.primitive) for e in jaxpr.eqns] == ["singax_operation"]


@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize(("size", "kernel", "stride"), [((5, 6), (2, 3), (1, 1)), ((7, 4), (3, 2), (2, 3))])
def test_same(mode: str, size: Any, kernel: Any, stride: Any) -> None:
    x = normal(1, 1, *size)
    conv = sx.layer.Conv2d(2, kernel, stride=stride, pad_mode=mode, padding=None)
    y = conv(sx.Tensor(data=np.asarray(x))).to_numpy()
    assert y.shape == (1, 2, -(-size[0] // stride[0]), -(-size[1] // stride[1]))
    totals = [max((-(-n // s) - 1) * s + k - n, 0) for n, k, s in zip(size, kernel, stride, strict=True)]
    padding = [(total // 2, -(-total // 2))[:: 1 if mode == "SAME_UPPER" else -1] for total in totals]
    expected = windows.conv(x, conv.W.data, conv.b.data, stride=stride, padding=padding)
    np.testing.assert_allclose(y, expected, atol=1e-5)


def test_same_follows_the_size_of_each_input() -> None:
    conv = sx.layer.Conv2d(2, 3, stride=2, pad_mode="SAME_UPPER")
    assert [conv(sx.Tensor(data=np.asarray(normal(n, 1, s, s)))).shape for n, s in ((1, 4), (3, 7))] == [
        (1, 2, 2, 2),
        (3, 2, 4, 4),
    ]


@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize(("kernel", "stride", "more"), [((4, 3), (2, 2), 0), (3, 2, 1), (1, 3, 0), (2, (1, 3), 0)])
def test_transposed_same_multiplies_the_size(mode: str, kernel: Any, stride: Any, more: int) -> None:
    conv = sx.layer.ConvTranspose2d(2, kernel, stride=stride, output_padding=more, pad_mode=mode)
    factors = stride if isinstance(stride, tuple) else (stride, stride)
    shape = (1, 2, 3 * factors[0], 5 * factors[1])
    x = np.asarray(normal(1, 1, 3, 5))
    y = conv(sx.Tensor(data=x)).to_numpy()
    assert y.shape == shape
    full = windows.conv_transpose(x, conv.W.data, stride=factors, output_padding=(2, 2))
    begins = [
        sum(divmod(total, 2)) if mode == "SAME_LOWER" else total // 2
        for total in (max(e - s + more, 0) for e, s in zip(conv.window.extent, factors, strict=True))
    ]
    cut = full[:, :, begins[0] : begins[0] + shape[2], begins[1] : begins[1] + shape[3]]
    np.testing.assert_allclose(y, cut, atol=1e-5)


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (sx.layer.Conv2d(4, 3), (2, 4, 6, 6)),
        (sx.layer.ConvTranspose2d(4, 3, stride=2, padding=1, output_padding=1), (2, 4, 16, 16)),
        (sx.layer.ConvTranspose2d(4, 3, group=2, padding=(0, 1, 2, 0), dilation=2, bias=False), (2, 4, 11, 10)),
        (sx.layer.DepthwiseConv2d((3, 1), multiplier=3, stride=2), (2, 6, 3, 4)),
        (sx.layer.SeparableConv2d(5, 3, padding=1, stride=2, bias=True), (2, 5, 4, 4)),
        (sx.layer.Conv2d(4, [3, 1], stride=[2, 1], padding=[1, 0]), (2, 4, 4, 8)),
        (sx.layer.Conv2d(4, 3, padding=(0, 1, 2, 0), dilation=2, bias=False), (2, 4, 5, 6)),
        (sx.layer.Conv2d(4, 3, group=2, activation="RELU", pad_mode="VALID"), (2, 4, 6, 6)),
    ],
)
def test_inferred_shape_is_the_real_one(layer: sx.layer.Layer, shape: tuple[int, ...]) -> None:
    assert layer.infer_shape((2, 2, 8, 8)) == shape
    assert layer(sx.Tensor(data=images(2)[0])).shape == shape


def test_unknown_batch_and_image_size() -> None:
    assert sx.layer.Conv2d(4, 3, padding=1).infer_shape((None, 2, None, None)) == (None, 4, None, None)
    assert sx.layer.ConvTranspose1d(4, 3).infer_shape((None, 2, None)) == (None, 4, None)
    assert sx.layer.SeparableConv2d(4, 3).infer_shape((None, 2, None, 8)) == (None, 4, None, 6)


@pytest.mark.parametrize(
    ("layer", "shape", "kernel"),
    [
        (sx.layer.Conv1d(4, 3, stride=2, padding=(1, 0), group=2), (2, 2, 8), (4, 1, 3)),
        (sx.layer.Conv1d(4, [2], padding=[1], dilation=2), (2, 2, 8), (4, 2, 2)),
        (sx.layer.Conv3d(4, (1, 2, 3), padding=(0, 0, 1, 0, 1, 1)), (2, 2, 3, 4, 4), (4, 2, 1, 2, 3)),
        (sx.layer.Conv3d(4, 3, pad_mode="SAME_UPPER", stride=2), (2, 2, 3, 4, 4), (4, 2, 3, 3, 3)),
        (sx.layer.ConvTranspose1d(4, 3, stride=2, padding=(1, 0), group=2), (2, 2, 8), (2, 2, 3)),
        (sx.layer.ConvTranspose3d(4, 2, stride=(1, 2, 2)), (2, 2, 3, 4, 4), (2, 4, 2, 2, 2)),
    ],
)
def test_layers_of_other_ranks(layer: Any, shape: Any, kernel: Any) -> None:
    x = np.asarray(normal(*shape))
    y = layer(sx.Tensor(data=x)).to_numpy()
    assert layer.infer_shape(shape) == y.shape
    assert {name: t.shape for name, t in layer.get_params().items()} == {"W": kernel, "b": (4,)}
    if layer.pad_mode == "NOTSET":
        reference = windows.conv_transpose if "Transpose" in type(layer).__name__ else windows.conv
        window = {name: getattr(layer.window, name) for name in ("stride", "padding", "dilation")}
        np.testing.assert_allclose(y, reference(x, layer.W.data, groups=layer.group, **window), atol=1e-5)


def test_depthwise_and_separable() -> None:
    x = np.asarray(normal(2, 3, 6, 6))
    for layer in (
        sx.layer.SeparableConv2d(5, 3, stride=2, padding=1),
        sx.layer.SeparableConv2d(3, 5, 3, 2, 1),
    ):
        y = layer(sx.Tensor(data=x)).to_numpy()
        sizes = {name: t.shape for name, t in layer.get_params().items()}
        assert sizes == {"depthwise_conv.W": (3, 1, 3, 3), "point_conv.W": (5, 3, 1, 1)}
        depth, point = (layer.get_params()[f"{name}_conv.W"].to_numpy() for name in ("depthwise", "point"))
        between = windows.conv(x, depth, groups=3, stride=(2, 2), padding=((1, 1), (1, 1)))
        np.testing.assert_allclose(y, windows.conv(between, point), atol=1e-5)
    depthwise = sx.layer.DepthwiseConv2d(2, multiplier=2)
    y = depthwise(sx.Tensor(data=x)).to_numpy()
    np.testing.assert_allclose(y, windows.conv(x, depthwise.W.data, groups=3), atol=1e-5)
    assert {name: t.shape for name, t in depthwise.get_params().items()} == {"W": (6, 1, 2, 2), "b": (6,)}


@pytest.mark.parametrize(
    ("arguments", "kernel", "stride", "padding"),
    [
        ((2, 4, 3), (3, 3), (1, 1), ((0, 0), (0, 0))),
        ((2, 4, (3, 1), 2), (3, 1), (2, 2), ((0, 0), (0, 0))),
        ((2, 4, 3, 2, 1), (3, 3), (2, 2), ((1, 1), (1, 1))),
    ],
)
def test_legacy_positional(arguments: Any, kernel: Any, stride: Any, padding: Any) -> None:
    found = sx.layer.Conv2d(*arguments)
    assert found.nb_kernels == 4
    assert (found.window.kernel, found.window.stride, found.window.padding) == (kernel, stride, padding)
    mixed = sx.layer.Conv2d(*arguments[:3], stride=stride, padding=padding[0][0])
    assert mixed.window == found.window


def test_parameters_and_their_spread() -> None:
    conv = sx.layer.Conv2d(64, 5, group=2, cudnn_prefer="fastest", workspace_MB_limit=100)
    conv.initialize(sx.Placeholder((1, 32, 9, 9)))
    assert {name: t.shape for name, t in conv.get_params().items()} == {"W": (64, 16, 5, 5), "b": (64,)}
    W = conv.W.to_numpy()
    assert W.std() == pytest.approx((2 / (16 * 25 + 64)) ** 0.5, rel=0.02)
    assert not conv.b.to_numpy().any()


def test_initializers_and_relu() -> None:
    conv = sx.layer.Conv2d(1, 1, kernel_init=-1.0, bias_init="ones", activation="RELU")
    y = conv(sx.Tensor(data=np.array([0.0, 5.0], np.float32).reshape(1, 1, 1, 2)))
    np.testing.assert_array_equal(y.to_numpy().ravel(), [1.0, 0.0])


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision(dtype: str) -> None:
    x = images(1)[0]
    conv = sx.layer.Conv2d(2, 3)
    y = conv(sx.Tensor(data=jnp.asarray(x, dtype)))
    assert (y.dtype, conv.W.dtype) == (jnp.dtype(dtype), jnp.dtype(dtype))
    expected = ops.conv(jnp.asarray(x), conv.W.data.astype(jnp.float32), conv.b.data.astype(jnp.float32))
    np.testing.assert_allclose(y.to_numpy().astype(np.float32), expected, atol=0.05)


class ConvNet(sx.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = sx.layer.Conv2d(3, 3, padding=1, group=1, activation="RELU")
        self.norm = sx.layer.BatchNorm2d()
        self.pool = sx.layer.MaxPool2d(2)
        self.head = sx.layer.Linear(3)
        self.loss = sx.layer.SoftMaxCrossEntropy()
        self.optimizer = sx.opt.SGD(lr=0.1)

    def forward(self, x: jax.Array) -> jax.Array:
        return self.head(self.pool(self.norm(self.conv(x))).mean((2, 3)))

    def train_one_batch(self, x: Any, y: Any) -> Any:
        out = self.forward(x)
        loss = self.loss(out, y)
        self.optimizer(loss)
        return out, loss


def test_compiled_step_equals_the_eager_one() -> None:
    x, y = images(4)
    found = []
    for use_graph in (True, False):
        sx.device.set_seed(0)
        net = ConvNet()
        net.compile([sx.Placeholder(x.shape)], is_train=True, use_graph=use_graph)
        losses = [float(net(x, y)[1].to_numpy()[0]) for _ in range(3)]
        found.append((losses, states(net)))
    assert found[0][0][2] < found[0][0][0]
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-4)
    assert found[0][1].keys() == found[1][1].keys()
    np.testing.assert_allclose(found[0][1]["norm.running_var"], found[1][1]["norm.running_var"], rtol=1e-4)
    assert np.abs(found[0][1]["norm.running_mean"]).min() > 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: sx.layer.Conv2d(4, 3, activation="GELU"), "activation must be .* Received: 'GELU'"),
        (lambda: sx.layer.Conv2d(4, 3, groups=2), "no argument groups"),
        (lambda: sx.layer.Conv2d(4, 3, pad_mode="SAME"), "pad_mode must be one of .* Received: 'SAME'"),
        (lambda: sx.layer.Conv2d(4, 3, padding=None), "None goes only with pad_mode SAME_UPPER"),
        (lambda: sx.layer.Conv2d(4, 3, padding=1, pad_mode="SAME_UPPER"), "determines the padding"),
        (lambda: sx.layer.Conv2d(4, 3, padding=(1, 2, 3)), r"Received: \(1, 2, 3\)"),
        (lambda: sx.layer.Conv2d(4, 3, padding=-1), "from 0 up.* Received: -1"),
        (lambda: sx.layer.Conv2d(4, 0), "kernel_size must be an integer from 1 up.* Received: 0"),
        (lambda: sx.layer.Conv2d(4, "33"), "kernel_size must be .* Received: '33'"),
        (lambda: sx.layer.Conv2d(4, 3, stride=(1, 1, 1)), "stride must be"),
        (lambda: sx.layer.Conv2d(4, 3, stride=(True, 1)), "stride must be"),
        (lambda: sx.layer.Conv2d(4, 3, dilation=1.5), "dilation must be .* Received: 1.5"),
        (lambda: sx.layer.Conv2d(4, 3, group=3), "group must divide nb_kernels"),
        (lambda: sx.layer.Conv2d(0, 3), "nb_kernels must be an integer from 1 up. Received: 0"),
        (lambda: sx.layer.Conv2d(4, 3, group=0), "group must be an integer from 1 up. Received: 0"),
        (lambda: sx.layer.Conv1d(4, (3, 3)), r"an integer from 1 up, or one \(width\). Received: \(3, 3\)"),
        (lambda: sx.layer.Conv3d(4, 3, padding=(1, 1)), r"three \(depth, height, width\) or six \(front, back, top"),
        (lambda: sx.layer.ConvTranspose2d(4, 3, output_padding=1), "below the larger of stride .* Received"),
        (lambda: sx.layer.ConvTranspose2d(4, 3, stride=2, output_padding=-1), "output_padding must be"),
        (lambda: sx.layer.ConvTranspose2d(4, 3, group=3), "group must divide nb_kernels"),
        (lambda: sx.layer.DepthwiseConv2d(3, multiplier=0), "multiplier must be"),
        (lambda: sx.layer.SeparableConv2d(2, 4, 3, 1, 0, 1), "SeparableConv2d takes .* Received 6 positional"),
        (lambda: sx.layer.Conv2d(2, 4, 3, 1, 0, 1), "Received 6 positional arguments"),
    ],
)
def test_refused_arguments(make: Any, message: str) -> None:
    with pytest.raises(sx.errors.ArgumentError, match=message):
        make()


def test_refused_inputs() -> None:
    conv = sx.layer.Conv2d(4, 3)
    for shape, message in (
        ((2, 8, 8), r"conv expected an input \(N, C, H, W\). Received shape \(2, 8, 8\)"),
        ((1, 2, 2, 8), r"at least \(3, 3\) after padding.* Received: \(2, 8\)"),
    ):
        with pytest.raises(sx.errors.ShapeError, match=message):
            conv.infer_shape(shape)
    with pytest.raises(sx.errors.DTypeError, match="Received dtype int32"):
        conv.infer_shape(sx.Placeholder((1, 2, 8, 8), dtype=sx.int32))
    conv.initialize(sx.Placeholder((1, 2, 8, 8)))
    with pytest.raises(sx.errors.ShapeError, match=r"Conv2d: conv expected an input \(N, 2, H, W\). Received shape"):
        conv(sx.Tensor(data=np.zeros((1, 3, 8, 8), np.float32)))
    with pytest.raises(sx.errors.ShapeError, match=r"channels that 2 groups divide. Received shape \(1, 3, 8, 8\)"):
        sx.layer.Conv2d(4, 3, group=2).infer_shape((1, 3, 8, 8))


@pytest.mark.parametrize(
    ("W", "b", "groups", "message"),
    [
        ((4, 2, 3), None, 1, r"conv expected an input \(N, C, W\). Received shape \(1, 2, 8, 8\)"),
        ((4, 2), None, 1, r"conv expected kernels .* Received shape \(4, 2\)"),
        ((3, 1, 3, 3), None, 2, "expected a number of kernels that 2 groups divide. Received: 3"),
        ((4, 2, 3, 3), None, 0, "groups of 1 or more. Received: 0"),
        ((4, 2, 3, 3), (3,), 1, r"expected a bias \(4,\). Received shape \(3,\)"),
    ],
)
def test_refused_weights(W: Any, b: Any, groups: int, message: str) -> None:
    with pytest.raises((sx.errors.ShapeError, sx.errors.ArgumentError), match=message):
        ops.conv(normal(1, 2, 8, 8), normal(*W), None if b is None else normal(*b), groups=groups)


@pytest.mark.parametrize(
    ("x", "W", "attributes", "message"),
    [
        ((1, 2, 4), (3, 4, 2), {}, r"an input \(N, 3, W\) whose channels 1 groups divide. Received shape \(1, 2, 4\)"),
        ((1, 3, 4), (3, 4, 2), {"groups": 2}, "whose channels 2 groups divide"),
        ((1, 2, 4), (2, 4, 2), {"stride": (2, 2)}, r"a stride for each of 1 axes. Received: \(2, 2\)"),
        ((1, 2, 4), (2, 4, 2), {"stride": (0,)}, r"stride and dilation of 1 or more .* Received: \(2,\), \(0,\)"),
        ((1, 2, 4), (2, 4, 2), {"output_padding": (1,)}, "below the larger of stride and dilation"),
        ((1, 2, 4), (2, 4, 2), {"padding": ((3, 3),)}, r"padding leaves something. Received shape \(1, 2, 4\)"),
        ((1, 2, 4), (2, 4), {}, r"conv_transpose expected kernels \(C, O / groups, k, …\). Received shape \(2, 4\)"),
    ],
)
def test_refused_by_the_transpose(x: Any, W: Any, attributes: Any, message: str) -> None:
    with pytest.raises((sx.errors.ShapeError, sx.errors.ArgumentError), match=message):
        ops.conv_transpose(normal(*x), normal(*W), **attributes)


def test_a_separable_model_trains_like_its_eager_self() -> None:
    x, y = images(4)
    found = []
    for use_graph in (True, False):
        sx.device.set_seed(0)
        net = ConvNet()
        net.conv = sx.layer.SeparableConv2d(3, 3, padding=1)
        net.compile([sx.Placeholder(x.shape)], is_train=True, use_graph=use_graph)
        found.append([float(net(x, y)[1].to_numpy()[0]) for _ in range(2)])
        assert "conv.depthwise_conv.W" in net.get_params()
    np.testing.assert_allclose(found[0], found[1], rtol=1e-4)
