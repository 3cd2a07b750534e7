"""Conditions and loops as If, Loop and Scan. Their bodies read what is around them by name."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jax.extend.core import ClosedJaxpr
from onnx import GraphProto

from singax.jaxprs import scan_counts
from singax.sonnx.exporter.equations import Aval, aval_of
from singax.sonnx.exporter.graph import Graph, Ref, value_info
from singax.sonnx.exporter.lowering.dtypes import is_bool
from singax.sonnx.exporter.lowering.movement import BEGIN, cut
from singax.sonnx.exporter.registry import Call, lowers

Programs = tuple[ClosedJaxpr, ...]


@lowers("cond")
def cond(call: Call, index: Ref, *operands: Ref) -> list[Ref]:
    """The branch with a number: If for two, nested ones for more."""
    count = len(call.equation.variants[0].params["branches"])
    branches = [call.equation.inner("branches", k) for k in range(count)]
    if index.value is not None:
        return call.walk(call.graph, branches[int(np.clip(index.value, 0, count - 1))], operands)
    return _choice(call, call.graph, index, branches, operands)


def _choice(call: Call, graph: Graph, index: Ref, branches: list[Programs], operands: Sequence[Ref]) -> list[Ref]:
    """The last branch if the number is its own or a larger one, else one of those before it."""
    if len(branches) == 1:
        return call.walk(graph, branches[0], operands)
    last = len(branches) - 1
    flag = index if is_bool(index) else graph.op("GreaterOrEqual", index, np.asarray(last, index.dtype))
    avals = call.equation.outputs

    def body(chosen: list[Programs]) -> GraphProto:
        inner = Graph(graph.session, graph)
        return finished(inner, _choice(call, inner, index, chosen, operands), avals)

    made = graph.ops("If", flag, outputs=len(avals), then_branch=body(branches[last:]), else_branch=body(branches[:-1]))
    return list(made)


def finished(graph: Graph, results: Sequence[Ref], avals: Sequence[Aval]) -> GraphProto:
    """The graph as a body with these results, each a tensor of its own."""
    own = {output for placed in graph.nodes for output in placed.node.output}
    names: list[str] = []
    for ref in results:
        source = graph.name(ref)
        if source not in own or source in names:
            source = str(graph.op("Identity", Ref(source)).name)
        names.append(source)
    outputs = [value_info(n, None, aval.dtype) for n, aval in zip(names, avals, strict=True)]
    return graph.body([], outputs, "body")


@lowers("while")
def while_loop(call: Call, *operands: Ref) -> list[Ref]:
    """Loop without a limit: it runs as long as its condition holds."""
    condition, body = call.equation.inner("cond_jaxpr"), call.equation.inner("body_jaxpr")
    first, second = call.params["cond_nconsts"], call.params["body_nconsts"]
    asked, fixed, carried = operands[:first], operands[first : first + second], operands[first + second :]
    graph, avals = call.graph, call.equation.outputs
    (start,) = call.walk(graph, condition, [*asked, *carried])
    inner = Graph(graph.session, graph)
    states = _arguments(inner, avals)
    new = call.walk(inner, body, [*fixed, *states])
    _describe(new, avals)
    (going,) = call.walk(inner, condition, [*asked, *new])
    made = _loop(call, inner, None, start, carried, states, [going, *new], len(avals))
    return list(made)


def _loop(
    call: Call,
    inner: Graph,
    trips: Ref | None,
    start: Ref | None,
    carried: Sequence[Ref],
    states: Sequence[Ref],
    results: Sequence[Ref],
    outputs: int,
    extra: Sequence[Aval] = (),
) -> tuple[Ref, ...]:
    """A Loop node around `inner`, whose results are the condition, the states, and what is collected."""
    names = inner.session.names
    head = [value_info(names.take("trip"), [], np.int64), value_info(names.take("going"), [], np.bool_)]
    head += [value_info(str(s.name), None, s.dtype) for s in states]
    avals = [Aval((), np.dtype(bool)), *[Aval(s.shape, s.dtype) for s in states], *extra]
    body = finished(inner, results, avals)
    body.input.extend(head)
    return call.graph.ops("Loop", trips, start, *carried, outputs=outputs, body=body)


@lowers("scan")
def scan(call: Call, *operands: Ref) -> list[Ref]:
    """Scan over the first axis; Loop where there is nothing to scan."""
    params, program = call.params, call.equation.inner("jaxpr")
    consts, carry = scan_counts(call.equation.variants[0].params)
    fixed, carried, xs = operands[:consts], operands[consts : consts + carry], operands[consts + carry :]
    graph = call.graph
    inner = Graph(graph.session, graph)
    inputs = _program_avals(program)
    states, slices = _arguments(inner, inputs[consts : consts + carry]), _arguments(inner, inputs[consts + carry :])
    results = call.walk(inner, program, [*fixed, *states, *slices])
    avals = _result_avals(program)
    if not xs:
        return _counted(call, inner, carried, states, results, avals)
    body = finished(inner, results, avals)
    body.input.extend([value_info(str(s.name), None, s.dtype) for s in [*states, *slices]])
    back = int(params["reverse"])
    made = graph.ops(
        "Scan", *carried, *xs, outputs=len(results), body=body, num_scan_inputs=len(xs),
        scan_input_directions=[back] * len(xs) if back else None,
        scan_output_directions=[back] * (len(results) - carry) if back and len(results) > carry else None,
    )  # fmt: skip
    return list(made)


def _counted(
    call: Call, inner: Graph, carried: Sequence[Ref], states: Sequence[Ref], results: list[Ref], avals: list[Aval]
) -> list[Ref]:
    """A scan over nothing but a number of steps, as Loop."""
    graph, length = call.graph, call.params["length"]
    going = Ref(None, (), np.dtype(bool), np.asarray(True))
    extra = avals[len(states) :]
    trips = graph.scalar(length)
    made = _loop(call, inner, trips, None, carried, states, [going, *results], len(results), extra)
    if not call.params["reverse"]:
        return list(made)
    return [*made[: len(states)], *[cut(graph, ys, {0: (-1, BEGIN, -1)}) for ys in made[len(states) :]]]


def _arguments(graph: Graph, avals: Sequence[Aval]) -> list[Ref]:
    made = [Ref(graph.session.names.take("state"), aval.shape, aval.dtype) for aval in avals]
    for ref in made:
        graph.has_axes(ref)
    return made


def _describe(refs: Sequence[Ref], avals: Sequence[Aval]) -> None:
    for ref, aval in zip(refs, avals, strict=True):
        ref.shape, ref.dtype = aval.shape, aval.dtype


def _program_avals(programs: Programs) -> list[Aval]:
    return [aval_of(row) for row in zip(*[p.in_avals for p in programs], strict=True)]


def _result_avals(programs: Programs) -> list[Aval]:
    return [aval_of(row) for row in zip(*[p.out_avals for p in programs], strict=True)]
