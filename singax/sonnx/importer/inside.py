"""Evaluating a graph inside the forward of a module: keys, training mode and 32-bit rules are those of the step."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from singax import dispatch, mode
from singax.errors import ModelFileError
from singax.mode import traced
from singax.sonnx.importer.budget import DEFAULT_BYTES
from singax.sonnx.importer.draws import numbered
from singax.sonnx.importer.evaluate import Evaluator, Scope
from singax.sonnx.importer.graph import Graph, Model, Node, subgraphs
from singax.sonnx.registry import Call, NeedsHost

_STAYS_KNOWN = frozenset({"Slice", "Reshape", "Expand", "Tile", "Pad", "Split", "Squeeze", "Unsqueeze", "Resize"})
_WIDE_MARKS = "Explicitly requested dtype .*64"


class InsideEvaluator(Evaluator):
    """Evaluates a graph in a frame. `updates` are the new running statistics, by the names of their states.

    `known` has the file's values of parameters, for operators that must know one while tracing. `drawn` is the number
    (1,) of the training forward, for nodes with a seed; None: they draw the same each time.
    """

    def __init__(
        self,
        model: Model,
        known: Mapping[str, np.ndarray],
        drawn: Any = None,
        most_bytes: int = DEFAULT_BYTES,
    ) -> None:
        super().__init__(model, None, known, mode.training, most_bytes=most_bytes)
        self.drawn = drawn
        self.updates: dict[str, Any] = {}
        self._values: dict[int, np.ndarray] = {}

    def outputs(self, values: dict[str, Any]) -> list[Any]:
        """The outputs of the graph, for the values of its inputs, parameters and states."""
        self._values = {id(values[name]): array for name, array in self.known.items() if name in values}
        scope = Scope({**self.model.graph.constants, **values})
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", _WIDE_MARKS, UserWarning)
            for node in self.model.graph.nodes:
                self._outermost(node, scope)
        return [as_arrays(scope[info.name], info.name) for info in self.model.graph.outputs]

    def _outermost(self, node: Node, scope: Scope) -> None:
        try:
            self.node(node, scope, self.model.opsets)
        except NeedsHost as cause:
            hint = f"; pass {cause.names[0]!r} as a Python number" if _is_input(self.model, cause.names) else ""
            raise ModelFileError(
                "", cause.where or node.where, "program", "a node that can be compiled (`prepare` runs it on the host)",
                f"{cause.reason}{hint}",
            ) from cause  # fmt: skip

    def known_value(self, name: str, value: Any, scope: Scope) -> np.ndarray | None:
        """The numbers of a value that does not depend on data; those of the file for a parameter."""
        found = self._values.get(id(value))
        return found if found is not None else super().known_value(name, value, scope)

    def random_key(self, call: Call) -> jax.Array:
        """The next key of the step; for a node with a seed one made of the seed, its output's name and the count."""
        if call.attribute("seed") is None:
            return dispatch.next_key()
        key = super().random_key(call)
        return key if self.drawn is None else numbered(key, call.node, self.drawn[0])

    def _results(self, node: Node, inputs: list[Any], scope: Scope, opsets: Mapping[str, int]) -> Sequence[Any]:
        _check_width(node, inputs)
        if not subgraphs(node) or (node.op_type == "If" and not traced(inputs[0])):
            return super()._results(node, inputs, scope, opsets)
        before = dict(self.updates)
        try:
            return super()._results(node, inputs, scope, opsets)
        finally:
            self.updates = before  # what a branch or loop has computed cannot leave it

    def new_states(self) -> dict[str, Any]:
        """What the running statistics have become, by the names of their constants."""
        sources = {n.outputs[0]: n.inputs[0] for n in self.model.graph.nodes if n.op_type == "Identity"}
        return {_source(name, sources): value for name, value in self.updates.items()}


def _source(name: str, sources: Mapping[str, str]) -> str:
    while name in sources:
        name = sources[name]
    return name


def as_arrays(value: Any, name: str) -> Any:
    """An output as JAX takes it."""
    if isinstance(value, list):
        return [as_arrays(item, name) for item in value]
    if isinstance(value, np.ndarray) and value.dtype == object:
        raise ModelFileError("", f"output {name!r}", "dtype", "numbers (`prepare` gives strings)", "strings")
    if isinstance(value, np.ndarray | np.generic):
        refuse_wide(np.asarray(value), f"output {name!r}")
        return jnp.asarray(value)
    return value


def _is_input(model: Model, names: tuple[str, ...]) -> bool:
    return bool(names) and names[0] in {info.name for info in model.graph.inputs}


def _check_width(node: Node, inputs: list[Any]) -> None:
    """Refuse, while JAX's x64 is off, to compute with numbers that 32 bits do not hold."""
    if jax.config.read("jax_enable_x64") or not any(map(traced, jax.tree.leaves(inputs))):
        return
    if node.op_type == "Cast" and node.domain == "":
        from onnx import TensorProto

        kinds, asked = TensorProto.DataType, node.attributes["to"]  # before opset 6 a name, else a number
        for name in ("DOUBLE", "UINT64", "COMPLEX128"):
            if asked in (name, kinds.Value(name)):
                _refuse_width(node.where, f"a cast to {name}")
    if node.op_type not in _STAYS_KNOWN:
        for value in inputs:
            if isinstance(value, np.ndarray):
                refuse_wide(value, node.where)


def refuse_wide(value: np.ndarray, where: str) -> None:
    """`ModelFileError` for float64, and for integers beyond 32 bits, while JAX's x64 is off."""
    if jax.config.read("jax_enable_x64"):
        return
    if value.dtype in (np.float64, np.complex128) and value.ndim > 0:
        _refuse_width(where, str(value.dtype))
    if value.dtype in (np.int64, np.uint64) and value.size:
        limits = np.iinfo(np.int32 if value.dtype == np.int64 else np.uint32)
        if value.min() < limits.min or value.max() > limits.max:
            _refuse_width(where, f"{value.dtype} beyond the range of 32 bits")


def _refuse_width(where: str, found: str) -> None:
    raise ModelFileError("", where, "dtype", "32 bits, while JAX's x64 is off (or jax_enable_x64)", found)


def pruned(graph: Graph) -> Graph:
    """The graph without nodes that no output needs."""
    wanted = {info.name for info in graph.outputs}
    nodes = []
    for node in reversed(graph.nodes):
        if any(name in wanted for name in node.outputs if name):
            wanted.update(name for name in node.inputs if name)
            for inner in subgraphs(node):
                wanted |= inner.needed
            nodes.append(node)
    constants = {name: value for name, value in graph.constants.items() if name in wanted}
    return Graph(graph.name, graph.inputs, graph.outputs, constants, nodes[::-1], graph.needed)
