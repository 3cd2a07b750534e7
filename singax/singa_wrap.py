"""What user code takes from SINGA's raw layer: build flags, versions, dtypes and the handles of `autograd`.

SINGA's raw functions on CTensors (`singa_wrap.ReLU`, `CpuConvForward` …) are not here: inside a layer or an `Operator`
values are JAX arrays, and any `jax.numpy` function does that work.

>>> handle = ConvHandle(np.zeros((8, 3, 32, 32)), (3, 3), (1, 1), (1, 1), 3, 16, True, 1)
>>> handle.num_filters, handle.pad_h
(16, 1)
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from singax.errors import ArgumentError, ShapeError
from singax.ops import CudnnLayout

USE_CUDA = USE_CUDNN = USE_DNNL = USE_OPENCL = USE_DIST = USE_JAVA = USE_CBLAS = 0
USE_PYTHON = 1

SINGA_MAJOR_VERSION, SINGA_MINOR_VERSION, SINGA_PATCH_VERSION = 5, 1, 0  # of the SINGA whose interface this is
SINGA_VERSION = SINGA_MAJOR_VERSION * 10000 + SINGA_MINOR_VERSION * 100 + SINGA_PATCH_VERSION

kFloat32, kFloat16, kInt, kChar, kDouble = range(5)


class ConvHandle:
    """The geometry of `autograd.conv2d`.

    **Args**
      x: images (N, C, H, W), or anything of that shape; later inputs may have another N, H and W.
      kernel, stride, padding: an integer or two, (height, width); padding counts on both sides.
      in_channels, out_channels: C and the number of kernels.
      bias: whether there is a bias; groups: how many parts the channels are divided into.

    **Raises** `ArgumentError`, `ShapeError`.
    """

    def __init__(
        self,
        x: Any,
        kernel: int | Sequence[int],
        stride: int | Sequence[int],
        padding: int | Sequence[int],
        in_channels: int,
        out_channels: int,
        bias: bool = True,
        groups: int = 1,
    ) -> None:
        self.batchsize, self.channels, self.height, self.width = _sizes("ConvHandle", x, (4,))
        self.kernel_h, self.kernel_w = _pair("kernel", kernel, 1)
        self.stride_h, self.stride_w = _pair("stride", stride, 1)
        self.pad_h, self.pad_w = _pair("padding", padding, 0)
        self.num_filters, self.bias_term, self.group = out_channels, bool(bias), groups
        if self.channels != in_channels or groups < 1 or in_channels % groups or out_channels % groups:
            raise ArgumentError(
                f"ConvHandle expected {self.channels} input channels, which the groups divide, as they do the output "
                f"channels. Received: in_channels {in_channels}, out_channels {out_channels}, groups {groups}"
            )


class PoolingHandle:
    """The geometry of `autograd.pooling_2d`: the largest value of each window if `is_max`, else the mean.

    **Args**
      x: images (N, C, H, W), or anything of that shape; later inputs may have another N, H and W.
      kernel, stride, padding: an integer or two, (height, width); padding counts on both sides.

    **Raises** `ArgumentError`, `ShapeError`.
    """

    def __init__(
        self,
        x: Any,
        kernel: int | Sequence[int],
        stride: int | Sequence[int],
        padding: int | Sequence[int] = 0,
        is_max: bool = True,
    ) -> None:
        self.batchsize, self.channels, self.height, self.width = _sizes("PoolingHandle", x, (4,))
        self.kernel_h, self.kernel_w = _pair("kernel", kernel, 1)
        self.stride_h, self.stride_w = _pair("stride", stride, 1)
        self.pad_h, self.pad_w = _pair("padding", padding, 0)
        self.pooled_height = (self.height + 2 * self.pad_h - self.kernel_h) // self.stride_h + 1
        self.pooled_width = (self.width + 2 * self.pad_w - self.kernel_w) // self.stride_w + 1
        self.is_max_pooling = bool(is_max)


class BatchNormHandle:
    """The momentum of `autograd.batchnorm_2d`: `factor`, the weight of the new batch in the running statistics.

    **Args**
      momentum: 0 to 1.
      x: (N, C, H, W) or (N, C), or anything of that shape; later inputs may have another N, H and W.

    **Raises** `ArgumentError`, `ShapeError`.
    """

    def __init__(self, momentum: float, x: Any) -> None:
        sizes = _sizes("BatchNormHandle", x, (2, 4))
        if not 0 <= momentum <= 1:
            raise ArgumentError(f"BatchNormHandle expected a momentum from 0 to 1. Received: {momentum!r}")
        self.factor, self.is_2d = float(momentum), len(sizes) == 2
        self.batchsize, self.channels, self.height, self.width = (*sizes, 1, 1)[:4]


_RNN_MODES = ("relu", "tanh", "lstm", "gru")  # in cuDNN's order


class CudnnRNNHandle:
    """The sizes of `autograd._RNN`; `weights_size` is how many weights there are.

    **Args**
      x: (T, B, F), or anything of that shape; later inputs may have other T and B.
      hidden_size: H.
      mode: 0 relu, 1 tanh, 2 LSTM, 3 GRU.
      num_layers, bias, dropout, bidirectional: as in `layer.CudnnRNN`.

    **Raises** `ArgumentError`, `ShapeError`.

    >>> CudnnRNNHandle(np.zeros((7, 2, 3)), 5, mode=2).weights_size
    200
    """

    def __init__(
        self,
        x: Any,
        hidden_size: int,
        mode: int = 0,
        num_layers: int = 1,
        bias: int = 1,
        dropout: float = 0.0,
        bidirectional: bool = False,
    ) -> None:
        self.seq_length, self.batch_size, self.feature_size = _sizes("CudnnRNNHandle", x, (3,))
        if mode not in range(4) or hidden_size < 1 or num_layers < 1 or not 0 <= dropout < 1:
            raise ArgumentError(
                "CudnnRNNHandle expected a mode from 0 to 3, a hidden_size and num_layers from 1 up, and a dropout of "
                f"at least 0 and below 1. Received: {mode!r}, {hidden_size!r}, {num_layers!r} and {dropout!r}"
            )
        self.mode, self.rnn_mode = mode, _RNN_MODES[mode]
        self.hidden_size, self.num_layers, self.dropout = hidden_size, num_layers, float(dropout)
        self.bias, self.bidirectional = bool(bias), bool(bidirectional)
        sizes = (self.feature_size, hidden_size, self.rnn_mode, num_layers, self.bidirectional, self.bias)
        self.weights_size = CudnnLayout(*sizes).size


CudnnConvHandle, CudnnPoolingHandle, CudnnBatchNormHandle = ConvHandle, PoolingHandle, BatchNormHandle


class NcclIdHolder:
    """Stands for the identifier that SINGA's processes share; JAX finds its devices without one."""


def _sizes(name: str, x: Any, ranks: tuple[int, ...]) -> tuple[int, ...]:
    shape = x.shape() if callable(getattr(x, "shape", None)) else np.shape(x) if not hasattr(x, "shape") else x.shape
    if len(shape) not in ranks:
        raise ShapeError(f"{name} expected an input of {' or '.join(map(str, ranks))} axes. Received shape {shape}")
    return tuple(shape)


def _pair(name: str, value: int | Sequence[int], least: int) -> tuple[int, int]:
    found = tuple(value) if isinstance(value, Sequence) else (value, value)
    try:
        pair = tuple(map(operator.index, found))
    except TypeError:
        pair = ()
    if len(pair) != 2 or min(pair) < least:
        raise ArgumentError(f"{name} must be an integer from {least} up, or two (height, width). Received: {value!r}")
    return pair[0], pair[1]
