"""The equations of several traces of one function, side by side.

What is equal in all traces is a plain value, an integer that differs is a `Dim`. Traces that differ otherwise, in their
equations for example, belong to a forward whose code depends on an unknown size; they are refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

from singax.errors import ExportError
from singax.jaxprs import programs_in
from singax.sonnx.exporter.symbolic import Size, merged_size

_NOT_MERGED = {"jvp_jaxpr_fun", "fwd_jaxpr_thunk", "bwd", "policy", "operation", "tree", "attributes"}


@dataclass(frozen=True)
class Aval:
    """Shape and dtype of a value."""

    shape: tuple[Size, ...]
    dtype: Any


@dataclass(frozen=True)
class Differing:
    """A constant that is not the same in all traces: a few numbers each, or 0, 1, 2 … of different lengths."""

    samples: tuple[Any, ...]


@dataclass
class Equation:
    """One equation in all traces. `scope` are the layer calls that it lies in, outermost first."""

    variants: tuple[Any, ...]
    scope: tuple[int, ...] = ()
    _params: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of the primitive."""
        return self.variants[0].primitive.name

    @cached_property
    def params(self) -> dict[str, Any]:
        """The parameters, with `Dim`s where integers differ; inner programs are got by `inner`."""
        first = self.variants[0].params
        programs = {name for name, _ in programs_in(first)}
        return {
            key: merged([eqn.params[key] for eqn in self.variants], f"{self.name}.{key}")
            for key in first
            if key not in _NOT_MERGED | programs
        }

    def inner(self, key: str, index: int | None = None) -> tuple[ClosedJaxpr, ...]:
        """A program among the parameters, in all traces."""
        found = [eqn.params[key] if index is None else eqn.params[key][index] for eqn in self.variants]
        return tuple(program if isinstance(program, ClosedJaxpr) else ClosedJaxpr(program, ()) for program in found)

    @cached_property
    def outputs(self) -> list[Aval]:
        """Shapes and dtypes of the results."""
        return avals([eqn.outvars for eqn in self.variants])


def avals(variables: Sequence[Sequence[Any]]) -> list[Aval]:
    """Shapes and dtypes of variables that correspond to each other in all traces."""
    return [aval_of([variable.aval for variable in row]) for row in zip(*variables, strict=True)]


def aval_of(found: Sequence[Any]) -> Aval:
    """One shape and dtype for those of all traces."""
    shapes = [aval.shape for aval in found]
    if len({len(shape) for shape in shapes}) > 1:
        raise _differs("the number of axes of a value")
    return Aval(tuple(merged_size(sizes) for sizes in zip(*shapes, strict=True)), found[0].dtype)


def merged(values: Sequence[Any], what: str) -> Any:
    """One value for those of all traces."""
    first = values[0]
    if isinstance(first, tuple | list) and all(len(value) == len(first) for value in values):
        items = [merged(row, what) for row in zip(*values, strict=True)]
        return type(first)(*items) if hasattr(first, "_fields") else type(first)(items)
    if all(isinstance(value, int | np.integer) and not isinstance(value, bool) for value in values):
        return merged_size(values)
    if len(values) == 1 or all(_equal(value, first) for value in values[1:]):
        return first
    raise _differs(what)


def constant_of(values: Sequence[Any]) -> Any:
    """A constant as NumPy, or `Differing`."""
    arrays = [_as_numpy(value) for value in values]
    if all(a is arrays[0] or np.array_equal(a, arrays[0], equal_nan=a.dtype.kind in "fc") for a in arrays):
        return arrays[0]
    if not (_is_small(arrays) or _is_range(arrays)):
        raise _differs("a constant array, such as one that NumPy made,")
    return Differing(tuple(arrays))


def _is_small(arrays: Sequence[np.ndarray]) -> bool:
    return arrays[0].size <= 64 and len({array.shape for array in arrays}) == 1


def _is_range(arrays: Sequence[np.ndarray]) -> bool:
    """Whether all are 0, 1, 2 …, of different lengths."""
    return all(array.ndim == 1 and np.array_equal(array, np.arange(len(array))) for array in arrays)


def _as_numpy(value: Any) -> Any:
    try:
        return np.asarray(value)
    except TypeError:  # a random key
        return np.asarray(0)


def rows(programs: Sequence[Jaxpr], scope: tuple[int, ...]) -> list[Equation]:
    """The equations of a program in all traces, without those whose results nobody reads."""
    lists = [_alive(program) for program in programs]
    same = len({tuple(e.primitive.name for e in eqns) for eqns in lists}) == 1
    if not same or len({_wiring(*pair) for pair in zip(programs, lists, strict=True)}) > 1:
        raise _differs("which operations there are")
    return [Equation(row, scope_of(row[0], scope)) for row in zip(*lists, strict=True)]


def scope_of(eqn: Any, outer: tuple[int, ...]) -> tuple[int, ...]:
    """The numbers of the layer calls around an equation: those outside, then its own."""
    own = map(int, re.findall(r"@(\d+)@", str(eqn.source_info.name_stack)))
    return outer + tuple(number for number in own if number not in outer)


def _alive(program: Jaxpr) -> list[Any]:
    """The equations whose results somebody reads."""
    wanted = {v for v in program.outvars if not isinstance(v, Literal)}
    alive = []
    for eqn in reversed(program.eqns):
        if any(v in wanted for v in eqn.outvars) or eqn.effects:
            alive.append(eqn)
            wanted |= {v for v in eqn.invars if not isinstance(v, Literal)}
    return alive[::-1]


def _wiring(program: Jaxpr, eqns: Sequence[Any]) -> tuple[Any, ...]:
    """Which equation reads what, with numbers for variables."""
    numbers: dict[Any, int] = {}

    def number(v: Any) -> int:
        return -1 if isinstance(v, Literal) else numbers.setdefault(v, len(numbers))

    heads = [number(v) for v in [*program.constvars, *program.invars]]
    body = [tuple(number(v) for v in [*eqn.invars, *eqn.outvars]) for eqn in eqns]
    return (*heads, *body, *[number(v) for v in program.outvars])


def _equal(a: Any, b: Any) -> bool:
    try:
        return bool(a == b) or bool(a != a and b != b)
    except ValueError:
        return np.array_equal(a, b)


def _differs(what: str) -> ExportError:
    return ExportError(
        f"{what} depends on a size that is unknown: give all sizes in the inputs and pass dynamic_batch=False"
    )
