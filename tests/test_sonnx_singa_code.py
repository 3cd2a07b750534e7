"""Code with ONNX models as SINGA's users write it, with the package's name exchanged."""

from __future__ import annotations

import copy
from typing import Any

import jax
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from singax import autograd, device, layer, model, module, opt, sonnx, tensor
from singax.errors import ArgumentError, DeviceNotFoundError, NameMismatchError

DEV = device.create_cpu_device()
node = helper.make_node


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def info(name: str, shape: list[Any], dtype: int = TensorProto.FLOAT) -> Any:
    return helper.make_tensor_value_info(name, dtype, shape)


def made(nodes: list[Any], inputs: list[Any], outputs: list[Any], opset: int = 11, **values: np.ndarray) -> Any:
    tensors = [numpy_helper.from_array(value, name) for name, value in values.items()]
    graph = helper.make_graph(nodes, "graph", inputs, outputs, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=6)


def vision() -> Any:
    """A small network for images, as files of the ONNX model zoo are."""
    nodes = [
        node("Conv", ["data", "conv.w", "conv.b"], ["c"], "conv.1", pads=[1, 1, 1, 1]),
        node("BatchNormalization", ["c", "bn.s", "bn.b", "bn.m", "bn.v"], ["n"]),
        node("Relu", ["n"], ["r"], "relu"), node("GlobalAveragePool", ["r"], ["p"], "pool"),
        node("Flatten", ["p"], ["f"], "flat"), node("Gemm", ["f", "fc.w", "fc.b"], ["y"], "fc", transB=1),
    ]  # fmt: skip
    values = {
        "conv.w": random(8, 3, 3, 3), "conv.b": random(8), "bn.s": random(8, seed=1), "bn.b": random(8, seed=2),
        "bn.m": random(8, seed=3), "bn.v": np.abs(random(8, seed=4)) + 0.5, "fc.w": random(5, 8), "fc.b": random(5),
    }  # fmt: skip
    return made(nodes, [info("data", ["N", 3, 6, 6])], [info("y", ["N", 5])], **values)


def language() -> Any:
    """Logits of the next word at each place, for ids and segments (1, places) as in BERT and GPT-2 files."""
    nodes = [
        node("Gather", ["words", "ids"], ["w"]), node("Gather", ["parts", "segments"], ["s"]),
        node("Add", ["w", "s"], ["h"]), node("MatMul", ["h", "out"], ["y"]),
    ]  # fmt: skip
    kinds = [info(name, [1, "T"], TensorProto.INT64) for name in ("ids", "segments")]
    values = {"words": random(11, 4), "parts": random(2, 4, seed=1), "out": random(4, 11, seed=2)}
    return made(nodes, kinds, [info("y", [1, "T", 11])], **values)


X = random(2, 3, 6, 6, seed=9)
Y = np.array([0, 3], np.int32)


def expected(source: Any = None, x: np.ndarray = X) -> np.ndarray:
    return sonnx.prepare(source or vision()).run([x])[0]


# -- examples/onnx: vision ------------------------------------------------------------------------------------------


class MyModel(sonnx.SONNXModel):
    def __init__(self, onnx_model: Any) -> None:
        super().__init__(onnx_model)

    def forward(self, *x: Any) -> Any:
        y = super().forward(*x)
        return y[0]

    def train_one_batch(self, x: Any, y: Any) -> Any:
        pass


def test_a_vision_script() -> None:
    x = tensor.PlaceHolder(X.shape, device=DEV)
    net = MyModel(vision())
    net.compile([x], is_train=False, use_graph=True, sequential=True)
    x = tensor.Tensor(device=DEV, data=X)
    y = net.forward(x)
    np.testing.assert_allclose(tensor.to_numpy(y), expected(), rtol=1e-5, atol=1e-6)
    y = tensor.softmax(y)
    scores = tensor.to_numpy(y)[0]
    np.testing.assert_allclose(scores.sum(), 1, rtol=1e-5)
    assert np.argsort(scores)[::-1][0] == expected()[0].argmax()


def test_prepare_and_run_with_a_device(tmp_path: Any) -> None:
    """`onnx.load`, `sonnx.save` and the forms of `device` that SINGA's examples and tests use."""
    path = tmp_path / "vision.onnx"
    sonnx.save(vision(), str(path))
    onnx_model = onnx.load(str(path))
    for form in (DEV, "CPU", sonnx.cpu_dev, None):
        sg_ir = sonnx.prepare(onnx_model, device=form, init_inputs=[X])
        y = sg_ir.run([X])
        assert isinstance(y, list)
        np.testing.assert_array_equal(y[0], expected())
    with pytest.raises(DeviceNotFoundError, match="gpu"):
        sonnx.prepare(onnx_model, device=sonnx.gpu_dev)


def test_a_rep_of_tensors_trains() -> None:
    """`is_graph`: live Tensors with creators, down to the weights."""
    autograd.training = True
    sg_ir = sonnx.prepare(vision(), device=DEV)
    assert sg_ir.is_graph is False
    assert sg_ir.has_initialized
    sg_ir.is_graph = True
    y = sg_ir.run([tensor.Tensor(data=X, device=DEV)])[0]
    loss = autograd.softmax_cross_entropy(y, tensor.Tensor(data=Y, device=DEV))
    names = {p.name for p, g in autograd.backward(loss)}
    assert names == {"conv.w", "conv.b", "bn.s", "bn.b", "fc.w", "fc.b"}
    sgd, before = opt.SGD(lr=0.1), sg_ir.states["fc.b"]
    sgd(autograd.softmax_cross_entropy(sg_ir.run([tensor.Tensor(data=X)])[0], tensor.Tensor(data=Y)))
    assert (sg_ir.states["fc.b"] != before).any()
    autograd.training = False
    assert sg_ir.run({"data": X})[0].shape == (2, 5)
    np.testing.assert_array_equal(
        sg_ir.run([tensor.Tensor(data=X)], last_layers=-3, aux_output=("r",))[1].to_numpy().shape, (2, 8, 6, 6)
    )


# -- examples/onnx: BERT, GPT-2, RoBERTa -----------------------------------------------------------------------------


class Writer(sonnx.SONNXModel):
    def forward(self, *x: Any) -> Any:
        y = super().forward(*x)[0]
        return autograd.reshape(y, y.shape[-2:])[-1, :]

    def train_one_batch(self, x: Any, y: Any) -> Any:
        pass


def test_a_text_that_grows_by_a_word_at_a_time() -> None:
    ids = np.array([[3, 1]], np.int32)
    x = [tensor.PlaceHolder(ids.shape, device=DEV, dtype=tensor.int32) for _ in range(2)]
    net = Writer(language())
    net.compile(x, is_train=False, use_graph=True, sequential=True)
    text = tensor.from_numpy(ids).as_type(tensor.int32)
    text.to_device(DEV)
    for length in (2, 3, 4):
        y = net.forward(text, tensor.from_numpy(np.zeros((1, length), np.int32)))
        values = {t.name: numpy_helper.to_array(t) for t in language().graph.initializer}
        last = (values["words"][text.to_numpy()[0, -1]] + values["parts"][0]) @ values["out"]
        np.testing.assert_allclose(tensor.to_numpy(y), last, rtol=1e-5, atol=1e-5)
        word = np.argmax(tensor.to_numpy(y)).astype(np.int32).reshape(1, 1)
        text = tensor.concatenate([text, tensor.from_numpy(word)], 1)
    assert text.shape == (1, 5)


# -- examples/onnx/training ------------------------------------------------------------------------------------------


class Tuned(sonnx.SONNXModel):
    def __init__(self, onnx_model: Any, num_classes: int = 4, dim: int = 8) -> None:
        super().__init__(onnx_model)
        self.dimension, self.num_classes = 4, num_classes
        self.linear = layer.Linear(dim, num_classes)
        self.softmax_cross_entropy = layer.SoftMaxCrossEntropy()

    def forward(self, *x: Any) -> Any:
        y = super().forward(*x, last_layers=-3)[0]
        return self.linear(y)

    def train_one_batch(self, x: Any, y: Any, dist_option: str, spars: Any) -> Any:
        out = self.forward(x)
        loss = self.softmax_cross_entropy(out, y)
        if dist_option == "plain":
            self.optimizer(loss)
        return out, loss

    def set_optimizer(self, optimizer: Any) -> None:
        self.optimizer = optimizer


@pytest.mark.parametrize("graph", [True, False])
def test_transfer_learning(graph: bool) -> None:
    net = Tuned(vision())
    net.set_optimizer(opt.SGD(lr=0.05, momentum=0.9, weight_decay=1e-5))
    tx, ty = tensor.Tensor(X.shape, DEV, tensor.float32), tensor.Tensor((2,), DEV, tensor.int32)
    net.compile([tx], is_train=True, use_graph=graph, sequential=False)
    net.train()
    losses = []
    for _ in range(4):
        tx.copy_from_numpy(X)
        ty.copy_from_numpy(Y)
        _, loss = net(tx, ty, "plain", None)
        losses.append(float(tensor.to_numpy(loss).sum()))
    assert losses == sorted(losses, reverse=True)
    assert {"linear.W", "linear.b", "conv.w"} <= set(net.get_states())
    net.eval()
    assert net(tx).shape == (2, 4)


# -- the representation ----------------------------------------------------------------------------------------------


class ByRep(sonnx.SONNXModel):
    """What SINGA's own class does."""

    def forward(self, *x: Any, aux_output: Any = (), **kwargs: Any) -> Any:
        assert self.is_graph
        return self.sg_ir.run(x, aux_output=aux_output, **kwargs)

    def train_one_batch(self, x: Any, y: Any) -> Any:
        loss = autograd.mse_loss(self.forward(x)[0], y)
        self.optimizer(loss)
        return loss


def test_a_model_by_its_rep() -> None:
    net = ByRep(vision())
    net.optimizer = opt.SGD(lr=0.01)
    net.compile([tensor.PlaceHolder(X.shape)], is_train=False)
    np.testing.assert_allclose(net(X)[0].to_numpy(), expected(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(net.sg_ir.run([X])[0].to_numpy(), expected(), rtol=1e-5, atol=1e-6)
    assert net(X, aux_output=("p",))[1].shape == (2, 8, 1, 1)
    assert [out.shape for out in net(X, last_layers=-3)] == [(2, 8)]
    net.train()
    net(X, np.zeros((2, 5), np.float32))
    assert (net.sg_ir.states["fc.b"] != expected_states()["fc.b"]).any()
    np.testing.assert_array_equal(net.sg_ir.states["fc.b"], net.get_params()["fc.b"].to_numpy())
    other = copy.deepcopy(net)
    net.set_params({"fc.b": np.zeros(5, np.float32)})
    assert other.sg_ir.states["fc.b"].any()


def expected_states() -> dict[str, np.ndarray]:
    return {t.name: numpy_helper.to_array(t) for t in vision().graph.initializer}


def test_what_a_rep_shows() -> None:
    sg_ir = sonnx.prepare(vision())
    assert [(i.name, i.dtype, i.shape) for i in sg_ir.inputs] == [("data", np.float32, ("N", 3, 6, 6))]
    assert [(o.name, o.dtype, o.shape) for o in sg_ir.outputs] == [("y", np.float32, ("N", 5))]
    states = expected_states()
    assert sg_ir.states.keys() == states.keys()
    for name, value in sg_ir.states.items():
        np.testing.assert_array_equal(value, states[name])
    names = [x.node.name for x in sg_ir.layers]
    assert names == ["conv_1", "BatchNormalization_1", "relu", "pool", "flat", "fc"]
    assert [x.node.op_type for x in sg_ir.layers][-1] == "Gemm"
    (y,) = sg_ir.relu(np.array([-1.0, 2.0], np.float32))
    np.testing.assert_array_equal(y, [0, 2])
    (y,) = sg_ir.layers[-1].operator(X[:, :, 0, 0] @ np.ones((3, 8), np.float32), states["fc.w"], states["fc.b"])
    assert y.shape == (2, 5)
    with pytest.raises(AttributeError, match="no node"):
        sg_ir.relu_9  # noqa: B018


@pytest.mark.parametrize(
    ("last_layers", "shape"),
    [
        (0, (2, 8, 6, 6)), (3, (2, 8, 1, 1)), (-1, (2, 8, 6, 6)), (-2, (2, 5)), (-3, (2, 8)), (-4, (2, 8, 1, 1)),
    ],
)  # fmt: skip
def test_last_layers_of_a_rep(last_layers: int, shape: tuple[int, ...]) -> None:
    assert sonnx.prepare(vision()).run([X], last_layers=last_layers)[0].shape == shape


def test_auxiliary_outputs_of_a_rep() -> None:
    y, r = sonnx.prepare(vision()).run([X], aux_output=("r",))
    assert (y.shape, r.shape) == ((2, 5), (2, 8, 6, 6))
    with pytest.raises(NameMismatchError, match="q"):
        sonnx.prepare(vision()).run([X], aux_output=("q",))


# -- devices ---------------------------------------------------------------------------------------------------------


def test_the_device_of_a_model_holds_its_weights_and_computes() -> None:
    place = jax.devices("cpu")[3]
    other = module.Module.from_onnx(vision(), device="cpu:3")
    assert {t.device.jax_device for t in other.get_states().values()} == {place}
    assert {t.device.jax_device for t in other.until("p").get_states().values()} == {place}
    other = copy.deepcopy(other)
    other.eval()
    y = other(X)[0]
    assert y.data.devices() == {place}
    assert other.sg_ir.dev == place
    np.testing.assert_allclose(y.to_numpy(), expected(), rtol=1e-5, atol=1e-6)
    trained = ByRep(vision(), device.create(f"cpu:{3}"))
    trained.optimizer = opt.SGD(lr=0.01, momentum=0.9)
    loss = trained(X, np.zeros((2, 5), np.float32))
    assert loss.data.devices() == {place}
    assert {t.data.devices() == {place} for t in trained.get_params().values()} == {True}


def test_the_device_of_a_rep_holds_its_weights() -> None:
    weight, place = random(64, 256), jax.devices("cpu")[5]
    source = made([node("MatMul", ["x", "w"], ["y"])], [info("x", ["N", 64])], [info("y", ["N", 256])], w=weight)
    rep = sonnx.prepare(source, device="CPU:5")
    x = random(3, 64, seed=1)
    np.testing.assert_allclose(rep.run([x])[0], x @ weight, rtol=1e-4, atol=1e-4)
    held = [a for a in jax.live_arrays() if a.shape == weight.shape]
    assert held
    assert {frozenset(a.devices()) for a in held} == {frozenset({place})}


# -- module-level names ----------------------------------------------------------------------------------------------


def test_names_around_nodes_and_types() -> None:
    made_node = sonnx.OnnxNode(node("LeakyRelu", ["x"], ["y"], "leaky", alpha=0.5))
    assert (made_node.name, made_node.op_type, made_node.inputs, made_node.outputs) == (
        "leaky",
        "LeakyRelu",
        ["x"],
        ["y"],
    )
    assert (made_node.getattr("alpha"), made_node.getattr("beta", 7)) == (0.5, 7)
    assert isinstance(made_node.attrs, sonnx.OnnxAttributes)
    made_node.set_attr_inputs("axes", "x")
    made_node.set_weight_inputs("W", "x")
    assert (made_node.attr_inputs, made_node.weight_inputs) == ({"axes": "x"}, {"W": "x"})
    made_node.del_attr_inputs("axes")
    made_node.del_weight_inputs("W")
    assert not made_node.attr_inputs
    assert not made_node.weight_inputs
    x = np.array([-2.0, 3.0], np.float32)
    np.testing.assert_array_equal(sonnx.get_op(made_node, 11)(x)[0], [-1, 3])
    np.testing.assert_array_equal(sonnx.run_node(made_node.proto, [x], device="CPU", opset_version=11)[0], [-1, 3])
    with pytest.raises(ArgumentError, match="NodeProto"):
        sonnx.get_op("Relu", 11)
    assert sonnx.onnx_type_to_singa_type(TensorProto.DOUBLE) == tensor.float32
    assert sonnx.onnx_type_to_singa_type(TensorProto.INT8) == tensor.int32
    assert sonnx.onnx_type_to_singa_type(TensorProto.UINT8) is None
    assert sonnx.NP_TYPE_TO_SINGA_SUPPORT_TYPE[np.dtype("int64")] == tensor.int32


def test_the_backend_of_singa() -> None:
    """SINGA's tests read the names of classes from it."""
    backend = sonnx.SingaBackend
    assert backend._rename_operators["Relu"] == "ReLU"
    assert all(hasattr(autograd, name) for name in backend._rename_operators.values())
    assert backend._opset_version >= 11
    assert backend._ir_version >= 6
    np.testing.assert_array_equal(backend.prepare(vision(), device="CPU").run([X])[0], expected())
    assert issubclass(sonnx.SONNXModel, model.Model)
