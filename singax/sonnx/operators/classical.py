"""Features of ai.onnx.ml: scaling, norms, missing values, choosing and joining columns, categories."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from singax.errors import ArgumentError
from singax.sonnx.operators.indices import within
from singax.sonnx.operators.scores import DOMAIN, computed_on_host, rows
from singax.sonnx.registry import Call, NeedsHost, onnx_operator

Array = Any

_STRINGS = np.dtype(object)


@onnx_operator("Scaler", domain=DOMAIN)
def scaler(call: Call, x: Array) -> Array:
    """(x − offset) · scale, per column or of all, in float32."""
    offset, scale = (_per_column(call, name, default) for name, default in (("offset", 0.0), ("scale", 1.0)))
    return (jnp.asarray(x).astype(np.float32) - offset) * scale


def _per_column(call: Call, name: str, default: float) -> np.ndarray:
    return np.asarray(call.attribute(name) or [default], np.float32)


@onnx_operator("Normalizer", domain=DOMAIN)
def normalizer(call: Call, x: Array) -> Array:
    """Rows divided by their largest value, the sum of the absolute ones, or their length; rows of 0 stay."""
    x, norm = jnp.asarray(x).astype(np.float32), call.attribute("norm", "MAX")
    if norm not in ("MAX", "L1", "L2"):
        raise ArgumentError(f"expected a norm among MAX, L1, L2. Received: {norm!r}")
    if norm == "MAX":
        size = jnp.max(x, axis=-1, keepdims=True)
    elif norm == "L1":
        size = jnp.sum(jnp.abs(x), axis=-1, keepdims=True)
    else:
        size = jnp.sqrt(jnp.sum(x * x, axis=-1, keepdims=True))
    return x / jnp.where(size == 0, 1, size)


@onnx_operator("Imputer", domain=DOMAIN)
def imputer(call: Call, x: Array) -> Array:
    """x with another value, one for each column or one for all, where it has a given one, which may be NaN."""
    x = jnp.asarray(x)
    kind = "float" if jnp.issubdtype(x.dtype, jnp.floating) else "int64"
    values = np.asarray(call.attribute(f"imputed_value_{kind}s") or [], x.dtype)
    if len(values) not in (1, x.shape[-1]):
        raise ArgumentError(f"expected 1 or {x.shape[-1]} entries in imputed_value_{kind}s. Received: {len(values)}")
    replaced = call.attribute(f"replaced_value_{kind}", 0)
    return jnp.where(jnp.isnan(x) if np.isnan(replaced) else x == jnp.asarray(replaced, x.dtype), values, x)


@onnx_operator("Binarizer", domain=DOMAIN)
def binarizer(call: Call, x: Array) -> Array:
    """1 where x is above the threshold, else 0."""
    return (jnp.asarray(x) > call.attribute("threshold", 0.0)).astype(x.dtype)


@onnx_operator("ArrayFeatureExtractor", domain=DOMAIN)
def array_feature_extractor(call: Call, x: Array, columns: Array) -> Array:
    """Some columns of x: (…, columns); a vector is one row."""
    if x.dtype == _STRINGS:
        raise NeedsHost("strings are gathered on the host")
    within(call, columns, 0, x.shape[-1] - 1, "columns")
    x, columns = jnp.asarray(x), jnp.asarray(columns).reshape(-1)
    found = jnp.take(x, columns, axis=-1, mode="fill" if jnp.issubdtype(x.dtype, jnp.inexact) else "clip")
    return found[None] if x.ndim == 1 else found


@onnx_operator("FeatureVectorizer", domain=DOMAIN)
def feature_vectorizer(call: Call, *inputs: Array) -> Array:
    """The columns of all inputs side by side, in float32; each cut or filled up with 0 to its `inputdimensions`."""
    sizes = call.attribute("inputdimensions") or [np.shape(x)[-1] for x in inputs]
    if len(sizes) != len(inputs):
        raise ArgumentError(f"expected {len(inputs)} inputdimensions. Received: {len(sizes)}")
    return jnp.concatenate([_fitted(x, size) for x, size in zip(inputs, sizes, strict=True)], axis=1)


def _fitted(x: Array, size: int) -> Array:
    x = rows(x).astype(np.float32)[:, :size]
    return jnp.pad(x, ((0, 0), (0, size - x.shape[1])))


@onnx_operator("OneHotEncoder", domain=DOMAIN)
def one_hot_encoder(call: Call, x: Array) -> Array:
    """A further axis with a 1 at the place of the category, none for an unknown one."""
    categories = call.attribute("cats_int64s")
    if x.dtype == _STRINGS:
        known = np.asarray(call.attribute("cats_strings") or [], object)
        found = np.asarray(x)[..., None] == known
    else:
        found = jnp.asarray(x).astype(np.int64)[..., None] == jnp.asarray(categories or [], np.int64)
    if not call.attribute("zeros", 1):
        _all_known(found)
    return found.astype(np.float32)


def _all_known(found: Array) -> None:
    computed_on_host(found, "an unknown category is an error, since `zeros` is 0")
    if not np.asarray(found).any(axis=-1).all():
        raise ArgumentError("expected known categories, since `zeros` is 0. Received: an unknown one")
