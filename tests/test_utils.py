"""SINGA's helpers."""

from __future__ import annotations

import types
from typing import Any

import jax
import numpy as np
import pytest

import singax as sx
from singax import autograd, utils
from singax.errors import ArgumentError, ShapeError

X = np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4)


@pytest.mark.parametrize("size", range(3, 9))
@pytest.mark.parametrize("kernel", [1, 2, 3])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER"])
def test_padding_gives_the_output_shape(size: int, kernel: int, stride: int, mode: str) -> None:
    """Windows over the padded axis are as many as `get_output_shape` says, and as XLA's SAME has."""
    pads, odd = utils.get_padding_shape(mode, [size], [kernel], [stride])
    assert pads[0] == pads[1]
    assert odd in ([0, 0], [0, 1] if mode == "SAME_UPPER" else [1, 0])
    (count,) = utils.get_output_shape(mode, [size], [kernel], [stride])
    padded = size + sum(pads) + sum(odd)
    assert (padded - kernel) // stride + 1 == count
    if mode == "SAME_UPPER":
        theirs = jax.lax.padtype_to_pads([size], [kernel], [stride], "SAME")
        assert (pads[0] + odd[0], pads[1] + odd[1]) == tuple(theirs[0])


def test_valid() -> None:
    """Only whole windows count."""
    assert utils.get_output_shape("VALID", [7, 8], [3, 3], [2, 2]) == [3, 3]
    with pytest.raises(ArgumentError, match="NOTSET"):
        utils.get_output_shape("NOTSET", [7], [3], [2])
    with pytest.raises(ShapeError, match="Received"):
        utils.get_output_shape("VALID", [7, 8], [3], [2, 2])


def test_odd_padding_there_and_back() -> None:
    """Zeros for convolutions, the border for pooling; gradients flow; the way back crops."""
    padded = utils.handle_odd_pad_fwd(X, (1, 0, 0, 2))
    np.testing.assert_array_equal(padded, np.pad(X, ((0, 0), (0, 0), (1, 0), (0, 2))))
    pooled = utils.handle_odd_pad_fwd(X, (0, 1, 1, 0), is_pool=True)
    np.testing.assert_array_equal(pooled, np.pad(X, ((0, 0), (0, 0), (0, 1), (1, 0)), mode="edge"))
    np.testing.assert_array_equal(utils.handle_odd_pad_bwd(padded, (1, 0, 0, 2)), X)
    autograd.training = True
    y = utils.handle_odd_pad_fwd(sx.Tensor(data=X), (1, 0, 0, 2))
    dx = y.creator.backward(np.ones(y.shape, np.float32))
    np.testing.assert_array_equal(dx, np.ones_like(X))


@pytest.mark.parametrize("amounts", [(1, 0, 0), (1, 0, 0, -1), (1.0, 0, 0, 0)])
def test_bad_odd_padding(amounts: Any) -> None:
    """Four integers, images, and no more than there is."""
    with pytest.raises(ArgumentError, match="Received"):
        utils.handle_odd_pad_fwd(X, amounts)
    with pytest.raises(ShapeError, match="Received"):
        utils.handle_odd_pad_fwd(X[0], (1, 0, 0, 0))
    with pytest.raises(ShapeError, match="Received"):
        utils.handle_odd_pad_bwd(X, (2, 2, 0, 0))


def test_progress(capsys: Any) -> None:
    """A bar with the text; it ends at 1."""
    for progress in (0.0, 0.5, -1, 1):
        utils.update_progress(progress, "epoch 3")
    printed = capsys.readouterr().err
    assert "50.0% epoch 3" in printed
    assert "Halt. epoch 3" in printed
    assert "100.0% Done. epoch 3" in printed
    assert utils._bar is None
    for wrong in ("half", None, True, float("nan")):
        with pytest.raises(ArgumentError, match="Received"):
            utils.update_progress(wrong, "")  # type: ignore[arg-type]


def test_text() -> None:
    """Bytes become text."""
    assert utils.force_unicode(b"caf\xc3\xa9") == utils.force_unicode("café") == "café"


def test_handles() -> None:
    """A handle is made again for other images, and its padding compared with SAME."""
    handle = sx.singa_wrap.ConvHandle(X, (3, 3), (1, 1), (1, 1), 2, 4, True, 1)
    larger = np.zeros((5, 2, 9, 9), np.float32)
    renewed = utils.re_new_handle(handle, larger)
    assert (renewed.batchsize, renewed.height, renewed.num_filters, renewed.pad_h) == (5, 9, 4, 1)
    assert utils.same_pad_shape_check(handle, "SAME_UPPER", X) == ([1, 1, 1, 1], [0, 0, 0, 0])
    with pytest.raises(ShapeError, match="padding"):
        utils.same_pad_shape_check(sx.singa_wrap.ConvHandle(X, (3, 3), (1, 1), (0, 0), 2, 4), "SAME_UPPER", X)
    pooling = sx.singa_wrap.PoolingHandle(X, (2, 2), (2, 2), (0, 0), False)
    assert not utils.re_new_handle(pooling, larger, is_pool=True).is_max_pooling


def test_what_a_tensor_was_computed_from() -> None:
    """Operations after what they depend on; weights and inputs apart; shared ones once."""
    autograd.training = True
    x = sx.Tensor(data=np.ones((2, 3), np.float32), name="x")
    w = sx.Tensor(data=np.ones((3, 3), np.float32), stores_grad=True, name="w")
    y = autograd.relu(autograd.matmul(x, w))
    out = autograd.add(y, autograd.matmul(y, w))
    nodes, weights, inputs = utils.post_order_recursive(out.creator, out)
    assert [name.split("#")[0] for name in nodes] == ["Matmul", "ReLU", "Matmul", "Add"]
    assert next(iter(weights.values())) is w
    assert (len(weights), list(inputs.values())) == (1, [None])


def test_a_long_chain_needs_no_recursion() -> None:
    """Two thousand operations in a row."""
    creators = types.SimpleNamespace(name="x", src=[])
    for k in range(2000):
        creators = types.SimpleNamespace(name=f"n{k}", src=[(creators, 0, None, False)])
    nodes, _, inputs = utils.post_order_recursive(creators, None)
    assert (len(nodes), list(inputs)) == (2000, ["x"])
