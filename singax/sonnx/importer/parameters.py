"""Which constants of a graph are weights to train, which are statistics, and which the operators only need to know.

A weight may be an initializer or the value of a Constant node, in the graph itself or in a branch of an If, stored in
another float or quantised behind Cast or DequantizeLinear. Here all of them become constants of the outermost graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import jax.numpy as jnp
import numpy as np

from singax.sonnx.importer import host
from singax.sonnx.importer.graph import Graph, Model, Node, outer_names, subgraphs

TRAINED_DTYPES = ("float16", "bfloat16", "float32", "float64")
_STORED = frozenset({"Cast", "QuantizeLinear", "DequantizeLinear"})
_STATISTICS = {"BatchNormalization": (3, 4)}
_NOT_TRAINED = {
    "Cast": (), "Clip": (1, 2), "Dropout": (1,), "Pad": (2,), "Pow": (1,), "OneHot": (1, 2), "Range": (0, 1, 2),
    "Resize": (1, 2), "Upsample": (1,), "QuantizeLinear": (0, 1), "DequantizeLinear": (1,), "TopK": (1,),
    "MelWeightMatrix": (0, 1, 2, 3, 4), "NonMaxSuppression": (0, 1, 2, 3, 4), "Equal": (0, 1), "Greater": (0, 1),
    "GreaterOrEqual": (0, 1), "Less": (0, 1), "LessOrEqual": (0, 1), "Shape": (0,), "Size": (0,),
    "ConstantOfShape": (0,), "Sign": (0,), "Floor": (0,), "Ceil": (0,), "Round": (0,), "IsNaN": (0,), "IsInf": (0,),
}  # fmt: skip
_QUANTISED = ("QLinear", "DynamicQuantize", "QAttention", "QGemm", "QEmbed", "MatMulInteger", "ConvInteger")


@dataclass
class Weights:
    """A model whose constants are in its outermost graph, and which of these are parameters and which states."""

    model: Model
    parameters: dict[str, np.ndarray] = field(default_factory=dict)
    states: dict[str, np.ndarray] = field(default_factory=dict)


def found_weights(model: Model) -> Weights:
    """Sort the constants of a model.

    A floating constant is a parameter if a node computes with it and it has a rank of 1 or more; in a Constant node it
    must also have two elements or more, since scalars there are numbers of a formula. The running statistics of
    BatchNormalization are states.
    """
    constants: dict[str, Any] = {}
    moved = _Moved(model, constants)
    graph = moved.graph(model.graph, {}, {})
    uses = _uses(graph)
    states = {n: v for n, v in constants.items() if "state" in uses.get(n, ()) and _is_float(v)}
    trained = {
        n: v for n, v in constants.items()
        if n not in states and "value" in uses.get(n, ()) and _is_weight(v, n in moved.from_nodes)
    }  # fmt: skip
    held = {name: value for name, value in constants.items() if name not in states and name not in trained}
    made = replace(graph, constants=held)
    return Weights(Model(made, model.opsets, model.functions, model.metadata), trained, states)


def _is_float(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.name in TRAINED_DTYPES


def _is_weight(value: Any, from_node: bool) -> bool:
    return _is_float(value) and value.ndim > 0 and value.size > int(from_node)


class _Moved:
    """Moves floating constants of subgraphs, and values of Constant nodes, to the outermost graph."""

    def __init__(self, model: Model, constants: dict[str, Any]) -> None:
        self.model, self.constants = model, constants
        self.from_nodes: set[str] = set()
        self.taken: set[str] = set()
        self.readers = _readers(model.graph)

    def graph(self, graph: Graph, outer: Mapping[str, Any], names: Mapping[str, str]) -> Graph:
        """The graph without its floating constants; `outer` are constants around it, `names` what has a new name."""
        top = not self.taken
        own = dict(graph.constants)
        nodes = [node for node in graph.nodes if not self._is_constant(node, own)]
        known = {**outer, **own}
        nodes = [self._unpacked(node, known, own) for node in nodes]
        inputs = {info.name for info in graph.inputs}
        defined = inputs | set(own) | {name for node in nodes for name in node.outputs}
        names = {old: new for old, new in names.items() if old not in defined}
        if top:
            self.taken |= defined
        kept = {}
        for name, value in own.items():
            if not top and not (_is_float(value) and value.ndim and name not in inputs):
                kept[name] = value
                continue
            placed = self._place(name, value, top)
            if placed != name:
                names[name] = placed
        nodes = [self._node(node, known, names) for node in nodes]
        outputs = [replace(info, name=names.get(info.name, info.name)) for info in graph.outputs]
        needed = outer_names(nodes, inputs | set(kept), [info.name for info in outputs])
        return Graph(graph.name, graph.inputs, outputs, kept, nodes, needed)

    def _is_constant(self, node: Node, own: dict[str, Any]) -> bool:
        value = node.attributes.get("value", node.attributes.get("value_floats"))
        if node.op_type != "Constant" or node.domain or not isinstance(value, np.ndarray | list):
            return False
        array = value if isinstance(value, np.ndarray) else np.asarray(value, np.float32)
        own[node.outputs[0]] = array
        self.from_nodes.add(node.outputs[0])
        return True

    def _place(self, name: str, value: Any, top: bool) -> str:
        free, number = name, 0
        while not top and free in self.taken:
            number += 1
            free = f"{name}_{number}"
        self.taken.add(free)
        self.constants[free] = value
        if name in self.from_nodes:
            self.from_nodes.add(free)
        return free

    def _node(self, node: Node, known: Mapping[str, Any], names: Mapping[str, str]) -> Node:
        attributes = {key: self._inner(value, known, names) for key, value in node.attributes.items()}
        if not names and all(value is node.attributes[key] for key, value in attributes.items()):
            return node
        return replace(node, inputs=tuple(names.get(n, n) for n in node.inputs), attributes=attributes)

    def _inner(self, value: Any, known: Mapping[str, Any], names: Mapping[str, str]) -> Any:
        if isinstance(value, Graph):
            return self.graph(value, known, names)
        if isinstance(value, list) and any(isinstance(item, Graph) for item in value):
            return [self._inner(item, known, names) for item in value]
        return value

    def _unpacked(self, node: Node, known: dict[str, Any], own: dict[str, Any]) -> Node:
        """A node that only turns a stored weight into floats becomes an Identity of these floats."""
        if node.op_type not in _STORED or node.domain or self.model.function(node) is not None:
            return node
        inputs = [known.get(name) if name else None for name in node.inputs]
        if any(value is None and name for value, name in zip(inputs, node.inputs, strict=True)):
            return node
        if not isinstance(inputs[0], np.ndarray) or not inputs[0].ndim or not _unpacks(node, inputs[0]):
            return node
        value = host.run(node, inputs, self.model.opsets)[0]
        alone = self.readers.get(node.inputs[0], 0) == 1 and node.inputs[0] in own
        name = node.inputs[0] if alone else f"{node.outputs[0]}_value"
        own[name] = known[name] = value
        known[node.outputs[0]] = value
        return Node("Identity", "", node.name, (name,), node.outputs, {})


def _unpacks(node: Node, stored: np.ndarray) -> bool:
    if node.op_type != "Cast":
        return True
    from onnx import helper

    wanted = np.dtype(helper.tensor_dtype_to_np_dtype(int(node.attributes["to"])))
    return wanted.name in TRAINED_DTYPES and bool(jnp.issubdtype(stored.dtype, jnp.floating))


def _readers(graph: Graph) -> dict[str, int]:
    """How many nodes and outputs, of the graph and below it, read each name."""
    counts: dict[str, int] = {}
    for inner in _graphs(graph):
        names = [info.name for info in inner.outputs] + [n for node in inner.nodes for n in node.inputs]
        for name in names:
            counts[name] = counts.get(name, 0) + 1
    return counts


def _graphs(graph: Graph) -> Iterable[Graph]:
    yield graph
    for node in graph.nodes:
        for inner in subgraphs(node):
            yield from _graphs(inner)


def _uses(graph: Graph) -> dict[str, set[str]]:
    """For each name how it is used: "value" where a node computes with it, "state" for running statistics."""
    uses: dict[str, set[str]] = {}
    inner = list(_graphs(graph))
    for part in reversed(inner):
        for node in reversed(part.nodes):
            for position, name in enumerate(node.inputs):
                if name:
                    uses.setdefault(name, set()).update(_use(node, position, uses))
    return uses


def _use(node: Node, position: int, uses: Mapping[str, set[str]]) -> set[str]:
    if node.domain == "" and node.op_type == "Identity":
        return set(uses.get(node.outputs[0], ())) or {"value"}
    if node.op_type.startswith(_QUANTISED):
        return {"setting"}
    if position in _STATISTICS.get(node.op_type, ()):
        return {"state"}
    return {"setting"} if position in _NOT_TRAINED.get(node.op_type, ()) else {"value"}
