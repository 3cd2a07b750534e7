"""SINGA's result dtypes, for the operators between Tensors outside layers.

| operands | result |
| --- | --- |
| float32 with float32 | float32 |
| integers with integers | integers, a quotient without its fraction (an integer divided by 0 gives −1) |
| integers or booleans with a Python number | float32 (float64 in JAX's x64 mode) |
| integers with floats | floats |
| float16 with anything | at least float32 |
| anything else, such as bfloat16 | what JAX says |

Comparisons give 0 and 1 in that dtype. Inside layers, and in the in-place forms, JAX's own rules hold.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from singax import dispatch, dtypes, mode, ops
from singax.errors import SingaxError
from singax.mode import local
from singax.ops.explain import NOT_ABOUT_INPUTS, explained
from singax.ops.operation import Operation, Twin
from singax.tensor.values import real


def arithmetic(operation: Callable[..., Any], a: Any, b: Any) -> Any:
    """`operation` on two operands, at least one of them a Tensor, with SINGA's result dtype outside layers."""
    if local.frame is not None:
        return apply(operation, a, b)
    a, b = _float_for(a, b), _float_for(b, a)
    left, right = getattr(a, "dtype", None), getattr(b, "dtype", None)
    if dtypes.float16 in (left, right):
        operation = _widened(operation)
    elif operation is ops.div and _is_integer(left) and _is_integer(right):
        operation = quotient
    return call(operation, a, b)


def call(operation: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Run an operation; where nothing is recorded its result is a fresh leaf, which requires a gradient by default."""
    result = apply(operation, *args, **options)
    if not mode.training and hasattr(result, "_requires_grad"):
        result._requires_grad = True
    return result


def apply(operation: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """`dispatch.apply`, where JAX's complaints about the arguments become errors of ours."""
    try:
        return dispatch.apply(operation, *args, **options)
    except (SingaxError, *NOT_ABOUT_INPUTS):
        raise
    except (TypeError, ValueError, OverflowError) as error:
        raise explained(operation.__name__, args, options, error) from error


def _float_for(value: Any, other: Any) -> Any:
    """A Python number beside integers as a float, which they follow."""
    plain = isinstance(value, int | float) and not isinstance(value, np.generic)
    if not plain or not hasattr(other, "dtype") or dtypes.is_floating(other.dtype):
        return value
    with np.errstate(over="ignore"):
        return np.float64(real("an operator", "an operand", value)).astype(jax.dtypes.canonicalize_dtype(float))


def _is_integer(dtype: Any) -> bool:
    return dtype is not None and jnp.issubdtype(dtype, jnp.integer)


def unregistered(function: Callable[..., Any]) -> Operation:
    """An operation without an ONNX twin that is no public operation: for its error messages."""
    return Operation(function, Twin(None))


@functools.cache
def _widened(operation: Callable[..., Any]) -> Operation:
    """`operation` on float16 operands as float32."""

    def run(a: jax.Array, b: jax.Array) -> jax.Array:
        return operation(_wide(a), _wide(b))

    run.__name__ = operation.__name__
    return unregistered(run)


def _wide(x: Any) -> Any:
    return x.astype(dtypes.float32) if getattr(x, "dtype", None) == dtypes.float16 else x


@unregistered
def quotient(a: jax.Array, b: jax.Array) -> jax.Array:
    """a / b of integers without the fraction."""
    dtype = jnp.result_type(a, b)
    return lax.div(*jnp.broadcast_arrays(jnp.asarray(a, dtype), jnp.asarray(b, dtype)))
