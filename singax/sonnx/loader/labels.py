"""How messages name a node."""

from __future__ import annotations

from typing import Any

from singax.sonnx.loader.opsets import domain_of
from singax.sonnx.loader.refusal import plain, shown


def node_label(node: Any, position: int) -> str:
    """A node as it was read, by its name or by what it computes."""
    kind = plain(".".join(part for part in (domain_of(node.domain), node.op_type or "?") if part))
    if node.name:
        return f"node {shown(node.name)} ({kind})"
    computed = next((name for name in node.output if name), None)
    return f"node {position} ({kind})" if computed is None else f"the {kind} node that computes {shown(computed)}"
