"""com.microsoft's operators of text decoders, and with channels last, against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx_pairs import by_onnxruntime, by_singax, feeds, model
from onnx_pairs import compare as compare_any

from singax.errors import ModelFileError
from singax.sonnx import prepare

RNG = np.random.default_rng(7)


def compare(op_type: str, inputs: Any, **options: Any) -> None:
    compare_any(op_type, inputs, domain="com.microsoft", **options)


def floats(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def decoder(past: int, new: int, lengths: Any, packed: bool = False, rotary: bool = False) -> list[Any]:
    """Inputs of GroupQueryAttention: 4 heads that share 2 keys, 16 features each."""
    size = len(lengths)
    q, k, v = floats(size, new, 64), floats(size, new, 32), floats(size, new, 32)
    inputs: list[Any] = [np.concatenate([q, k, v], -1), None, None] if packed else [q, k, v]
    inputs += [floats(size, 2, past, 16), floats(size, 2, past, 16)] if past else [None, None]
    inputs += [np.asarray(lengths, np.int32), np.asarray(max(lengths) + 1, np.int32)]
    angles = floats(16, 8)
    return [*inputs, np.cos(angles), np.sin(angles)] if rotary else inputs


def compare_decoder(inputs: list[Any], **options: Any) -> None:
    """The results, and of the cache what is filled."""
    options = {"num_heads": 4, "kv_num_heads": 2, "constants": [6], "outputs": 3, **options}
    made = model("GroupQueryAttention", inputs, domain="com.microsoft", **options)
    given = feeds(made, inputs)
    (y, *cache), (wanted, *wanted_cache) = by_singax(made, given), by_onnxruntime(made, given)
    np.testing.assert_allclose(y, wanted, rtol=1e-4, atol=1e-5)
    for ours, theirs in zip(cache, wanted_cache, strict=True):
        assert ours.shape == theirs.shape
        for sample, length in enumerate(inputs[5]):
            np.testing.assert_allclose(
                ours[sample, :, : length + 1], theirs[sample, :, : length + 1], rtol=1e-5, atol=1e-6
            )


@pytest.mark.parametrize(
    ("past", "new", "lengths"), [(0, 5, [4, 4]), (3, 1, [3, 3]), (3, 2, [4]), (4, 1, [4, 2]), (8, 1, [5, 5])]
)
@pytest.mark.parametrize("options", [{}, {"local_window_size": 2}, {"softcap": 1.5, "scale": 0.5}])
def test_group_query_attention(past: int, new: int, lengths: Any, options: Any) -> None:
    """A prompt, one token and several after it, samples of unlike lengths, and a cache with room to spare."""
    compare_decoder(decoder(past, new, lengths), **options)


@pytest.mark.parametrize(("past", "new", "lengths"), [(0, 4, [3, 3]), (3, 1, [3, 3])])
@pytest.mark.parametrize(("packed", "interleaved"), [(False, 0), (True, 0), (True, 1)])
def test_group_query_attention_that_rotates(past: int, new: int, lengths: Any, packed: bool, interleaved: int) -> None:
    """Queries and keys, by their places."""
    inputs = decoder(past, new, lengths, packed, rotary=True)
    compare_decoder(inputs, do_rotary=1, rotary_interleaved=interleaved)


def test_what_group_query_attention_refuses() -> None:
    """Attributes that we lack are named, and so is an absent table of angles."""
    inputs = decoder(0, 2, [1, 1])
    for attribute in ("smooth_softmax", "do_rotary"):
        options = {attribute: 1, "num_heads": 4, "kv_num_heads": 2}
        made = model("GroupQueryAttention", inputs, domain="com.microsoft", constants=[6], outputs=3, **options)
        with pytest.raises(ModelFileError, match=rf"GroupQueryAttention.*{attribute}"):
            prepare(made).run([value for at, value in enumerate(inputs) if value is not None and at != 6])


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_max_pool_with_channels_last(dtype: Any) -> None:
    x = RNG.integers(0, 120, (2, 6, 5, 3)).astype(dtype)
    compare("NhwcMaxPool", [x], kernel_shape=[2, 2], strides=[2, 1])
    compare("NhwcMaxPool", [x], kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2], ceil_mode=1)
    compare("NhwcMaxPool", [x], kernel_shape=[2, 3], auto_pad="SAME_UPPER")


@pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean"])
def test_distances(metric: str) -> None:
    compare("CDist", [floats(4, 3), floats(5, 3)], metric=metric)
