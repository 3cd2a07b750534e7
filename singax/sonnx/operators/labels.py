"""Looking up labels: numbers in compiled tables, strings and maps on the host."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from singax.errors import ArgumentError
from singax.sonnx.operators.scores import DOMAIN, computed_on_host
from singax.sonnx.registry import Call, onnx_operator

Array = Any

_STRINGS = np.dtype(object)
_KINDS = (("string", _STRINGS), ("int64", np.dtype(np.int64)), ("float", np.dtype(np.float32)))
_DEFAULTS: dict[str, Any] = {"string": "_Unused", "int64": -1, "float": np.float32(-0.0)}


@onnx_operator("LabelEncoder", domain=DOMAIN)
def class_encoder(call: Call, x: Array) -> Array:
    """Before ai.onnx.ml 2: strings to their place among the classes, or places to strings."""
    return _between_strings_and_integers(call, x, call.attribute("classes_strings") or [], None)


@onnx_operator("CategoryMapper", domain=DOMAIN)
def category_mapper(call: Call, x: Array) -> Array:
    """Strings to integers, or integers to strings, by two lists."""
    return _between_strings_and_integers(call, x, call.attribute("cats_strings") or [], call.attribute("cats_int64s"))


def _between_strings_and_integers(call: Call, x: Array, strings: list[str], numbers: list[int] | None) -> Array:
    keys = np.asarray(strings, object)
    values = np.asarray(range(len(strings)) if numbers is None else numbers, np.int64)
    if len(keys) != len(values):
        raise ArgumentError(f"expected as many strings as integers. Received: {len(keys)} and {len(values)}")
    if x.dtype == _STRINGS:
        return _looked_up(x, keys, values, call.attribute("default_int64", -1))
    return _looked_up(x, values, keys, call.attribute("default_string", "_Unused"))


@onnx_operator("LabelEncoder", since=2, domain=DOMAIN)
def label_encoder(call: Call, x: Array) -> Array:
    """The value of the key that x is, the last one of equal keys; NaN is a key too; a default for all else."""
    keys, _ = _list(call, "keys")
    values, default = _list(call, "values")
    if len(keys) != len(values):
        raise ArgumentError(f"expected as many keys as values. Received: {len(keys)} and {len(values)}")
    return _looked_up(x, keys, values, default)


def _list(call: Call, name: str) -> tuple[np.ndarray, Any]:
    """Keys or values, and the default of their kind."""
    tensor, default = call.attribute(f"{name}_tensor"), call.attribute("default_tensor")
    if tensor is not None:
        array = np.asarray(tensor).reshape(-1)
        fallback = "_Unused" if array.dtype == _STRINGS else array.dtype.type(-1 if array.dtype.kind == "i" else -0.0)
        return array, fallback if default is None else np.asarray(default).reshape(-1)[0]
    for kind, dtype in _KINDS:
        found = call.attribute(f"{name}_{kind}s")
        if found:
            return np.asarray(found, dtype), call.attribute(f"default_{kind}", _DEFAULTS[kind])
    raise ArgumentError(f"expected {name}. Received: none")


def _looked_up(x: Array, keys: np.ndarray, values: np.ndarray, default: Any) -> Array:
    if _STRINGS in (keys.dtype, values.dtype):
        computed_on_host(x, "strings are looked up on the host")
        known = dict(zip(map(_key, keys), values, strict=True))
        flat = [known.get(_key(value), default) for value in np.asarray(x).reshape(-1)]
        return np.asarray(flat, values.dtype).reshape(np.shape(x))
    distinct, last = np.unique(keys[::-1], return_index=True)
    table, x = np.append(values[::-1][last], values.dtype.type(default)), jnp.asarray(x)
    distinct = distinct.astype(x.dtype)
    place = jnp.minimum(jnp.searchsorted(distinct, x), len(distinct) - 1)
    same = jnp.asarray(distinct)[place] == x
    if distinct.dtype.kind == "f":
        same |= jnp.isnan(x) & bool(np.isnan(distinct[-1]))
    return jnp.asarray(table)[jnp.where(same, place, len(distinct))]


def _key(value: Any) -> Any:
    """Equal for all NaN."""
    return "NaN" if isinstance(value, float | np.floating) and np.isnan(value) else value


@onnx_operator("ZipMap", domain=DOMAIN)
def zip_map(call: Call, x: Array) -> list[dict[Any, float]]:
    """A map from the labels to the values of each row."""
    computed_on_host(x, "its output is a sequence of maps")
    labels = call.attribute("classlabels_strings") or call.attribute("classlabels_int64s") or []
    table = np.asarray(x)
    table = table.reshape(1, -1) if table.ndim == 1 else table
    if table.shape[1] != len(labels):
        raise ArgumentError(f"expected {len(labels)} columns, as many as labels. Received: {table.shape[1]}")
    return [dict(zip(labels, map(float, row), strict=True)) for row in table]


@onnx_operator("DictVectorizer", domain=DOMAIN)
def dict_vectorizer(call: Call, x: Any) -> np.ndarray:
    """The values of a map in the order of a vocabulary, 0 for what it lacks: (1, vocabulary)."""
    words = call.attribute("string_vocabulary") or call.attribute("int64_vocabulary") or []
    given = _map(x)
    found = [given.get(word) for word in words]
    kind = next((value for value in given.values()), 0.0)
    empty = "" if isinstance(kind, str) else 0
    array = np.asarray([empty if value is None else value for value in found])
    wanted = _STRINGS if isinstance(kind, str) else np.asarray(kind).dtype
    return array.astype(_plain(wanted)).reshape(1, -1)


@onnx_operator("CastMap", domain=DOMAIN)
def cast_map(call: Call, x: Any) -> np.ndarray:
    """The values of a map in the order of its keys, or at the places that these say: (1, values)."""
    given, dtypes = _map(x), {"TO_FLOAT": np.float32, "TO_INT64": np.int64, "TO_STRING": object}
    dtype = dtypes[call.attribute("cast_to", "TO_FLOAT")]
    convert = str if dtype is object else float
    if call.attribute("map_form", "DENSE") == "DENSE":
        values = [convert(given[key]) for key in sorted(given)]
    else:
        empty = "" if dtype is object else 0
        values = [convert(given[key]) if key in given else empty for key in range(call.attribute("max_map", 1))]
    return np.asarray(values).astype(dtype).reshape(1, -1)


def _map(x: Any) -> dict[Any, Any]:
    """A map that may be wrapped in an array."""
    found = x.item() if isinstance(x, np.ndarray) and x.ndim == 0 else x
    if not isinstance(found, dict):
        raise ArgumentError(f"expected a map. Received: {type(found).__name__}")
    return found


def _plain(dtype: Any) -> Any:
    """The dtype of a Python float in ONNX's maps: float32."""
    return np.dtype(np.float32) if dtype == np.float64 else dtype
