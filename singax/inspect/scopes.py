"""How the operations of a jaxpr tell which layer they belong to.

While a model is inspected, each layer's call opens a scope that says how far its number is from that of the layer
around it. So what stands in a trace that several layers share is told apart by the scope around it.
"""

from __future__ import annotations

import functools
import re

_MARK = re.compile(r"@(-?\d+)@")

Key = tuple[int, bool]
"""The sum of the distances in a name stack, and whether it belongs to the backward pass."""


def scope_name(distance: int) -> str:
    """The name of the scope of a layer whose number is that much larger than the one around it."""
    return f"@{distance}@"


@functools.lru_cache(4096)
def parsed(name_stack: str) -> Key:
    """What a name stack says.

    >>> parsed("transpose(jvp(@3@))/user/@2@"), parsed("jvp()")
    ((5, True), (0, False))
    """
    return sum(map(int, _MARK.findall(name_stack))), "transpose(" in name_stack


def scope_of(equation: object) -> Key:
    """What an equation's name stack says."""
    return parsed(str(equation.source_info.name_stack))  # type: ignore[attr-defined]


def joined(outer: Key, inner: Key) -> Key:
    """The key of something inside an equation."""
    return outer[0] + inner[0], outer[1] or inner[1]
