"""If, Loop, Scan and SequenceMap.

What is known while tracing is followed in Python; what depends on data becomes `lax.cond`, `while_loop` or `scan` where
every value keeps its shape and dtype, and runs on the host otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from singax.errors import ModelFileError
from singax.mode import traced
from singax.sonnx.importer.evaluate import traced_array
from singax.sonnx.importer.graph import Graph
from singax.sonnx.registry import Call, NeedsHost, onnx_operator

MOST_UNROLLED = 8

Values = Sequence[Any]


@onnx_operator("If")
def branch(call: Call, condition: Any) -> tuple[Any, ...]:
    """One of two graphs, by a condition."""
    then, other = call.attributes["then_branch"], call.attributes["else_branch"]
    if not traced(condition):
        return tuple(_evaluated(call, then if bool(np.asarray(condition).reshape(())) else other, []))
    try:
        outputs = [[traced_array(v) for v in _abstract(call, graph)] for graph in (then, other)]
    except ModelFileError as error:  # the branch is not meant for these shapes: the condition has to be known
        raise NeedsHost(f"a branch cannot be computed: {error}", (call.node.inputs[0],)) from error
    if not _alike(*outputs):
        raise NeedsHost("the two branches differ in shape or dtype", (call.node.inputs[0],))
    run = [lambda graph=graph: [traced_array(v) for v in _evaluated(call, graph, [])] for graph in (then, other)]
    return tuple(lax.cond(condition.reshape(()), *run))


def _evaluated(call: Call, graph: Graph, inputs: Values) -> list[Any]:
    return call.evaluator.graph(graph, inputs, call.scope)


def _abstract(call: Call, graph: Graph, inputs: Values = ()) -> Any:
    """Shapes and dtypes of a graph's outputs."""
    return jax.eval_shape(lambda *values: [traced_array(v) for v in _evaluated(call, graph, values)], *inputs)


def _alike(a: Any, b: Any) -> bool:
    kinds = [[(v.shape, v.dtype) for v in jax.tree.leaves(values)] for values in (a, b)]
    trees: list[Any] = [jax.tree.structure(values) for values in (a, b)]
    return kinds[0] == kinds[1] and trees[0] == trees[1]


@onnx_operator("Loop")
def loop(call: Call, trips: Any = None, condition: Any = None, *initial: Any) -> tuple[Any, ...]:
    """A body that is run so many times, or as long as a condition holds; its further outputs are stacked."""
    body: Graph = call.attributes["body"]
    if not any(map(traced, jax.tree.leaves([trips, condition, *initial]))) and not _reads_tracers(call, body):
        return _loop_in_python(call, body, trips, condition, initial)
    count = None if trips is None else None if traced(trips) else int(np.asarray(trips).reshape(()))
    if count is not None and count <= MOST_UNROLLED and (condition is None or not traced(condition)):
        try:
            return _loop_in_python(call, body, trips, condition, initial)
        except NeedsHost:
            pass
    return _compiled_loop(call, body, trips, condition, [traced_array(v) for v in initial])


def _reads_tracers(call: Call, body: Graph) -> bool:
    return any(traced(leaf) for name in body.needed for leaf in jax.tree.leaves(call.scope[name]))


def _loop_in_python(call: Call, body: Graph, trips: Any, condition: Any, initial: Values) -> tuple[Any, ...]:
    most = np.iinfo(np.int64).max if trips is None else int(np.asarray(trips).reshape(()))
    going = True if condition is None else bool(np.asarray(condition).reshape(()))
    carried: list[Any] = list(initial)
    stacked: list[list[Any]] = [[] for _ in body.outputs[1 + len(initial) :]]
    trip = 0
    while going and trip < most:
        limit = call.evaluator.most_trips
        if limit is not None and trip >= limit:
            raise ModelFileError("", call.node.where, "trips", f"at most {limit} (most_trips)", "more")
        out = _evaluated(call, body, [np.asarray(trip, np.int64), np.asarray(True), *carried])
        if traced(out[0]):
            raise NeedsHost("the condition of the loop depends on data")
        going, carried = bool(np.asarray(out[0]).reshape(())), out[1 : 1 + len(initial)]
        for found, value in zip(stacked, out[1 + len(initial) :], strict=True):
            found.append(value)
        trip += 1
    return (*carried, *[_stack(call, values, k + len(initial)) for k, values in enumerate(stacked)])


def _stack(call: Call, values: list[Any], position: int) -> Any:
    if values:
        stack = np.stack if all(isinstance(v, np.ndarray) for v in values) else jnp.stack
        return stack(values)
    info = call.attributes["body"].outputs[1 + position]
    sizes = [n if isinstance(n, int) else 0 for n in info.shape or ()]
    return np.zeros((0, *sizes), info.dtype or np.float32)


def _compiled_loop(call: Call, body: Graph, trips: Any, condition: Any, initial: list[Any]) -> tuple[Any, ...]:
    """`while_loop`, or `scan` where outputs are stacked and the number of trips is known."""
    count = len(initial)
    first = jnp.zeros((), np.int64)
    going = np.asarray(True) if condition is None else condition.reshape(())
    shapes = _abstract(call, body, [first, going, *initial])
    if not _alike(shapes[1 : 1 + count], initial):
        raise NeedsHost("a value of the loop changes its shape or dtype")

    def step(trip: Any, going: Any, carried: Values) -> tuple[Any, list[Any], list[Any]]:
        out = [traced_array(v) for v in _evaluated(call, body, [trip, going, *carried])]
        return out[0].reshape(()), out[1 : 1 + count], out[1 + count :]

    if len(shapes) == 1 + count:
        most = jnp.asarray(np.iinfo(np.int64).max if trips is None else trips).reshape(())
        state = lax.while_loop(
            lambda s: s[1] & (s[0] < most), lambda s: (s[0] + 1, *step(*s)[:2]), (first, jnp.asarray(going), initial)
        )
        return tuple(state[2])
    return _scanned_loop(call, step, trips, going, initial)


def _scanned_loop(call: Call, step: Any, trips: Any, going: Any, initial: list[Any]) -> tuple[Any, ...]:
    if trips is None or traced(trips):
        raise NeedsHost("the number of trips, which is a size of an output, depends on data", call.node.inputs[:1])
    if traced(going) or not bool(going) or not _always_true(call):
        raise NeedsHost("the loop may end early, and stacks outputs")

    def body(carried: Any, trip: Any) -> Any:
        _, new, out = step(trip, going, carried)
        return new, out

    length = int(np.asarray(trips).reshape(()))
    carried, stacked = lax.scan(body, initial, jnp.arange(length, dtype=np.int64))
    return (*carried, *stacked)


def _always_true(call: Call) -> bool:
    """Whether the body hands its condition on, or computes a constant true."""
    body: Graph = call.attributes["body"]
    name, given = body.outputs[0].name, body.inputs[1].name
    producers = {out: node for node in body.nodes for out in node.outputs}
    while name in producers and producers[name].op_type == "Identity":
        name = producers[name].inputs[0]
    if name in producers and producers[name].op_type == "Constant":
        return bool(np.asarray(producers[name].attributes.get("value")).reshape(()))
    if name in body.constants:
        return bool(np.asarray(body.constants[name]).reshape(()))
    return name == given


@onnx_operator("Scan", since=1)
def scan_of_batches(call: Call, lengths: Any, *inputs: Any) -> tuple[Any, ...]:
    """Scan as of opset 8: each entry of a batch is scanned, over axis 1, as far as its length; then follow zeros."""
    count = len(inputs) - call.attribute("num_scan_inputs")
    size = np.shape(inputs[0])[0]
    ends = [None] * size if lengths is None else [jnp.asarray(lengths)[k] for k in range(size)]
    results = [
        _scan(call, [x[k] for x in inputs], count, [0] * (len(inputs) - count), None, ends[k]) for k in range(size)
    ]
    return tuple(jnp.stack(values) for values in zip(*results, strict=True))


@onnx_operator("Scan", since=9)
def scan(call: Call, *inputs: Any) -> tuple[Any, ...]:
    """A body that is run over slices of its inputs, with a state; its further outputs are stacked."""
    count = len(inputs) - call.attribute("num_scan_inputs")
    axes = call.attribute("scan_input_axes") or [0] * (len(inputs) - count)
    return _scan(call, inputs, count, axes, call.attribute("scan_output_axes"))


def _scan(
    call: Call, inputs: Values, count: int, axes: Sequence[int], out_axes: Any, length: Any = None
) -> tuple[Any, ...]:
    """Scan over slices; those from `length` on, where there is one, change no state and give zeros."""
    body: Graph = call.attributes["body"]
    state, sequences = [jnp.asarray(v) for v in inputs[:count]], inputs[count:]
    backward = call.attribute("scan_input_directions", call.attribute("directions")) or [0] * len(sequences)
    slices = [
        _turned(jnp.moveaxis(x, a, 0), length) if back else jnp.moveaxis(x, a, 0)
        for x, a, back in zip(sequences, axes, backward, strict=True)
    ]

    def step(carried: Any, values: Any) -> Any:
        out = [traced_array(v) for v in _evaluated(call, body, [*carried, *values])]
        return out[:count], out[count:]

    shapes = jax.eval_shape(step, state, [x[0] for x in slices])
    if not _alike(shapes[0], state):
        raise NeedsHost("a state of Scan changes its shape or dtype")
    final, stacked = lax.scan(step, state, slices) if length is None else _scan_until(step, state, slices, length)
    return (*final, *_placed(call, stacked, out_axes))


def _turned(x: Any, length: Any) -> Any:
    """The first `length` entries in reverse order, or all."""
    places = np.arange(x.shape[0])
    return jnp.flip(x, 0) if length is None else x[jnp.where(places < length, length - 1 - places, places)]


def _scan_until(step: Any, state: Any, slices: Any, length: Any) -> Any:
    def masked(carried: Any, given: Any) -> Any:
        place, values = given
        new, out = step(carried, values)
        kept = [jnp.where(place < length, a, b) for a, b in zip(new, carried, strict=True)]
        return kept, [jnp.where(place < length, v, jnp.zeros_like(v)) for v in out]

    return lax.scan(masked, state, (np.arange(slices[0].shape[0]), slices))


def _placed(call: Call, stacked: Values, out_axes: Any) -> list[Any]:
    reverse = call.attribute("scan_output_directions") or [0] * len(stacked)
    axes = out_axes or [0] * len(stacked)
    turned = [jnp.flip(v, 0) if back else v for v, back in zip(stacked, reverse, strict=True)]
    return [jnp.moveaxis(v, 0, a) for v, a in zip(turned, axes, strict=True)]


@onnx_operator("SequenceMap")
def sequence_map(call: Call, sequence: list[Any], *others: Any) -> tuple[Any, ...]:
    """A body that is run on each entry of a sequence."""
    results = []
    for k, item in enumerate(sequence):
        rest = [other[k] if isinstance(other, list) else other for other in others]
        results.append(_evaluated(call, call.attributes["body"], [item, *rest]))
    return tuple(map(list, zip(*results, strict=True))) if results else tuple([] for _ in call.node.outputs)
