"""The user's `state` as JSON and arrays, and back. No code is ever read from a file.

JSON says what it can say; everything else is an object with one key that tells its kind: `{"tuple": […]}`,
`{"dict": [[key, value], …]}`, `{"float": "nan"}`, `{"array": "state/losses"}` (the name of an array in the file) …

>>> tree, arrays = encoded({"epoch": 3, "best": (0.5, None), "losses": np.zeros(2)})
>>> sorted(arrays)
['state/losses']
>>> decoded(tree, lambda name: arrays[name])
{'epoch': 3, 'best': (0.5, None), 'losses': array([0., 0.])}
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from singax.checkpoint.wire import is_key
from singax.dtypes import narrows
from singax.errors import ArgumentError, FileFormatError
from singax.layer.tree import Stateful
from singax.mode import traced
from singax.tensor import Tensor

PREFIX = "state/"
DEEPEST = 50
_LARGEST_INTEGER = 1 << 4096
_ARRAYS = ("array", "number", "jax", "tensor")


def encoded(state: Any) -> tuple[Any, dict[str, Any]]:
    """(what JSON can hold, arrays by name) for dicts, lists, tuples, None, numbers, texts, arrays, Tensors, optimizers.

    An optimizer becomes what its `get_states()` returns. Raises `ArgumentError` for anything else, with its place.
    """
    encoder = _Encoder()
    return encoder.encode(state, "state", 0), encoder.arrays


class _Encoder:
    def __init__(self) -> None:
        self.arrays: dict[str, Any] = {}

    def encode(self, value: Any, place: str, depth: int) -> Any:
        if depth > DEEPEST:
            raise ArgumentError(f"{place[:200]} is nested deeper than {DEEPEST}, or holds itself")
        if value is None or type(value) in (bool, str):
            return value
        if type(value) is int and abs(value) < _LARGEST_INTEGER:
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if type(value) is complex:
            return {"complex": [repr(value.real), repr(value.imag)]}
        if isinstance(value, Stateful):
            return self.encode(_states_of(value, place), place, depth)
        if isinstance(value, dict | list | tuple):
            return self._container(value, place, depth + 1)
        return self._array(value, place)

    def _container(self, value: Any, place: str, depth: int) -> Any:
        if type(value) is dict:
            items = value.items()
            return {"dict": [[self.encode(k, place, depth), self.encode(v, f"{place}/{k}", depth)] for k, v in items]}
        if type(value) not in (list, tuple):
            raise ArgumentError(f"{place} is a {type(value).__name__}: save a dict, list or tuple instead")
        entries = [self.encode(item, f"{place}/{number}", depth) for number, item in enumerate(value)]
        return entries if type(value) is list else {"tuple": entries}

    def _array(self, value: Any, place: str) -> Any:
        if isinstance(value, Tensor):
            if not value.is_filled():
                raise ArgumentError(f"{place} is the Tensor {value.name}, which has no values yet")
            held = value._cell.array()
            extra = {"name": value.name, "requires_grad": bool(value.requires_grad)}
            return {"tensor": self._named(held, place), **extra}
        if isinstance(value, jax.Array) and not traced(value):
            return {"jax": self._named(value, place)}
        if isinstance(value, np.ndarray | np.generic) and not value.dtype.hasobject:
            return {"array" if isinstance(value, np.ndarray) else "number": self._named(np.asarray(value), place)}
        raise ArgumentError(
            f"{place} is a {type(value).__name__}. A state holds numbers, texts, None, dicts, lists, tuples, arrays, "
            "Tensors and optimizers"
        )

    def _named(self, value: Any, place: str) -> str:
        base = f"{PREFIX}{place.removeprefix('state/')}"
        name = next(n for n in (f"{base}#{k}" if k else base for k in range(len(self.arrays) + 1)) if self._free(n))
        self.arrays[name] = value
        return name

    def _free(self, name: str) -> bool:
        return name not in self.arrays


def _states_of(optimizer: Any, place: str) -> Any:
    if not callable(getattr(optimizer, "get_states", None)):
        raise ArgumentError(f"{place} is a {type(optimizer).__name__}, which has no get_states")
    return optimizer.get_states()


def decoded(tree: Any, array: Callable[[str], Any]) -> Any:
    """The state again; `array(name)` gives the arrays. Raises `FileFormatError` for what `encoded` never writes."""
    if tree is None or isinstance(tree, bool | int | float | str):
        return tree
    if isinstance(tree, list):
        return [decoded(item, array) for item in tree]
    kind = next(iter(tree), "")
    try:
        if kind in _ARRAYS:
            return _decoded_array(kind, tree, array)
        return _DECODERS[kind](tree[kind], array)
    except (LookupError, TypeError, ValueError) as error:
        if isinstance(error, FileFormatError):
            raise
        raise FileFormatError(f"the state in it holds what no state holds: {str(tree)[:200]}") from None


def _decoded_array(kind: str, tree: dict[str, Any], array: Callable[[str], Any]) -> Any:
    value = array(tree[kind])
    if kind == "array":
        return value
    if kind == "number":
        return value[()]
    if not is_key(value.dtype) and narrows(np.dtype(value.dtype)):
        raise FileFormatError(
            f"{tree[kind]} is {value.dtype}, which JAX would narrow: jax.config.update('jax_enable_x64', True) first"
        )
    if kind == "jax":
        return jax.device_put(value)
    return Tensor(data=value, requires_grad=bool(tree["requires_grad"]), name=str(tree["name"]))


_DECODERS: dict[str, Callable[[Any, Callable[[str], Any]], Any]] = {
    "float": lambda text, _: float(text),
    "complex": lambda parts, _: complex(float(parts[0]), float(parts[1])),
    "tuple": lambda items, array: tuple(decoded(item, array) for item in items),
    "dict": lambda items, array: {decoded(key, array): decoded(value, array) for key, value in items},
}
