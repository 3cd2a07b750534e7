"""If, Loop and Scan, with bodies that read values of the graph around them."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import GraphProto, helper

from random_graphs.builder import F32, Builder
from random_graphs.casts import code
from random_graphs.elementwise import chain
from random_graphs.rules import fitting, rule
from random_graphs.tame import tame, within
from random_graphs.values import UNIT, Value, both, integers, like, need, rough


def info(x: Value, shape: Any = None) -> Any:
    """How a value is declared: its dtype, its shape only where one is given."""
    return helper.make_tensor_value_info(x.name, code(x.dtype), shape)


def closed(g: Builder, inputs: list[Value], outputs: list[Value]) -> GraphProto:
    """The graph of a child; outputs that it does not compute itself go through Identity."""
    own = {name for node in g.nodes for name in node.output} - {""}
    made, used = [], set()
    for x in outputs:
        if x.name in own and x.name not in used:
            made.append(x)
        else:
            made.append(g.emit("Identity", [x], like(x)))
        used.add(made[-1].name)
    given, results = ([info(x, _declared(x)) for x in values] for values in (inputs, made))
    return helper.make_graph(g.nodes, g.names.fresh(), given, results, g.constants)


def _declared(x: Value) -> list[int] | None:
    """A known shape: onnxruntime wants that of a Loop's iteration number and those of what a Scan stacks."""
    return list(x.shape) if x.fixed else None


def wander(g: Builder, most: int = 3) -> None:
    """Some operators of any kind inside a subgraph."""
    rules = fitting(g.opset, g.depth)
    for _ in range(g.int(0, most)):
        g.attempt(g.choice(rules).make)


def _condition(g: Builder) -> Value:
    """A scalar bool: known, from a shape, or from data."""
    kind = g.int(0, 3)
    if kind == 0:
        return g.constant(np.asarray(g.chance()), "bool")
    if kind == 1:
        x = g.pick(F32, range(1, 5))
        size = g.emit("Size", [x], integers("int64", both(()), 1, x.count()))
        return g.emit("Greater", [size, g.ints(g.int(4, 40))], integers("bool", both(()), 0, 1))
    x = g.pick(("float32", "int64"), exact=True)
    count = x.count()
    total = like(x, shapes=both(()), low=min(x.low * count, x.low), high=max(x.high * count, x.high))
    whole = g.emit("ReduceSum", [x], total, keepdims=0)
    limit = g.constant(0.5 if x.floating else 1, x.dtype, 1)
    return g.emit("Less", [whole, limit], integers("bool", both(()), 0, 1))


@rule("If", 9, deep=True)
def _if(g: Builder) -> Any:
    x, condition = g.pick(F32), _condition(g)
    branches, ends = [], []
    for _ in range(2):
        inner = g.child()
        wander(inner)
        end = x if g.chance(0.2) else chain(inner, x, g.int(1, 3))
        ends.append(end)
        branches.append(closed(inner, [], [end]))
    low, high = min(e.low for e in ends), max(e.high for e in ends)
    grid = max(e.grid or 0 for e in ends) if all(e.exact for e in ends) else None
    result = like(x, low=low, high=high, grid=grid, error=max(e.error for e in ends))
    return g.emit("If", [condition], result, then_branch=branches[0], else_branch=branches[1])


@rule("If", 11, deep=True)
def _if_of_any_shape(g: Builder) -> Any:
    """The branches compute values of one shape in quite different ways."""
    condition = _condition(g)
    then, other = g.child(), g.child()
    wander(then, 5)
    need(then.pool)
    end = g.choice([v for v in then.pool if v.dtype in ("float32", "int64", "bool") and v.fixed])
    number = np.ones(end.shape, end.dtype)
    filler = other.constant(number, end.dtype)
    result = like(end, low=min(end.low, 1), high=max(end.high, 1))
    graphs = [closed(then, [], [end]), closed(other, [], [filler])]
    g.random.shuffle(graphs)
    return g.emit("If", [condition], result, then_branch=graphs[0], else_branch=graphs[1])


def carried(g: Builder, start: Value) -> Value:
    """A loop-carried value as the body receives it: held to ±4, with some error."""
    value = Value(g.names.fresh(), start.dtype, start.shapes, -4, 4, None, max(start.error, 8 * UNIT[start.dtype]))
    g.pool.append(value)
    return value


def _step(inner: Builder, state: Value, inputs: list[Value]) -> tuple[Value, float]:
    """One step of a body: the new state, and how much it multiplies errors."""
    value = state
    for x in inputs:
        high = value.bound + x.bound
        value = inner.emit("Add", [value, x], rough([value, x], state.shapes, -high, high))
    end = within(inner, chain(inner, value, inner.int(1, 3)), -4, 4)
    return end, max(1.0, end.error / state.error)


def _after(state: Value, growth: float, trips: int, shapes: Any) -> Value:
    return like(state, shapes=shapes, error=state.error * growth**trips)


@rule("Loop", 11, deep=True)
def _loop(g: Builder) -> Any:
    start, trips = tame(g, g.pick(F32, range(0, 4)), 4), g.int(1, 4)
    inner = g.child()
    at = integers("int64", both(()), 0, trips - 1)
    at, going = like(at, name=inner.names.fresh()), Value(inner.names.fresh(), "bool", both(()), 0, 1, 0)
    inner.pool += [at, going]
    state = carried(inner, start)
    end, growth = _step(inner, state, [])
    wander(inner, 2)
    keep_on, known = _keep_on(inner, at, going, trips)
    body = closed(inner, [at, going, state], [keep_on, end, end] if known else [keep_on, end])
    count = g.ints(trips)
    results = [_after(state, growth, trips, start.shapes)]
    if known:
        results.append(_after(state, growth, trips, start.mapped(lambda s: [known, *s])))
    condition = None if g.chance() else g.constant(np.asarray(True), "bool")
    return g.emit_all("Loop", [count, condition, start], *results, body=body)


def _keep_on(inner: Builder, at: Value, going: Value, trips: int) -> tuple[Value, int]:
    """The condition of the next iteration, and how many iterations that makes."""
    if inner.chance():
        return going, trips
    limit = inner.int(0, trips - 1)
    more = inner.emit("Less", [at, inner.ints(limit)], integers("bool", both(()), 0, 1))
    return more, min(trips, limit + 1)


@rule("Loop", 11, deep=True)
def _while(g: Builder) -> Any:
    """A loop that ends when an integer, which comes from data, has been doubled often enough."""
    x = g.pick(["int64"], [0], where=lambda v: v.bound <= 64)
    first = g.emit("Abs", [x], like(x, low=0, high=x.bound))
    start = g.emit("Add", [first, g.ints(1)], like(first, low=1, high=first.high + 1))
    inner = g.child()
    at, going, state = (Value(inner.names.fresh(), d, both(()), 0, 64, 0) for d in ("int64", "bool", "int64"))
    doubled = inner.emit("Mul", [state, inner.ints(2)], like(state, high=256))
    more = inner.emit("Less", [doubled, inner.ints(100)], integers("bool", both(()), 0, 1))
    body = closed(inner, [at, going, state], [more, doubled])
    count = g.ints(20) if g.chance() else None
    condition = g.constant(np.asarray(True), "bool")
    return g.emit("Loop", [count, condition, start], like(start, low=2, high=256), body=body)


@rule("Loop", 11, deep=True)
def _as_often_as_rows(g: Builder) -> Any:
    """The trip count is a size of a value: one row of it is added in each iteration."""
    from random_graphs.arithmetic_of_shapes import one_size

    x = tame(g, g.pick(F32, range(1, 4)), 4)
    trips = one_size(g, x, 0, vector=False)
    start = g.constant(np.zeros(x.shapes[0][1:]), "float32") if x.shapes[0][1:] == x.shapes[1][1:] else None
    need(start is not None)
    assert start is not None
    inner, most = g.child(), max(s[0] for s in x.shapes)
    at, going = (Value(inner.names.fresh(), d, both(()), 0, most, 0) for d in ("int64", "bool"))
    state = carried(inner, start)
    row = inner.emit("Gather", [x, at], like(x, shapes=start.shapes), axis=0)
    end, growth = _step(inner, state, [row])
    body = closed(inner, [at, going, state], [going, end, row])
    condition = g.constant(np.asarray(True), "bool")
    results = [_after(state, growth, most, start.shapes), like(x)]
    return g.emit_all("Loop", [trips, condition, start], *results, body=body)


@rule("Scan", 9, deep=True)
def _scan(g: Builder) -> Any:
    x = tame(g, g.pick(F32, range(1, 4)), 4)
    axis = 0 if g.chance(0.6) else x.rank - 1
    cut = x.mapped(lambda s: s[:axis] + s[axis + 1 :])
    need(cut[0] == cut[1])
    start = g.weight(cut[0])
    inner = g.child()
    state = carried(inner, start)
    row = like(x, shapes=cut, name=inner.names.fresh())
    inner.pool.append(row)
    end, growth = _step(inner, state, [row])
    wander(inner, 2)
    body = closed(inner, [state, row], [end, end])
    most = max(s[axis] for s in x.shapes)
    how: dict[str, Any] = {"num_scan_inputs": 1, "body": body}
    if axis or g.chance(0.3):
        how["scan_input_axes"] = [axis]
    if g.chance(0.3):
        how["scan_input_directions"] = [1]
    if g.chance(0.3):
        how["scan_output_directions"] = [1]
    stacked = x.mapped(lambda s: [s[axis], *s[:axis], *s[axis + 1 :]])
    results = [_after(state, growth, most, start.shapes), _after(state, growth, most, stacked)]
    return g.emit_all("Scan", [start, x], *results, **how)
