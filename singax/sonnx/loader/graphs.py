"""From messages to the importer's graphs: names, nodes, subgraphs, functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from singax.sonnx.importer.graph import Function, Graph, Node, Reference, outer_names
from singax.sonnx.loader.attributes import kind_of, value_of
from singax.sonnx.loader.control import check_bodies
from singax.sonnx.loader.functions import Key, key_of
from singax.sonnx.loader.labels import node_label
from singax.sonnx.loader.opsets import domain_of, imported
from singax.sonnx.loader.refusal import listed, plain, refuse, shown
from singax.sonnx.loader.schemas import Signature, check_arity, check_attributes, signature
from singax.sonnx.loader.sparse import decode_sparse
from singax.sonnx.loader.tensors import Measure, decode
from singax.sonnx.loader.value_infos import value_info

Supports = Callable[[str, str, int], bool]


class Names:
    """The names that a graph has defined so far, and those of the graphs around it."""

    def __init__(self, outer: Names | None) -> None:
        self.own: set[str] = set()
        self.outer = outer

    def __contains__(self, name: str) -> bool:
        scope: Names | None = self
        while scope is not None:
            if name in scope.own:
                return True
            scope = scope.outer
        return False


@dataclass(frozen=True)
class Place:
    """Where a graph is: the opsets in force, the attributes of the function around it, and how messages begin."""

    opsets: dict[str, int]
    references: frozenset[str] | None = None
    inside: str = ""


@dataclass
class Converter:
    """Converts the graphs and functions of one model; collects the operators that nobody supports."""

    total: Measure
    functions: dict[Key, Any]
    supports: Supports
    unsupported: dict[str, str] = field(default_factory=dict)

    def graph(self, raw: Any, place: Place, outer: Names | None = None) -> Graph:
        """A graph with everything below it."""
        names = Names(outer)
        constants = self._constants(raw, place)
        inputs = [value_info(info, f"{place.inside}input") for info in raw.input]
        _once([info.name for info in inputs], f"{place.inside}the graph's inputs")
        names.own |= {*constants, *(info.name for info in inputs)}
        own = set(names.own)
        nodes = self._nodes(raw.node, names, place)
        outputs = [value_info(info, f"{place.inside}output") for info in raw.output]
        for info in outputs:
            if info.name not in names:
                refuse(
                    f"{place.inside}output {shown(info.name)}",
                    "value",
                    "a node, input or initializer that gives it",
                    "none",
                )
        needed = outer_names(nodes, own, [info.name for info in outputs])
        return Graph(raw.name or "", inputs, outputs, constants, nodes, needed)

    def function(self, raw: Any, key: Key, opsets: dict[str, int]) -> Function:
        """A local function."""
        inside = f"function {shown(raw.name)}: "
        own = imported(raw.opset_import, inside.rstrip(": "), 1) if raw.opset_import else {}
        _once([*raw.input], f"{inside}inputs")
        _once([*raw.output], f"{inside}outputs")
        _once([*raw.attribute, *(a.name or "" for a in raw.attribute_proto)], f"{inside}attributes")
        place = Place({**opsets, **own}, frozenset([*raw.attribute, *(a.name for a in raw.attribute_proto)]), inside)
        names = Names(None)
        names.own |= set(raw.input)
        nodes = self._nodes(raw.node, names, place)
        for name in raw.output:
            if name not in names:
                refuse(f"{inside}output {shown(name)}", "value", "a node or input that gives it", "none")
        defaults = self._attributes(raw.attribute_proto, Place(place.opsets, None, inside), names, inside)[0]
        return Function(raw.name, key[0], tuple(raw.input), tuple(raw.output), defaults, nodes, own)

    # -- constants --------------------------------------------------------------------------------------------------

    def _constants(self, raw: Any, place: Place) -> dict[str, Any]:
        constants: dict[str, Any] = {}
        for tensor in raw.initializer:
            where = f"{place.inside}tensor {shown(tensor.name or '')}"
            self._unused(tensor.name, constants, where)
            constants[tensor.name] = decode(tensor, self.total, where)
        for sparse in raw.sparse_initializer:
            where = f"{place.inside}sparse tensor {shown(sparse.values.name or '')}"
            self._unused(sparse.values.name, constants, where)
            constants[sparse.values.name] = decode_sparse(sparse, self.total, where)
        return constants

    @staticmethod
    def _unused(name: str | None, constants: dict[str, Any], where: str) -> None:
        if not name or name in constants:
            refuse(where, "name", "a name of its own", "none" if not name else "that of another initializer")

    # -- nodes ------------------------------------------------------------------------------------------------------

    def _nodes(self, raws: Any, names: Names, place: Place) -> list[Node]:
        nodes = []
        for position, raw in enumerate(raws):
            where = f"{place.inside}{node_label(raw, position)}"
            for name in raw.input:
                if name and name not in names:
                    _undefined(name, raws, position, where)
            nodes.append(self._node(raw, names, place, where))
            for name in raw.output:
                if name and name in names:
                    refuse(
                        where, f"output {shown(name)}", "a name that nothing else has", "one that is defined already"
                    )
                names.own.add(name)
            names.own.discard("")
        return nodes

    def _node(self, raw: Any, names: Names, place: Place, where: str) -> Node:
        domain, op_type = domain_of(raw.domain), raw.op_type
        if not op_type:
            refuse(where, "op_type", "the name of an operator", "none")
        if not any(raw.output):
            refuse(where, "outputs", "at least one", "none")
        attributes, kinds = self._attributes(raw.attribute, place, names, where)
        made = Node(
            op_type, domain, raw.name or "", tuple(raw.input), tuple(raw.output), attributes, raw.overload or ""
        )
        function = self.functions.get(key_of(raw))
        if function is not None:
            _check_call(raw, function, kinds, where)
        else:
            self._check_operator(made, kinds, place, where)
        return made

    def _check_operator(self, node: Node, kinds: dict[str, str], place: Place, where: str) -> None:
        opset = place.opsets.get(node.domain)
        if opset is None:
            refuse(where, "domain", f"an imported one: {listed(place.opsets)}", shown(node.domain))
        known = signature(node.domain, node.op_type, opset)
        if not self._supported(node, opset, known):
            label = plain(".".join(part for part in (node.domain, node.op_type) if part))
            self.unsupported.setdefault(f"{label} (opset {opset})", where)
        elif known is not None:
            check_arity(node.inputs, node.outputs, known, where)
            check_attributes(kinds, known, where)
            check_bodies(node, opset, where)

    def _supported(self, node: Node, opset: int, known: Signature | None) -> bool:
        if node.overload or (known is not None and known.deprecated):
            return False
        return self.supports(node.domain, node.op_type, opset)

    def _attributes(self, raws: Any, place: Place, names: Names, where: str) -> tuple[dict[str, Any], dict[str, str]]:
        """Values and kinds by name."""
        values: dict[str, Any] = {}
        kinds: dict[str, str] = {}
        for raw in raws:
            if not raw.name or raw.name in values:
                refuse(
                    where, f"attribute {shown(raw.name)}", "a name that no other attribute has", "none or a second one"
                )
            kinds[raw.name], slot = kind_of(raw, where)
            if raw.ref_attr_name:
                values[raw.name] = _reference(raw, place, where)
            else:
                values[raw.name] = value_of(raw, slot, self.total, where, lambda graph: self.graph(graph, place, names))
        return values, kinds


def _reference(raw: Any, place: Place, where: str) -> Reference:
    if place.references is None or raw.ref_attr_name not in place.references:
        wanted = (
            "a value"
            if place.references is None
            else f"an attribute of the function: {listed(sorted(place.references)) or 'none'}"
        )
        refuse(where, f"attribute {shown(raw.name)}", wanted, f"a reference to {shown(raw.ref_attr_name)}")
    return Reference(raw.ref_attr_name)


def _check_call(node: Any, function: Any, kinds: dict[str, str], where: str) -> None:
    for what, given, declared in (("inputs", node.input, function.input), ("outputs", node.output, function.output)):
        if len(given) > len(declared):
            refuse(where, what, f"at most {len(declared)}, as the function has", str(len(given)))
    allowed = {*function.attribute, *(attribute.name for attribute in function.attribute_proto)}
    for name in kinds:
        if name not in allowed and not name.startswith("__"):
            refuse(
                where,
                f"attribute {shown(name)}",
                f"one of the function's: {listed(sorted(allowed)) or 'none'}",
                "another",
            )


def _undefined(name: str, nodes: Any, position: int, where: str) -> None:
    """Refuse a name that is read before it is defined, or that nobody defines."""
    later = any(name in node.output for node in nodes[position:])
    found = "one that a later node computes: nodes must be sorted" if later else "a name that nothing defines"
    refuse(where, f"input {shown(name)}", "the output of an earlier node, an input or an initializer", found)


def _once(names: list[str], where: str) -> None:
    seen: set[str] = set()
    for name in names:
        if not name or name in seen:
            refuse(where, f"name {shown(name)}", "names, each once", "none" if not name else "twice")
        seen.add(name)
