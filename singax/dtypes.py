"""Names of dtypes: NumPy's and JAX's, and SINGA's three constants.

>>> import singax as sx
>>> sx.dtypes.canonical("float32") == sx.float32
True
>>> sx.dtypes.canonical(2)          # SINGA's tensor.int32
dtype('int32')
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from singax.errors import DTypeError

DType = np.dtype
DTypeLike = Any

float32 = np.dtype("float32")
float16 = np.dtype("float16")
int32 = np.dtype("int32")
float64 = np.dtype("float64")
int64 = np.dtype("int64")
bool_ = np.dtype("bool")
bfloat16 = np.dtype(jnp.bfloat16)

_SINGA_NAMES: dict[Any, np.dtype] = {0: float32, 1: float16, 2: int32, "int": int32, "float": float32}


def canonical(dtype: DTypeLike) -> DType:
    """The NumPy dtype named by `dtype`: a dtype, its name, a scalar type, or one of SINGA's ints 0, 1, 2.

    Raises `DTypeError` for anything else. A 64-bit name is kept as it is, whatever JAX's x64 flag says.
    """
    ours = type(dtype) is int or (isinstance(dtype, str) and dtype in _SINGA_NAMES)
    found = _SINGA_NAMES.get(dtype) if ours else _numpy_dtype(dtype)
    if found is not None and found.kind in "biufcV":
        return found
    raise DTypeError(
        f"unknown dtype {dtype!r}: give a NumPy or JAX dtype, its name, or singax.float32, float16, int32 …"
    )


def _numpy_dtype(dtype: Any) -> np.dtype | None:
    try:
        return None if dtype is None else np.dtype(dtype)
    except (TypeError, ValueError):
        return None


def narrows(dtype: DType) -> bool:
    """Whether JAX would silently narrow `dtype` because its x64 mode is off."""
    return dtype.itemsize == 8 and dtype.kind in "iuf" and not jax.config.read("jax_enable_x64")


def nbytes(shape: Iterable[int], dtype: Any) -> int:
    """The bytes of an array, in Python's integers, which do not overflow; a random key counts as 8."""
    return math.prod(shape) * int(getattr(dtype, "itemsize", 8))


def is_floating(dtype: Any) -> bool:
    """Whether gradients exist for `dtype` (float or complex, bfloat16 included)."""
    return bool(jnp.issubdtype(dtype, jnp.inexact))
