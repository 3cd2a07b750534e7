"""Quantised operators, casts and random ones of the standard, against onnxruntime, NumPy and onnx's reference."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnx_pairs
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx_pairs import by_singax, compare, exact_weights, feeds, model

from singax.errors import ModelFileError
from singax.sonnx import prepare

RNG = np.random.default_rng(0)
KINDS = [np.uint8, np.int8]


def floats(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def integers(dtype: Any, *shape: int) -> np.ndarray:
    limits = np.iinfo(dtype)
    return RNG.integers(limits.min, limits.max, shape, endpoint=True).astype(dtype)


def weights(*shape: int) -> np.ndarray:
    return exact_weights(RNG, np.int8, *shape)


def scale(value: float) -> np.ndarray:
    return np.asarray(value, np.float32)


def zero(value: int, dtype: Any = np.uint8) -> np.ndarray:
    return np.asarray(value, dtype)


def against_reference(made: onnx.ModelProto, given: dict[str, np.ndarray]) -> None:
    for ours, wanted in zip(by_singax(made, given), ReferenceEvaluator(made).run(None, given), strict=True):
        assert ours.dtype == wanted.dtype
        assert ours.shape == wanted.shape
        np.testing.assert_array_equal(ours.astype(np.float64), wanted.astype(np.float64))


# -- to quantised numbers and back ------------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("dtype", KINDS)
def test_quantize_along_an_axis(dtype: Any, axis: int) -> None:
    x, count = floats(5, 7) * 9, (5, 7)[axis]
    compare("QuantizeLinear", [x, np.abs(floats(count)) + 0.01, integers(dtype, count)], axis=axis)


@pytest.mark.parametrize("dtype", ["uint16", "int16", "uint4", "int4", "uint2", "int2"])
def test_quantize_in_blocks(dtype: str) -> None:
    made_of = np.dtype(getattr(ml_dtypes, dtype, None) or dtype)
    zeros = RNG.integers(0, 2, (2, 3)).astype(made_of)
    inputs = [floats(2, 7) * 5, np.abs(floats(2, 3)) + 0.1, zeros]
    made = model(
        "QuantizeLinear", inputs, types=[helper.np_dtype_to_tensor_dtype(made_of)], version=25, axis=1, block_size=3
    )
    q = by_singax(made, feeds(made, inputs))[0]
    repeated = [np.repeat(value.astype(np.float32), 3, 1)[:, :7] for value in inputs[1:]]
    limits = ml_dtypes.iinfo(made_of)
    wanted = np.clip(np.rint(inputs[0] / repeated[0]) + repeated[1], limits.min, limits.max)
    assert q.dtype == made_of
    np.testing.assert_array_equal(q.astype(np.float32), wanted)
    back = [q, *inputs[1:]]
    made = model("DequantizeLinear", back, types=[TensorProto.FLOAT], version=25, axis=1, block_size=3)
    ours = by_singax(made, feeds(made, back))[0]
    np.testing.assert_array_equal(ours, (wanted - repeated[1]) * repeated[0])


@pytest.mark.parametrize("saturate", [0, 1])
@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"])
def test_quantize_to_small_floats(dtype: str, saturate: int) -> None:
    made_of = np.dtype(getattr(ml_dtypes, dtype))
    x = np.asarray([0, -0.4, 1.3, 500, -7e4, np.inf, -np.inf, np.nan], np.float32)
    inputs = [x, scale(0.5), np.zeros((), made_of)]
    kind = helper.np_dtype_to_tensor_dtype(made_of)
    against_reference(
        made := model("QuantizeLinear", inputs, types=[kind], version=21, saturate=saturate), feeds(made, inputs)
    )


def test_quantize_divides_in_the_given_precision() -> None:
    inputs = [floats(64) * 3, np.asarray(0.1, np.float16)]
    kinds = {"output_dtype": TensorProto.INT8, "types": [TensorProto.INT8], "version": 23}
    for precision in (TensorProto.FLOAT16, TensorProto.FLOAT):
        made = model("QuantizeLinear", inputs, precision=precision, **kinds)
        against_reference(made, feeds(made, inputs))


def test_a_scale_that_does_not_fit_is_refused() -> None:
    inputs = [floats(2, 3), np.ones(2, np.float32)]
    made = model("QuantizeLinear", inputs, types=[TensorProto.UINT8], axis=1)
    with pytest.raises(ModelFileError, match="3 along axis 1"):
        prepare(made).run(feeds(made, inputs))


def test_dequantize() -> None:
    compare("DequantizeLinear", [integers(np.int32, 5, 6), scale(0.1)])
    compare("DequantizeLinear", [integers(np.int8, 5, 6), np.abs(floats(6)), integers(np.int8, 6)], axis=1)


@pytest.mark.parametrize("x", [floats(30, 40), np.abs(floats(4)), -np.abs(floats(4)), np.zeros(3, np.float32)])
def test_dynamic_quantize(x: np.ndarray) -> None:
    compare("DynamicQuantizeLinear", [x], outputs=3, tolerance=1e-7)


# -- products ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", KINDS)
def test_matmul_integer(dtype: Any) -> None:
    compare("MatMulInteger", [integers(dtype, 2, 3, 70), weights(70, 5), zero(3, dtype), integers(np.int8, 5)])
    compare("MatMulInteger", [integers(np.uint8, 4, 3), integers(np.uint8, 3, 2)])


@pytest.mark.parametrize("dtype", KINDS)
def test_products_of_the_largest_integers(dtype: Any) -> None:
    """600 of them are more than float32 adds exactly."""
    limits = np.iinfo(dtype)
    a, b = np.full((2, 600), limits.max, dtype), np.full((600, 3), -128, np.int8)
    inputs = [a, b, zero(limits.min, dtype), np.asarray([127] * 3, np.int8)]
    made = model("MatMulInteger", inputs, types=[TensorProto.INT32])
    ours = by_singax(made, feeds(made, inputs))[0]
    np.testing.assert_array_equal(ours, (a.astype(np.int64) - limits.min) @ (b.astype(np.int64) - 127))


def test_matmul_integer_with_a_zero_point_for_each_row() -> None:
    a, b, zeros = integers(np.uint8, 4, 3), integers(np.uint8, 3, 2), integers(np.uint8, 4)
    made = model("MatMulInteger", [a, b, zeros], types=[TensorProto.INT32])
    ours = by_singax(made, feeds(made, [a, b, zeros]))[0]
    np.testing.assert_array_equal(ours, (a.astype(np.int32) - zeros[:, None]) @ b.astype(np.int32))


@pytest.mark.parametrize("dtype", KINDS)
def test_qlinear_matmul(dtype: Any) -> None:
    a, b = integers(dtype, 3, 300), weights(300, 5)
    compare(
        "QLinearMatMul", [a, scale(0.1), zero(3, dtype), b, scale(0.05), zero(0, np.int8), scale(9.5), zero(7, dtype)]
    )


@pytest.mark.parametrize(
    "options", [{"pads": [1, 1, 0, 1], "strides": [2, 1]}, {"auto_pad": "SAME_LOWER"}, {"dilations": [2, 2]}]
)
@pytest.mark.parametrize("dtype", KINDS)
def test_qlinear_conv(dtype: Any, options: dict[str, Any]) -> None:
    W, bias = weights(6, 2, 3, 3), RNG.integers(-999, 999, 6).astype(np.int32)
    scales = np.abs(floats(6)) + 0.1
    inputs = [integers(dtype, 2, 4, 7, 7), scale(0.1), zero(3, dtype), W, scales, np.zeros(6, np.int8)]
    compare(
        "QLinearConv", [*inputs, scale(20.5), zero(7, dtype), bias], constants=[3, 4, 5], group=2, steps=0, **options
    )


@pytest.mark.parametrize("channels", [2, 64])
def test_conv_integer(channels: int) -> None:
    """576 products of 8-bit numbers are more than float32 adds exactly."""
    x, W = np.full((1, channels, 5, 5), 255, np.uint8), np.full((3, channels, 3, 3), 255, np.uint8)
    compare("ConvInteger", [x, W, zero(0), zero(0)], auto_pad="SAME_UPPER")
    compare(
        "ConvInteger", [integers(np.uint8, 2, channels, 5, 5), integers(np.uint8, 3, channels, 3, 3), zero(3), zero(99)]
    )


def test_a_convolution_in_one_dimension() -> None:
    compare("ConvInteger", [integers(np.uint8, 2, 3, 9), integers(np.uint8, 4, 3, 2), zero(3), zero(99)], strides=[2])


# -- casts ------------------------------------------------------------------------------------------------------------

NUMBERS = [0, -0.0, 0.3, -1.7, 2.5, 3.5, 200.7, -300.2, 7e4]
NAMES = ["bool", "uint8", "int8", "uint16", "int16", "int32", "int64", "float16", "float32", "float64"]
NAMES += ["bfloat16", "int4", "uint4", "int2", "uint2", "float8_e4m3fn", "float4_e2m1fn"]


def _named(name: str) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, name, None) or name)


@pytest.mark.parametrize("target", NAMES)
@pytest.mark.parametrize("source", ["float32", "float64", "int32", "uint8", "bool", "bfloat16", "int4"])
def test_cast(source: str, target: str) -> None:
    x = np.asarray(NUMBERS if source not in ("uint8", "int4", "bool") else [0, 1, 5, 7]).astype(_named(source))
    kind = helper.np_dtype_to_tensor_dtype(_named(target))
    made = model("Cast", [x], types=[kind], version=25, to=kind)
    ours = by_singax(made, {"x0": x})[0]
    with np.errstate(all="ignore"):
        wanted = (x.astype(np.int32) if source == "int4" else x).astype(_named(target))
        if target == "float8_e4m3fn" and source != "int4":
            wanted = np.clip(x.astype(np.float64), -448, 448).astype(wanted.dtype)
    assert ours.dtype == wanted.dtype
    np.testing.assert_array_equal(ours.astype(np.float64), wanted.astype(np.float64))


@pytest.mark.parametrize("mode", ["up", "down", "nearest"])
@pytest.mark.parametrize("saturate", [0, 1])
def test_cast_to_powers_of_two(mode: str, saturate: int) -> None:
    x = np.asarray([0, 1e-45, 6e-39, 1, 1.5, 1.4, 3, 3e38, 3.4e38, np.inf, np.nan], np.float32)
    made = model("Cast", [x], types=[24], version=25, to=24, round_mode=mode, saturate=saturate)
    against_reference(made, {"x0": x})


def test_bit_cast() -> None:
    x = floats(3, 2)
    made = model("BitCast", [x], types=[TensorProto.INT32], version=26, to=TensorProto.INT32)
    np.testing.assert_array_equal(by_singax(made, {"x0": x})[0], x.view(np.int32))
    narrow = model("BitCast", [x], types=[TensorProto.INT8], version=26, to=TensorProto.INT8)
    with pytest.raises(ModelFileError, match="32 bits"):
        prepare(narrow).run({"x0": x})


# -- random values ----------------------------------------------------------------------------------------------------


def _drawn(op_type: str, inputs: list[Any], **attributes: Any) -> np.ndarray:
    made = model(op_type, inputs, types=[attributes.pop("kind", TensorProto.FLOAT)], **attributes)
    return by_singax(made, feeds(made, inputs))[0]


def test_random_values_have_their_distribution() -> None:
    normal = _drawn("RandomNormal", [], shape=[40, 100], mean=2.0, scale=3.0)
    assert abs(normal.mean() - 2) < 0.2
    assert abs(normal.std() - 3) < 0.2
    uniform = _drawn("RandomUniformLike", [floats(40, 100)], low=-1.0, high=5.0)
    assert -1 <= uniform.min() < -0.9
    assert 4.9 < uniform.max() <= 5
    coins = _drawn("Bernoulli", [np.full((40, 100), 0.25, np.float32)], kind=TensorProto.INT32, dtype=TensorProto.INT32)
    assert coins.dtype == np.int32
    assert abs(coins.mean() - 0.25) < 0.04
    classes = _drawn(
        "Multinomial", [np.log([[0.1, 0.2, 0.7]]).astype(np.float32)], kind=TensorProto.INT32, sample_size=4000
    )
    np.testing.assert_allclose(np.bincount(classes[0]) / 4000, [0.1, 0.2, 0.7], atol=0.04)


def test_a_seed_fixes_the_values_and_nothing_else_does() -> None:
    seeded = model("RandomNormal", [], types=[TensorProto.FLOAT], shape=[4], seed=3.0)
    rep, other = prepare(seeded), prepare(seeded)
    np.testing.assert_array_equal(rep.run([])[0], other.run([])[0])
    np.testing.assert_array_equal(rep.run([])[0], rep.run([])[0])
    free = prepare(model("RandomNormal", [], types=[TensorProto.FLOAT], shape=[4]))
    assert (free.run([])[0] != free.run([])[0]).any()


@pytest.mark.parametrize("kind", [TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.BFLOAT16])
def test_random_values_of_other_types(kind: int) -> None:
    drawn = _drawn("RandomNormal", [], kind=kind, shape=[3], dtype=kind, version=22)
    assert drawn.dtype == helper.tensor_dtype_to_np_dtype(kind)


# -- training ---------------------------------------------------------------------------------------------------------

TRAINING = "ai.onnx.preview.training"


def test_gradient_of_a_part_of_a_graph() -> None:
    """y = sum of (W x)² with x given and W taken from an initializer; the second derivative too."""
    W = floats(2, 3)
    nodes = [
        helper.make_node("MatMul", ["W", "x"], ["h"]),
        helper.make_node("Mul", ["h", "h"], ["y"]),
        helper.make_node("Gradient", ["x"], ["g"], domain=TRAINING, xs=["x"], y="y"),
        helper.make_node("Gradient", ["x"], ["gg"], domain=TRAINING, xs=["x"], y="g"),
        helper.make_node("Gradient", ["other"], ["dh"], domain=TRAINING, xs=["h"], y="y"),
    ]
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("x", "other")]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("g", "gg", "dh")]
    graph = helper.make_graph(nodes, "gradient", infos, outputs, [numpy_helper.from_array(W, "W")])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid(TRAINING, 1)]
    made = helper.make_model(graph, opset_imports=imports, ir_version=8)
    x, other = floats(3, 1), floats(2, 1)
    g, gg, dh = by_singax(made, {"x": x, "other": other})
    np.testing.assert_allclose(g, 2 * W.T @ W @ x, rtol=1e-5)
    np.testing.assert_allclose(gg, 2 * W.T @ W @ np.ones((3, 1)), rtol=1e-5)
    np.testing.assert_allclose(dh, 2 * other, rtol=1e-6)


@pytest.mark.parametrize("step", [0, 3])
@pytest.mark.parametrize(
    ("name", "kinds", "options"),
    [
        ("Adagrad", 3, {"decay_factor": 0.1, "norm_coefficient": 0.01}),
        ("Adam", 4, {"norm_coefficient": 0.01, "norm_coefficient_post": 0.1, "alpha": 0.8, "beta": 0.9}),
        ("Momentum", 3, {"alpha": 0.9, "beta": 0.5, "mode": "nesterov", "norm_coefficient": 0.01}),
        ("Momentum", 3, {"alpha": 0.9, "beta": 0.5, "mode": "standard", "norm_coefficient": 0.0}),
    ],
)
def test_steps_of_optimizers(name: str, kinds: int, options: dict[str, Any], step: int) -> None:
    arrays = [np.abs(floats(size)) for _ in range(kinds) for size in (3, 2)]
    inputs = [scale(0.1), np.asarray(step, np.int64), *arrays]
    results = 2 * (kinds - 1)
    made = model(name, inputs, results, TRAINING, types=[TensorProto.FLOAT] * results, version=1, **options)
    given = feeds(made, inputs)
    for ours, wanted in zip(by_singax(made, given), ReferenceEvaluator(made).run(None, given), strict=True):
        assert ours.dtype == np.float32
        np.testing.assert_allclose(ours, wanted, rtol=2e-5)


def test_the_pairs_see_a_difference() -> None:
    with pytest.raises(AssertionError):
        onnx_pairs.assert_close(np.ones(2, np.int8), np.asarray([1, 3], np.int8), 1, 0)
    with pytest.raises(AssertionError):
        onnx_pairs.assert_close(np.ones(2, np.float32), np.ones(2), 0, 1)
