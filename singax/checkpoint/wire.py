"""Values as the arrays that a file holds: NumPy's own kinds as they are, random keys and complex128 in a disguise.

`note` tells the disguise: "" for none, "complex128" for pairs of float64 along a new last axis, "key:<impl>" for the
words of typed random keys.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from singax.errors import FileFormatError
from singax.files import CODES

COMPLEX = "complex128"
KEY = "key:"


@dataclass(frozen=True)
class Wire:
    """How a value is stored. `read()` fetches it when its turn comes."""

    note: str
    dtype: np.dtype
    shape: tuple[int, ...]
    read: Callable[[], np.ndarray]


def is_key(dtype: Any) -> bool:
    """Whether this is the dtype of typed random keys."""
    return bool(jnp.issubdtype(dtype, jax.dtypes.prng_key))


def wired(name: str, dtype: Any, shape: tuple[int, ...], read: Callable[[], Any]) -> Wire:
    """How the value that `read()` gives, of this dtype and shape, is stored.

    Raises `FileFormatError` for a dtype that files cannot hold.
    """
    if is_key(dtype):
        data = jax.random.key_data(read())
        note = f"{KEY}{jax.random.key_impl(read())}"
        return Wire(note, np.dtype(data.dtype), tuple(data.shape), lambda: host_array(jax.random.key_data(read())))
    dtype = np.dtype(dtype).newbyteorder("=")
    if dtype == np.complex128:
        return Wire(COMPLEX, np.dtype(np.float64), (*shape, 2), lambda: _as_pairs(host_array(read())))
    if dtype not in CODES:
        known = ", ".join(str(known) for known in CODES)
        raise FileFormatError(f"{name} cannot be saved: files hold {known} and {COMPLEX}. Received: {dtype}")
    return Wire("", dtype, shape, lambda: host_array(read()))


def outlined(name: str, dtype: np.dtype, shape: tuple[int, ...], note: str) -> jax.ShapeDtypeStruct:
    """Shape and dtype of what `unwired` will give, before anything is read. Raises `FileFormatError` as it does."""
    if not note:
        return jax.ShapeDtypeStruct(shape, dtype)
    if note == COMPLEX and dtype == np.float64 and shape[-1:] == (2,):
        return jax.ShapeDtypeStruct(shape[:-1], np.complex128)
    if note.startswith(KEY) and dtype == np.uint32 and shape:
        try:
            data = jax.ShapeDtypeStruct(shape, np.uint32)
            found = jax.eval_shape(lambda words: jax.random.wrap_key_data(words, impl=note.removeprefix(KEY)), data)
            return jax.ShapeDtypeStruct(found.shape, found.dtype)
        except (ValueError, TypeError) as error:
            raise FileFormatError(f"{name[:200]} holds no random keys of {note[:100]!r}: {error}") from None
    raise FileFormatError(f"{name[:200]} is of a kind that is not known: {note!r:.100} of {dtype}{list(shape)}")


def unwired(array: np.ndarray, note: str) -> Any:
    """The value behind what a file holds, once `outlined` has found it in order."""
    if note == COMPLEX:
        return array.view(np.complex128)[..., 0]
    return jax.random.wrap_key_data(jnp.asarray(array), impl=note.removeprefix(KEY)) if note else array


def host_array(value: Any) -> np.ndarray:
    """The numbers of an array, on the host; without a copy where they are there already.

    JAX keeps the host's copy of an array with the array. That would double what a model takes, so the copy is asked of
    a handle of its own.
    """
    if not isinstance(value, jax.Array):
        return np.asarray(value)
    if value.is_fully_replicated:
        return np.asarray(value.addressable_data(0))
    if value.is_fully_addressable:
        return _assembled(value)
    from jax.experimental import multihost_utils

    return np.asarray(multihost_utils.process_allgather(value, tiled=True))


def _assembled(value: jax.Array) -> np.ndarray:
    """An array that lies in parts on several devices of this process."""
    whole = np.empty(value.shape, value.dtype)
    for shard in value.addressable_shards:
        whole[shard.index] = np.asarray(shard.data.addressable_data(0))
    return whole


def _as_pairs(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).reshape(*array.shape, 1).view(np.float64)
