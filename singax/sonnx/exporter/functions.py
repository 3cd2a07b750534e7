"""Layers as local functions, so that viewers show the structure of a model.

Each call of a layer becomes one node with the path of the layer as its name and the class as its operator; what it
computes is a function of the file. Calls that compute the same share a function. Parameters go in as inputs, since
functions cannot hold tensors of their own.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from onnx import FunctionProto, NodeProto, helper

from singax.sonnx.exporter.graph import Placed, Scope
from singax.sonnx.exporter.names import Names
from singax.sonnx.exporter.nodes import copied, reads, rename

DOMAIN = "singax"


@dataclass(frozen=True)
class Place:
    """Where nodes are written: the path of the layer around them, and how many labels of their scope it uses up."""

    path: str
    depth: int


@dataclass
class Structure:
    """Turns placed nodes into nodes and functions. `layers` has path and class name for each call's number."""

    layers: Sequence[tuple[str, str]]
    opset: int
    initializers: set[str]
    functions: list[FunctionProto] = field(default_factory=list)
    _known: dict[bytes, str] = field(default_factory=dict)
    _names: Names = field(default_factory=Names)

    def flat(self, placed: Sequence[Placed]) -> list[NodeProto]:
        """The nodes as they are, named `<path of the layer>/<operator>`."""
        names = Names()
        return [_named(one.node, names, self._path(one.scope)) for one in placed]

    def grouped(self, placed: Sequence[Placed], outputs: Sequence[str], place: Place) -> list[NodeProto]:
        """The nodes with a call of a function for each call of a layer."""
        names, last = Names(), _last_readers(placed, outputs)
        made: list[NodeProto] = []
        start = 0
        for number, rows in itertools.groupby(placed, lambda one: _label(one.scope, place.depth)):
            group = list(rows)
            stop = start + len(group)
            if number is None:
                made += [_named(one.node, names, "") for one in group]
            else:
                results = [n for one in group for n in one.node.output if n and last.get(n, -1) >= stop]
                made.append(self._call(group, results, number, place, names))
            start = stop
        return made

    def _call(
        self, group: Sequence[Placed], results: Sequence[str], number: int, place: Place, names: Names
    ) -> NodeProto:
        path, kind = self.layers[number]
        relative = path.removeprefix(f"{place.path}.") if place.path else path
        if len(group) == 1:
            node = copied(group[0].node)
            node.name = names.take(relative or kind)
            return node
        body = self.grouped(group, results, Place(path, place.depth + 1))
        own = {name for one in group for name in one.node.output}
        given = list(dict.fromkeys(n for node in body for n in _ordered_reads(node) if n not in own))
        name = self._function(body, given, results, path, kind)
        return helper.make_node(name, given, list(results), name=names.take(relative or kind), domain=DOMAIN)

    def _function(
        self, body: list[NodeProto], given: Sequence[str], results: Sequence[str], path: str, kind: str
    ) -> str:
        """The name of the function with this body, which is written unless there is one like it."""
        local, taken = {"": ""}, Names()
        for name in given:
            local[name] = taken.take(_input_name(name, path, name in self.initializers))
        for node in body:
            rename(node, lambda name, node=node: _local(local, taken, name, node))  # type: ignore[misc]
        made = FunctionProto(domain=DOMAIN, input=[local[n] for n in given], output=[local[n] for n in results])
        made.node.extend(body)
        made.opset_import.extend(self.imports(body))
        key = made.SerializeToString(deterministic=True) + kind.encode()
        if key not in self._known:
            made.name = self._known[key] = self._names.take(kind)
            self.functions.append(made)
        return self._known[key]

    def imports(self, body: Sequence[NodeProto]) -> list[Any]:
        """The operator sets that nodes need."""
        domains = dict.fromkeys(["", *(node.domain for node in body)])
        return [helper.make_opsetid(domain, 1 if domain else self.opset) for domain in domains]

    def _path(self, scope: Scope) -> str:
        return next((path for path, _ in (self.layers[number] for number in reversed(scope)) if path), "")


def _label(scope: Scope, depth: int) -> int | None:
    return scope[depth] if len(scope) > depth else None


def _named(node: NodeProto, names: Names, path: str) -> NodeProto:
    made = copied(node)
    made.name = names.take(f"{path}/{node.op_type}" if path else node.op_type)
    return made


def _last_readers(placed: Sequence[Placed], outputs: Sequence[str]) -> dict[str, int]:
    last = {name: index for index, one in enumerate(placed) for name in reads(one.node)}
    return last | dict.fromkeys(outputs, len(placed))


def _ordered_reads(node: NodeProto) -> list[str]:
    direct = [name for name in node.input if name]
    return direct + sorted(reads(node) - set(direct))


def _input_name(name: str, path: str, is_initializer: bool) -> str:
    if not is_initializer:
        return "X"
    return name.removeprefix(f"{path}.")


def _local(local: dict[str, str], taken: Names, name: str, node: NodeProto) -> str:
    if name not in local:
        local[name] = taken.take(node.op_type)
    return local[name]
