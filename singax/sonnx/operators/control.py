"""If, Loop, Scan and SequenceMap.

What is known while tracing is followed in Python; what depends on data becomes `lax.cond`, `while_loop` or `scan` where
every value keeps its shape and dtype, and runs on the host otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from singax.errors import ModelFileError
from singax.mode import traced
from singax.sonnx.importer.budget import Growth
from singax.sonnx.importer.checks import Condition, earlier
from singax.sonnx.importer.evaluate import traced_array
from singax.sonnx.importer.graph import Graph
from singax.sonnx.importer.patience import patient_while
from singax.sonnx.operators.geometry import affordable
from singax.sonnx.registry import Call, NeedsHost, onnx_operator

MOST_UNROLLED = 8
MOST_UNWATCHED = 1 << 12
"""A loop that may have more trips can be interrupted."""
MOST_NESTED = 16
"""Bodies inside bodies in one program: Python's stack is finite, and so is XLA's."""

Values = Sequence[Any]


@onnx_operator("If")
def branch(call: Call, condition: Any) -> tuple[Any, ...]:
    """One of two graphs, by a condition."""
    then, other = call.attributes["then_branch"], call.attributes["else_branch"]
    if not traced(condition):
        return tuple(_evaluated(call, then if bool(np.asarray(condition).reshape(())) else other, []))
    made: list[Any] = []

    def body(graph: Graph) -> Any:
        with _inside(call) as report:
            try:
                results = [traced_array(v) for v in _evaluated(call, graph, [])]
            except ModelFileError as error:  # not meant for these shapes: the condition has to be known
                raise NeedsHost(f"a branch cannot be computed: {error}", (call.node.inputs[0],)) from error
            made.append(_kinds(results))
            if made[-1] != made[0] or any(dtype.kind == "O" for _, dtype in made[0][0]):
                raise NeedsHost("the two branches differ in shape or dtype, or give strings", (call.node.inputs[0],))
            return results, report()

    results, report = lax.cond(condition.reshape(()), lambda: body(then), lambda: body(other))
    _take_in(call, report)
    return tuple(results)


@contextmanager
def _inside(call: Call) -> Iterator[Callable[[], Any]]:
    """A body that is traced apart; the function gives the report of what is watched in it, None if nothing can be."""
    evaluator = call.evaluator
    evaluator.depth += 1
    try:
        if evaluator.depth > MOST_NESTED:
            raise NeedsHost(
                f"bodies are nested more than {MOST_NESTED} deep", tuple(filter(None, call.node.inputs[:1]))
            )
        with nullcontext(lambda: None) if evaluator.checks is None else evaluator.checks.apart() as report:
            yield report
    finally:
        evaluator.depth -= 1


def _take_in(call: Call, report: Any) -> None:
    """Hand on the report of a body."""
    if call.evaluator.checks is not None:
        call.evaluator.checks.report(report)


def _evaluated(call: Call, graph: Graph, inputs: Values) -> list[Any]:
    return call.evaluator.graph(graph, inputs, call.scope)


def _kinds(values: Any) -> tuple[list[Any], Any]:
    """Shapes and dtypes, and how lists lie in lists."""
    return [(v.shape, v.dtype) for v in jax.tree.leaves(values)], jax.tree.structure(values)


def _alike(a: Any, b: Any) -> bool:
    return _kinds(a) == _kinds(b)


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
    growth = Growth(call.node, call.evaluator.budget.most)
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
        growth.check(trip, [carried, stacked])
        trip += 1
    return (*carried, *[_stack(call, values, k + len(initial)) for k, values in enumerate(stacked)])


def _stack(call: Call, values: list[Any], position: int) -> Any:
    if values:
        Growth(call.node, call.evaluator.budget.most).check(0, [values, values])
        stack = np.stack if all(isinstance(v, np.ndarray) for v in values) else jnp.stack
        return stack(values)
    info = call.attributes["body"].outputs[1 + position]
    sizes = [n if isinstance(n, int) else 0 for n in info.shape or ()]
    return np.zeros((0, *sizes), info.dtype or np.float32)


def _compiled_loop(call: Call, body: Graph, trips: Any, condition: Any, initial: list[Any]) -> tuple[Any, ...]:
    """`while_loop`, or `scan` where outputs are stacked and the number of trips is known."""
    count = len(initial)
    going = np.asarray(True) if condition is None else condition.reshape(())

    def step(trip: Any, going: Any, carried: Values, report: Any) -> tuple[Any, list[Any], list[Any], Any]:
        with _inside(call) as found:
            out = [traced_array(v) for v in _evaluated(call, body, [trip, going, *carried])]
            if not _alike(out[1 : 1 + count], initial):
                raise NeedsHost("a value of the loop changes its shape or dtype")
            report = None if report is None else earlier(report, found())
        return out[0].reshape(()), out[1 : 1 + count], out[1 + count :], report

    loop = _while if len(body.outputs) == 1 + count else _scanned_loop
    return loop(call, step, trips, going, initial)


def _while(call: Call, step: Any, trips: Any, going: Any, initial: list[Any]) -> tuple[Any, ...]:
    most = jnp.asarray(np.iinfo(np.int64).max if trips is None else trips).reshape(())
    limit = call.evaluator.most_trips
    last = most if limit is None else jnp.minimum(most, limit)
    loop = patient_while if call.evaluator.interruptible and _may_be_long(trips, limit) else lax.while_loop

    def advance(state: Any) -> Any:
        going, carried, _, report = step(*state)
        return state[0] + 1, going, carried, report

    state = (jnp.zeros((), np.int64), jnp.asarray(going), initial, _no_report(call))
    trip, still, carried, report = loop(lambda s: s[1] & (s[0] < last), advance, state)
    _take_in(call, report)
    if limit is not None and call.evaluator.checks is not None:
        wanted = Condition(call.node.where, "trips", f"at most {limit} (most_trips)")
        call.evaluator.checks.add(wanted, still & (trip < most), trip + 1)
    return tuple(carried)


def _may_be_long(trips: Any, limit: int | None) -> bool:
    known = [int(np.asarray(n).reshape(())) for n in (trips, limit) if n is not None and not traced(n)]
    return min(known, default=MOST_UNWATCHED + 1) > MOST_UNWATCHED


def _no_report(call: Call) -> Any:
    return None if call.evaluator.checks is None else jnp.zeros(2, np.int64)


def _scanned_loop(call: Call, step: Any, trips: Any, going: Any, initial: list[Any]) -> tuple[Any, ...]:
    if trips is None or traced(trips):
        raise NeedsHost("the number of trips, which is a size of an output, depends on data", call.node.inputs[:1])
    if traced(going) or not bool(going) or not _always_true(call):
        raise NeedsHost("the loop may end early, and stacks outputs")

    def body(state: Any, trip: Any) -> Any:
        _, new, out, report = step(trip, going, *state)
        return (new, report), out

    length = max(int(np.asarray(trips).reshape(())), 0)
    limit = call.evaluator.most_trips
    if limit is not None and length > limit:
        raise ModelFileError("", call.node.where, "trips", f"at most {limit} (most_trips)", str(length))
    affordable("numbers of trips", (length,))
    (carried, report), stacked = lax.scan(body, (initial, _no_report(call)), jnp.arange(length, dtype=np.int64))
    _take_in(call, report)
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

    def step(state: Any, values: Any) -> Any:
        carried, report = state
        with _inside(call) as found:
            out = [traced_array(v) for v in _evaluated(call, body, [*carried, *values])]
            if not _alike(out[:count], carried):
                raise NeedsHost("a state of Scan changes its shape or dtype")
            report = None if report is None else earlier(report, found())
        return (out[:count], report), out[count:]

    start = (state, _no_report(call))
    scanned = lax.scan(step, start, slices) if length is None else _scan_until(step, start, slices, length)
    (final, report), stacked = scanned
    _take_in(call, report)
    return (*final, *_placed(call, stacked, out_axes))


def _turned(x: Any, length: Any) -> Any:
    """The first `length` entries in reverse order, or all."""
    places = np.arange(x.shape[0])
    return jnp.flip(x, 0) if length is None else x[jnp.where(places < length, length - 1 - places, places)]


def _scan_until(step: Any, state: Any, slices: Any, length: Any) -> Any:
    def masked(state: Any, given: Any) -> Any:
        place, values = given
        new, out = step(state, values)
        kept = jax.tree.map(lambda a, b: jnp.where(place < length, a, b), new, state)
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
