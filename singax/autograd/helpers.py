"""SINGA's helpers around its engine, for code that walks graphs or writes gradients by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from singax.autograd.operator import Operator
from singax.errors import ShapeError
from singax.tensor import Tensor


def infer_dependency(op: Operator) -> tuple[Counter[Operator], Counter[int]]:
    """How often each creator, and each Tensor by its id, is used by `op` and by what `op` depends on.

    `op` itself does not count.

    >>> import singax as sx
    >>> sx.autograd.training = True
    >>> x = sx.Tensor(data=[1.0])
    >>> creators, tensors = infer_dependency(sx.autograd.add(x, sx.autograd.relu(x)).creator)
    >>> creators[x.creator], tensors[id(x)], len(creators)
    (2, 2, 2)
    >>> sx.autograd.training = False
    """
    creators: Counter[Operator] = Counter()
    tensors: Counter[int] = Counter()
    todo = [op]
    while todo:
        for creator, tensor_id, _, _ in todo.pop().src:
            if creator not in creators:
                todo.append(creator)
            creators[creator] += 1
            tensors[tensor_id] += 1
    return creators, tensors


def axis_helper(y_shape: Sequence[int], x_shape: Sequence[int]) -> tuple[int, ...]:
    """The axes of a result of shape `y_shape` along which an input of shape `x_shape` was broadcast.

    >>> axis_helper((2, 3, 4), (3, 1))
    (0, 2)
    """
    padded = (None,) * (len(y_shape) - len(x_shape)) + tuple(x_shape)
    return tuple(axis for axis, (y, x) in enumerate(zip(y_shape, padded, strict=True)) if x != y)


def back_broadcast(y_shape: Sequence[int], x_shape: Sequence[int], x: Any) -> jax.Array:
    """The gradient of an input of shape `x_shape` from the gradient x of a result of shape `y_shape`: x summed.

    **Raises** `ShapeError` unless `x_shape` broadcasts to `y_shape`.

    >>> back_broadcast((2, 3), (3,), np.ones((2, 3)))
    Array([2., 2., 2.], dtype=float32)
    """
    value = jnp.asarray(x.data if isinstance(x, Tensor) else x)
    try:
        fits = np.broadcast_shapes(tuple(x_shape), tuple(y_shape)) == tuple(y_shape) == value.shape
    except ValueError:
        fits = False
    if not fits:
        raise ShapeError(
            f"back_broadcast expected an array of shape {tuple(y_shape)}, to which {tuple(x_shape)} broadcasts. "
            f"Received shape {value.shape}"
        )
    return jnp.sum(value, axis_helper(y_shape, x_shape)).reshape(tuple(x_shape))


def ctensor2numpy(x: Any) -> np.ndarray:
    """A NumPy copy of an array or Tensor."""
    return np.array(x)
