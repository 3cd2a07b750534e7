"""An ONNX graph as plain Python objects: what the rest of the importer works on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

DEFAULT_DOMAIN = ""


@dataclass(frozen=True)
class Reference:
    """An attribute of a node inside a function whose value is an attribute of the call."""

    name: str


@dataclass(frozen=True, eq=False)
class Node:
    """One node: attributes are Python values, arrays, `Graph`s or `Reference`s; an absent input or output is ""."""

    op_type: str
    domain: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    overload: str = ""

    @property
    def where(self) -> str:
        """How messages name the node."""
        label = f"{self.domain}.{self.op_type}" if self.domain else self.op_type
        computes = next(filter(None, self.outputs), "nothing")
        return f"node {self.name!r} ({label})" if self.name else f"the {label} node that computes {computes!r}"


@dataclass(frozen=True)
class ValueInfo:
    """An input or output: its name, the dtype and shape (None: unknown rank; names stay) of its innermost tensors.

    `kind` is "tensor", or nested such as "optional(sequence(tensor))".
    """

    name: str
    dtype: np.dtype | None
    shape: tuple[int | str | None, ...] | None
    kind: str = "tensor"


@dataclass(eq=False)
class Graph:
    """Nodes in an order in which they can be computed."""

    name: str
    inputs: list[ValueInfo]
    outputs: list[ValueInfo]
    constants: dict[str, Any]
    nodes: list[Node]
    needed: frozenset[str] = field(default_factory=frozenset)
    """Names of an outer graph that this one reads."""


@dataclass(eq=False)
class Function:
    """A local function: its body is evaluated with the attributes of the call."""

    name: str
    domain: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    nodes: list[Node]
    opsets: Mapping[str, int]


@dataclass(eq=False)
class Model:
    """A whole model. `functions` are keyed by (domain, name, overload)."""

    graph: Graph
    opsets: Mapping[str, int]
    functions: Mapping[tuple[str, str, str], Function]
    metadata: Mapping[str, str] = field(default_factory=dict)

    def __deepcopy__(self, memo: Any) -> Model:
        """The model itself: nobody changes one."""
        return self

    def function(self, node: Node) -> Function | None:
        """The local function that the node calls."""
        return self.functions.get((node.domain, node.op_type, node.overload))


def outer_names(nodes: list[Node], own: set[str], outputs: list[str]) -> frozenset[str]:
    """Names that the nodes, their subgraphs or the outputs read but nobody inside defines."""
    known, needed = set(own), set()
    for node in nodes:
        reads = [name for name in node.inputs if name]
        for graph in subgraphs(node):
            reads += graph.needed
        needed |= {name for name in reads if name not in known}
        known |= set(node.outputs)
    return frozenset(needed | {name for name in outputs if name and name not in known})


def subgraphs(node: Node) -> list[Graph]:
    """The graphs among the attributes of a node."""
    found: list[Graph] = []
    for value in node.attributes.values():
        found += [g for g in (value if isinstance(value, list) else [value]) if isinstance(g, Graph)]
    return found


def reads(node: Node) -> list[str]:
    """All names that evaluating a node reads, through its subgraphs too."""
    names = [name for name in node.inputs if name]
    for graph in subgraphs(node):
        names += graph.needed
    return names
