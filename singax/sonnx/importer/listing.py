"""A traced program as a flat list of equations.

Calls that mean nothing to a run (an inner `jit`, a rule for gradients, a mark for rematerialisation) are written out,
so that what depends on weights alone, inside them too, can be told from what depends on data.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jax.extend.core import ClosedJaxpr, Literal

from singax.jaxprs import CALLS, opened, programs_in

Array = Any
Atom = Any  # an int, the number of a value, or a Literal

_WRITTEN_OUT = {**CALLS, "remat": "jaxpr"}


class Equation(NamedTuple):
    """A primitive applied to values, which results in values. One with an effect stays where it is."""

    primitive: Any
    params: Mapping[str, Any]
    inputs: tuple[Atom, ...]
    outputs: tuple[int, ...]
    effect: bool = False


@dataclass
class Listing:
    """Equations in order; `constants` are arrays that the trace has found, `kinds` all abstract values."""

    inputs: tuple[int, ...]
    outputs: tuple[Atom, ...]
    equations: list[Equation]
    constants: dict[int, Any]
    kinds: list[Any]


def listed(closed: ClosedJaxpr) -> Listing:
    """The equations of a traced program."""
    made = Listing((), (), [], {}, [])
    made.inputs = tuple(_new(made, var.aval) for var in closed.jaxpr.invars)
    made.outputs = tuple(_write(made, closed.jaxpr, closed.consts, made.inputs))
    return made


def _new(made: Listing, kind: Any) -> int:
    made.kinds.append(kind)
    return len(made.kinds) - 1


def _write(made: Listing, jaxpr: Any, constants: Sequence[Any], inputs: Sequence[Atom]) -> list[Atom]:
    """Append the equations of a jaxpr for these inputs; the atoms of its outputs."""
    names: dict[Any, Atom] = dict(zip(jaxpr.invars, inputs, strict=True))
    for var, value in zip(jaxpr.constvars, constants, strict=True):
        names[var] = _new(made, var.aval)
        made.constants[names[var]] = value
    for equation in jaxpr.eqns:
        atoms = tuple(atom if isinstance(atom, Literal) else names[atom] for atom in equation.invars)
        inner = equation.params.get(_WRITTEN_OUT.get(equation.primitive.name, ""))
        if inner is not None:
            results = _write(made, opened(inner), getattr(inner, "consts", ()), atoms)
        else:
            results = [_new(made, var.aval) for var in equation.outvars]
            effect = bool(equation.effects)
            made.equations.append(Equation(equation.primitive, equation.params, atoms, tuple(results), effect))
        names.update(zip(equation.outvars, results, strict=True))
    return [atom if isinstance(atom, Literal) else names[atom] for atom in jaxpr.outvars]


def computed(equations: Iterable[Equation], values: dict[int, Array]) -> dict[int, Array]:
    """Compute equations, adding their results to `values`."""
    for equation in equations:
        inputs = [atom.val if isinstance(atom, Literal) else values[atom] for atom in equation.inputs]
        values.update(zip(equation.outputs, applied(equation, inputs), strict=True))
    return values


def applied(equation: Equation, inputs: Sequence[Array]) -> list[Array]:
    """The results of one equation for these inputs."""
    results = equation.primitive.bind(*inputs, **equation.params)
    return list(results) if equation.primitive.multiple_results else [results]


def needed(equations: Sequence[Equation], wanted: Iterable[Atom]) -> list[Equation]:
    """The equations from which these values come, and those with an effect."""
    found, kept = {atom for atom in wanted if not isinstance(atom, Literal)}, []
    for equation in reversed(equations):
        if equation.effect or not found.isdisjoint(equation.outputs):
            kept.append(equation)
            found.update(atom for atom in equation.inputs if not isinstance(atom, Literal))
    return kept[::-1]


def read_by(equations: Iterable[Equation]) -> set[int]:
    """The numbers of the values that equations read."""
    return {atom for equation in equations for atom in equation.inputs if not isinstance(atom, Literal)}


def structure(listing: Listing, equations: Sequence[Equation], ends: Sequence[Atom]) -> Any:
    """A key that lists of equations share which compute the same of the values `ends`, however values are numbered."""
    numbers: dict[int, int] = {}

    def key(atom: Atom) -> Any:
        return literal_key(atom) if isinstance(atom, Literal) else numbers.setdefault(atom, len(numbers))

    first = tuple((key(atom), str(atom.aval if isinstance(atom, Literal) else listing.kinds[atom])) for atom in ends)
    rest = tuple(
        (equation.primitive.name, params_key(equation), *map(key, equation.inputs), *map(key, equation.outputs))
        for equation in equations
    )
    return first, rest, tuple(map(key, listing.outputs))


def literal_key(atom: Literal) -> Any:
    """A key of a number in a program."""
    return str(atom.aval), np.asarray(atom.val).tobytes()


def constant_key(value: Any) -> Any:
    """A key of an array in a program."""
    array = np.asarray(value)
    return str(array.dtype), array.shape, array.tobytes()


def params_key(equation: Equation) -> Any:
    """A key of the parameters of an equation; one that has programs inside equals no other."""
    if any(programs_in(equation.params)):
        return object()
    try:
        hash(found := tuple(equation.params.items()))
    except TypeError:
        return object()
    return found
