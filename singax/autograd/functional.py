"""SINGA's functional names: each operation, recorded when it is called with Tensors."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from singax import dispatch, mode, ops
from singax.autograd import (
    functional_elementwise,
    functional_losses,
    functional_more,
    functional_shape,
    functional_window,
)
from singax.autograd.derived import operator_class, recorded
from singax.autograd.functional_elementwise import *  # noqa: F403
from singax.autograd.functional_elementwise import number
from singax.autograd.functional_losses import *  # noqa: F403
from singax.autograd.functional_more import *  # noqa: F403
from singax.autograd.functional_shape import *  # noqa: F403
from singax.autograd.functional_shape import integer
from singax.autograd.functional_window import *  # noqa: F403
from singax.autograd.recorder import node
from singax.errors import ArgumentError
from singax.ops.explain import named_in_errors

__all__ = [
    "add_all", "add_bias", "avg_pool2d", "dropout", "embedding", "gemm", "global_average_pool", "global_max_pool",
    "globalaveragepool", "gru", "layer_norm", "lstm", "matmul", "max_pool2d", "rnn", "softmax",
]  # fmt: skip
__all__ += functional_elementwise.__all__
__all__ += functional_losses.__all__
__all__ += functional_more.__all__
__all__ += functional_shape.__all__
__all__ += functional_window.__all__

matmul = recorded("Matmul", ops.matmul, "x w", differs="the gradients of batches of matrices are right")
embedding = recorded("Embedding", ops.embedding, "x w", differs="ids of any shape; they have no gradient")
rnn = node(ops.rnn)
lstm = node(ops.lstm)
gru = node(ops.gru)
max_pool2d = node(ops.max_pool2d)
avg_pool2d = node(ops.avg_pool2d)
global_average_pool = node(ops.global_average_pool)
global_max_pool = node(ops.global_max_pool)
layer_norm = node(ops.layer_norm)


@operator_class("Gemm", "A B C")
def gemm(A: Any, B: Any, C: Any = None, alpha: float = 1.0, beta: float = 1.0, transA: int = 0, transB: int = 0) -> Any:
    """α A · B + β C, A and B transposed first if asked for."""
    scale = {"alpha": number("gemm", "alpha", alpha), "beta": number("gemm", "beta", beta)}
    return dispatch.apply(ops.gemm, A, B, C, **scale, transA=int(transA), transB=int(transB))


@named_in_errors
def add_all(*xs: Any) -> Any:
    """The sum of one or more Tensors, element by element, with broadcasting.

    *Differences from SINGA*: it returns the sum (SINGA's returns None), and any number of inputs will do.
    """
    return functional_elementwise.sum(*xs)


@operator_class("AddBias", "x b")
def add_bias(x: Any, b: Any, axis: int = 0) -> Any:
    """x (n, m) + b: for axis 0 b (m,) is added to every row, for axis 1 b (n,) to every column.

    *Differences from SINGA*: x keeps its values; the gradient of b is right for axis 1 too.
    """
    return dispatch.apply(ops.add_bias, x, b, axis=integer("add_bias", "axis", axis))


@operator_class("SoftMax")
def softmax(x: Any, axis: int = 1) -> Any:
    """exp(x) normalised to sum 1 over `axis` **and all axes after it**, as in SINGA. See `ops.softmax` for one axis."""
    return dispatch.apply(_softmax, x, axis=integer("softmax", "axis", axis))


def _softmax(x: jax.Array, *, axis: int) -> jax.Array:
    shape, ndim = np.shape(x), np.ndim(x)
    if not -ndim <= axis < ndim:
        raise ArgumentError(f"softmax expected an axis from {-ndim} to {ndim - 1}. Received: {axis}")
    if axis % ndim == ndim - 1:
        return ops.softmax(x, axis=-1)
    return ops.reshape(ops.softmax(ops.flatten(x, axis=axis), axis=-1), shape=shape, allowzero=True)


_softmax.__name__ = "softmax"  # what its nodes are called


@operator_class("Dropout")
def dropout(x: Any, seed: int = 0, ratio: float = 0.5) -> Any:
    """Dropout while `autograd.training`, else x itself. See `layer.Dropout`.

    Every call draws a new mask; calls that are equal but for their `seed` draw different ones.
    *Differences from SINGA*: `seed` does not reset the device's randomness, the scale is 1 / (1 − ratio).
    """
    if not mode.training:
        return x
    return dispatch.apply(ops.dropout, x, jax.random.fold_in(dispatch.next_key(), seed), ratio=ratio)


@operator_class("GlobalAveragePool")
def globalaveragepool(x: Any, data_format: str = "channels_first") -> Any:
    """The mean of each channel; the axes between, or after, stay with size 1.

    *Differences from SINGA*: a `data_format` other than "channels_first" and "channels_last" is an error.
    """
    if data_format not in ("channels_first", "channels_last"):
        raise ArgumentError(f'data_format must be "channels_first" or "channels_last". Received: {data_format!r}')
    pool = ops.global_average_pool if data_format == "channels_first" else _global_average_pool_last
    return dispatch.apply(pool, x)


def _global_average_pool_last(x: jax.Array) -> jax.Array:
    last = x.ndim - 1
    pooled = ops.global_average_pool(ops.transpose(x, perm=(0, last, *range(1, last))))
    return ops.transpose(pooled, perm=(0, *range(2, x.ndim), 1))
