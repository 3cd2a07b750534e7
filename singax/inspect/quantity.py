"""Numbers of a report, which may grow with an unknown size N, and how they are shown."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from singax.errors import ArgumentError, ShapeError

PROBES = (960, 1344, 1728)  # stand for N: large, and divisible by most strides and patches
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
_AMOUNT = re.compile(r"^\s*([0-9.]+(?:e[0-9]+)?)\s*([kmgt]?i?)b?\s*$")


@dataclass(frozen=True)
class Affine:
    """constant + slope · N.

    >>> str(Affine(3, 64)), Affine(3, 64).at(10), Affine(3, 64) + 2
    ('64·N + 3', 643, Affine(constant=5, slope=64))
    """

    constant: float
    slope: float

    def at(self, n: int) -> float:
        """The value for a given N."""
        return self.constant + self.slope * n

    def __add__(self, other: float | Affine) -> Affine:
        if isinstance(other, Affine):
            return Affine(self.constant + other.constant, self.slope + other.slope)
        return Affine(self.constant + other, self.slope)

    __radd__ = __add__

    def __str__(self) -> str:
        return self.shown(lambda value: f"{value:g}")

    def shown(self, show: Callable[[float], str]) -> str:
        """As text, each of the two numbers shown by `show`."""
        slope = "N" if self.slope == 1 else f"{show(self.slope)}·N"
        return slope if not self.constant else f"{slope} + {show(self.constant)}".replace("+ -", "- ")


@dataclass(frozen=True)
class Unclear:
    """What is not constant + slope · N: known only where N is given."""

    def __str__(self) -> str:
        return "?"

    def __add__(self, other: Any) -> Unclear:
        return self

    __radd__ = __add__


Quantity = int | float | Affine | Unclear


def merged(parts: Sequence[Any], probes: Sequence[int] = PROBES) -> Any:
    """One structure for the same structure measured with each of `probes` in place of N.

    Raises `ShapeError` where the structures differ.
    """
    first = parts[0]
    if all(type(part) is type(first) and _is_leaf(part) and part == first for part in parts):
        return first
    if isinstance(first, int | float) and not isinstance(first, bool):
        return _affine(parts, probes)
    if isinstance(first, jax.ShapeDtypeStruct):
        return Shape(tuple(merged(sizes, probes) for sizes in _together([p.shape for p in parts])), first.dtype)
    if dataclasses.is_dataclass(first):
        fields = [field.name for field in dataclasses.fields(first)]
        values = {name: merged([getattr(part, name) for part in parts], probes) for name in fields}
        return dataclasses.replace(first, **values)  # type: ignore[type-var]
    if isinstance(first, dict):
        return {key: merged([part[key] for part in parts], probes) for key in first}
    if isinstance(first, tuple | list):
        return type(first)(merged(items, probes) for items in _together(parts))
    if all(part == first for part in parts):
        return first
    raise ShapeError("what the step computes depends on a size that is None in the placeholder: give that size")


def _is_leaf(value: Any) -> bool:
    return isinstance(value, str | int | float | jax.ShapeDtypeStruct | type(None))


def _together(parts: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    if len({len(part) for part in parts}) > 1:
        raise ShapeError("what the step computes depends on a size that is None in the placeholder: give that size")
    return list(zip(*parts, strict=True))


def _affine(values: Sequence[float], probes: Sequence[int]) -> Quantity:
    slope = (values[1] - values[0]) / (probes[1] - probes[0])
    made = Affine(_whole(values[0] - slope * probes[0]), _whole(slope))
    fits = all(abs(made.at(n) - value) <= 1e-9 * abs(value) for n, value in zip(probes, values, strict=True))
    return made if fits else Unclear()


def _whole(value: float) -> float:
    return int(value) if value == int(value) else value


@dataclass(frozen=True)
class Shape:
    """The shape and dtype of an array; sizes may be `Affine`."""

    shape: tuple[Quantity, ...]
    dtype: Any


def sizes(shape: Any) -> str:
    """A shape as text: `(64, 3, 28)`, `(N, 10)`."""
    return "(" + ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "") + ")"


def described(values: Any) -> str:
    """Shapes in place of arrays, in the structure that they have.

    >>> described((jax.ShapeDtypeStruct((2, 3), "float32"), [jax.ShapeDtypeStruct((), "int32")]))
    '(2, 3), [()]'
    """
    if isinstance(values, jax.ShapeDtypeStruct | Shape):
        return sizes(values.shape)
    if isinstance(values, dict):
        return "{" + ", ".join(f"{key}: {described(value)}" for key, value in values.items()) + "}"
    if isinstance(values, list):
        return "[" + ", ".join(map(described, values)) + "]"
    return ", ".join(map(described, values)) if isinstance(values, tuple) else repr(values)


def bytes_text(value: Quantity) -> str:
    """Bytes with a decimal unit.

    >>> bytes_text(0), bytes_text(1_500), bytes_text(2e12), bytes_text(Affine(12, 4000))
    ('0', '1.50 kB', '2.00 TB', '4.00 kB·N + 12 B')
    """
    return _scaled(value, ("B", "kB", "MB", "GB", "TB", "PB"))


def count_text(value: Quantity) -> str:
    """A count with a decimal suffix.

    >>> count_text(950), count_text(4_090_000_000)
    ('950', '4.09 G')
    """
    return _scaled(value, ("", "k", "M", "G", "T", "P", "E"))


def _scaled(value: Quantity, units: Sequence[str]) -> str:
    if isinstance(value, Affine):
        return value.shown(lambda part: _scaled(part, units))
    if isinstance(value, Unclear) or not value:
        return str(value or 0)
    power = 0
    while abs(value) >= 999.5 and power < len(units) - 1:
        value, power = value / 1000, power + 1
    digits = 0 if not power and value == int(value) else 2 if abs(value) < 9.995 else 1 if abs(value) < 99.95 else 0
    return f"{value:.{digits}f} {units[power]}".rstrip()


def parsed_bytes(memory: Any) -> int:
    """A number of bytes, or a text such as "80GB" (decimal) or "64 GiB" (binary).

    >>> parsed_bytes("80GB"), parsed_bytes("1.5 KiB"), parsed_bytes(7)
    (80000000000, 1536, 7)

    Raises `ArgumentError` for anything else.
    """
    if isinstance(memory, int | float | np.number) and not isinstance(memory, bool) and memory >= 0:
        return int(memory)
    match = _AMOUNT.match(memory.lower()) if isinstance(memory, str) else None
    if match is None or match.group(1).count(".") > 1 or match.group(1) == ".":
        raise ArgumentError(f'memory is a number of bytes, or a text such as "80GB". Received: {memory!r}')
    return int(float(match.group(1)) * _UNITS[match.group(2)])
