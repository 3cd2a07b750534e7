"""Fourier transforms and windows."""

from __future__ import annotations

from typing import Any

from random_graphs.builder import F32, WIDE_FLOATS, Builder
from random_graphs.casts import code
from random_graphs.rules import rule
from random_graphs.tame import tame
from random_graphs.values import Value, both, like, rough


@rule("DFT", 17)
def _dft(g: Builder) -> Any:
    x = tame(g, g.pick(F32, [2, 3]), 2)
    axis = g.axis(x)
    column = g.emit("Unsqueeze", [x, g.ints([-1])], _with_last(x, 1))
    count = max(s[axis] for s in x.shapes)
    half = g.chance(0.4)
    shapes = column.mapped(lambda s: [*[n // 2 + 1 if at == axis and half else n for at, n in enumerate(s[:-1])], 2])
    result = rough([x], shapes, -x.bound * count, x.bound * count, count, 8)
    how: dict[str, Any] = {"onesided": int(half)}
    if g.opset < 20:
        return g.emit("DFT", [column], result, axis=axis, **how)
    return g.emit("DFT", [column, None, g.ints(axis)], result, **how)


def _with_last(x: Value, size: int) -> Value:
    return like(x, shapes=x.mapped(lambda s: [*s, size]))


@rule("STFT", 17)
def _stft(g: Builder) -> Any:
    x = tame(g, g.pick(F32, [2], where=lambda v: v.smallest(1) >= 4), 2)
    frame, step = g.choice([2, 4]), g.int(1, 2)
    signal = g.emit("Unsqueeze", [x, g.ints([-1])], _with_last(x, 1))
    weights = g.weight((frame,), bound=1.0) if g.chance() else None
    half = g.chance()
    bins = frame // 2 + 1 if half else frame
    shapes = x.mapped(lambda s: [s[0], (s[1] - frame) // step + 1, bins, 2])
    result = rough([x], shapes, -x.bound * frame, x.bound * frame, frame, 8)
    given = [signal, g.ints(step), weights, g.ints(frame)]
    return g.emit("STFT", given, result, onesided=int(half))


def _window(name: str) -> None:
    @rule(name, 17)
    def make(g: Builder) -> Any:
        size = g.int(3, 8)
        dtype = g.choice(WIDE_FLOATS)
        result = Value("", dtype, both((size,)), -0.01, 1.01, None, 1e-6 if dtype == "float32" else 1e-12)
        return g.emit(name, [g.ints(size)], result, output_datatype=code(dtype), periodic=g.int(0, 1))


for _name in ("HannWindow", "HammingWindow", "BlackmanWindow"):
    _window(_name)


@rule("MelWeightMatrix", 17)
def _mel(g: Builder) -> Any:
    bins, length = g.int(2, 4), g.choice([8, 16])
    given = [g.ints(bins), g.ints(length), g.ints(8000), g.constant(0.0, "float32"), g.constant(4000.0, "float32")]
    result = Value("", "float32", both((length // 2 + 1, bins)), 0, 1, None, 1e-6)
    return g.emit("MelWeightMatrix", given, result)
