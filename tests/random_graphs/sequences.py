"""Sequences and optionals; they stay inside a rule, which ends in a tensor."""

from __future__ import annotations

from typing import Any

from onnx import helper

from random_graphs.builder import F32, Builder
from random_graphs.casts import code
from random_graphs.control import closed
from random_graphs.elementwise import chain
from random_graphs.rules import rule
from random_graphs.values import Value, both, integers, like, need

_KINDS = ("float32", "int64")


def _hidden(g: Builder, name: str, given: list[Value | None], x: Value, **attributes: Any) -> Value:
    """A node that makes a sequence or optional, which other rules must not see."""
    made = g.emit(name, given, like(x, slack=1), **attributes)
    g.results.remove(made)
    return made


def _sequence(g: Builder, least: int = 1) -> tuple[Value, list[Value]]:
    x = g.pick(_KINDS, range(1, 4))
    items = [x, *(g.pick([x.dtype], [x.rank]) for _ in range(g.int(least - 1, 2)))]
    return _hidden(g, "SequenceConstruct", list(items), x), items


def _taken(g: Builder, sequence: Value, items: list[Value]) -> Value:
    at = g.int(0, len(items) - 1)
    position = g.ints(at - len(items) if g.chance() else at)
    return g.emit("SequenceAt", [sequence, position], like(items[at]))


@rule("SequenceAt", 11)
def _at(g: Builder) -> Any:
    return _taken(g, *_sequence(g))


@rule("SequenceLength", 11)
def _length(g: Builder) -> Any:
    sequence, items = _sequence(g)
    return g.emit("SequenceLength", [sequence], integers("int64", both(()), 1, len(items)))


@rule("SequenceErase", 11)
def _erase(g: Builder) -> Any:
    sequence, items = _sequence(g, least=2)
    at = g.int(0, len(items) - 1)
    position = None if at == len(items) - 1 and g.chance() else g.ints(at)
    fewer = _hidden(g, "SequenceErase", [sequence, position], items[0])
    return _taken(g, fewer, items[:at] + items[at + 1 :])


@rule("SequenceInsert", 11)
def _insert(g: Builder) -> Any:
    if g.chance(0.3):
        x = g.pick(_KINDS, range(1, 4))
        sequence, items = _hidden(g, "SequenceEmpty", [], x, dtype=code(x.dtype)), []
    else:
        sequence, items = _sequence(g)
        x = g.pick([items[0].dtype], range(1, 4))
    at = g.int(0, len(items))
    position = None if at == len(items) and g.chance() else g.ints(at)
    longer = _hidden(g, "SequenceInsert", [sequence, x, position], x)
    return _taken(g, longer, [*items[:at], x, *items[at:]])


@rule("SplitToSequence", 11)
def _split(g: Builder) -> Any:
    x = g.pick(_KINDS, range(1, 4))
    axis = g.axis(x, fixed=True)
    size = x.size(axis)
    kind = g.int(0, 2)
    sizes = [1] * size if kind == 0 else [min(2, size - at) for at in range(0, size, 2)] if kind == 1 else [1, size - 1]
    need(min(sizes) > 0)
    lengths = None if kind == 0 else g.ints(2) if kind == 1 else g.ints(sizes)
    keep = {"keepdims": g.int(0, 1)} if kind == 0 else {}
    sequence = _hidden(g, "SplitToSequence", [x, lengths], x, axis=g.signed(axis, x.rank), **keep)
    flat = kind == 0 and keep["keepdims"] == 0

    def part(n: int) -> Value:
        return like(x, shapes=x.mapped(lambda s: [*s[:axis], *([] if flat else [n]), *s[axis + 1 :]]))

    return _taken(g, sequence, [part(n) for n in sizes])


@rule("ConcatFromSequence", 11)
def _join(g: Builder) -> Any:
    x = g.pick(_KINDS, range(1, 4))
    items = [x, *(g.pick([x.dtype], where=lambda v: v.shapes == x.shapes) for _ in range(g.int(0, 2)))]
    sequence = _hidden(g, "SequenceConstruct", list(items), x)
    bounds = {
        "low": min(v.low for v in items),
        "high": max(v.high for v in items),
        "error": max(v.error for v in items),
    }
    bounds["grid"] = None if any(not v.exact for v in items) else max(v.grid or 0 for v in items)
    axis, count = g.axis(x), len(items)
    if g.chance():
        result = like(x, shapes=x.mapped(lambda s: [*s[:axis], count, *s[axis:]]), **bounds)
        return g.emit("ConcatFromSequence", [sequence], result, axis=axis, new_axis=1)
    result = like(x, shapes=x.mapped(lambda s: [*s[:axis], count * s[axis], *s[axis + 1 :]]), **bounds)
    return g.emit("ConcatFromSequence", [sequence], result, axis=g.signed(axis, x.rank))


# onnxruntime inlines operators that are functions wrongly inside the body of SequenceMap: names of the two clash
_KERNELS = ("Tanh", "Sigmoid", "Exp", "Sin", "Cos", "Sqrt", "Atan", "Erf")


@rule("SequenceMap", 17, deep=True)
def _map(g: Builder) -> Any:
    x = g.pick(F32, range(1, 4))
    items = [x, *(g.pick(F32, where=lambda v: v.shapes == x.shapes) for _ in range(g.int(0, 2)))]
    sequence = _hidden(g, "SequenceConstruct", list(items), x)
    low, high = min(v.low for v in items), max(v.high for v in items)
    inner = g.child()
    error = max(v.error for v in items)
    item = like(x, name=inner.names.fresh(), low=low, high=high, error=error, grid=None)
    inner.pool.append(item)
    end = chain(inner, item, g.int(1, 2), _KERNELS)
    body = closed(inner, [item], [end])
    mapped = _hidden(g, "SequenceMap", [sequence], end, body=body)
    return _taken(g, mapped, [end] * len(items))


@rule("OptionalGetElement", 15)
def _optional(g: Builder) -> Any:
    x = g.pick(_KINDS)
    made = _hidden(g, "Optional", [x], x)
    if g.chance(0.3):
        g.emit("OptionalHasElement", [made], integers("bool", both(()), 1, 1))
    return g.emit("OptionalGetElement", [made], like(x))


@rule("OptionalHasElement", 15)
def _empty(g: Builder) -> Any:
    x = g.pick(_KINDS)
    kind = helper.make_tensor_type_proto(code(x.dtype), None)
    made = _hidden(g, "Optional", [x], x) if g.chance() else _hidden(g, "Optional", [], x, type=kind)
    return g.emit("OptionalHasElement", [made], integers("bool", both(()), 0, 1))
