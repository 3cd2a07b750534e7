"""Evaluating a graph: node by node, on values that are known (NumPy) or traced (JAX).

The same evaluation runs inside `jax.jit` and on the host: there every value has numbers, and what a compiled program
cannot do is done by the reference implementation.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from singax.errors import ModelFileError, SingaxError
from singax.mode import traced
from singax.ops.explain import FROM_BELOW, NOT_ABOUT_INPUTS, described
from singax.sonnx.importer import before, host
from singax.sonnx.importer.budget import DEFAULT_BYTES, MOST_FOLDED, Budget, any_traced
from singax.sonnx.importer.checks import Checks
from singax.sonnx.importer.graph import Function, Graph, Model, Node, Reference, subgraphs
from singax.sonnx.importer.sources import outside, outside_call
from singax.sonnx.registry import NEWEST, Call, NeedsHost, handler_of


class Scope:
    """Values by name, with those of the graph around it."""

    __slots__ = ("outer", "values")

    def __init__(self, values: dict[str, Any], outer: Scope | None = None) -> None:
        self.values, self.outer = values, outer

    def __getitem__(self, name: str) -> Any:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.values:
                return scope.values[name]
            scope = scope.outer
        raise ModelFileError("", f"value {name!r}", "definition", "a node, input or initializer before its use", "none")


class Evaluator:
    """Evaluates graphs of one model.

    `known` are values of initializers that are traced here because they are parameters: where an operator must know
    a value while tracing it takes the one from the file. `training` is the mode of Dropout and BatchNormalization;
    `most_trips` limits loops, `most_bytes` memory; `checks` watches conditions on data, if somebody judges them.
    With `interruptible`, long compiled loops can be stopped by Ctrl-C.
    """

    interruptible = False

    def __init__(
        self,
        model: Model,
        key: Any = None,
        known: Mapping[str, np.ndarray] | None = None,
        training: bool = False,
        most_trips: int | None = None,
        most_bytes: int = DEFAULT_BYTES,
        checks: Checks | None = None,
    ) -> None:
        self.model, self.known, self.training, self.most_trips = model, known or {}, training, most_trips
        self.budget, self.checks, self.depth = Budget(most_bytes), checks, 0
        self._key, self._draws = key, 0

    def graph(self, graph: Graph, inputs: Sequence[Any], outer: Scope | None) -> list[Any]:
        """The outputs of a graph for the values of its inputs."""
        values = dict(graph.constants)
        values.update({info.name: value for info, value in zip(graph.inputs, inputs, strict=False)})
        scope, held = Scope(values, outer), self.budget.held
        for node in graph.nodes:
            self.node(node, scope, self.model.opsets)
        self.budget.held = held
        return [scope[info.name] for info in graph.outputs]

    def node(self, node: Node, scope: Scope, opsets: Mapping[str, int]) -> None:
        """Compute the outputs of a node into the scope."""
        inputs = [scope[name] if name else None for name in node.inputs]
        results = self._results(node, inputs, scope, opsets)
        for name, value in zip(node.outputs, results, strict=False):
            if name:
                scope.values[name] = value

    def _results(self, node: Node, inputs: list[Any], scope: Scope, opsets: Mapping[str, int]) -> Sequence[Any]:
        function = self.model.function(node)
        if function is not None:
            return self._call(function, node, inputs, scope, opsets)
        results = self._computed(node, inputs, scope, opsets)
        self.budget.check(node, inputs, results)
        return results

    def _computed(self, node: Node, inputs: list[Any], scope: Scope, opsets: Mapping[str, int]) -> Sequence[Any]:
        is_known = not any_traced(inputs)
        count = self.budget.foretell(node, inputs) if is_known and not subgraphs(node) else 0
        handler = handler_of(node.domain, node.op_type, opsets.get(node.domain, 1))
        if is_known and count <= MOST_FOLDED and host.folds(node, inputs):
            return self._folded(handler, node, inputs, scope, opsets)
        try:
            if handler is None:
                raise NeedsHost(f"{node.where} has no compiled form")
            call = Call(node, opsets.get(node.domain, 1), self, scope, inputs)
            return _as_sequence(self._guarded(handler, call))
        except NeedsHost as cause:
            cause.where = cause.where or node.where
            cause.names = outside(node, cause.names)
            if subgraphs(node) or not is_known:
                raise
            return host.run(node, [host.as_numpy(value) for value in inputs], opsets)

    def _folded(
        self, handler: Any, node: Node, inputs: list[Any], scope: Scope, opsets: Mapping[str, int]
    ) -> Sequence[Any]:
        """What is known while tracing: from the reference implementation where it has the meaning of this opset.

        The reference has a few of the older meanings only; where there is none it fails, or computes the newest one.
        """
        _refuse_nonsense(node, inputs)
        call = Call(node, opsets.get(node.domain, 1), self, scope, inputs)
        if handler is not handler_of(node.domain, node.op_type, NEWEST):
            return self._at_once(handler, call)
        try:
            return host.run(node, inputs, opsets)
        except ModelFileError as error:
            if handler is None:
                raise
            try:
                return self._at_once(handler, call)
            except NeedsHost:
                raise error from None

    def _at_once(self, handler: Any, call: Call) -> Sequence[Any]:
        """What a handler computes from known values, as NumPy arrays also where a program is being traced."""
        with jax.ensure_compile_time_eval():
            return [host.as_numpy(value) for value in _as_sequence(self._guarded(handler, call))]

    def _guarded(self, handler: Any, call: Call) -> Any:
        """Run a handler; its errors name the node."""
        try:
            return handler(call, *call.inputs)
        except (NeedsHost, *NOT_ABOUT_INPUTS):
            raise
        except ModelFileError:
            raise
        except MemoryError as error:
            raise ModelFileError("", call.node.where, "memory", "as much as the node needs", "less") from error
        except (SingaxError, *FROM_BELOW) as error:
            text = (str(error).splitlines() or [""])[0].removeprefix("expected ")
            raise ModelFileError("", call.node.where, "inputs", text, described(call.inputs)) from error

    def _call(
        self, function: Function, node: Node, inputs: list[Any], scope: Scope, opsets: Mapping[str, int]
    ) -> list[Any]:
        given = {**function.attributes, **node.attributes}
        values = dict(zip(function.inputs, [*inputs, *[None] * len(function.inputs)], strict=False))
        body = Scope({"": None, **values})
        with self._known_inside(function, node, inputs, scope):
            for inner in function.nodes:
                try:
                    self.node(with_attributes(inner, given), body, {**opsets, **function.opsets})
                except NeedsHost as cause:
                    cause.names = outside_call(function, node, cause.names)
                    raise
        return [body.values.get(name) for name in function.outputs]

    @contextmanager
    def _known_inside(self, function: Function, node: Node, inputs: list[Any], scope: Scope) -> Iterator[None]:
        """Inside a function, names are its own: its inputs are known where those of the call are."""
        pairs = zip(function.inputs, node.inputs, inputs, strict=False)
        found = {inner: self.known_value(name, value, scope) for inner, name, value in pairs if name in self.known}
        outer, self.known = self.known, {name: value for name, value in found.items() if value is not None}
        try:
            yield
        finally:
            self.known = outer

    @contextmanager
    def reports(self) -> Iterator[Callable[[], dict[str, Any]]]:
        """Collect what is watched in a program; the function gives the report as an output "", if there is one."""
        if self.checks is None:
            yield dict
            return
        checks = self.checks
        with checks.apart() as first:
            yield lambda: {"": first()} if checks.watching else {}

    # -- what handlers ask for --------------------------------------------------------------------------------------

    def known_value(self, name: str, value: Any, scope: Scope) -> np.ndarray | None:
        """The numbers of a value, where they do not depend on data."""
        if name in self.known and scope[name] is value:
            return self.known[name]
        return None if traced(value) else np.asarray(value)

    def random_key(self, call: Call) -> jax.Array:
        """A key for one draw of a node."""
        seed = call.attribute("seed")
        if seed is not None:
            return jax.random.key(np.uint32(zlib.crc32(np.float32(seed).tobytes())))
        self._draws += 1
        base = jax.random.key(0) if self._key is None else self._key
        return jax.random.fold_in(base, self._draws)


def _as_sequence(results: Any) -> Sequence[Any]:
    return results if isinstance(results, tuple) else (results,)


def with_attributes(node: Node, given: Mapping[str, Any]) -> Node:
    """A node of a function with the attributes of the call; one that is not given is left out."""
    changed = {name: _resolved(value, given) for name, value in node.attributes.items()}
    kept = {name: value for name, value in changed.items() if value is not None}
    return Node(node.op_type, node.domain, node.name, node.inputs, node.outputs, kept, node.overload)


def _resolved(value: Any, given: Mapping[str, Any]) -> Any:
    if isinstance(value, Reference):
        return given.get(value.name)
    if isinstance(value, Graph):
        nodes = [with_attributes(node, given) for node in value.nodes]
        return Graph(value.name, value.inputs, value.outputs, value.constants, nodes, value.needed)
    return value


def traced_array(value: Any) -> Any:
    """A value as JAX takes it; sequences item by item."""
    if isinstance(value, list):
        return [traced_array(item) for item in value]
    return jnp.asarray(value) if isinstance(value, np.ndarray) and value.dtype != object else value


def _refuse_nonsense(node: Node, inputs: list[Any]) -> None:
    """Raise `ModelFileError` for known inputs that the reference implementation would take although they are wrong."""
    try:
        before.refuse_nonsense(node, inputs)
    except (SingaxError, *FROM_BELOW) as error:
        found = described(inputs)
        raise ModelFileError("", node.where, "inputs", str(error).removeprefix("expected "), found) from error
