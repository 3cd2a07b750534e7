"""How the operations of a jaxpr tell which layer they belong to.

While a model is inspected, each layer's call opens a scope with the layer's number. Inside a layer whose trace may
serve others, numbers are distances from that layer's, so that what stands in the trace is told apart by the scope
around it.
"""

from __future__ import annotations

import functools
import re
from typing import NamedTuple

_MARK = re.compile(r"@([=+])(-?\d+)(!?)@")


class Key(NamedTuple):
    """Where an operation stands: `number` counts from the start if `fixed`, else from the `base` around it; None
    says that it is where its surroundings are. `base` is what further distances count from, `base_fixed` likewise.
    """

    number: int | None = None
    fixed: bool = False
    base: int = 0
    base_fixed: bool = False
    backward: bool = False


OUTSIDE = Key(0, True, 0, True)
HERE = Key()


def scope_name(number: int, base: int | None, opens: bool) -> str:
    """The name of a layer's scope: its number, or its distance from `base`; `opens`: further ones count from it."""
    shown = f"={number}" if base is None else f"+{number - base}"
    return f"@{shown}{'!' if opens else ''}@"


@functools.lru_cache(8192)
def parsed(name_stack: str) -> Key:
    """What a name stack says.

    >>> parsed("transpose(jvp(@=3!@))/user/@+2@")
    Key(number=5, fixed=True, base=3, base_fixed=True, backward=True)
    >>> joined(OUTSIDE, parsed("jvp(@=3!@)/@+1!@/@+2@"))[:2]
    (6, True)
    """
    key = HERE._replace(backward="transpose(" in name_stack)
    for kind, digits, opens in _MARK.findall(name_stack):
        number = int(digits)
        inner = Key(number, kind == "=")
        key = joined(key, inner._replace(base=number, base_fixed=inner.fixed) if opens else inner)
    return key


@functools.lru_cache(8192)
def joined(outer: Key, inner: Key) -> Key:
    """The key of something inside something else."""
    number, fixed = outer.number, outer.fixed
    if inner.number is not None:
        number, fixed = inner.number, inner.fixed
        if not fixed:
            number, fixed = outer.base + number, outer.base_fixed
    base, base_fixed = (inner.base, True) if inner.base_fixed else (outer.base + inner.base, outer.base_fixed)
    return Key(number, fixed, base, base_fixed, outer.backward or inner.backward)


def scope_of(equation: object) -> Key:
    """What an equation's name stack says."""
    return parsed(str(equation.source_info.name_stack))  # type: ignore[attr-defined]
