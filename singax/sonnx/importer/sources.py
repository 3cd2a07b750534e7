"""From which values others are computed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from singax.sonnx.importer.graph import Function, Graph, Node, reads, subgraphs

SHAPE_ONLY = ("Shape", "Size")
"""Operators that look at the shape of their input, and not at its values."""


def sources(nodes: Sequence[Node], names: Iterable[str]) -> set[str]:
    """The values that these nodes do not compute, and from which they compute `names`; what is computed from shapes
    alone has none."""
    producers = {name: node for node in nodes for name in node.outputs}
    found: set[str] = set()
    waiting, seen = list(names), set(names)
    while waiting:
        name = waiting.pop()
        node = producers.get(name)
        if node is None:
            found.add(name)
        elif node.op_type not in SHAPE_ONLY:
            fresh = [read for read in reads(node) if read not in seen]
            seen.update(fresh)
            waiting += fresh
    return found


def outside(node: Node, names: Iterable[str]) -> tuple[str, ...]:
    """The values around a node with bodies from which `names`, which may be inside a body, are computed."""
    found = dict.fromkeys(names)
    for graph in subgraphs(node):
        found = dict.fromkeys(outer for name in found for outer in sorted(_outside_body(node, graph, name)))
    return tuple(found)


def _outside_body(node: Node, graph: Graph, name: str) -> set[str]:
    """A carried value of a Loop comes from its initial one, and from what the body makes of it."""
    inputs = {info.name: place for place, info in enumerate(graph.inputs)}
    found: set[str] = set()
    waiting, seen = {name}, {name}
    while waiting:
        reached = sources(graph.nodes, waiting) - set(graph.constants)
        found |= reached - set(inputs)
        places = [inputs[n] for n in reached & set(inputs)]
        found |= {node.inputs[place] for place in places if place < len(node.inputs) and node.inputs[place]}
        updates = {graph.outputs[place - 1].name for place in places if node.op_type == "Loop" and place > 0}
        waiting = updates - seen
        seen |= waiting
    return found


def outside_call(function: Function, node: Node, names: Iterable[str]) -> tuple[str, ...]:
    """The inputs of a call of a function from which values inside it are computed."""
    given = dict(zip(function.inputs, node.inputs, strict=False))
    return tuple(sorted({given[name] for name in sources(function.nodes, names) if given.get(name)}))
