"""Conv2d and its operation, against onnx.reference and finite differences."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads
from models import images, states
from twins import normal, onnx_of

import singax as sx
from singax import ops
from singax.ops.window import output_size, same_padding


def naive(x: Any, W: Any, b: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> np.ndarray:
    """Convolution as loops."""
    x, W, b = np.asarray(x), np.asarray(W), np.asarray(b)
    rows, columns = output_size(x.shape[2:], W.shape[2:], stride, padding, dilation)
    x = np.pad(x, ((0, 0), (0, 0), *padding))
    y = np.zeros((x.shape[0], W.shape[0], rows, columns), np.float32)
    per_group = W.shape[0] // groups
    for o, i, j in np.ndindex(y.shape[1:]):
        channels = slice(o // per_group * W.shape[1], (o // per_group + 1) * W.shape[1])
        top, left = i * stride[0], j * stride[1]
        window = x[:, channels, top:, left:][:, :, :: dilation[0], :: dilation[1]][:, :, : W.shape[2], : W.shape[3]]
        y[:, o, i, j] = (window * W[o]).sum((1, 2, 3)) + b[o]
    return y


CASES = [
    {"stride": (1, 1), "padding": ((0, 0), (0, 0)), "dilation": (1, 1), "groups": 1},
    {"stride": (2, 1), "padding": ((1, 1), (2, 2)), "dilation": (1, 1), "groups": 1},
    {"stride": (1, 2), "padding": ((0, 1), (2, 1)), "dilation": (2, 1), "groups": 2},
    {"stride": (1, 1), "padding": ((1, 1), (1, 1)), "dilation": (1, 2), "groups": 4},
]


@pytest.mark.parametrize("case", CASES)
def test_values(case: dict[str, Any]) -> None:
    x, W, b = normal(2, 4, 6, 7), normal(8, 4 // case["groups"], 3, 2, seed=1), normal(8, seed=2)
    y = jax.jit(lambda *a: ops.conv2d(*a, **case))(x, W, b)
    np.testing.assert_allclose(y, naive(x, W, b, **case), atol=1e-4)
    np.testing.assert_allclose(y, onnx_of(ops.conv2d, [x, W, b], **case), atol=1e-4)


@pytest.mark.parametrize("case", CASES[2:3])
def test_gradients(case: dict[str, Any]) -> None:
    arguments = normal(1, 4, 4, 5), normal(4, 2, 2, 2, seed=1), normal(4, seed=2)
    check_grads(jax.jit(lambda *a: ops.conv2d(*a, **case)), arguments, order=1, atol=1e-2, rtol=1e-2)


def test_twin_attributes_have_defaults() -> None:
    expected = {"strides": [1, 1], "pads": [0, 0, 0, 0], "dilations": [1, 1], "group": 1}
    assert ops.conv2d.twin.convert({}) == expected
    assert ops.conv2d.twin.convert({"padding": ((1, 2), (3, 4))})["pads"] == [1, 3, 2, 4]


def test_captured_whole() -> None:
    conv = sx.layer.Conv2d(4, 3)
    conv(sx.Tensor(data=images()[0]))
    with ops.capturing():
        jaxpr = jax.make_jaxpr(lambda x: ops.conv2d(x, conv.W.data, conv.b.data))(images()[0])
    assert [str(e.primitive) for e in jaxpr.eqns] == ["singax_operation"]


@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize(("size", "kernel", "stride"), [((5, 6), (2, 3), (1, 1)), ((7, 4), (3, 2), (2, 3))])
def test_same(mode: str, size: Any, kernel: Any, stride: Any) -> None:
    x = normal(1, 1, *size)
    conv = sx.layer.Conv2d(2, kernel, stride=stride, pad_mode=mode, padding=None)
    y = conv(sx.Tensor(data=np.asarray(x))).to_numpy()
    assert y.shape == (1, 2, -(-size[0] // stride[0]), -(-size[1] // stride[1]))
    padding = same_padding(size, kernel, stride, mode == "SAME_UPPER")
    np.testing.assert_allclose(y, naive(x, conv.W.data, conv.b.data, stride, padding, (1, 1), 1), atol=1e-5)


def test_same_follows_the_size_of_each_input() -> None:
    conv = sx.layer.Conv2d(2, 3, stride=2, pad_mode="SAME_UPPER")
    assert [conv(sx.Tensor(data=np.asarray(normal(n, 1, s, s)))).shape for n, s in ((1, 4), (3, 7))] == [
        (1, 2, 2, 2),
        (3, 2, 4, 4),
    ]


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (sx.layer.Conv2d(4, 3), (2, 4, 6, 6)),
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
    expected = ops.conv2d(jnp.asarray(x), conv.W.data.astype(jnp.float32), conv.b.data.astype(jnp.float32))
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
        (lambda: sx.layer.Conv2d(0, 3), "nb_kernels and group must be"),
        (lambda: sx.layer.Conv2d(2, 4, 3, 1, 0, 1), "Received 6 positional arguments"),
    ],
)
def test_refused_arguments(make: Any, message: str) -> None:
    with pytest.raises(sx.errors.ArgumentError, match=message):
        make()


def test_refused_inputs() -> None:
    conv = sx.layer.Conv2d(4, 3)
    for shape, message in (
        ((2, 8, 8), r"expected an input \(N, C, H, W\). Received shape \(2, 8, 8\)"),
        ((1, 2, 2, 8), r"at least \(3, 3\) after padding.* Received: \(2, 8\)"),
    ):
        with pytest.raises(sx.errors.ShapeError, match=message):
            conv.infer_shape(shape)
    with pytest.raises(sx.errors.DTypeError, match="Received dtype int32"):
        conv.infer_shape(sx.Placeholder((1, 2, 8, 8), dtype=sx.int32))
    conv.initialize(sx.Placeholder((1, 2, 8, 8)))
    with pytest.raises(sx.errors.ShapeError, match=r"Conv2d: expected an input \(N, 2, H, W\). Received shape"):
        conv(sx.Tensor(data=np.zeros((1, 3, 8, 8), np.float32)))
    with pytest.raises(sx.errors.ShapeError, match=r"channels that 2 groups divide. Received shape \(1, 3, 8, 8\)"):
        sx.layer.Conv2d(4, 3, group=2).infer_shape((1, 3, 8, 8))


@pytest.mark.parametrize(
    ("W", "b", "groups", "message"),
    [
        ((4, 2, 3), None, 1, r"expected kernels .* Received shape \(4, 2, 3\)"),
        ((3, 1, 3, 3), None, 2, "expected a number of kernels that 2 groups divide. Received: 3"),
        ((4, 2, 3, 3), (3,), 1, r"expected a bias \(4,\). Received shape \(3,\)"),
    ],
)
def test_refused_weights(W: Any, b: Any, groups: int, message: str) -> None:
    with pytest.raises(sx.errors.ShapeError, match=message):
        ops.conv2d(normal(1, 2, 8, 8), normal(*W), None if b is None else normal(*b), groups=groups)
