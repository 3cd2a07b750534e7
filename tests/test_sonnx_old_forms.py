"""Operators as older opsets had them: by NumPy before opset 7, against onnxruntime from there on."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from singax.errors import ModelFileError
from singax.sonnx import SONNXModel, prepare

RNG = np.random.default_rng(5)


def floats(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def model(op_type: str, inputs: Any, opset: int, outputs: int = 1, held: Any = (), **attributes: Any) -> Any:
    """A model of one node; the inputs at the places `held` are initializers."""
    names = [f"x{k}" if value is not None else "" for k, value in enumerate(inputs)]
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        for name, value in zip(names, inputs, strict=True)
        if name
    ]
    results = [f"y{k}" for k in range(outputs)]
    graph = helper.make_graph(
        [helper.make_node(op_type, names, results, **attributes)],
        "graph",
        infos,
        [onnx.ValueInfoProto(name=name) for name in results],
        [numpy_helper.from_array(inputs[k], names[k]) for k in held],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=3)


def run(op_type: str, inputs: Any, opset: int, **options: Any) -> list[Any]:
    """The outputs, which are the same where all inputs are constants."""
    held = options.pop("held", ())
    made = prepare(model(op_type, inputs, opset, held=held, **options))
    found = made.run([value for k, value in enumerate(inputs) if value is not None and k not in held])
    assert all(not piece.reason for piece in made.executor.pieces())
    given = [k for k, value in enumerate(inputs) if value is not None]
    for a, b in zip(found, prepare(model(op_type, inputs, opset, held=given, **options)).run([]), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    return found


def close(found: Any, wanted: Any) -> None:
    assert found.dtype == wanted.dtype
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


X, COLUMN, ROW = floats(2, 3, 4), floats(3), floats(4)
TRUTH, FALSEHOOD = RNG.integers(0, 2, (2, 3)).astype(bool), RNG.integers(0, 2, 3).astype(bool)

# (operator, opset, inputs, attributes, the result by NumPy, which inputs are constants)
CASES: list[tuple[str, int, list[Any], dict[str, Any], Any, tuple[int, ...]]] = [
    ("Add", 1, [X, COLUMN], {"broadcast": 1, "axis": 1}, X + COLUMN[:, None], ()),
    ("Add", 6, [X, ROW], {"broadcast": 1}, X + ROW, ()),
    ("Add", 6, [X, floats(3, 4)[:, :1] * 0 + 2], {"broadcast": 1, "axis": -2}, X + 2, ()),
    ("Add", 6, [X, X], {}, X + X, ()),
    ("Sub", 1, [X, X[0, :, :1]], {"broadcast": 1, "axis": 1}, X - X[0, :, :1], ()),
    ("Mul", 6, [X, np.float32([3])], {"broadcast": 1}, X * 3, ()),
    ("Mul", 6, [X, floats(2)], {"broadcast": 1, "axis": 0}, None, ()),
    ("Div", 6, [np.int64([[7, -7]]), np.int64([2])], {"broadcast": 1}, np.int64([[3, -3]]), ()),
    ("Pow", 1, [abs(X), COLUMN], {"broadcast": 1, "axis": 1}, abs(X) ** COLUMN[:, None], ()),
    ("Greater", 1, [X, ROW], {"broadcast": 1}, X > ROW, ()),
    ("Less", 1, [X, COLUMN], {"broadcast": 1, "axis": 1}, COLUMN[:, None] > X, ()),
    ("Equal", 1, [np.int32([[1, 2], [3, 1]]), np.int32([1, 3])], {"broadcast": 1, "axis": 0},
     np.array([[True, False], [True, False]]), ()),
    ("And", 1, [TRUTH, FALSEHOOD], {"broadcast": 1}, TRUTH & FALSEHOOD, ()),
    ("Or", 1, [TRUTH, TRUTH[:, 0]], {"broadcast": 1, "axis": 0}, TRUTH | TRUTH[:, :1], ()),
    ("Xor", 1, [TRUTH, ~TRUTH], {}, TRUTH ^ ~TRUTH, ()),
    ("Cast", 1, [X * 9], {"to": "INT32"}, (X * 9).astype(np.int32), ()),
    ("Cast", 1, [X], {"to": "BOOL"}, X.astype(bool), ()),
    ("Cast", 6, [X * 9], {"to": 7}, (X * 9).astype(np.int64), ()),
    ("Concat", 1, [X, X], {}, np.concatenate([X, X], 1), ()),
    ("Concat", 3, [X, X], {"axis": 2}, np.concatenate([X, X], 2), ()),
    ("Tile", 1, [X, np.int64([3]), np.int64([1])], {}, np.tile(X, (1, 3, 1)), (1, 2)),
    ("Selu", 1, [X], {}, np.where(X > 0, 1.0507 * X, 1.0507 * 1.6732 * np.expm1(X)).astype(np.float32), ()),
    ("Selu", 6, [X], {}, np.where(X > 0, X, 1.6732632 * np.expm1(X)).astype(np.float32) * np.float32(1.050701), ()),
    ("Clip", 1, [X], {"min": -0.5}, np.maximum(X, -0.5), ()),
    ("Clip", 6, [X], {"min": -0.5, "max": 0.25}, np.clip(X, -0.5, 0.25), ()),
    ("Clip", 6, [X], {}, X, ()),
    ("Reshape", 1, [X], {"shape": [0, -1]}, X.reshape(2, 12), ()),
    ("Reshape", 5, [X, np.int64([4, 0, -1])], {}, X.reshape(4, 3, 2), (1,)),
    ("Pad", 1, [X], {"paddings": [0, 1, 0, 0, 0, 2], "value": 7.0},
     np.pad(X, ((0, 0), (1, 0), (0, 2)), constant_values=7), ()),
    ("Pad", 2, [X], {"pads": [0, 1, 0, 0, 0, 2], "mode": "edge"}, np.pad(X, ((0, 0), (1, 0), (0, 2)), "edge"), ()),
    ("Pad", 2, [X], {"pads": [0, 0, 1, 0, 0, 2], "mode": "reflect"},
     np.pad(X, ((0, 0), (0, 0), (1, 2)), "reflect"), ()),
    ("Pad", 2, [X], {"pads": [0, -1, 0, 0, 0, -2]}, X[:, 1:, :2], ()),
    ("Slice", 1, [X], {"starts": [1, -3], "ends": [9, -1], "axes": [1, 2]}, X[:, 1:, 1:3], ()),
    ("Slice", 1, [X], {"starts": [1], "ends": [2]}, X[1:2], ()),
    ("Squeeze", 1, [X[:, :1]], {"axes": [1]}, X[:, 0], ()),
    ("Unsqueeze", 1, [X], {"axes": [0, 3]}, X[None, :, :, None], ()),
    ("Split", 1, [X, np.int64([1, 3])], {"axis": 2}, [X[..., :1], X[..., 1:]], (1,)),
    ("Split", 1, [X], {"axis": 2, "split": [3, 1]}, [X[..., :3], X[..., 3:]], ()),
    ("Split", 2, [X], {"axis": 2}, [X[..., :2], X[..., 2:]], ()),
    ("TopK", 1, [X], {"k": 2, "axis": 1}, [-np.sort(-X, 1)[:, :2], np.argsort(-X, 1)[:, :2]], ()),
    ("Softmax", 1, [X], {}, (np.exp(X) / np.exp(X).sum((1, 2), keepdims=True)), ()),
    ("LogSoftmax", 1, [X], {"axis": 0}, X - np.log(np.exp(X).sum()), ()),
    ("Hardmax", 1, [X], {"axis": 2}, (X.max(2, keepdims=True) == X).astype(np.float32), ()),
    ("ReduceSum", 1, [X], {"axes": [0, 2], "keepdims": 0}, X.sum((0, 2)), ()),
    ("ReduceLogSumExp", 1, [X], {}, np.log(np.exp(X).sum(keepdims=True)), ()),
    ("ArgMax", 1, [X], {"axis": 1}, X.argmax(1)[:, None], ()),
    ("Gather", 1, [X, np.int32([2, 0])], {"axis": 1}, X[:, [2, 0]], ()),
    ("Flatten", 1, [X], {"axis": 2}, X.reshape(6, 4), ()),
    ("Gemm", 1, [X[0], X[1].T, COLUMN], {"broadcast": 1, "alpha": 0.5, "beta": 2.0},
     0.5 * X[0] @ X[1].T + 2 * COLUMN, ()),
    ("Gemm", 6, [X[0], X[1], X[0, :, :3]], {"transB": 1}, X[0] @ X[1].T + X[0, :, :3], ()),
    ("PRelu", 1, [X, COLUMN], {}, np.where(X < 0, X * COLUMN[:, None], X), ()),
    ("PRelu", 6, [X, np.float32([0.5])], {}, np.where(X < 0, X * np.float32(0.5), X), ()),
    ("Elu", 1, [X], {"alpha": 2.0, "consumed_inputs": [0]}, np.where(X > 0, X, 2 * np.expm1(X)), ()),
    ("HardSigmoid", 1, [X], {}, np.clip(np.float32(0.2) * X + np.float32(0.5), 0, 1), ()),
    ("LeakyRelu", 1, [X], {}, np.where(X < 0, X * np.float32(0.01), X), ()),
    ("Max", 1, [X, -X], {}, abs(X), ()),
    ("Mean", 6, [X, X + 2], {}, X + 1, ()),
    ("Sum", 1, [X], {}, X, ()),
    ("Dropout", 1, [X], {"is_test": 1}, X, ()),
    ("Dropout", 6, [X], {"is_test": 1, "ratio": 0.1}, [X, np.ones_like(X)], ()),
    ("InstanceNormalization", 1, [X, COLUMN, COLUMN], {"epsilon": 0.0},
     (X - X.mean(2, keepdims=True)) / X.std(2, keepdims=True) * COLUMN[:, None] + COLUMN[:, None], ()),
    ("Upsample", 1, [X[None]], {"height_scale": 2.0, "width_scale": 3.0, "mode": "nearest"},
     X[None].repeat(2, 2).repeat(3, 3), ()),
    ("GlobalLpPool", 1, [X], {"p": 2.0}, np.sqrt((X * X).sum(2, keepdims=True)), ()),
    ("LpPool", 1, [X], {"kernel_shape": [2], "strides": [2], "p": 1.0}, abs(X).reshape(2, 3, 2, 2).sum(3), ()),
    ("MaxPool", 1, [X], {"kernel_shape": [2], "strides": [2], "auto_pad": "VALID"}, X.reshape(2, 3, 2, 2).max(3), ()),
    ("AveragePool", 1, [X], {"kernel_shape": [3], "pads": [1, 0]},
     np.stack([X[..., :2].mean(2), X[..., :3].mean(2), X[..., 1:].mean(2)], 2), ()),
    ("SpaceToDepth", 1, [X[None, :1, :2]], {"blocksize": 2},
     X[None, 0, :2].reshape(1, 2, 2, 2).transpose(0, 1, 3, 2).reshape(1, 4, 1, 2), ()),
    ("DepthToSpace", 1, [X.reshape(1, 4, 2, 3)], {"blocksize": 2},
     X.reshape(1, 2, 2, 1, 2, 3).transpose(0, 3, 4, 1, 5, 2).reshape(1, 1, 4, 6), ()),
    ("Shape", 1, [X], {}, np.int64([2, 3, 4]), ()),
    ("OneHot", 9, [np.int64([1, -1, 3]), np.int64([3]), np.float32([0, 1])], {},
     np.float32([[0, 1, 0], [0, 0, 0], [0, 0, 0]]), (1,)),
    ("OneHot", 11, [np.int64([1, -1, 3]), np.int64([3]), np.float32([0, 1])], {},
     np.float32([[0, 1, 0], [0, 0, 1], [0, 0, 0]]), (1,)),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=[f"{k}-{case[0]}-{case[1]}" for k, case in enumerate(CASES)])
def test_by_numpy(case: tuple[Any, ...]) -> None:
    """The old form, computed from data and from constants alike."""
    op_type, opset, inputs, attributes, wanted, held = case
    if wanted is None:
        wanted = inputs[0] * inputs[1][:, None, None]
    wanted = wanted if isinstance(wanted, list) else [wanted]
    found = run(op_type, inputs, opset, outputs=len(wanted), held=held, **attributes)
    for ours, theirs in zip(found, wanted, strict=True):
        close(ours, theirs.astype(np.float32) if theirs.dtype == np.float64 else theirs)


@pytest.mark.parametrize(("inputs", "attributes"), [([X, ROW], {}), ([X, ROW], {"broadcast": 1, "axis": 1})])
def test_operands_that_do_not_align(inputs: Any, attributes: Any) -> None:
    """They are refused, with the node's name."""
    with pytest.raises(ModelFileError, match=r"Add.*operand.*\(4,\)"):
        prepare(model("Add", inputs, 6, **attributes)).run(inputs)


def test_batch_norm_of_opset_1() -> None:
    """Outputs after the first mean training; `is_test` and `consumed_inputs` are of that time."""
    scale, bias, mean, var = (abs(floats(3)) for _ in range(4))
    inputs, options = [X, scale, bias, mean, var], {"consumed_inputs": [0, 0, 0, 1, 1], "epsilon": 0.0}
    s, b, m, v = (value[:, None] for value in (scale, bias, mean, var))
    close(run("BatchNormalization", inputs, 1, is_test=1, **options)[0], (X - m) / np.sqrt(v) * s + b)
    y, new_mean, new_var, saved_mean, saved_var = run("BatchNormalization", inputs, 1, outputs=5, **options)
    own_mean, own_var = X.mean((0, 2)), X.var((0, 2))
    close(y, (X - own_mean[:, None]) / np.sqrt(own_var)[:, None] * s + b)
    close(new_mean, np.float32(0.9) * mean + np.float32(0.1) * own_mean)
    close(new_var, np.float32(0.9) * var + np.float32(0.1) * own_var)
    close(saved_mean, own_mean)
    close(saved_var, own_var)


def test_batch_norm_of_every_element() -> None:
    """`spatial` 0: statistics for each place."""
    scale, bias, mean, var = (abs(floats(3, 4)) for _ in range(4))
    wanted = (X - mean) / np.sqrt(var + np.float32(1e-5)) * scale + bias
    close(run("BatchNormalization", [X, scale, bias, mean, var], 7, spatial=0)[0], wanted)


def test_a_name_that_is_no_dtype() -> None:
    """Cast of opset 1 to something unknown is refused."""
    with pytest.raises(ModelFileError, match="unknown dtype of ONNX"):
        prepare(model("Cast", [X], 1, to="WORD")).run([X])


def test_a_cast_by_name_to_64_bits_in_a_module() -> None:
    """It is refused while JAX's x64 is off, as one by number is."""
    for opset, to in ((1, "DOUBLE"), (6, onnx.TensorProto.DOUBLE)):
        with pytest.raises(ModelFileError, match="a cast to DOUBLE"):
            SONNXModel(model("Cast", [X], opset, to=to)).forward(X)


def test_recurrent_networks_of_opset_1() -> None:
    """`output_sequence` is of that time, and there is no way to reset before the product."""
    x, h = floats(3, 2, 4), 5
    for op_type, gates in (("RNN", 1), ("GRU", 3), ("LSTM", 4)):
        inputs = [x, floats(1, gates * h, 4), floats(1, gates * h, h)]
        old = run(op_type, inputs, 1, outputs=2, hidden_size=h, output_sequence=1)
        for ours, newest in zip(old, run(op_type, inputs, 14, outputs=2, hidden_size=h), strict=True):
            close(ours, newest)


# -- Scan of opset 8 ---------------------------------------------------------------------------------------------------


def scan_model(lengths: Any, **attributes: Any) -> Any:
    """Running sums (N, T, 2), and the state they end in."""
    info = helper.make_tensor_value_info
    body = helper.make_graph(
        [helper.make_node("Add", ["s", "x"], ["t"]), helper.make_node("Identity", ["t"], ["y"])],
        "body",
        [info("s", 1, [2]), info("x", 1, [2])],
        [info("t", 1, [2]), info("y", 1, [2])],
    )
    node = helper.make_node(
        "Scan", ["lengths" if lengths else "", "S", "X"], ["T", "Y"], num_scan_inputs=1, body=body, **attributes
    )
    inputs = [info("S", 1, [2, 2]), info("X", 1, [2, 4, 2])]
    if lengths:
        inputs.insert(0, info("lengths", onnx.TensorProto.INT64, [2]))
    graph = helper.make_graph([node], "graph", inputs, [info("T", 1, [2, 2]), info("Y", 1, [2, 4, 2])])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 8)], ir_version=3)


@pytest.mark.parametrize("backward", [0, 1])
@pytest.mark.parametrize("lengths", [None, [4, 2], [1, 0]])
def test_scan_of_batches(lengths: Any, backward: int) -> None:
    """Each entry of the batch has a length of its own; what is beyond it is 0."""
    state, x = floats(2, 2), floats(2, 4, 2)
    wanted, last = np.zeros_like(x), state.copy()
    for k, length in enumerate(lengths or [4, 4]):
        own = x[k, :length][:: -1 if backward else 1]
        wanted[k, :length] = state[k] + np.cumsum(own, 0)
        last[k] = wanted[k, length - 1] if length else state[k]
    given = [np.int64(lengths)] if lengths else []
    rep = prepare(scan_model(lengths, directions=[backward]))
    found = rep.run([*given, state, x])
    close(found[0], last)
    close(found[1], wanted)
    assert all(not piece.reason for piece in rep.executor.pieces())
