"""Local functions: who calls whom, how deep, and how many nodes that makes when all is expanded."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from singax.sonnx.loader.attributes import graphs_in
from singax.sonnx.loader.limits import Limits
from singax.sonnx.loader.opsets import domain_of
from singax.sonnx.loader.refusal import above_limit, refuse, shown

Key = tuple[str, str, str]


@dataclass
class Extent:
    """The size of a body: its own nodes and depth, its calls with the depth they are at; then the whole of it."""

    nodes: int = 0
    depth: int = 0
    calls: list[tuple[Key, int]] = field(default_factory=list)


def keyed(functions: Any, limits: Limits) -> dict[Key, Any]:
    """The functions of a model by domain, name and overload."""
    if len(functions) > limits.functions:
        above_limit("the model", limits, "functions", len(functions))
    found: dict[Key, Any] = {}
    for function in functions:
        if not function.name:
            refuse("a function", "name", "a name", "none")
        key = (domain_of(function.domain), function.name, function.overload or "")
        if key in found:
            refuse(f"function {shown(function.name)}", "name", "one definition", "two")
        found[key] = function
    return found


def key_of(node: Any) -> Key:
    """The key of the function that a node calls, if there is one."""
    return domain_of(node.domain), node.op_type or "", node.overload or ""


def check_calls(functions: dict[Key, Any], main: Any, limits: Limits) -> None:
    """Refuse recursion, and what becomes too deep or too large when it is expanded."""
    bodies = {key: _extent(function.node, functions) for key, function in functions.items()}
    for key in _callees_first(bodies):
        where = f"function {shown(key[1])}"
        bodies[key] = _whole(bodies[key], bodies, where, limits)
    _whole(_extent(main.node, functions), bodies, "the graph", limits)


def _extent(nodes: Any, functions: dict[Key, Any]) -> Extent:
    found = Extent(depth=1)
    waiting = [(nodes, 1)]
    while waiting:
        some, depth = waiting.pop()
        found.nodes, found.depth = found.nodes + len(some), max(found.depth, depth)
        for node in some:
            if key_of(node) in functions:
                found.calls.append((key_of(node), depth))
            waiting += [(graph.node, depth + 1) for graph in graphs_in(node)]
    return found


def _whole(body: Extent, bodies: dict[Key, Extent], where: str, limits: Limits) -> Extent:
    nodes = body.nodes + sum(bodies[key].nodes for key, _ in body.calls)
    depth = max([body.depth, *(at + bodies[key].depth for key, at in body.calls)])
    if nodes > limits.expanded_nodes:
        above_limit(where, limits, "expanded_nodes", nodes)
    if depth > limits.nesting:
        above_limit(where, limits, "nesting", depth)
    return Extent(nodes, depth)


def _callees_first(bodies: dict[Key, Extent]) -> list[Key]:
    """All functions, each after those it calls. Raises `ModelFileError` for recursion."""
    done: dict[Key, None] = {}
    for root in bodies:
        path: dict[Key, Any] = {}
        if root not in done:
            path[root] = iter(dict(bodies[root].calls))
        while path:
            key = next(reversed(path))
            callee = next(path[key], None)
            if callee is None:
                path.pop(key)
                done[key] = None
            elif callee in path:
                names = [name for _, name, _ in path]
                chain = [*names[names.index(callee[1]) :], callee[1]]
                refuse(f"function {shown(callee[1])}", "calls", "no recursion", shown(" → ".join(chain)))
            elif callee not in done:
                path[callee] = iter(dict(bodies[callee].calls))
    return list(done)
