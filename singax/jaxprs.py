"""What all who look into traced programs know: where programs lie inside equations, and which are plain calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from jax.extend.core import ClosedJaxpr, Jaxpr

CALLS = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "checkpoint": "jaxpr",
    "remat2": "jaxpr",
}
"""Primitives that stand for the program in one of their parameters, by the name of that parameter."""


def opened(program: Any) -> Any:
    """A program without its constants; one that is a `Jaxpr` already as it is."""
    return program.jaxpr if isinstance(program, ClosedJaxpr) else program


def programs_in(params: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The programs among the parameters of an equation, each with the parameter's name.

    >>> import jax
    >>> traced = jax.make_jaxpr(lambda x: jax.lax.cond(x > 0, lambda: x, lambda: -x))(1.0)
    >>> [name for equation in traced.eqns for name, _ in programs_in(equation.params)]
    ['branches', 'branches']
    """
    for name, value in params.items():
        for program in _programs(value):
            yield name, program


def _programs(value: Any) -> Iterator[Any]:
    if isinstance(value, ClosedJaxpr | Jaxpr):
        yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _programs(item)
    elif isinstance(value, dict):
        yield from _programs(list(value.values()))
