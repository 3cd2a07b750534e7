"""The operators of com.microsoft against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto
from onnx_pairs import by_singax, exact_weights, feeds, model
from onnx_pairs import compare as compare_any

from singax.errors import ModelFileError
from singax.sonnx import prepare

RNG = np.random.default_rng(1)
MICROSOFT = "com.microsoft"
KINDS = [np.uint8, np.int8]


def compare(op_type: str, inputs: Any, **options: Any) -> None:
    compare_any(op_type, inputs, **{"domain": MICROSOFT, **options})


def floats(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def integers(dtype: Any, *shape: int) -> np.ndarray:
    limits = np.iinfo(dtype)
    return RNG.integers(limits.min, limits.max, shape, endpoint=True).astype(dtype)


def safe_weights(dtype: Any, *shape: int) -> np.ndarray:
    return exact_weights(RNG, dtype, *shape)


def bits(*shape: int) -> np.ndarray:
    return RNG.integers(0, 2, shape).astype(np.int32)


def scale(value: float) -> np.ndarray:
    return np.asarray(value, np.float32)


def zero(value: int, dtype: Any = np.uint8) -> np.ndarray:
    return np.asarray(value, dtype)


def ids(*values: Any) -> np.ndarray:
    return np.asarray(values, np.int32)


# -- fused arithmetic --------------------------------------------------------------------------------------------------


def test_gelus() -> None:
    x, bias = floats(3, 4), floats(4)
    for op_type, inputs in (("Gelu", [x]), ("BiasGelu", [x, bias]), ("FastGelu", [x]), ("FastGelu", [x, bias])):
        compare(op_type, inputs)
    compare("QuickGelu", [x])
    compare("QuickGelu", [x], alpha=1.5)


@pytest.mark.parametrize(
    ("a", "b", "options"),
    [
        ((2, 3, 4), (2, 5, 4), {"transB": 1, "alpha": 0.5}),
        ((3, 4), (3, 5), {"transA": 1}),
        ((4, 2, 5), (2, 5, 6), {"transBatchA": 1}),
        ((2, 4, 5), (6, 2, 5), {"transBatchB": 1, "transB": 1}),
        ((4, 2, 5), (2, 4, 6), {"transBatchA": 1, "transA": 1}),
    ],
)
def test_fused_matmul(a: tuple[int, ...], b: tuple[int, ...], options: dict[str, Any]) -> None:
    compare("FusedMatMul", [floats(*a), floats(*b)], **options)


@pytest.mark.parametrize("name", ["Relu", "Sigmoid", "Tanh", "LeakyRelu", "HardSigmoid", "Elu", "Softplus", "Softsign"])
def test_fused_gemm(name: str) -> None:
    given = {"LeakyRelu": [0.3], "HardSigmoid": [0.3, 0.4], "Elu": [0.7]}.get(name, [])
    parameters = dict(zip(["activation_alpha", "activation_beta"], given, strict=False))
    compare(
        "FusedGemm",
        [floats(3, 4), floats(5, 4), floats(5)],
        transB=1,
        alpha=0.5,
        beta=2.0,
        activation=name,
        **parameters,
    )


@pytest.mark.parametrize(
    ("name", "parameters"), [("Relu", []), ("LeakyRelu", [0.3]), ("Clip", [-0.5, 0.5]), ("HardSigmoid", [0.3, 0.4])]
)
def test_fused_conv(name: str, parameters: list[float]) -> None:
    inputs = [floats(1, 3, 6, 6), floats(4, 3, 3, 3), floats(4)]
    options = {"activation_params": parameters} if parameters else {}
    compare("FusedConv", inputs, activation=name, pads=[1, 0, 1, 1], strides=[2, 1], **options)
    compare("FusedConv", [*inputs, floats(1, 4, 4, 4)], activation="Relu")


def test_an_unknown_activation_is_refused() -> None:
    inputs = [floats(3, 4), floats(4, 5)]
    made = model("FusedGemm", inputs, domain=MICROSOFT, types=[TensorProto.FLOAT], activation="Cube")
    with pytest.raises(ModelFileError, match="Received: 'Cube'"):
        prepare(made).run(feeds(made, inputs))


def test_norms() -> None:
    x, skip = floats(2, 3, 4), floats(2, 3, 4)
    compare("SimplifiedLayerNormalization", [x, floats(4)], domain="", axis=-1, epsilon=1e-5)
    with_sum = {"outputs": ["y0", "", "", "y3"], "epsilon": 1e-5}
    compare("SkipLayerNormalization", [x, skip, floats(4), floats(4), floats(4)], **with_sum)
    compare("SkipLayerNormalization", [x, floats(3, 4), floats(4)])
    compare("SkipSimplifiedLayerNormalization", [x, skip, floats(4), floats(4)], **with_sum)


@pytest.mark.parametrize("positions", [None, ids([4, 3, 2, 1, 0], [0, 0, 0, 8, 8])])
def test_embeddings(positions: np.ndarray | None) -> None:
    words, kinds = RNG.integers(0, 7, (2, 5)).astype(np.int32), bits(2, 5)
    mask = ids([1, 1, 1, 0, 0], [1, 1, 1, 1, 1])
    tables = [floats(7, 4), floats(9, 4), floats(2, 4), floats(4), floats(4)]
    compare("EmbedLayerNormalization", [words, kinds, *tables, mask, positions], outputs=2)
    compare("EmbedLayerNormalization", [words, None, *tables[:2], None, *tables[3:]], outputs=["y0", "y1", "y2"])


def test_small_ones() -> None:
    compare("Inverse", [floats(2, 3, 3)], tolerance=1e-4)
    compare("Range", [scale(1), scale(5), scale(0.5)], constants=[0, 1, 2])
    compare("Trilu", [floats(3, 4), np.asarray(1, np.int64)], constants=[1], upper=0)
    compare("ExpandDims", [floats(3, 4), np.asarray(1, np.int32)], constants=[1])
    compare("Pad", [floats(3, 4), np.asarray([1, 0, 0, 2]), scale(2)], constants=[1])
    compare("GatherND", [floats(3, 4), np.asarray([[0], [2]])])
    compare("GridSample", [floats(1, 2, 4, 4), floats(1, 3, 3, 2)], mode="bilinear")


@pytest.mark.parametrize("interleaved", [0, 1])
def test_rotary_embedding(interleaved: int) -> None:
    offset, places = np.asarray([3]), RNG.integers(0, 10, (2, 5))
    for inputs in ([floats(2, 5, 8), offset], [floats(2, 5, 8), places], [floats(2, 2, 5, 4), offset]):
        compare("RotaryEmbedding", [*inputs, floats(10, 2), floats(10, 2)], interleaved=interleaved)
    part = {"num_heads": 2, "rotary_embedding_dim": 4}
    compare(
        "RotaryEmbedding", [floats(2, 5, 16), offset, floats(10, 2), floats(10, 2)], interleaved=interleaved, **part
    )


# -- attention ---------------------------------------------------------------------------------------------------------

MASKS = {
    "none": None,
    "lengths": ids(3, 5),
    "ends and starts": ids(3, 5, 1, 2),
    "keys": ids([0, 1, 0, 1, 0], [1, 1, 1, 1, 1]),
    "pairs": RNG.integers(0, 2, (2, 5, 5)).astype(np.int32),
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("unidirectional", [0, 1])
def test_attention(mask: str, unidirectional: int) -> None:
    inputs = [floats(2, 5, 6), floats(6, 24), floats(24), MASKS[mask]]
    compare("Attention", inputs, num_heads=2, unidirectional=unidirectional)


def test_attention_with_a_past_a_bias_and_other_sizes() -> None:
    inputs, past = [floats(2, 5, 6), floats(6, 24), floats(24)], floats(2, 2, 2, 3, 4)
    compare("Attention", [*inputs, None, past], outputs=2, num_heads=2, unidirectional=1)
    compare("Attention", [*inputs, bits(2, 8), past], outputs=2, num_heads=2, scale=0.3)
    compare("Attention", [*inputs, None, None, floats(2, 2, 5, 5)], num_heads=2)
    compare("Attention", [*inputs, ids(3, 5)], num_heads=2, mask_filter_value=-3.0)
    sizes = [floats(2, 5, 6), floats(6, 28), floats(28)]
    compare("Attention", sizes, num_heads=2, qkv_hidden_sizes=[8, 8, 12])


@pytest.mark.parametrize(
    "more",
    [
        [],
        [floats(28)],
        [None, ids(3, 7)],
        [None, bits(2, 7)],
        [None, bits(2, 5, 7)],
        [None, None, floats(1, 2, 5, 7)],
    ],
)
def test_multi_head_attention(more: list[Any]) -> None:
    compare("MultiHeadAttention", [floats(2, 5, 8), floats(2, 7, 8), floats(2, 7, 12), *more], num_heads=2)


def test_multi_head_attention_in_other_layouts() -> None:
    query, past = floats(2, 5, 8), [floats(2, 2, 3, 4), floats(2, 2, 3, 4)]
    compare("MultiHeadAttention", [query, floats(2, 2, 7, 4), floats(2, 2, 7, 4)], num_heads=2)
    projected = [query, floats(2, 5, 8), floats(2, 5, 8), floats(24)]
    compare("MultiHeadAttention", [*projected, None, None, *past], outputs=3, num_heads=2, unidirectional=1)
    compare("MultiHeadAttention", [*projected, bits(2, 8), None, *past], outputs=3, num_heads=2)


def test_packed_queries_keys_and_values_are_the_same_as_apart() -> None:
    packed = floats(2, 5, 2, 3, 4)
    q, k, v = (packed[:, :, :, at].reshape(2, 5, 8) for at in range(3))
    results = []
    for inputs in ([packed], [q, packed[:, :, :, 1:]], [q, k, v]):
        made = model("MultiHeadAttention", inputs, domain=MICROSOFT, types=[TensorProto.FLOAT], num_heads=2)
        results.append(by_singax(made, feeds(made, inputs))[0])
    np.testing.assert_allclose(results[0], results[2], rtol=1e-6)
    np.testing.assert_allclose(results[1], results[2], rtol=1e-6)


def test_a_mask_of_another_shape_is_refused() -> None:
    inputs = [floats(2, 5, 6), floats(6, 24), floats(24), bits(3, 4)]
    made = model("Attention", inputs, domain=MICROSOFT, types=[TensorProto.FLOAT], num_heads=2)
    with pytest.raises(ModelFileError, match="expected a mask"):
        prepare(made).run(feeds(made, inputs))


# -- quantised ---------------------------------------------------------------------------------------------------------


def test_quantize_and_dequantize() -> None:
    compare("QuantizeLinear", [floats(3, 4), scale(0.05), zero(10)])
    compare("DequantizeLinear", [integers(np.uint8, 3, 4), scale(0.05), zero(10)])
    constants = [integers(np.uint8, 3, 4), scale(0.05), zero(10)]
    compare("DequantizeLinear", constants, constants=[0, 1, 2])


@pytest.mark.parametrize("dtype", KINDS)
def test_products_with_floats(dtype: Any) -> None:
    b, columns = safe_weights(dtype, 8, 5), [np.abs(floats(5)), integers(dtype, 5)]
    compare("DynamicQuantizeMatMul", [floats(2, 3, 8), b, *columns, floats(5)])
    compare("DynamicQuantizeMatMul", [floats(3, 8), b, scale(0.02), zero(12, dtype)])
    a = [integers(np.uint8, 3, 8), safe_weights(np.int8, 8, 5), scale(0.1), np.abs(floats(5)), zero(100)]
    compare("MatMulIntegerToFloat", [*a, integers(np.int8, 5), floats(5)])


@pytest.mark.parametrize(("first", "second"), [(0, 0), (0, 1), (1, 0)])
def test_qgemm(first: int, second: int) -> None:
    a, b = integers(np.uint8, *((8, 3) if first else (3, 8))), safe_weights(np.int8, *((5, 8) if second else (8, 5)))
    bias = RNG.integers(-99, 99, 5).astype(np.int32)
    inputs = [a, scale(0.1), zero(100), b, scale(0.05), zero(0, np.int8), bias]
    options = {"transA": first, "transB": second, "alpha": 0.5}
    compare("QGemm", [*inputs, scale(20.0), zero(99)], steps=1, **options)
    compare("QGemm", inputs, **options)


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("name", ["QLinearAdd", "QLinearMul"])
def test_qlinear_arithmetic(name: str, dtype: Any) -> None:
    a, b = [integers(dtype, 40, 4), scale(0.1), zero(3, dtype)], [integers(dtype, 4), scale(0.07), zero(5, dtype)]
    compare(name, [*a, *b, scale(0.15), zero(7, dtype)], steps=1)


@pytest.mark.parametrize("dtype", KINDS)
def test_qlinear_activations(dtype: Any) -> None:
    x = [integers(dtype, 40, 4), scale(0.1), zero(3, dtype)]
    compare("QLinearSigmoid", [*x, scale(0.004), zero(7, dtype)], steps=1)
    compare("QLinearLeakyRelu", [*x, scale(0.05), zero(7, dtype)], alpha=0.2, steps=1)
    for opset, axis in ((13, 1), (12, 1)):
        compare("QLinearSoftmax", [*x, scale(1 / 256), zero(0, dtype)], opset=opset, axis=axis, steps=1)


@pytest.mark.parametrize(
    "options",
    [{"pads": [1, 1, 1, 1]}, {"pads": [1, 1, 1, 1], "count_include_pad": 1}, {"ceil_mode": 1}, {"channels_last": 1}],
)
def test_qlinear_pooling(options: dict[str, Any]) -> None:
    x = [integers(np.uint8, 1, 6, 6, 3), scale(0.1), zero(3), scale(0.05), zero(7)]
    compare("QLinearAveragePool", x, kernel_shape=[3, 3], strides=[2, 2], steps=1, **options)
    last = {"channels_last": options.get("channels_last", 0)}
    compare("QLinearGlobalAveragePool", x, steps=1, **last)


def test_qlinear_joins_and_choices() -> None:
    x, y = [integers(np.uint8, 3, 4), scale(0.05), zero(2)], [integers(np.uint8, 3, 4), scale(0.2), zero(9)]
    compare("QLinearConcat", [scale(0.1), zero(5), *x, *y], axis=0, steps=1)
    compare("QLinearWhere", [RNG.random((3, 4)) > 0.5, *x, *y, scale(0.1), zero(5)], steps=1)


def test_qlinear_conv_with_channels_last() -> None:
    W = [safe_weights(np.int8, 4, 3, 3, 3), scale(0.05), zero(0, np.int8)]
    x = [integers(np.uint8, 1, 6, 6, 3), scale(0.1), zero(3)]
    compare("QLinearConv", [*x, *W, scale(5.5), zero(7)], channels_last=1)


@pytest.mark.parametrize("mask", [None, ids(3, 5)])
def test_quantized_attention(mask: Any) -> None:
    x = [integers(np.uint8, 2, 5, 6), safe_weights(np.int8, 6, 24), floats(24), scale(0.02), scale(0.01)]
    compare("QAttention", [*x, mask, zero(120), zero(0, np.int8)], num_heads=2)


@pytest.mark.parametrize("width", [2, 4, 8])
def test_matmul_of_few_bits(width: int) -> None:
    K, N, block = 40, 6, 16
    inputs = [floats(2, 3, K), integers(np.uint8, N, 3, block * width // 8), floats(N * 3)]
    options = {"K": K, "N": N, "bits": width, "block_size": block, "tolerance": 1e-4}
    compare("MatMulNBits", inputs, constants=[1, 2], **options)
    packed = integers(np.uint8, N * ((3 * width + 7) // 8))
    compare("MatMulNBits", [*inputs, packed, None, floats(N)], constants=[1, 2, 3], **options)


@pytest.mark.parametrize("lengths", [None, ids(3, 5)])
@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize(("direction", "count"), [("forward", 1), ("reverse", 1), ("bidirectional", 2)])
def test_dynamic_quantize_lstm(direction: str, count: int, dtype: Any, lengths: Any) -> None:
    W, R, columns = safe_weights(dtype, count, 6, 16), safe_weights(dtype, count, 4, 16), (count, 16)
    middle = np.full(columns, 128 if dtype == np.uint8 else 0, dtype)
    weights = [np.abs(floats(*columns)) * 0.02, middle, np.abs(floats(*columns)) * 0.02, middle]
    start = [floats(count, 2, 4), floats(count, 2, 4), None]
    inputs = [floats(5, 2, 6), W, R, floats(count, 32), lengths, *start, *weights]
    options = {"outputs": 3, "constants": [1, 2, 8, 9, 10, 11], "direction": direction, "hidden_size": 4}
    compare("DynamicQuantizeLSTM", inputs, **options)


def test_an_lstm_with_other_activations_is_refused() -> None:
    inputs = [floats(5, 2, 6), integers(np.int8, 1, 6, 16), integers(np.int8, 1, 4, 16), *[None] * 5]
    inputs += [np.ones(1, np.float32), np.zeros(1, np.int8)] * 2
    options = {"types": [TensorProto.FLOAT], "activations": ["Relu", "Tanh", "Tanh"], "hidden_size": 4}
    made = model("DynamicQuantizeLSTM", inputs, domain=MICROSOFT, **options)
    with pytest.raises(ModelFileError, match="usual activations"):
        prepare(made).run(feeds(made, inputs))
