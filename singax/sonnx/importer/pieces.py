"""Running a graph as few compiled programs: one, unless a node needs the host.

The graph is traced from the first node that has not run. Where a node needs to know a value that depends on data, and
that value comes from small inputs of the graph alone, these inputs are known from then on (a program for each of their
values); otherwise the program ends before the node, the node runs on the host, and tracing goes on behind it.
"""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakValueDictionary

import jax
import jax.numpy as jnp
import numpy as np

from singax.sonnx.importer import host
from singax.sonnx.importer.audit import Auditor
from singax.sonnx.importer.budget import DEFAULT_BYTES, Allowance, enough_memory
from singax.sonnx.importer.checks import Checks
from singax.sonnx.importer.evaluate import Evaluator, Scope
from singax.sonnx.importer.graph import Model, Node, reads
from singax.sonnx.importer.patience import interruptible
from singax.sonnx.importer.prelude import Derived
from singax.sonnx.importer.program import Program, Shared
from singax.sonnx.importer.sources import SHAPE_ONLY, sources
from singax.sonnx.registry import NeedsHost

MOST_PROGRAMS = 64
MOST_NODES = 2500
"""Nodes of a graph that is one program."""
NODES_OF_A_PART = 500
"""Nodes of each program of a larger graph: XLA's time for a chain grows with the square of its length."""
MOST_KNOWN_ELEMENTS = 4096
_WEIGHT_ELEMENTS = 64
_STRINGS = np.dtype(object)

Values = dict[str, Any]
Key = Callable[[], Any]


@dataclass
class Piece:
    """One compiled program over the nodes from `start` to `stop`; for a `reason` the node after it runs on the host.

    Where `checks` watches something, the result "" is its report.
    """

    start: int
    stop: int
    call: Program | None
    dynamic: tuple[str, ...]
    known: Values = field(default_factory=dict)
    reason: str = ""
    checks: Checks | None = None
    where: str = ""


class _Cut(Exception):
    def __init__(self, position: int, cause: NeedsHost) -> None:
        super().__init__(str(cause))
        self.position, self.cause = position, cause


class _Restart(Exception):
    """Inputs have become known ones: the run starts again."""


class Executor:
    """Runs a model; keeps its programs, one set per shapes of the inputs."""

    def __init__(
        self,
        model: Model,
        most_programs: int = MOST_PROGRAMS,
        most_trips: int | None = None,
        most_bytes: int = DEFAULT_BYTES,
        check_indices: bool = True,
    ) -> None:
        self.model, self.most_programs, self.check_indices = model, most_programs, check_indices
        self.most_trips, self.most_bytes = most_trips, most_bytes
        self.nodes, self.graph = model.graph.nodes, model.graph
        self.outputs = [info.name for info in self.graph.outputs]
        self.weights = {n: v for n, v in self.graph.constants.items() if _is_weight(v)}
        self.held = {n: v for n, v in self.graph.constants.items() if n not in self.weights}
        self.derived = Derived(self.weights)
        self._shared: Shared = WeakValueDictionary()
        self.known_inputs: set[str] = set()
        self.programs: OrderedDict[Hashable, Piece] = OrderedDict()
        self.compiled = 0
        self._last_read = self._last_reads()
        self._live: dict[int, list[str]] = {}
        self._runs = 0

    def _last_reads(self) -> dict[str, int]:
        last: dict[str, int] = {}
        for position, node in enumerate(self.nodes):
            for name in reads(node):
                last[name] = position
        return {**last, **dict.fromkeys(self.outputs, len(self.nodes))}

    def run(self, feeds: Values, key: Any = None) -> list[Any]:
        """The outputs as NumPy arrays (lists for sequences)."""
        with jax.enable_x64(True), interruptible():
            while True:
                try:
                    values = self._run(feeds, key)
                    return [host.as_numpy(values[name]) for name in self.outputs]
                except _Restart:
                    continue

    def pieces(self) -> list[Piece]:
        """The programs that were made, in the order in which they were."""
        return list(self.programs.values())

    def _run(self, feeds: Values, key: Any) -> Values:
        values = {name: self._given(name, value) for name, value in feeds.items()}
        self._runs += key is None
        number = self._runs
        key_of_run = functools.cache(lambda: jax.random.key(number - 1) if key is None else key)
        position = 0
        while position < len(self.nodes):
            position = self._advance(position, values, key_of_run)
        return {name: values[name] if name in values else self._constant(name) for name in self.outputs}

    def _given(self, name: str, value: Any) -> Any:
        if name in self.known_inputs or not _is_numeric(value):
            return value
        return _placed(value)

    def _constant(self, name: str) -> Any:
        return self.derived.weight(name) if name in self.weights else self.held[name]

    def _advance(self, position: int, values: Values, key: Key) -> int:
        live = [name for name in self._live_at(position) if name in values]
        signature = (position, *((name, _signature(values[name])) for name in live))
        piece = self.programs.get(signature)
        if piece is None:
            piece = self._compile(position, {name: values[name] for name in live}, key)
            self._keep(signature, piece)
        values.update(piece.known)
        if piece.call is not None:
            with enough_memory(piece.where, self.most_bytes):
                results = piece.call([values[name] for name in piece.dynamic], key)
            if piece.checks is not None and "" in results:
                piece.checks.judge(results.pop(""))
            values.update(results)
        if not piece.reason:
            return piece.stop
        self._on_host(self.nodes[piece.stop], values, key())
        return piece.stop + 1

    def _live_at(self, position: int) -> list[str]:
        """The inputs, and results of nodes before this position, that the rest of the graph reads."""
        if position not in self._live:
            made = [name for node in self.nodes[:position] for name in node.outputs if name]
            names = dict.fromkeys([*(info.name for info in self.graph.inputs), *made])
            self._live[position] = [name for name in names if self._last_read.get(name, -1) >= position]
        return self._live[position]

    def _keep(self, signature: Hashable, piece: Piece) -> None:
        self.programs[signature] = piece
        self.compiled += piece.call is not None and piece.call.is_new
        while len(self.programs) > self.most_programs:
            self.programs.popitem(last=False)

    def _on_host(self, node: Node, values: Values, key: Any) -> None:
        key = jax.random.fold_in(key, len(values))
        evaluator = Evaluator(self.model, key, None, False, self.most_trips, self.most_bytes)
        known = {name: self._constant(name) for name in reads(node) if name in self.graph.constants}
        evaluator.node(node, Scope(values, Scope(known)), self.model.opsets)
        for name in node.outputs:
            if name and _is_numeric(values[name]):
                values[name] = _placed(values[name])

    # -- compiling --------------------------------------------------------------------------------------------------

    def _compile(self, start: int, values: Values, key: Key) -> Piece:
        count = len(self.nodes)
        stop, reason = count if count <= MOST_NODES else min(start + NODES_OF_A_PART, count), ""
        while stop > start:
            try:
                return self._traced(start, stop, values, key, reason)
            except _Cut as cut:
                self._make_known(cut.cause, values)
                stop, reason = cut.position, cut.cause.reason
        return Piece(start, start, None, (), reason=reason)

    def _traced(self, start: int, stop: int, values: Values, key: Key, reason: str) -> Piece:
        dynamic = tuple(name for name, value in values.items() if _is_dynamic(value))
        static = {name: value for name, value in values.items() if not _is_dynamic(value)}
        known: Values = {}
        nodes = self.nodes[start:stop]
        outputs = [name for node in nodes for name in node.outputs if name]
        wanted = [name for name in outputs if self._last_read.get(name, -1) >= stop]
        read = [name for node in nodes for name in reads(node)]
        kept = {name: self.weights[name] for name in read if name in self.weights and name not in values}
        checks = Checks() if self.check_indices else None

        def program(given: list[Any], key: Any, weights: Values, make: type[Evaluator] = Evaluator) -> Values:
            evaluator = make(self.model, key, kept, False, self.most_trips, self.most_bytes, checks)
            evaluator.interruptible = True
            scope = Scope({**self.held, **weights, **static, **dict(zip(dynamic, given, strict=True))})
            with evaluator.reports() as report:
                for position in range(start, stop):
                    try:
                        _refuse_strings(self.nodes[position], values)
                        evaluator.node(self.nodes[position], scope, self.model.opsets)
                    except NeedsHost as cause:
                        raise _Cut(position, cause) from cause
                extra = report()
            results = {name: scope.values[name] for name in wanted}
            known.update({name: value for name, value in results.items() if host.is_static(value)})
            return {**{name: value for name, value in results.items() if name not in known}, **extra}

        def culprit(*arguments: Any) -> None:
            jax.eval_shape(functools.partial(program, make=Auditor), *arguments)

        allowed = Allowance(f"the program from {nodes[0].where} to {nodes[-1].where}", self.most_bytes, culprit)
        given = [values[name] for name in dynamic]
        with enough_memory(allowed.where, self.most_bytes):
            made = Program(program, given, key(), self.derived, list(kept), self._shared, allowed)
        return Piece(start, stop, made, dynamic, known, reason, checks, allowed.where)

    def _make_known(self, cause: NeedsHost, values: Values) -> None:
        """Make the inputs that a wanted value comes from known ones, if they are few and small."""
        if not cause.names:
            return
        found = sources(self.nodes, cause.names) - set(self.held)
        inputs = {info.name for info in self.graph.inputs}
        new = found & inputs - self.known_inputs
        if found <= inputs and new and all(_is_small(values.get(name)) for name in new):
            self.known_inputs |= new
            raise _Restart


def _is_weight(value: Any) -> bool:
    if not isinstance(value, np.ndarray) or value.dtype == object:
        return False
    floating = jnp.issubdtype(value.dtype, jnp.inexact)
    return value.size >= (_WEIGHT_ELEMENTS if floating else MOST_KNOWN_ELEMENTS)


def _refuse_strings(node: Node, values: Values) -> None:
    """Raise `NeedsHost` for a node that reads strings which are no constants: programs are kept by their shapes."""
    if node.op_type not in SHAPE_ONLY and any(name in values and not _is_numeric(values[name]) for name in reads(node)):
        raise NeedsHost("strings are computed on the host")


def _is_numeric(value: Any) -> bool:
    leaves = jax.tree.leaves(value)
    return all(isinstance(leaf, jax.Array) or getattr(leaf, "dtype", _STRINGS) != _STRINGS for leaf in leaves)


def _is_dynamic(value: Any) -> bool:
    return _is_numeric(value) and not host.is_static(value)


def _placed(value: Any) -> Any:
    """Arrays on the device, copied; `jnp.asarray` would compile a program for each shape."""
    return jax.tree.map(lambda array: jax.device_put(array, may_alias=False), value)


def _is_small(value: Any) -> bool:
    return isinstance(value, jax.Array) and value.size <= MOST_KNOWN_ELEMENTS


def _signature(value: Any) -> Hashable:
    if isinstance(value, list):
        return ("list", *map(_signature, value))
    if isinstance(value, jax.Array):
        return value.shape, value.dtype, value.weak_type
    if isinstance(value, np.ndarray) and value.dtype != object and value.size <= MOST_KNOWN_ELEMENTS:
        return value.shape, value.dtype, value.tobytes()
    if isinstance(value, np.ndarray) and value.dtype == object:
        return "strings", value.shape
    return id(value)


def lifted(model: Model) -> Model:
    """The model with the values of Constant nodes among its graph's constants, where weights are looked for."""
    graph = model.graph
    constants, nodes = dict(graph.constants), []
    for node in graph.nodes:
        if node.op_type == "Constant" and node.domain == "" and isinstance(node.attributes.get("value"), np.ndarray):
            constants[node.outputs[0]] = node.attributes["value"]
        else:
            nodes.append(node)
    made = type(graph)(graph.name, graph.inputs, graph.outputs, constants, nodes, graph.needed)
    return Model(made, model.opsets, model.functions, model.metadata)
