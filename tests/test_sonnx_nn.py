"""Imported network operators beyond onnx's own cases: random attributes against onnxruntime, gradients, bad sizes."""

from __future__ import annotations

import random
from typing import Any

import jax
import numpy as np
import onnx
import pytest
from jax.test_util import check_grads
from onnx import TensorProto, helper, numpy_helper

from singax.errors import ModelFileError
from singax.sonnx.importer.evaluate import Evaluator
from singax.sonnx.rep import prepare

runtime = pytest.importorskip("onnxruntime")

Arrays = dict[str, np.ndarray]


def model(
    op: str,
    arrays: Arrays,
    opset: int = 19,
    outputs: int = 1,
    weights: Any = (),
    inferred: bool = True,
    **attributes: Any,
) -> tuple[Any, Arrays]:
    """One node; arrays whose names start with "_" are absent, those in `weights` are initializers."""
    names = [name if value is not None else "" for name, value in arrays.items()]
    given = {name: value for name, value in arrays.items() if value is not None and name not in weights}
    results = [f"y{k}" for k in range(outputs)]
    code = helper.np_dtype_to_tensor_dtype
    graph = helper.make_graph(
        [helper.make_node(op, names, results, **attributes)],
        "graph",
        [helper.make_tensor_value_info(name, code(value.dtype), value.shape) for name, value in given.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in results],
        [numpy_helper.from_array(arrays[name], name) for name in weights],
    )
    for info in graph.output if inferred else []:
        info.ClearField("type")
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    return (onnx.shape_inference.infer_shapes(made) if inferred else made), given


def compare(op: str, arrays: Arrays, tolerance: float = 1e-5, **options: Any) -> None:
    """The same results as onnxruntime's, or both refuse; in one compiled program."""
    made, feeds = model(op, arrays, **options)
    try:
        session = runtime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
        wanted = session.run(None, feeds)
    except Exception:
        with pytest.raises(ModelFileError):
            prepare(made).run(feeds)
        return
    rep = prepare(made)
    found = rep.run(feeds)
    for a, b in zip(found, wanted, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)
    assert "on the host" not in rep.report()


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def window_attributes(draw: random.Random, axes: int, ceil: bool, dilated: bool = True) -> dict[str, Any]:
    found: dict[str, Any] = {"strides": [draw.randint(1, 3) for _ in range(axes)]}
    if dilated and draw.random() < 0.5:
        found["dilations"] = [draw.randint(1, 2) for _ in range(axes)]
    if draw.random() < 0.5:
        found["pads"] = [draw.randint(0, 1) for _ in range(2 * axes)]
        if ceil and draw.random() < 0.5:
            found["ceil_mode"] = 1
    elif draw.random() < 0.7:
        found["auto_pad"] = draw.choice(["SAME_UPPER", "SAME_LOWER", "VALID"])
        if found["auto_pad"] != "VALID":
            found.pop("dilations", None)
    return found


@pytest.mark.parametrize("seed", range(12))
def test_conv(seed: int) -> None:
    draw, axes = random.Random(seed), 1 + seed % 3
    groups = draw.choice([1, 2, 4])
    sizes, kernel = [draw.randint(4, 7) for _ in range(axes)], [draw.randint(1, 3) for _ in range(axes)]
    arrays = {"x": floats(2, 4, *sizes), "w": floats(8, 4 // groups, *kernel), "b": floats(8)}
    compare("Conv", arrays, group=groups, **window_attributes(draw, axes, ceil=False))


@pytest.mark.parametrize("seed", range(12))
def test_conv_transpose(seed: int) -> None:
    draw, axes = random.Random(seed), 1 + seed % 2
    groups = draw.choice([1, 2])
    sizes, kernel = [draw.randint(2, 5) for _ in range(axes)], [draw.randint(2, 3) for _ in range(axes)]
    attributes = window_attributes(draw, axes, ceil=False)
    if draw.random() < 0.5:
        attributes["output_padding"] = [draw.randint(0, s - 1) for s in attributes["strides"]]
    if draw.random() < 0.4 and "pads" not in attributes:
        attributes["output_shape"] = [n * s for n, s in zip(sizes, attributes["strides"], strict=True)]
    arrays = {"x": floats(2, 4, *sizes), "w": floats(4, 3, *kernel), "b": floats(3 * groups)}
    compare("ConvTranspose", arrays, group=groups, **attributes)


@pytest.mark.parametrize("seed", range(18))
def test_pooling(seed: int) -> None:
    draw, axes = random.Random(seed), 1 + seed % 3
    op = ("MaxPool", "AveragePool", "LpPool")[seed // 3 % 3]
    sizes, kernel = [draw.randint(5, 9) for _ in range(axes)], [draw.randint(2, 3) for _ in range(axes)]
    attributes = window_attributes(draw, axes, ceil=op != "LpPool")
    if op == "MaxPool":
        attributes["storage_order"] = draw.randint(0, 1)
    if op == "AveragePool":
        attributes["count_include_pad"] = draw.randint(0, 1)
    arrays = {"x": floats(2, 3, *sizes)}
    compare(op, arrays, opset=19, outputs=1 + (op == "MaxPool"), kernel_shape=kernel, **attributes)


def test_max_pool_of_a_large_kernel_finds_the_first_of_equals() -> None:
    x = np.zeros((1, 2, 50), np.float32)
    made, feeds = model("MaxPool", {"x": x}, outputs=2, kernel_shape=[40], strides=[5])
    y, places = prepare(made).run(feeds)
    assert not y.any()
    assert places.tolist() == [[[0, 5, 10], [50, 55, 60]]]


def test_max_pool_of_integers() -> None:
    x = np.random.default_rng(0).integers(-128, 127, (1, 2, 6, 6)).astype(np.int8)
    compare("MaxPool", {"x": x}, kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1], ceil_mode=1)


@pytest.mark.parametrize("transform", ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("sizes", [(7, 9), (3, 2), (8, 4), (1, 12)])
def test_resize(mode: str, transform: str, sizes: tuple[int, int]) -> None:
    arrays = {"x": floats(1, 2, 4, 6), "_roi": None, "_scales": None, "n": np.array([1, 2, *sizes])}
    for nearest in ("round_prefer_floor", "ceil") if mode == "nearest" else ("floor",):
        options = {"mode": mode, "coordinate_transformation_mode": transform, "nearest_mode": nearest}
        compare("Resize", arrays, weights=["n"], **options)


@pytest.mark.parametrize("scales", [(0.7, 1.3), (2.0, 3.0), (0.6, 0.35), (1.5, 2.5)])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_resize_by_scales(mode: str, scales: tuple[float, float]) -> None:
    arrays = {"x": floats(1, 2, 10, 6), "_roi": None, "s": np.array([1, 1, *scales], np.float32)}
    compare("Resize", arrays, weights=["s"], mode=mode, coordinate_transformation_mode="asymmetric")
    upsample = {"x": arrays["x"], "s": arrays["s"]}
    if min(scales) >= 1:  # onnxruntime takes no others
        compare("Upsample", upsample, opset=9, weights=["s"], mode=mode)


def test_resize_of_integers_is_rounded_and_stays_within_them() -> None:
    x = np.array([[[[0, 255], [255, 0]]]], np.uint8)
    made, feeds = model(
        "Resize", {"x": x, "_roi": None, "_s": None, "n": np.array([1, 1, 2, 5])}, weights=["n"], mode="cubic"
    )
    assert prepare(made).run(feeds)[0].tolist()[0][0][0][::4] == [0, 255]


@pytest.mark.parametrize("aligned", [0, 1])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_grid_sample(mode: str, padding: str, aligned: int) -> None:
    arrays = {"x": floats(2, 3, 5, 4), "grid": 1.4 * np.tanh(floats(2, 3, 6, 2, seed=1))}
    compare("GridSample", arrays, opset=16, mode=mode, padding_mode=padding, align_corners=aligned)


@pytest.mark.parametrize("ratio", [0, 2])
@pytest.mark.parametrize("mode", ["avg", "max"])
def test_regions(mode: str, ratio: int) -> None:
    rois = np.array([[1, 1, 6, 5], [0, 0, 3.3, 2], [-2, -3, 9, 12], [2, 2, 2, 2]], np.float32)
    arrays = {"x": floats(2, 3, 8, 7), "rois": rois, "n": np.array([0, 1, 1, 0])}
    options = {"output_height": 3, "output_width": 2, "sampling_ratio": ratio, "mode": mode}
    if mode == "avg":
        compare("RoiAlign", arrays, opset=16, tolerance=1e-4, **options)
        compare("RoiAlign", arrays, opset=10, tolerance=1e-4, weights=["rois"], **options)
    regions = np.concatenate([[[0], [1], [1], [0]], rois], axis=1).astype(np.float32)
    compare("MaxRoiPool", {"x": arrays["x"], "rois": regions}, pooled_shape=[2, 3], spatial_scale=0.8)


_ACTIVATIONS = ["HardSigmoid", "LeakyRelu", "ScaledTanh", "Elu", "Affine", "Softsign", "Tanh", "Sigmoid"]


@pytest.mark.parametrize("seed", range(12))
def test_recurrent(seed: int) -> None:
    draw = random.Random(seed)
    op, gates = (("RNN", 1), ("GRU", 3), ("LSTM", 4))[seed % 3]
    direction = draw.choice(["forward", "reverse", "bidirectional"])
    D, (T, B, I, H) = 1 + (direction == "bidirectional"), (4, 3, 3, 2)
    attributes: dict[str, Any] = {"direction": direction, "hidden_size": H}
    if draw.random() < 0.6:
        count = {"RNN": 1, "GRU": 2, "LSTM": 3}[op] * D
        attributes |= {"activations": draw.choices(_ACTIVATIONS, k=count), "activation_alpha": [0.4] * count}
        attributes["activation_beta"] = [0.3] * count
    if draw.random() < 0.5:
        attributes["clip"] = 0.6
    arrays: Arrays = {"x": floats(T, B, I), "w": floats(D, gates * H, I, seed=1), "r": floats(D, gates * H, H, seed=2)}
    arrays |= {"b": floats(D, 2 * gates * H, seed=3), "lengths": np.array([4, 1, 3], np.int32), "h": floats(D, B, H)}
    if op == "GRU":
        attributes["linear_before_reset"] = draw.randint(0, 1)
    if op == "LSTM":
        arrays |= {"c": floats(D, B, H, seed=4), "p": floats(D, 3 * H, seed=5)}
        attributes["input_forget"] = draw.randint(0, 1)
    compare(op, arrays, opset=14, outputs=3 if op == "LSTM" else 2, **attributes)


@pytest.mark.parametrize("layout", [0, 1])
def test_layouts_agree(layout: int) -> None:
    x, w, r = floats(4, 2, 3), floats(1, 8, 3, seed=1), floats(1, 8, 2, seed=2)
    arrays = {"x": np.swapaxes(x, 0, 1) if layout else x, "w": w, "r": r}
    made, feeds = model("LSTM", arrays, opset=14, outputs=2, hidden_size=2, layout=layout)
    plain, _ = model("LSTM", {"x": x, "w": w, "r": r}, opset=14, outputs=2, hidden_size=2)
    (y, last), (every, final) = prepare(made).run(feeds), prepare(plain).run({"x": x, "w": w, "r": r})
    np.testing.assert_array_equal(y, every.transpose(2, 0, 1, 3) if layout else every)
    np.testing.assert_array_equal(last, final.swapaxes(0, 1) if layout else final)


@pytest.mark.parametrize(
    ("op", "opset", "options"),
    [
        ("InstanceNormalization", 17, {"epsilon": 0.01}),
        ("LayerNormalization", 17, {"axis": 2}),
        ("BatchNormalization", 15, {"epsilon": 0.1}),
        ("LRN", 13, {"size": 3, "alpha": 0.3, "beta": 0.6, "bias": 2.0}),
    ],
)
def test_normalisation(op: str, opset: int, options: dict[str, Any]) -> None:
    width = (4,) if op == "LayerNormalization" else (3,)
    arrays = {"x": floats(2, 3, 4), "s": floats(*width), "b": floats(*width), "m": floats(3), "v": floats(3) ** 2 + 1}
    count = {"LRN": 1, "BatchNormalization": 5}.get(op, 3)
    arrays = dict(list(arrays.items())[:count]) if op != "LRN" else {"x": floats(2, 5, 3, 4)}
    compare(op, arrays, opset=opset, **options)


def gradient_check(op: str, arrays: Arrays, opset: int = 15, training: bool = False, **options: Any) -> None:
    """The gradient of a weighted sum of the first result, with respect to all floats, beside finite differences."""
    wide = {name: v.astype(np.float64) if v is not None and v.dtype.kind == "f" else v for name, v in arrays.items()}
    made, feeds = model(op, wide, opset=opset, **options)
    rep = prepare(made)

    def loss(values: list[Any]) -> Any:
        named = dict(zip(feeds, values, strict=True))
        evaluator = Evaluator(rep.model, jax.random.key(0), training=training)
        y = evaluator.graph(rep.model.graph, [named[i.name] for i in rep.model.graph.inputs], None)[0]
        return (y * np.cos(np.arange(y.size)).reshape(y.shape)).sum()

    with jax.enable_x64(True):
        check_grads(jax.jit(loss), (list(map(jax.numpy.asarray, feeds.values())),), 1, ["rev"])


def test_gradient_of_conv() -> None:
    arrays = {"x": floats(1, 4, 5, 5), "w": floats(4, 2, 3, 3), "b": floats(4)}
    gradient_check("Conv", arrays, group=2, auto_pad="SAME_UPPER", strides=[2, 1])


def test_gradient_of_conv_transpose() -> None:
    arrays = {"x": floats(1, 2, 3, 3), "w": floats(2, 2, 2, 2), "b": floats(2)}
    gradient_check("ConvTranspose", arrays, strides=[2, 2], output_shape=[7, 6])


@pytest.mark.parametrize("training", [False, True])
def test_gradient_of_batch_norm(training: bool) -> None:
    arrays = {"x": floats(3, 2, 3), "s": floats(2), "b": floats(2), "m": floats(2), "v": floats(2) ** 2 + 1}
    gradient_check("BatchNormalization", arrays, training=training)


def test_gradient_of_lstm_with_peepholes() -> None:
    arrays = {"x": floats(3, 2, 2), "w": floats(1, 8, 2), "r": floats(1, 8, 2), "b": floats(1, 16), "_l": None}
    arrays |= {"h": floats(1, 2, 2), "c": floats(1, 2, 2, seed=1), "p": floats(1, 6)}
    gradient_check("LSTM", arrays, opset=14, hidden_size=2, clip=2.0)


def test_gradient_of_resize_and_grid_sample() -> None:
    sizes = {"x": floats(1, 1, 3, 4), "_r": None, "_s": None, "n": np.array([1, 1, 5, 3])}
    gradient_check("Resize", sizes, opset=19, weights=["n"], mode="cubic")
    gradient_check("GridSample", {"x": floats(1, 1, 4, 4), "g": floats(1, 2, 2, 2) * 0.4}, opset=16, mode="bicubic")


@pytest.mark.parametrize(
    ("op", "arrays", "options"),
    [
        ("Conv", {"x": floats(1, 1, 4), "w": floats(1, 1, 2)}, {"pads": [1 << 40, 0]}),
        ("Conv", {"x": floats(1, 1, 4), "w": floats(1, 1, 2)}, {"dilations": [1 << 62]}),
        ("ConvTranspose", {"x": floats(1, 1, 4), "w": floats(1, 1, 2)}, {"strides": [1 << 40]}),
        ("MaxPool", {"x": floats(1, 1, 4)}, {"kernel_shape": [1 << 40], "pads": [1 << 41, 1 << 41]}),
        ("LRN", {"x": floats(1, 2, 2, 2)}, {"size": 0}),
        ("MaxPool", {"x": floats(1, 1, 4)}, {"kernel_shape": [0]}),
        ("Resize", {"x": floats(1, 4), "_r": None, "_s": None, "n": np.array([1, 1 << 45])}, {"weights": ["n"]}),
        ("DFT", {"x": floats(1, 4, 1), "n": np.array(1 << 40)}, {"weights": ["n"], "opset": 17}),
    ],
)
def test_sizes_beyond_all_memory_are_refused(op: str, arrays: Arrays, options: dict[str, Any]) -> None:
    made, feeds = model(op, arrays, inferred=False, **options)
    with pytest.raises(ModelFileError, match="Received"):
        prepare(made).run(feeds)


def test_a_stride_beyond_the_input_leaves_one_place() -> None:
    made, feeds = model("Conv", {"x": floats(1, 1, 4), "w": floats(1, 1, 2)}, strides=[1 << 40])
    assert prepare(made).run(feeds)[0].shape == (1, 1, 1)
