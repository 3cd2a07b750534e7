"""SONNXModel: an ONNX graph as a Module that trains."""

from __future__ import annotations

import copy
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from models import assert_no_tracers
from onnx import TensorProto, helper, numpy_helper

import singax as sx
from singax import sonnx
from singax.errors import ArgumentError, DTypeError, ModelFileError, NameMismatchError, ShapeError
from singax.sonnx import SONNXModel

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
node = helper.make_node


def info(name: str, dtype: int = FLOAT, shape: Sequence[Any] | None = None) -> Any:
    return helper.make_tensor_value_info(name, dtype, shape)


def model(
    nodes: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[str], opset: int = 17, **constants: Any
) -> Any:
    """A model whose initializers are the keywords; names of outputs may be whole infos."""
    tensors = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    ends = [info(name) if isinstance(name, str) else name for name in outputs]
    graph = helper.make_graph(list(nodes), "graph", list(inputs), ends, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def linear(name: str, x: str, w: str, b: str, y: str) -> list[Any]:
    return [
        node("Einsum", [x, w], [f"{y}.product"], name=name, equation="ij,jk->ik"),
        node("Add", [f"{y}.product", b], [y], name=f"{name}.bias"),
    ]


WEIGHTS = {"fc1/W": random(5, 7), "fc1/b": random(7), "fc2:W": random(7, 3), "fc2:b": random(3)}


def perceptron() -> Any:
    nodes = [
        *linear("first", "x", "fc1/W", "fc1/b", "h"),
        node("Relu", ["h"], ["a"], name="relu"),
        *linear("second", "a", "fc2:W", "fc2:b", "y"),
    ]
    return model(nodes, [info("x", FLOAT, ["N", 5])], ["y"], **WEIGHTS)


def by_hand(x: np.ndarray, w: dict[str, Any]) -> np.ndarray:
    return np.maximum(x @ w["fc1/W"] + w["fc1/b"], 0) @ w["fc2:W"] + w["fc2:b"]


class Tuned(SONNXModel):
    """Everything but the last two nodes, with a new head."""

    def __init__(self, source: Any, optimizer: Any = None, last_layers: int | None = -4) -> None:
        super().__init__(source)
        self.head, self.loss, self.cut = sx.layer.Linear(2), sx.layer.SoftMaxCrossEntropy(), last_layers
        self.optimizer = optimizer or sx.opt.SGD(lr=0.05, momentum=0.9)

    def forward(self, *x: Any) -> Any:
        return self.head(super().forward(*x, last_layers=self.cut)[0])

    def train_one_batch(self, x: Any, y: Any) -> Any:
        out = self.forward(x)
        loss = self.loss(out, y)
        self.optimizer(loss)
        return out, loss


class Fitted(SONNXModel):
    """Fits the first output to a target."""

    def __init__(self, source: Any, optimizer: Any = None) -> None:
        super().__init__(source)
        self.loss, self.optimizer = sx.layer.MeanSquareError(), optimizer or sx.opt.SGD(lr=0.05)

    def train_one_batch(self, *values: Any) -> Any:
        loss = self.loss(self.forward(*values[:-1])[0], values[-1])
        self.optimizer(loss)
        return loss


def trained(net: Any, *batch: Any, steps: int = 3) -> list[float]:
    return [float(net(*batch).to_numpy().sum()) for _ in range(steps)]


# -- weights ---------------------------------------------------------------------------------------------------------


def test_parameters_have_the_names_and_values_of_the_file() -> None:
    net = SONNXModel(perceptron())
    assert list(net.get_params()) == list(WEIGHTS)
    for name, tensor in net.get_params().items():
        np.testing.assert_array_equal(tensor.to_numpy(), WEIGHTS[name])
    assert list(net.get_states()) == list(WEIGHTS)


def test_set_params_is_used_by_the_next_call() -> None:
    net, x = SONNXModel(perceptron()), random(4, 5, seed=1)
    net.eval()
    np.testing.assert_allclose(net(x)[0].to_numpy(), by_hand(x, WEIGHTS), rtol=1e-5, atol=1e-5)
    new = {**WEIGHTS, "fc2:b": np.ones(3, np.float32)}
    net.set_params({"fc2:b": new["fc2:b"]})
    np.testing.assert_allclose(net(x)[0].to_numpy(), by_hand(x, new), rtol=1e-5, atol=1e-5)


def test_outputs_are_a_list_whether_compiled_eager_or_pure() -> None:
    net, x = SONNXModel(perceptron()), random(4, 5, seed=1)
    net.compile([sx.Placeholder((None, 5))], is_train=False)
    compiled = net(x)
    net.graph(False)
    eager = net(x)
    init, apply = net.functional()
    pure = jax.jit(apply)(init(0, x), x)
    assert [type(out) for out in (compiled, eager, pure)] == [list] * 3
    for out in (compiled[0].to_numpy(), eager[0].to_numpy(), pure[0]):
        np.testing.assert_allclose(out, by_hand(x, WEIGHTS), rtol=1e-5, atol=1e-5)


def stored(kind: str) -> tuple[list[Any], dict[str, Any], np.ndarray]:
    """A weight `W` kept in another form: nodes that make it, initializers, and its value."""
    value = random(5)
    if kind == "float16":
        return [node("Cast", ["W"], ["used"], to=FLOAT)], {"W": value.astype(np.float16)}, value.astype(np.float16)
    if kind == "float64":
        return [node("Cast", ["W"], ["used"], to=FLOAT)], {"W": value.astype(np.float64)}, value
    if kind == "constant":
        tensor = numpy_helper.from_array(value, "")
        return [node("Constant", [], ["W"], value=tensor), node("Identity", ["W"], ["used"])], {}, value
    if kind == "floats":
        return [node("Constant", [], ["W"], value_floats=value.tolist()), node("Identity", ["W"], ["used"])], {}, value
    whole, scale = np.clip(np.round(value / 0.1), -128, 127).astype(np.int8), np.float32(0.1)
    constants = {"W": whole, "scale": scale, "zero": np.int8(0)}
    return [node("DequantizeLinear", ["W", "scale", "zero"], ["used"])], constants, whole * scale


@pytest.mark.parametrize("kind", ["float16", "float64", "constant", "floats", "int8"])
def test_a_stored_weight_is_a_float_parameter(kind: str) -> None:
    nodes, constants, value = stored(kind)
    source = model([*nodes, node("Mul", ["x", "used"], ["y"])], [info("x", FLOAT, ["N", 5])], ["y"], **constants)
    net = Fitted(source)
    assert list(net.get_params()) == ["W"]
    assert net.get_params()["W"].dtype == np.float32
    np.testing.assert_allclose(net.get_params()["W"].to_numpy(), value, rtol=1e-6)
    net.compile([sx.Placeholder((None, 5))])
    x, target = random(4, 5, seed=2), random(4, 5, seed=3)
    losses = trained(net, x, target)
    np.testing.assert_allclose(losses[0], np.mean((x * value - target) ** 2), rtol=1e-4)
    assert losses[0] > losses[1] > losses[2]


def test_a_stored_weight_that_is_read_twice_becomes_two() -> None:
    nodes = [
        node("Cast", ["W"], ["a"], to=FLOAT), node("Cast", ["W"], ["b"], to=FLOAT),
        node("Mul", ["x", "a"], ["z"]), node("Add", ["z", "b"], ["y"]),
    ]  # fmt: skip
    net = SONNXModel(model(nodes, [info("x", FLOAT, [5])], ["y"], W=np.ones(5, np.float16)))
    assert list(net.get_params()) == ["a_value", "b_value"]


def test_numbers_of_a_formula_stay_constants() -> None:
    nodes = [
        node("Constant", [], ["two"], value_float=2.0),
        node("Constant", [], ["eps"], value=numpy_helper.from_array(np.array([1e-5], np.float32))),
        node("Mul", ["x", "two"], ["a"]), node("Add", ["a", "eps"], ["b"]), node("Clip", ["b", "low", "high"], ["c"]),
        node("Pow", ["c", "power"], ["d"]), node("Gather", ["d", "index"], ["e"], axis=1),
        node("Mul", ["e", "gain"], ["y"]),
    ]  # fmt: skip
    constants = {
        "low": np.float32(-1), "high": np.float32(1), "power": np.array([2.0], np.float32), "index": np.array([0, 2]),
        "gain": np.array([1.5], np.float32),
    }  # fmt: skip
    net, x = SONNXModel(model(nodes, [info("x", FLOAT, ["N", 5])], ["y"], **constants)), random(2, 5)
    assert list(net.get_params()) == ["gain"]
    net.eval()
    expected = np.clip(2 * x + 1e-5, -1, 1)[:, [0, 2]] ** 2 * 1.5
    np.testing.assert_allclose(net(x)[0].to_numpy(), expected, rtol=1e-5)


def branches(shape: Sequence[Any] = ("N", 5)) -> Any:
    """y = x · W of one of two branches, by a condition; both call their weight W."""

    def body(name: str, seed: int) -> Any:
        weight = node("Constant", [], ["W"], value=numpy_helper.from_array(random(5, seed=seed)))
        return helper.make_graph([weight, node("Mul", ["x", "W"], [name])], name, [], [info(name)])

    choice = node("If", ["c"], ["y"], then_branch=body("t", 1), else_branch=body("e", 2), name="choice")
    return model([choice], [info("x", FLOAT, shape), info("c", TensorProto.BOOL, [])], ["y"])


def test_weights_inside_branches_are_parameters() -> None:
    net, x = SONNXModel(branches()), random(3, 5)
    assert list(net.get_params()) == ["W", "W_1"]
    net.eval()
    for condition, seed in ((True, 1), (False, 2)):
        expected = x * random(5, seed=seed)
        np.testing.assert_allclose(net(x, condition)[0].to_numpy(), expected, rtol=1e-6)
        np.testing.assert_allclose(net(x, np.array(condition))[0].to_numpy(), expected, rtol=1e-6)


def test_gradients_reach_the_branch_that_ran() -> None:
    net = Fitted(branches())
    net.compile([sx.Placeholder((None, 5)), sx.Placeholder((), dtype=np.bool_)])
    before = {name: tensor.to_numpy() for name, tensor in net.get_params().items()}
    net(random(3, 5), np.array(True), random(3, 5, seed=4))
    moved = {name: not np.array_equal(tensor.to_numpy(), before[name]) for name, tensor in net.get_params().items()}
    assert moved == {"W": False, "W_1": True}  # onnx.helper sorts attributes: else_branch comes first


# -- training --------------------------------------------------------------------------------------------------------


def test_a_new_head_trains_with_the_body() -> None:
    net = Tuned(perceptron())
    net.compile([sx.Placeholder((None, 5))])
    assert set(net.get_params()) == {"fc1/W", "fc1/b", "fc2:W", "fc2:b", "head.W", "head.b"}
    x, y = random(6, 5), np.array([0, 1, 1, 0, 1, 0], np.int32)
    losses = [float(net(x, y)[1].to_numpy().sum()) for _ in range(5)]
    assert losses == sorted(losses, reverse=True)
    assert net(x, y)[0].shape == (6, 2)
    assert len(net.compilations) == 1
    assert_no_tracers(net)


def test_a_step_is_that_of_the_same_layers() -> None:
    """Against a hand-written gradient of the same function."""
    net, x, y = Fitted(perceptron(), sx.opt.SGD(lr=0.1)), random(6, 5), random(6, 3, seed=5)
    net.compile([sx.Placeholder((None, 5))])
    net(x, y)

    def loss(w: Any) -> Any:
        out = jnp.maximum(x @ w["fc1/W"] + w["fc1/b"], 0) @ w["fc2:W"] + w["fc2:b"]
        return jnp.mean((out - y) ** 2)

    gradients = jax.grad(loss)(WEIGHTS)
    for name, tensor in net.get_params().items():
        expected = WEIGHTS[name] - 0.1 * gradients[name]
        np.testing.assert_allclose(tensor.to_numpy(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("how", ["pattern", "flag"])
def test_freezing(how: str) -> None:
    optimizer = sx.opt.SGD(lr=0.1, momentum=0.9, freeze="fc1*" if how == "pattern" else None)
    net = Tuned(perceptron(), optimizer)
    net.compile([sx.Placeholder((None, 5))])
    if how == "flag":
        for name, tensor in net.get_params().items():
            tensor.requires_grad = not name.startswith("fc1")
    net(random(6, 5), np.array([0, 1, 1, 0, 1, 0], np.int32))
    for name in ("fc1/W", "fc1/b"):
        np.testing.assert_array_equal(net.get_params()[name].to_numpy(), WEIGHTS[name])


def normalised(**attributes: Any) -> Any:
    names = ["scale", "bias", "mean", "var"]
    nodes = [node("BatchNormalization", ["x", *names], ["y"], **attributes)]
    values = [random(3, seed=1), random(3, seed=2), random(3, seed=3), np.abs(random(3, seed=4)) + 0.5]
    return model(nodes, [info("x", FLOAT, ["N", 3, 4])], ["y"], **dict(zip(names, values, strict=True)))


def test_batch_normalisation_follows_training_mode() -> None:
    net = Fitted(normalised(momentum=0.8, epsilon=1e-3), sx.opt.SGD(lr=0.0))
    net.compile([sx.Placeholder((None, 3, 4))])
    assert list(net.get_params()) == ["scale", "bias"]
    assert list(net.get_states()) == ["scale", "bias", "mean", "var"]
    old = {name: tensor.to_numpy() for name, tensor in net.get_states().items()}
    x = random(5, 3, 4, seed=9) * 2 + 1
    mean, var = x.mean((0, 2)), x.var((0, 2))

    def expected(mean: np.ndarray, var: np.ndarray) -> np.ndarray:
        flat = (x - mean[:, None]) / np.sqrt(var[:, None] + 1e-3)
        return flat * old["scale"][:, None] + old["bias"][:, None]

    loss = trained(net, x, np.zeros_like(x), steps=1)[0]
    np.testing.assert_allclose(loss, np.mean(expected(mean, var) ** 2), rtol=1e-4)
    new = {name: tensor.to_numpy() for name, tensor in net.get_states().items()}
    np.testing.assert_allclose(new["mean"], 0.8 * old["mean"] + 0.2 * mean, rtol=1e-5)
    np.testing.assert_allclose(new["var"], 0.8 * old["var"] + 0.2 * var, rtol=1e-5)
    net.eval()
    np.testing.assert_allclose(net(x)[0].to_numpy(), expected(new["mean"], new["var"]), rtol=1e-4, atol=1e-5)


def test_dropout_follows_training_mode() -> None:
    nodes = [node("Dropout", ["x", "ratio"], ["d"]), node("Mul", ["d", "w"], ["y"])]
    source = model(nodes, [info("x", FLOAT, ["N", 64])], ["y"], ratio=np.float32(0.25), w=np.ones(64, np.float32))
    net, x = SONNXModel(source), np.ones((8, 64), np.float32)
    net.compile([sx.Placeholder((None, 64))])
    first, second = (net.forward(x)[0].to_numpy() for _ in range(2))
    assert set(np.unique(first)) == {np.float32(0), np.float32(1 / 0.75)}
    assert 0.15 < np.mean(first == 0) < 0.35
    assert (first != second).any()
    net.eval()
    np.testing.assert_array_equal(net(x)[0].to_numpy(), x)


def seeded(op_type: str) -> Any:
    """Two random nodes with the same seed; y = w · (first, second)."""
    if op_type == "Dropout":
        draws = [node("Dropout", ["x", "half"], [name], seed=7) for name in ("a", "b")]
    else:
        draws = [node(op_type, ["x"], [name], seed=7.0) for name in ("a", "b")]
    nodes = [*draws, node("Concat", ["a", "b"], ["c"], axis=0), node("Mul", ["c", "w"], ["y"])]
    return model(nodes, [info("x", FLOAT, [2, 32])], ["y"], half=np.float32(0.5), w=np.ones(32, np.float32))


@pytest.mark.parametrize("use_graph", [True, False])
@pytest.mark.parametrize("op_type", ["Dropout", "RandomNormalLike", "Bernoulli"])
def test_seeded_nodes_draw_a_reproducible_sequence(op_type: str, use_graph: bool) -> None:
    class Drawn(SONNXModel):
        def train_one_batch(self, x: Any) -> Any:
            return self.forward(x)[0]

    x, runs = np.full((2, 32), 0.5, np.float32), []
    for seed in (1, 2):
        sx.device.set_seed(seed)
        net = Drawn(seeded(op_type))
        net.compile([sx.Placeholder((2, 32))], use_graph=use_graph)
        runs.append([net(x).to_numpy() for _ in range(3)])
        assert net.get_states()["draws"].to_numpy().tolist() == [3]
    np.testing.assert_array_equal(runs[0], runs[1])
    drawn = [half.tobytes() for run in runs[0] for half in (run[:2], run[2:])]
    assert len(set(drawn)) == 6
    assert "draws" not in net.get_params()
    net.eval()
    np.testing.assert_array_equal(net(x)[0].to_numpy(), net(x)[0].to_numpy())
    assert net.get_states()["draws"].to_numpy().tolist() == [3]


def test_a_sequence_goes_on_from_a_checkpoint(tmp_path: pathlib.Path) -> None:
    first, second, x = (
        SONNXModel(seeded("Bernoulli")),
        SONNXModel(seeded("Bernoulli")),
        np.full((2, 32), 0.5, np.float32),
    )
    first.forward(x)
    first.save_states(tmp_path / "states.zip")
    second.load_states(tmp_path / "states.zip")
    np.testing.assert_array_equal(first.forward(x)[0].to_numpy(), second.forward(x)[0].to_numpy())


def test_a_model_without_seeds_counts_nothing() -> None:
    assert list(SONNXModel(perceptron()).get_states()) == list(WEIGHTS)


def test_freezing_by_name() -> None:
    net = Tuned(perceptron())
    net.freeze("fc*")
    net.compile([sx.Placeholder((None, 5))])
    net(random(6, 5), np.array([0, 1, 1, 0, 1, 0], np.int32))
    for name, value in WEIGHTS.items():
        np.testing.assert_array_equal(net.get_params()[name].to_numpy(), value)
        assert not net.get_params()[name].requires_grad
    assert {path for path in net.state_dict() if "momentum" in path} == {
        "optimizer.momentum.head.W", "optimizer.momentum.head.b",
    }  # fmt: skip


# -- cutting ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("last_layers", "nodes"), [(0, 1), (2, 3), (9, 5), (-1, 1), (-2, 5), (-3, 4), (-4, 3), (None, 5)]
)
def test_last_layers_counts_as_singa_does(last_layers: int | None, nodes: int) -> None:
    net, x = SONNXModel(perceptron()), random(4, 5)
    net.eval()
    made = x @ WEIGHTS["fc1/W"]
    hidden = np.maximum(made + WEIGHTS["fc1/b"], 0)
    steps = [made, made + WEIGHTS["fc1/b"], hidden, hidden @ WEIGHTS["fc2:W"], by_hand(x, WEIGHTS)]
    out = net(x, last_layers=last_layers)
    np.testing.assert_allclose(out[0].to_numpy(), steps[nodes - 1], rtol=1e-5, atol=1e-5)


def test_auxiliary_outputs_come_last() -> None:
    net, x = SONNXModel(perceptron()), random(4, 5)
    net.eval()
    y, a, w = net(x, aux_output=("a", "fc1/b"))
    assert (y.shape, a.shape) == ((4, 3), (4, 7))
    np.testing.assert_array_equal(w.to_numpy(), WEIGHTS["fc1/b"])
    with pytest.raises(NameMismatchError, match="nothing"):
        net(x, aux_output=("nothing",))


@pytest.mark.parametrize("name", ["a", "relu"])
def test_until_a_node_or_tensor(name: str) -> None:
    net, x = SONNXModel(perceptron()), random(4, 5)
    net.set_params({"fc1/b": np.full(7, 0.5, np.float32)})
    cut = net.until(name)
    cut.eval()
    assert list(cut.get_params()) == ["fc1/W", "fc1/b"]
    expected = np.maximum(x @ WEIGHTS["fc1/W"] + 0.5, 0)
    np.testing.assert_allclose(cut(x)[0].to_numpy(), expected, rtol=1e-5, atol=1e-5)
    cut.set_params({"fc1/b": np.zeros(7, np.float32)})
    assert net.get_params()["fc1/b"].to_numpy()[0] == 0.5


def test_until_an_unknown_name_is_refused() -> None:
    with pytest.raises(NameMismatchError, match="'h9'"):
        SONNXModel(perceptron()).until("h9")


def test_a_cut_model_may_be_a_layer() -> None:
    class Composed(sx.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.head = SONNXModel(perceptron()).until("relu"), sx.layer.Linear(2)

        def forward(self, x: Any) -> Any:
            return self.head(self.body(x)[0])

    net = Composed()
    net.compile([sx.Placeholder((None, 5))], is_train=False)
    assert list(net.get_params()) == ["body.fc1/W", "body.fc1/b", "head.W", "head.b"]
    assert net(random(4, 5)).shape == (4, 2)


# -- files and copies ------------------------------------------------------------------------------------------------


def test_from_onnx_reads_a_file(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(perceptron(), path)
    assert isinstance(sx.Module.from_onnx(path), SONNXModel)
    assert isinstance(Tuned.from_onnx(str(path)), Tuned)
    assert sx.sonnx is sonnx


def test_states_go_through_a_file(tmp_path: pathlib.Path) -> None:
    first, second, x = SONNXModel(normalised()), SONNXModel(normalised()), random(5, 3, 4)
    first.compile([sx.Placeholder((None, 3, 4))])
    first.forward(x)
    first.save_states(tmp_path / "states.zip")
    second.load_states(tmp_path / "states.zip")
    for name, tensor in first.get_states().items():
        np.testing.assert_array_equal(second.get_states()[name].to_numpy(), tensor.to_numpy())


def test_a_copy_has_weights_of_its_own() -> None:
    net = Fitted(perceptron())
    net.compile([sx.Placeholder((None, 5))])
    other = copy.deepcopy(net)
    trained(net, random(4, 5), random(4, 3), steps=1)
    np.testing.assert_array_equal(other.get_params()["fc2:b"].to_numpy(), WEIGHTS["fc2:b"])
    trained(other, random(4, 5), random(4, 3), steps=1)
    for name, tensor in net.get_params().items():
        np.testing.assert_array_equal(other.get_params()[name].to_numpy(), tensor.to_numpy())


# -- index arithmetic and 64 bits ------------------------------------------------------------------------------------


def positions() -> Any:
    """An embedding of ids plus one of positions that are computed from the shape, as exported transformers do."""
    nodes = [
        node("Gather", ["words", "ids"], ["w"]), node("Shape", ["ids"], ["s"]), node("Gather", ["s", "one"], ["n"]),
        node("Unsqueeze", ["n", "zeros"], ["ns"]), node("Slice", ["table", "zeros", "ns", "ones"], ["p"]),
        node("Gather", ["places", "p"], ["q"]), node("Add", ["w", "q"], ["y"]),
    ]  # fmt: skip
    constants = {
        "words": random(11, 4), "places": random(8, 4, seed=1), "one": np.int64(1), "zeros": np.array([0]),
        "ones": np.array([1]), "table": np.arange(8)[None],
    }  # fmt: skip
    return model(nodes, [info("ids", INT64, ["N", "T"])], ["y"], **constants)


def test_index_arithmetic_folds_under_placeholders() -> None:
    net = SONNXModel(positions())
    net.compile([sx.Placeholder((None, 6), dtype=np.int32)], is_train=False)
    ids = np.random.default_rng(0).integers(0, 11, (3, 6))
    expected = random(11, 4)[ids] + random(8, 4, seed=1)[:6]
    np.testing.assert_array_equal(net(ids)[0].to_numpy(), expected)
    assert list(net.get_params()) == ["words", "places"]


def test_indices_beyond_32_bits_are_refused() -> None:
    net = SONNXModel(positions())
    net.eval()
    with pytest.raises(DTypeError, match="32 bits"):
        net(np.full((1, 2), 1 << 40))


TO_DOUBLE = [node("Cast", ["x"], ["d"], to=TensorProto.DOUBLE, name="wide"), node("Cast", ["d"], ["y"], to=FLOAT)]
LARGE = [node("Cast", ["x"], ["i"], to=INT64), node("Add", ["i", "big"], ["y"], name="sum")]


@pytest.mark.parametrize(
    ("nodes", "constants", "culprit"), [(TO_DOUBLE, {}, "wide"), (LARGE, {"big": np.array([1 << 40])}, "sum")]
)
def test_graphs_that_need_64_bits_are_refused_by_name(nodes: Any, constants: Any, culprit: str) -> None:
    net = SONNXModel(model(nodes, [info("x", FLOAT, ["N"])], ["y"], **constants))
    with pytest.raises(ModelFileError, match=f"(?s){culprit}.*x64"):
        net.compile([sx.Placeholder((None,))])


def test_float64_weights_are_refused_by_name() -> None:
    source = model([node("Add", ["x", "w"], ["y"])], [info("x", TensorProto.DOUBLE, [2])], ["y"], w=np.ones(2))
    with pytest.raises(ModelFileError, match=r"'w'.*float64"):
        SONNXModel(source)


# -- refusals --------------------------------------------------------------------------------------------------------


def test_a_node_for_the_host_is_named() -> None:
    nodes = [node("NonZero", ["x"], ["z"], name="where"), node("Cast", ["z"], ["y"], to=FLOAT)]
    net = SONNXModel(model(nodes, [info("x", FLOAT, [4])], ["y"]))
    with pytest.raises(ModelFileError, match=r"(?s)'where' \(NonZero\).*depends on data"):
        net.compile([sx.Placeholder((4,))])


def test_an_input_that_must_be_known_may_be_a_number() -> None:
    nodes = [node("Unsqueeze", ["n", "zero"], ["s"]), node("Expand", ["w", "s"], ["y"], name="wider")]
    source = model(nodes, [info("n", INT64, [])], ["y"], zero=np.array([0]), w=np.ones(1, np.float32))
    net = SONNXModel(source)
    net.eval()
    assert net(3)[0].shape == (3,)
    with pytest.raises(ModelFileError, match="'wider'"):
        net(np.array(3))


@pytest.mark.parametrize(
    ("inputs", "error"),
    [
        ((np.ones((2, 4), np.float32),), ShapeError), ((np.ones(5, np.float32),), ShapeError), ((), NameMismatchError),
        ((np.ones((2, 5), np.float32),) * 2, ArgumentError), ((np.ones((2, 5), np.complex64),), DTypeError),
    ],
)  # fmt: skip
def test_inputs_that_do_not_fit(inputs: Any, error: type[Exception]) -> None:
    net = SONNXModel(perceptron())
    net.eval()
    with pytest.raises(error):
        net(*inputs)


@pytest.mark.parametrize("make", [perceptron, normalised, positions])
def test_prepare_gives_the_same(make: Callable[[], Any]) -> None:
    source = make()
    shape = {"x": (4, 5) if make is perceptron else (4, 3, 4), "ids": (2, 6)}[source.graph.input[0].name]
    x = np.ones(shape, np.int64) if make is positions else random(*shape)
    net = SONNXModel(source)
    net.eval()
    np.testing.assert_allclose(net(x)[0].to_numpy(), sonnx.prepare(source).run([x])[0], rtol=1e-5, atol=1e-6)
