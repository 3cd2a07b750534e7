"""SINGA's module functions: `singax.tensor.zeros` and the like."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from singax.tensor.handle import Tensor


def from_numpy(np_array: Any, dev: Any = None) -> Tensor:
    """A Tensor with a copy of `np_array`; float64 and int64 narrow to 32 bits unless JAX's x64 mode is on."""
    return Tensor(data=np_array, device=dev)


def to_numpy(t: Tensor) -> np.ndarray:
    """A NumPy copy of the values of `t`."""
    return t.to_numpy()


def zeros(shape: Sequence[int], device: Any = None) -> Tensor:
    """A float32 Tensor of zeros."""
    return Tensor(shape, device).set_value(0.0)


def ones(shape: Sequence[int], device: Any = None) -> Tensor:
    """A float32 Tensor of ones."""
    return Tensor(shape, device).set_value(1.0)


def random(shape: Sequence[int], device: Any = None) -> Tensor:
    """A float32 Tensor of draws from U(0, 1)."""
    return Tensor(shape, device).uniform(0.0, 1.0)


def zeros_like(t: Tensor) -> Tensor:
    """Zeros with the shape, dtype and device of `t`."""
    return Tensor(t.shape, t.device, t.dtype).set_value(0)


def ones_like(t: Tensor) -> Tensor:
    """Ones with the shape, dtype and device of `t`."""
    return Tensor(t.shape, t.device, t.dtype).set_value(1)
