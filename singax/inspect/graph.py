"""The forward pass of a model as a graph of nodes: operations with their layers and inferred shapes."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr

from singax import arguments
from singax.arguments import as_placeholders
from singax.errors import ArgumentError
from singax.inspect.abstract import Borrowed, abstract, struct
from singax.inspect.picture import Arrow, Box, drawn
from singax.inspect.trace import Task
from singax.inspect.watch import Onlooker, watching
from singax.jaxprs import CALLS, opened
from singax.layer import tree
from singax.mode import NeedsBuild
from singax.module import Module
from singax.ops.operation import capturing
from singax.program import MOST_RESTARTS

N = 10007
"""What an unknown size is while tracing: a large prime, so that it is told from other sizes."""

CALL = re.compile(r"#(\d+)#")
"""What the number of a call looks like in the name of an operation."""


@dataclass(frozen=True)
class GraphNode:
    """One operation. `name`: unique, the layer's path and the operation; `layer`: the path of the layer, "" for the
    model itself; `operation`: of singax, or a primitive of JAX; `inputs`: names of nodes, arguments ("x0") and
    parameters (their paths); `shapes`: those of its results, as text, with the dtype unless it is float32;
    `attributes`: of an operation of singax.
    """

    name: str
    layer: str
    operation: str
    inputs: tuple[str, ...]
    shapes: tuple[str, ...]
    attributes: dict[str, Any] = field(default_factory=dict)
    call: int = 0

    def __str__(self) -> str:
        return f"{self.name}({', '.join(self.inputs)}) → {', '.join(self.shapes)}"


@dataclass(frozen=True)
class LabelledCall:
    """A call of a layer: its path, its class, and the call around it (None: the model's own)."""

    path: str
    kind: str
    parent: int | None


@dataclass(frozen=True)
class Graph:
    """What `Module.graph` returns: iterate over its `GraphNode`s, print it, or look at its picture.

    `graph[name]` is the node of that name. `inputs` are the arguments with their shapes ("x0" → "(4, 3) int32"; the
    dtype is left out for float32), `outputs` the names of what comes out. `svg(depth)` draws layers as boxes and shapes
    on the arrows; notebooks show it by themselves.
    """

    model: str
    nodes: tuple[GraphNode, ...]
    inputs: dict[str, str]
    outputs: tuple[str, ...]
    calls: tuple[LabelledCall, ...]

    def __iter__(self) -> Iterator[GraphNode]:
        return iter(self.nodes)

    def __len__(self) -> int:
        return len(self.nodes)

    def __getitem__(self, name: str) -> GraphNode:
        for node in self.nodes:
            if node.name == name:
                return node
        raise ArgumentError(f"there is no node {name!r}; print the graph to see its {len(self)} nodes")

    def __str__(self) -> str:
        given = ", ".join(f"{name} {shape}" for name, shape in self.inputs.items())
        return "\n".join([f"{self.model}({given})", *(f"  {n}" for n in self.nodes), f"  → {', '.join(self.outputs)}"])

    def __repr__(self) -> str:
        return f"<Graph of {self.model}: {len(self)} nodes>"

    def svg(self, depth: int = 1) -> str:
        """The picture as SVG text: layers down to `depth` as boxes, what is outside of them as small ones."""
        return drawn(*self._boxes(depth))

    def _repr_svg_(self) -> str:
        return self.svg()

    def save(self, path: str | os.PathLike[str], depth: int = 1) -> None:
        """Write the picture into a file."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.svg(depth))

    def _boxes(self, depth: int) -> tuple[list[Box], list[Arrow]]:
        boxes = {name: Box(name, name, shape, "end") for name, shape in self.inputs.items()}
        around = {call.parent for call in self.calls}
        owner = {name: name for name in self.inputs}
        shapes = dict(self.inputs)
        for node in self.nodes:
            key, box = self._box(node, depth, around)
            boxes.setdefault(key, box)
            owner[node.name], shapes[node.name] = key, ", ".join(node.shapes)
        arrows: dict[tuple[str, str], Arrow] = {}
        for node in self.nodes:
            for name in node.inputs:
                if name in owner and owner[name] != owner[node.name]:
                    ends = owner[name], owner[node.name]
                    arrows.setdefault(ends, Arrow(*ends, shapes[name]))
        for k, name in enumerate(self.outputs):
            if name in owner:
                title = "output" if len(self.outputs) == 1 else f"output {k}"
                boxes[f"→{k}"] = Box(f"→{k}", title, shapes[name], "end")
                arrows[name, f"→{k}"] = Arrow(owner[name], f"→{k}", shapes[name])
        return list(boxes.values()), list(arrows.values())

    def _box(self, node: GraphNode, depth: int, around: set[int | None]) -> tuple[str, Box]:
        """The box that a node belongs to: its layer at this depth; itself, where that layer's parts are drawn."""
        chain: list[int] = []
        call: int | None = node.call
        while call is not None and self.calls[call].path:
            chain.insert(0, call)
            call = self.calls[call].parent
        if not chain or (len(chain) < depth and chain[-1] in around):
            return node.name, Box(node.name, node.operation, node.layer, "operation")
        found = chain[min(depth, len(chain)) - 1]
        layer = self.calls[found]
        return f"#{found}", Box(f"#{found}", layer.path, layer.kind, "layer")


class Labels(Onlooker):
    """An observer that puts the number of the call into the names of all equations. `borrowed`: see `abstract`."""

    def __init__(self, module: Module, borrowed: Borrowed | None = None) -> None:
        self._borrowed = borrowed
        self._paths = {id(layer): path for path, layer in tree.layers(module)}
        self.calls: list[LabelledCall] = []
        self._open: list[int] = []

    def layer(self, layer: Any, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run it under its number."""
        number = len(self.calls)
        path = self._paths.get(id(layer), type(layer).__name__)
        self.calls.append(LabelledCall(path, type(layer).__name__, self._open[-1] if self._open else None))
        self._open.append(number)
        try:
            with jax.named_scope(f"#{number}#"):
                return function(layer, *args, **kwargs)
        finally:
            self._open.pop()

    def meets(self, optimizer: Any) -> None:
        """Protect it, where the model is abstract."""
        if self._borrowed is not None:
            self._borrowed.take(optimizer)


def graph(module: Module, inputs: tuple[Any, ...]) -> Graph:
    """See `Module.graph`."""
    if not inputs:
        if module._inputs_seen is None:
            raise ArgumentError("graph() needs placeholders for the arguments of forward, as compile does")
        inputs = tuple(as_placeholders(module._inputs_seen))
    function = type(module).forward
    packed = arguments.pack_shapes(function, inputs, {}, N)
    with abstract(module) as borrowed:
        task = Task(module, function, packed, False, False)
        for _ in range(MOST_RESTARTS):
            try:
                return _traced(module, task, Labels(module, borrowed))
            except NeedsBuild:
                continue
    raise AssertionError("a forward that creates layers each time is refused while it is traced")


def _traced(module: Module, task: Task, labels: Labels) -> Graph:
    paths, cells = task.states()
    pure = task.pure(cells, lambda context: None)
    with watching(labels), capturing():
        jaxpr = jax.make_jaxpr(lambda values, given: pure(values, given)[1])(
            [struct(cell) for cell in cells], list(task.packed.inputs)
        )
    return _Reader(type(module).__name__, labels.calls, paths).read(jaxpr)


class _Reader:
    """From a program to nodes."""

    def __init__(self, model: str, calls: Sequence[LabelledCall], paths: Sequence[str]) -> None:
        self.model, self.calls, self.paths = model, tuple(calls), paths
        self.nodes: list[GraphNode] = []
        self.names: dict[Any, str] = {}
        self.taken: dict[str, int] = {}

    def read(self, program: ClosedJaxpr) -> Graph:
        jaxpr = program.jaxpr
        given = jaxpr.invars[len(self.paths) :]
        self.names.update(zip(jaxpr.invars, [*self.paths, *(f"x{k}" for k in range(len(given)))], strict=True))
        self._walk(jaxpr, 0)
        outputs = tuple(self._name(var) for var in jaxpr.outvars)
        return Graph(self.model, tuple(self.nodes), {self.names[v]: _shape(v) for v in given}, outputs, self.calls)

    def _walk(self, jaxpr: Any, call: int) -> None:
        for equation in jaxpr.eqns:
            found = CALL.findall(str(equation.source_info.name_stack))
            here = int(found[-1]) if found else call
            name = equation.primitive.name
            if name in CALLS:
                inner = opened(equation.params[CALLS[name]])
                self.names.update({v: self._name(o) for v, o in zip(inner.invars, equation.invars, strict=True)})
                self._walk(inner, here)
                self.names.update({v: self._name(o) for v, o in zip(equation.outvars, inner.outvars, strict=True)})
            else:
                self._add(equation, here)

    def _add(self, equation: Any, call: int) -> None:
        operation, attributes = equation.primitive.name, {}
        if operation == "singax_operation":
            operation, attributes = equation.params["operation"].name, dict(equation.params["attributes"])
        layer = self.calls[call].path
        name = self._unique(tree.join(layer, operation))
        inputs = tuple(self._name(var) for var in equation.invars)
        self.nodes.append(
            GraphNode(name, layer, operation, inputs, tuple(map(_shape, equation.outvars)), attributes, call)
        )
        self.names.update(dict.fromkeys(equation.outvars, name))

    def _unique(self, name: str) -> str:
        count = self.taken[name] = self.taken.get(name, 0) + 1
        return name if count == 1 else f"{name}_{count}"

    def _name(self, var: Any) -> str:
        if hasattr(var, "val"):  # a literal
            return str(var.val)
        return self.names.get(var, "constant")


def _shape(var: Any) -> str:
    sizes = [_size(size) for size in getattr(var.aval, "shape", ())]
    dtype = getattr(var.aval, "dtype", "float32")
    return "(" + ", ".join(sizes) + ("," if len(sizes) == 1 else "") + ")" + ("" if dtype == "float32" else f" {dtype}")


def _size(size: Any) -> str:
    if not isinstance(size, int) or size < N or size % N:
        return str(size)
    return "N" if size == N else f"{size // N}N"
