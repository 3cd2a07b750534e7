"""Models as ONNX files: the same outputs in onnxruntime and, imported again, in singax; names; structure."""

from __future__ import annotations

import pathlib
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from export_cases import assert_same, check, expected, normal, referred, run
from google.protobuf.message import EncodeError

import singax as sx
from singax.errors import ArgumentError, ExportError
from singax.sonnx.exporter import export

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "examples"))

from mnist_cnn import CNN


def test_the_cnn_of_the_examples() -> None:
    sx.device.set_seed(0)
    net = CNN()
    net.compile([sx.Placeholder((4, 1, 28, 28))])
    images = normal(1, 28, 28)
    old, _ = check(net, images)
    assert [node.name for node in old.graph.node] == ["conv1", "pool1", "conv2", "pool2", "flatten", "linear1", "relu",
                                                      "linear2"]  # fmt: skip
    assert [node.op_type for node in old.graph.node[:2]] == ["Conv2d", "MaxPool"]
    assert {tensor.name for tensor in old.graph.initializer} == set(net.get_params())
    assert_same(expected(net, images(3)), referred(old, images(3)))


def test_without_functions_nodes_have_the_paths_of_their_layers() -> None:
    net = CNN()
    net.compile([sx.Placeholder((None, 1, 28, 28))])
    (flat,) = check(net, normal(1, 28, 28), opsets=[13], functions=False)
    assert not flat.functions
    assert [node.name for node in flat.graph.node][:3] == ["conv1/Conv", "conv1/Relu", "pool1/MaxPool"]


def test_the_header() -> None:
    made = sx.sonnx.to_onnx(lambda x: x * 2, [np.ones((4, 3), np.float32)], metadata={"id": "7"}, model_version=3)
    assert made.producer_name == "singax"
    assert made.model_version == 3
    assert {entry.key: entry.value for entry in made.metadata_props} == {"id": "7"}


class Chars(sx.Module):
    """Characters through an embedding and an LSTM in both directions: (N, T) → (N, T, 7)."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = sx.layer.Embedding(7, 6)
        self.lstm = sx.layer.LSTM(None, 5, batch_first=True, bidirectional=True)
        self.head = sx.layer.Linear(7)

    def forward(self, ids: jax.Array) -> jax.Array:
        return self.head(self.lstm(self.embed(ids))[0])


def test_recurrent_layers_are_onnx_operators() -> None:
    net = Chars()
    net.compile([sx.Placeholder((4, 5), dtype=sx.int32)])

    def ids(batch: int) -> list[np.ndarray]:
        return [np.random.default_rng(0).integers(0, 7, (batch, 5)).astype(np.int32)]

    old, _ = check(net, ids)
    lstm = next(f for f in old.functions if f.name == "LSTM")
    (node,) = [node for node in lstm.node if node.op_type == "LSTM"]
    assert {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}["direction"] == b"bidirectional"


class Translator(sx.Module):
    """Two blocks of a transformer with a causal mask, positions, and a head: (N, T, 8) → (N, T, 3)."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = [sx.layer.TransformerEncoderLayer(2, 16) for _ in range(2)]
        self.head = sx.layer.Linear(3)

    def forward(self, x: jax.Array) -> jax.Array:
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def test_a_transformer_shares_the_functions_of_its_blocks() -> None:
    net = Translator()
    net.compile([sx.Placeholder((4, 5, 8))])
    old, new = check(net, normal(5, 8), tolerance=2e-5)
    for made in (old, new):
        blocks = [node for node in made.graph.node if node.op_type == "TransformerEncoderLayer"]
        assert [node.name for node in blocks] == ["blocks.0", "blocks.1"]
    assert "Attention" in [node.op_type for function in new.functions for node in function.node]
    assert "Attention" not in [node.op_type for function in old.functions for node in function.node]


def test_time_may_stay_unknown_too() -> None:
    net = Translator()
    net.compile([sx.Placeholder((4, 5, 8))])
    made = sx.sonnx.to_onnx(net, [sx.Placeholder((None, None, 8))])
    dims = made.graph.output[0].type.tensor_type.shape.dim
    assert [dim.dim_param or dim.dim_value for dim in dims] == ["batch", "size_1", 3]
    for shape in ((1, 3, 8), (7, 11, 8)):
        x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
        assert_same(expected(net, [x]), run(made, [x]), 2e-5)


def test_flax_modules() -> None:
    nn = pytest.importorskip("flax.linen")

    class Image(nn.Module):  # type: ignore[name-defined, misc]
        @nn.compact
        def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
            x = nn.relu(nn.BatchNorm(use_running_average=not train)(nn.Conv(4, (3, 3), strides=2)(x)))
            x = nn.max_pool(x, (2, 2), (2, 2), padding="SAME") + nn.avg_pool(x, (2, 2), (2, 2), padding="SAME")
            x = nn.GroupNorm(2)(nn.Conv(4, (3, 3), feature_group_count=2)(x))
            return nn.Dense(3)(nn.LayerNorm()(x.mean((1, 2))))

    class Net(sx.Module):
        def __init__(self) -> None:
            super().__init__()
            self.image = sx.layer.FromFlax(Image())

        def forward(self, x: jax.Array) -> jax.Array:
            return self.image(x)

    net = Net()
    net.compile([sx.Placeholder((4, 8, 8, 2))])
    (made,) = check(net, normal(8, 8, 2), opsets=[17])
    assert "image.Dense_0.kernel" in {tensor.name for tensor in made.graph.initializer}


def test_modules_of_nnx() -> None:
    nnx = pytest.importorskip("flax.nnx")

    class Net(sx.Module):
        def __init__(self) -> None:
            super().__init__()
            rngs = nnx.Rngs(0)
            self.image = sx.layer.FromFlax(
                nnx.Sequential(nnx.Conv(2, 4, (3, 3), rngs=rngs), nnx.BatchNorm(4, rngs=rngs), jax.nn.gelu)
            )
            self.head = sx.layer.FromFlax(nnx.Linear(4, 3, rngs=rngs))

        def forward(self, x: jax.Array) -> jax.Array:
            return self.head(self.image(x).mean((1, 2)))

    net = Net()
    net.compile([sx.Placeholder((4, 6, 6, 2))])
    (made,) = check(net, normal(6, 6, 2), opsets=[17])
    assert "head.kernel" in {tensor.name for tensor in made.graph.initializer}


def test_the_form_of_singa() -> None:
    sx.autograd.training = True
    x = sx.Tensor(data=np.random.default_rng(0).normal(size=(4, 6)).astype(np.float32), name="x")
    w = sx.Tensor(data=np.full((6, 3), 0.1, np.float32), stores_grad=True, name="w")
    first = sx.layer.Linear(6)
    y = sx.autograd.softmax(sx.autograd.matmul(first(x), w) + 1.0)
    made = sx.sonnx.to_onnx([x], [y])
    assert [info.name for info in made.graph.input] == ["x"]
    assert {"w", first.W.name, first.b.name} == {tensor.name for tensor in made.graph.initializer}
    assert_same([y.to_numpy()], run(made, [x.to_numpy()]))


def test_a_forward_that_wants_its_own_batch_size_says_so() -> None:
    class Fixed(sx.Module):
        def forward(self, x: jax.Array) -> jax.Array:
            return x + jnp.ones((4, 3))

    net = Fixed()
    with pytest.raises(ExportError, match=r"other sizes of batch.*dynamic_batch=False"):
        sx.sonnx.to_onnx(net, [np.ones((4, 3), np.float32)])
    made = sx.sonnx.to_onnx(net, [np.ones((4, 3), np.float32)], dynamic_batch=False)
    assert_same([np.full((4, 3), 2, np.float32)], run(made, [np.ones((4, 3), np.float32)]))
    with pytest.raises(ArgumentError, match="opset"):
        sx.sonnx.to_onnx(net, [np.ones((4, 3), np.float32)], opset=9)


def test_what_no_single_message_holds_is_checked_without_its_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    net = CNN()
    net.compile([sx.Placeholder((2, 1, 28, 28))], is_train=False)
    sizes: list[int] = []
    real = onnx.checker.check_model
    monkeypatch.setattr(onnx.checker, "check_model", lambda m, **how: (sizes.append(m.ByteSize()), real(m, **how)))
    whole = sx.sonnx.to_onnx(net, [sx.Placeholder((2, 1, 28, 28))])
    parameters = sum(np.asarray(tensor.data).nbytes for tensor in net.get_params().values())
    monkeypatch.setattr(export, "LARGEST", 2 * parameters - 2)
    assert sx.sonnx.to_onnx(net, [sx.Placeholder((2, 1, 28, 28))]) == whole
    assert sizes[0] > parameters > 10 * sizes[1]


def test_constants_that_no_message_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise EncodeError("Failed to serialize proto")

    monkeypatch.setattr(onnx.checker, "check_model", refuse)
    with pytest.raises(ExportError, match="more than 2147483647 bytes of constants"):
        sx.sonnx.to_onnx(lambda x: x + 1, [sx.Placeholder((2, 3))])
