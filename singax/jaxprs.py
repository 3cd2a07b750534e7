"""What all who look into traced programs know: where programs lie inside equations, and which are plain calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import jax
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

COMPOSITE = "call_hi_primitive"
"""The primitive of operations that JAX itself makes of simpler ones when it compiles (`jax.experimental.hijax`)."""


def expanded(equation: Any) -> ClosedJaxpr:
    """What a `COMPOSITE` equation stands for."""
    operation = equation.params["_prim"]
    run = lambda *flat: jax.tree.leaves(operation.expand(*jax.tree.unflatten(operation.in_tree, flat)))  # noqa: E731
    return jax.make_jaxpr(run)(*[jax.ShapeDtypeStruct(var.aval.shape, var.aval.dtype) for var in equation.invars])


def scan_counts(params: Mapping[str, Any]) -> tuple[int, int]:
    """How many constants and how many carried values come first among the inputs of a scan.

    >>> run = lambda xs, k: jax.lax.scan(lambda c, x: (c + k * x, c), 0.0, xs)
    >>> scan_counts(jax.make_jaxpr(run)(jax.numpy.ones(3), 2.0).eqns[-1].params)
    (1, 1)
    """
    if "ft_in" in params:  # from jax 0.12 on
        constants, carried, _ = params["ft_in"].unpack()
        return len(constants), len(carried)
    return params["num_consts"], params["num_carry"]


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
