"""Questions about dtypes that lowerings ask."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from singax.sonnx.exporter.graph import Graph, Ref, element_type


def is_bool(ref: Ref) -> bool:
    """Whether a value holds booleans."""
    return np.dtype(ref.dtype) == np.bool_


def is_floating(ref: Ref) -> bool:
    """Whether a value holds floats, bfloat16 and the like included."""
    return bool(jnp.issubdtype(ref.dtype, jnp.floating))


def is_integer(ref: Ref) -> bool:
    """Whether a value holds integers, with a sign or without."""
    return bool(jnp.issubdtype(ref.dtype, jnp.integer))


def is_unsigned(ref: Ref) -> bool:
    """Whether a value holds integers without a sign."""
    return bool(jnp.issubdtype(ref.dtype, jnp.unsignedinteger))


def within(graph: Graph, ref: Ref, dtype: Any) -> Ref:
    """The value in another dtype."""
    return ref if np.dtype(ref.dtype) == np.dtype(dtype) else graph.op("Cast", ref, to=element_type(dtype))


def smallest(dtype: Any) -> np.ndarray:
    """The least value of a dtype: −inf for floats."""
    return _end(dtype, "min")


def largest(dtype: Any) -> np.ndarray:
    """The greatest value of a dtype: inf for floats."""
    return _end(dtype, "max")


def _end(dtype: Any, which: str) -> np.ndarray:
    if jnp.issubdtype(dtype, jnp.floating):
        return np.asarray(-np.inf if which == "min" else np.inf, dtype)
    if np.dtype(dtype) == np.bool_:
        return np.asarray(which == "max")
    return np.asarray(getattr(jnp.iinfo(dtype), which), dtype)
