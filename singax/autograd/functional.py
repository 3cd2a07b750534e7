"""SINGA's functional names: each operation, recorded when it is called with Tensors."""

from __future__ import annotations

from typing import Any

import jax

from singax import dispatch, mode, ops
from singax.autograd.recorder import node
from singax.errors import ArgumentError

relu = node(ops.relu)
sigmoid = node(ops.sigmoid)
tanh = node(ops.tanh)
gelu = node(ops.gelu)
softmax = node(ops.softmax)
add = node(ops.add)
sub = node(ops.sub)
mul = node(ops.mul)
div = node(ops.div)
pow = node(ops.pow)
negative = node(ops.negative)
abs = node(ops.abs)
matmul = node(ops.matmul)
less = node(ops.less)
greater = node(ops.greater)
equal = node(ops.equal)
reshape = node(ops.reshape)
transpose = node(ops.transpose)
flatten = node(ops.flatten)
cat = node(ops.cat)
embedding = node(ops.embedding)
softmax_cross_entropy = node(ops.softmax_cross_entropy)
mse_loss = node(ops.mse_loss)
binary_cross_entropy = node(ops.binary_cross_entropy)
rnn = node(ops.rnn)
lstm = node(ops.lstm)
max_pool2d = node(ops.max_pool2d)
avg_pool2d = node(ops.avg_pool2d)
global_average_pool = node(ops.global_average_pool)
global_max_pool = node(ops.global_max_pool)
layer_norm = node(ops.layer_norm)


def dropout(x: Any, seed: int = 0, ratio: float = 0.5) -> Any:
    """Dropout while `autograd.training`, else x itself. See `layer.Dropout`.

    Every call draws a new mask; calls that are equal but for their `seed` draw different ones.
    *Differences from SINGA*: `seed` does not reset the device's randomness, the scale is 1 / (1 − ratio).
    """
    if not mode.training:
        return x
    return dispatch.apply(ops.dropout, x, jax.random.fold_in(dispatch.next_key(), seed), ratio=ratio)


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
