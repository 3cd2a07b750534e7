"""SINGA's module functions that make Tensors, fill them, and carry values in and out."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from singax import dtypes
from singax.errors import ArgumentError, ShapeError
from singax.tensor import measures
from singax.tensor.handle import Tensor
from singax.tensor.operators import apart, before, stored
from singax.tensor.rules import apply
from singax.tensor.values import integers


def from_numpy(np_array: Any, dev: Any = None) -> Tensor:
    """A Tensor with a copy of `np_array`; float64 and int64 narrow to 32 bits unless JAX's x64 mode is on.

    *Differences from SINGA*: any dtype of numbers, numbers and lists too.
    """
    return Tensor(data=np_array, device=dev)


def to_numpy(t: Any) -> np.ndarray:
    """A NumPy copy of the values of `t`."""
    return t.to_numpy() if isinstance(t, Tensor) else np.array(t)


def to_host(t: Tensor) -> Tensor:
    """A copy of `t` on the host CPU."""
    made = checked("to_host", t).clone()
    made.to_host()
    return made


def from_raw_tensor(t: Any) -> Tensor:
    """A Tensor around an array such as `tensor.data`; a JAX array is not copied."""
    return Tensor(data=t)


def from_raw_tensors(tt: Iterable[Any]) -> list[Tensor]:
    """A Tensor around each of the arrays."""
    return [from_raw_tensor(t) for t in tt]


def _call_singa_func(_singa_func: Callable[..., Any], *args: Any) -> Tensor:
    """`function(*args)` on arrays, as a Tensor."""
    return from_raw_tensor(_singa_func(*[a.data if isinstance(a, Tensor) else a for a in args]))


def zeros(shape: Sequence[int], device: Any = None) -> Tensor:
    """A float32 Tensor of zeros."""
    return Tensor(shape, device).set_value(0.0)


def ones(shape: Sequence[int], device: Any = None) -> Tensor:
    """A float32 Tensor of ones."""
    return Tensor(shape, device).set_value(1.0)


def random(shape: Sequence[int], device: Any = None) -> Tensor:
    """A float32 Tensor of draws from U(0, 1)."""
    return Tensor(shape, device).uniform(0.0, 1.0)


def zeros_like(t: Any) -> Any:
    """Zeros with the shape, dtype and device of `t`."""
    return t.set_value(0, inplace=False) if isinstance(t, Tensor) else apply(jnp.zeros_like, t)


def ones_like(t: Any) -> Any:
    """Ones with the shape, dtype and device of `t`."""
    return t.set_value(1, inplace=False) if isinstance(t, Tensor) else apply(jnp.ones_like, t)


def product(shape: Sequence[int]) -> int:
    """The product of the sizes, of which there is at least one."""
    sizes = integers("product", "shape", shape)
    if not sizes:
        raise ShapeError("product expected at least one size. Received none")
    return math.prod(sizes)


def sizeof(dtype: Any) -> int:
    """Bytes of one element."""
    return dtypes.canonical(dtype).itemsize


def bernoulli(p: float, t: Tensor) -> Tensor:
    """Fill `t` with ones (probability `p`) and zeros, and return it."""
    return checked("bernoulli", t).bernoulli(p)


def gaussian(mean: float, std: float, t: Tensor) -> Tensor:
    """Fill `t` with draws from N(mean, std²), and return it."""
    return checked("gaussian", t).gaussian(mean, std)


def uniform(low: float, high: float, t: Tensor) -> Tensor:
    """Fill `t` with draws from U(low, high), and return it."""
    return checked("uniform", t).uniform(low, high)


def copy_from_numpy(data: Tensor, np_array: Any) -> None:
    """Copy host values into `data`; see `Tensor.copy_from_numpy`."""
    checked("copy_from_numpy", data).copy_from_numpy(np_array)


def copy_data_to_from(dst: Tensor, src: Any, size: int, dst_offset: int = 0, src_offset: int = 0) -> None:
    """Copy `size` elements of `src`, from `src_offset` on, to `dst_offset` of `dst`, counted in row-major order."""
    counts = integers("copy_data_to_from", "size and offsets", [size, dst_offset, src_offset])
    room = min(checked("copy_data_to_from", dst).size() - counts[1], math.prod(np.shape(src)) - counts[2])
    if min(counts) < 0 or counts[0] > room:
        raise ShapeError(
            f"copy_data_to_from expected a part of both, of {dst.size()} and {math.prod(np.shape(src))} elements. "
            f"Received: size {size}, dst_offset {dst_offset}, src_offset {src_offset}"
        )
    starts = [np.int32(start) for start in counts[1:]]
    stored(dst, apply(measures.copied_part, before(dst), apart(dst, src), *starts, size=counts[0]))


def checked(name: str, t: Any) -> Tensor:
    """`t`, which must be a Tensor because it is written."""
    if not isinstance(t, Tensor):
        raise ArgumentError(f"{name} expected a Tensor. Received: {type(t).__name__}")
    return t
