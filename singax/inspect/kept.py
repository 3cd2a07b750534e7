"""Which layer made what is kept for the backward pass."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from singax.inspect.flops import Flops, Key, by_layer, inner_jaxprs, parsed


def nbytes(aval: Any) -> int:
    """Bytes of an array with this shape and dtype (keys count as their words)."""
    size = math.prod(aval.shape)
    return size * getattr(aval.dtype, "itemsize", 8)


def kept_arrays(jaxpr: Any, positions: Iterable[int]) -> tuple[list[tuple[Any, Key]], list[Any]]:
    """(what was computed, with its scope; what are arguments of the jaxpr), each array once."""
    inner = jaxpr.jaxpr
    producers = {id(var): equation for equation in inner.eqns for var in equation.outvars}
    arguments = {id(var) for var in inner.invars} | {id(var) for var in inner.constvars}
    seen: set[int] = set()
    computed, given = [], []
    for position in positions:
        var = inner.outvars[position]
        if id(var) in seen or not hasattr(var, "count") and not hasattr(var, "aval"):
            continue
        seen.add(id(var))
        if id(var) in producers:
            computed.append((var.aval, _scope(producers[id(var)], var)))
        elif id(var) in arguments:
            given.append(var.aval)
    return computed, given


def _scope(equation: Any, var: Any) -> Key:
    """The scopes in which `var` was computed, looking into jaxprs that the equation runs."""
    scopes, backward = parsed(str(equation.source_info.name_stack))
    inner = next(iter(inner_jaxprs(equation)), None)
    if inner is None or equation.primitive.name in ("while", "cond"):
        return scopes, backward
    body = getattr(inner, "jaxpr", inner)
    index = next(k for k, out in enumerate(equation.outvars) if out is var)
    out = body.outvars[index] if index < len(body.outvars) else None
    producer = next((e for e in body.eqns for made in e.outvars if made is out), None)
    if producer is None:
        return scopes, backward
    below, further = _scope(producer, out)
    return scopes + below, backward or further


def bytes_by_layer(computed: list[tuple[Any, Key]], paths: Iterable[str]) -> dict[str, int]:
    """Layer path → bytes that it keeps."""
    table: dict[Key, Flops] = {}
    for aval, (scopes, _) in computed:
        table.setdefault((scopes, False), Flops()).add(Flops(others=nbytes(aval)))
    return {path: int(forward.others) for path, (forward, _) in by_layer(table, paths).items()}
