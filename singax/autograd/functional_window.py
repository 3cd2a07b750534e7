"""SINGA's functional names that go by a handle: convolution, pooling, batch normalisation. See `singax.singa_wrap`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
from jax import lax

from singax import dispatch, mode, ops
from singax.autograd.derived import operator_class
from singax.autograd.functional_elementwise import constant
from singax.autograd.functional_shape import ints
from singax.errors import ArgumentError
from singax.tensor import Tensor

__all__ = ["batchnorm_2d", "conv2d", "pooling_2d"]

NO_ODD_PADDING = (0, 0, 0, 0)


@operator_class("_Conv2d", "x W b")
def conv2d(handle: Any, x: Any, W: Any, b: Any = None, odd_padding: Sequence[int] = NO_ODD_PADDING) -> Any:
    """Cross-correlation of images x (N, C, H, W) with kernels W (O, C / groups, kh, kw), plus b (O,) if given.

    **Args**
      handle: a `singa_wrap.ConvHandle`: kernel, stride, padding and groups.
      odd_padding: (top, bottom, left, right), further rows and columns of zeros.

    *Differences from SINGA*: batch and image size may differ from those the handle was made for; groups work on every
    device.
    """
    top, bottom, left, right = _four("conv2d", odd_padding)
    padding = (handle.pad_h + top, handle.pad_h + bottom), (handle.pad_w + left, handle.pad_w + right)
    stride = handle.stride_h, handle.stride_w
    return dispatch.apply(ops.conv, x, W, b, stride=stride, padding=padding, groups=handle.group)


@operator_class("_Pooling2d")
def pooling_2d(handle: Any, x: Any, odd_padding: Sequence[int] = NO_ODD_PADDING) -> Any:
    """The largest value or the mean of each window of images x (N, C, H, W).

    **Args**
      handle: a `singa_wrap.PoolingHandle`: kernel, stride, padding and which of the two.
      odd_padding: (top, bottom, left, right), further rows and columns, in which the border of x is repeated (it
        counts in a mean; padding of the handle does not).

    *Differences from SINGA*: batch and image size may differ from those the handle was made for.
    """
    geometry = {
        "kernel": (handle.kernel_h, handle.kernel_w),
        "stride": (handle.stride_h, handle.stride_w),
        "padding": ((handle.pad_h, handle.pad_h), (handle.pad_w, handle.pad_w)),
    }
    odd = _four("pooling_2d", odd_padding)
    return dispatch.apply(_pooling, x, odd_padding=odd, is_max=handle.is_max_pooling, **geometry)


def _pooling(x: jax.Array, *, odd_padding: tuple[int, ...], is_max: bool, **geometry: Any) -> jax.Array:
    if any(odd_padding):
        top, bottom, left, right = odd_padding
        x = ops.pad(x, mode="edge", pads=(0, 0, top, left, 0, 0, bottom, right))
    return (ops.max_pool2d if is_max else ops.avg_pool2d)(x, **geometry)


@operator_class("_BatchNorm2d", "x scale bias", named=True)
def batchnorm_2d(handle: Any, x: Any, scale: Any, bias: Any, running_mean: Any, running_var: Any) -> Any:
    """(x − mean) / sqrt(var + 1e-5) · scale + bias per channel of x (N, C, H, W) or (N, C).

    While `autograd.training` the statistics are those of the batch, and the Tensors `running_mean` and `running_var`
    (C,) are updated in place: running ← (1 − factor) · running + factor · batch, with the unbiased variance. Otherwise
    they are the statistics.

    **Args**
      handle: a `singa_wrap.BatchNormHandle`: the factor.

    *Differences from SINGA*: batch and image size may differ from those the handle was made for.
    """
    if not isinstance(running_mean, Tensor) or not isinstance(running_var, Tensor):
        kinds = f"{type(running_mean).__name__} and {type(running_var).__name__}"
        raise ArgumentError(f"batchnorm_2d expected running_mean and running_var as Tensors. Received: {kinds}")
    statistics = constant(running_mean), constant(running_var)
    if not mode.training:
        return dispatch.apply(ops.batch_norm_inference, x, scale, bias, *statistics)
    y, *moved = dispatch.apply(_batch_norm, x, scale, bias, *statistics, factor=handle.factor)
    for running, value in zip((running_mean, running_var), moved, strict=True):
        running.data = value
    return y


def _batch_norm(
    x: jax.Array, scale: jax.Array, bias: jax.Array, mean: jax.Array, var: jax.Array, *, factor: float
) -> tuple[jax.Array, ...]:
    """The normalised x, and the running statistics after this batch."""
    y, batch_mean, batch_var = ops.batch_norm(x, scale, bias)
    count = x.size // x.shape[1]
    pairs = (mean, batch_mean), (var, batch_var * (count / max(count - 1, 1)))
    moved = [(1 - factor) * old + factor * lax.stop_gradient(new).astype(old.dtype) for old, new in pairs]
    return y, *moved


for _function, _name in ((_pooling, "pooling_2d"), (_batch_norm, "batchnorm_2d")):
    _function.__name__ = _name  # what nodes are called


def _four(name: str, odd_padding: Sequence[int]) -> tuple[int, ...]:
    found = ints(name, "odd_padding", odd_padding)
    if len(found) != 4 or min(found) < 0:
        raise ArgumentError(
            f"{name} expected an odd_padding (top, bottom, left, right) of 0 or more. Received: {odd_padding!r}"
        )
    return found
