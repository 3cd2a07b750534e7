"""Names in nodes: who reads and writes what, bodies of control flow included, and renaming."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from onnx import AttributeProto, GraphProto, NodeProto

from singax.sonnx.exporter.graph import Placed


def bodies(node: NodeProto) -> Iterator[GraphProto]:
    """The graphs among the attributes of a node."""
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            yield attribute.g


def reads(node: NodeProto) -> set[str]:
    """The tensors that a node reads; for bodies those from outside."""
    found = {name for name in node.input if name}
    for body in bodies(node):
        inner = {name for one in body.node for name in reads(one)} | {info.name for info in body.output}
        own = {name for one in body.node for name in one.output} | {info.name for info in body.input}
        found |= inner - own - {tensor.name for tensor in body.initializer}
    return found


def rename(node: NodeProto, new: Callable[[str], str]) -> None:
    """Give every tensor of a node, and of its bodies, the name that `new` says."""
    for names in (node.input, node.output):
        for index, name in enumerate(names):
            names[index] = new(name) if name else ""
    for body in bodies(node):
        for one in body.node:
            rename(one, new)
        for info in [*body.input, *body.output, *body.value_info]:
            info.name = new(info.name)


def without_dead(placed: Sequence[Placed], wanted: Sequence[str]) -> list[Placed]:
    """The nodes whose results somebody reads."""
    needed, kept = set(wanted), []
    for one in reversed(placed):
        if any(name in needed for name in one.node.output):
            needed |= reads(one.node)
            kept.append(one)
    return kept[::-1]


def copied(node: NodeProto) -> Any:
    """A copy of a node."""
    made = NodeProto()
    made.CopyFrom(node)
    return made
