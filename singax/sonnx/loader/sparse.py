"""Sparse tensors: indices checked, then the dense form."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from singax.sonnx.loader.elements import STRING_ELEMENT
from singax.sonnx.loader.refusal import refuse, shown
from singax.sonnx.loader.tensors import Measure, decode, measure, shape_of


def measure_sparse(sparse: Any, total: Measure, where: str) -> None:
    """Check a sparse tensor's parts and the size of its dense form, before anything is allocated."""
    if sparse.values is None or (sparse.indices is None and sparse.values.dims != [0]):
        refuse(where, "sparse tensor", "values and indices", "none")
    element, values = measure(sparse.values, total, f"{where}: values"), list(sparse.values.dims)
    if element is STRING_ELEMENT:
        refuse(where, "values", "numbers", "strings")
    dims = shape_of(sparse.dims, element.dtype.itemsize, where, total.limits)
    if not dims:
        refuse(where, "dims", "at least one dimension", "none")
    if len(values) != 1:
        refuse(where, "values", "one dimension", shown(values))
    size = math.prod(dims) * element.dtype.itemsize
    total.take("sparse_bytes", size, where)
    total.take("bytes", size, where)
    if sparse.indices is not None:
        _measure_indices(sparse, values[0], len(dims), total, where)


def _measure_indices(sparse: Any, count: int, rank: int, total: Measure, where: str) -> None:
    element, shape = measure(sparse.indices, total, f"{where}: indices"), list(sparse.indices.dims)
    if element.name != "int64":
        refuse(where, "indices", "int64", element.name)
    if shape not in ([count], [count, rank]):
        refuse(where, "indices", f"shape {[count]} or {[count, rank]}", shown(shape))


def decode_sparse(sparse: Any, total: Measure, where: str) -> np.ndarray:
    """The dense form of a sparse tensor that was measured."""
    values = decode(sparse.values, total, f"{where}: values")
    dims = tuple(sparse.dims)
    dense = np.zeros(math.prod(dims), values.dtype)
    if sparse.indices is not None:
        indices = decode(sparse.indices, total, f"{where}: indices")
        dense[_linear(indices, dims, where)] = values
    return dense.reshape(dims)


def _linear(indices: np.ndarray, dims: tuple[int, ...], where: str) -> np.ndarray:
    """Indices into the flat form: inside the shape, in ascending order, none twice."""
    sizes = np.array([math.prod(dims)] if indices.ndim == 1 else dims, np.int64)
    pairs = indices if indices.ndim == 2 else indices[:, None]
    outside = ((pairs < 0) | (pairs >= sizes)).any(axis=1)
    if outside.any():
        refuse(where, "indices", f"indices inside {list(dims)}", shown(pairs[outside][0].tolist()))
    strides = [math.prod(dims[axis + 1 :]) for axis in range(len(dims))] if indices.ndim == 2 else [1]
    flat = pairs @ np.array(strides, np.int64)
    wrong = np.flatnonzero(np.diff(flat) <= 0)
    if wrong.size:
        refuse(where, "indices", "ascending indices, none twice", shown(pairs[wrong[0] + 1].tolist()))
    return flat
