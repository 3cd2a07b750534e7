"""RNN, GRU and LSTM."""

from __future__ import annotations

from typing import Any

from random_graphs.builder import F32, Builder
from random_graphs.rules import rule
from random_graphs.tame import tame
from random_graphs.values import Shapes, Value, rough


def _sequence_lengths(g: Builder, x: Value) -> Value | None:
    if x.shapes[0][1] != x.shapes[1][1] or g.chance(0.6):
        return None
    return g.ints([g.int(1, x.smallest(0)) for _ in range(x.size(1))], "int32")


def _state(g: Builder, x: Value, directions: int, hidden: int) -> Value | None:
    if x.shapes[0][1] != x.shapes[1][1] or g.chance():
        return None
    return g.weight((directions, x.size(1), hidden))


def _common(g: Builder, gates: int) -> tuple[Value, list[Value | None], dict[str, Any], int, int]:
    x = tame(g, g.pick(F32, [3], where=lambda v: v.shapes[0][2] == v.shapes[1][2]), 4)
    direction = g.choice(["forward", "reverse", "bidirectional"])
    count, hidden, features = 1 + (direction == "bidirectional"), g.int(1, 4), x.size(2)
    w = g.weight((count, gates * hidden, features), bound=0.5)
    r = g.weight((count, gates * hidden, hidden), bound=0.5)
    b = g.weight((count, 2 * gates * hidden), bound=0.5) if g.chance(0.7) else None
    given = [x, w, r, b, _sequence_lengths(g, x), _state(g, x, count, hidden)]
    return x, given, {"hidden_size": hidden, "direction": direction}, count, hidden


def _results(g: Builder, x: Value, count: int, hidden: int, bound: float) -> list[Value]:
    everything: Shapes = x.mapped(lambda s: [s[0], count, s[1], hidden])
    last: Shapes = x.mapped(lambda s: [count, s[1], hidden])
    return [rough([x], shapes, -bound, bound, 16, 32) for shapes in (everything, last)]


@rule("RNN", 7)
def _rnn(g: Builder) -> Any:
    x, given, how, count, hidden = _common(g, 1)
    if g.chance():
        # Relu may grow from step to step: only bounded functions
        how["activations"] = [g.choice(["Tanh", "Sigmoid", "Softsign", "HardSigmoid"]) for _ in range(count)]
    return g.emit_all("RNN", given, *_results(g, x, count, hidden, 1), **how)


@rule("GRU", 7)
def _gru(g: Builder) -> Any:
    x, given, how, count, hidden = _common(g, 3)
    how["linear_before_reset"] = g.int(0, 1)
    if g.chance(0.3):
        how["activations"] = [name for _ in range(count) for name in ("HardSigmoid", g.choice(["Tanh", "Softsign"]))]
    if g.chance(0.2):
        how["clip"] = 1.5
    return g.emit_all("GRU", given, *_results(g, x, count, hidden, 1), **how)


@rule("LSTM", 7)
def _lstm(g: Builder) -> Any:
    x, given, how, count, hidden = _common(g, 4)
    given.append(None if given[5] is None else g.weight(given[5].shape))
    if g.chance(0.3):
        given.append(g.weight((count, 3 * hidden), bound=0.5))
    if g.chance(0.3):
        how["activations"] = ["Sigmoid", g.choice(["Tanh", "Softsign"]), "Tanh"] * count
    if g.chance(0.2):
        how["clip"] = 1.5
    if g.opset >= 7 and g.chance(0.2):
        how["input_forget"] = 1
    steps = max(s[0] for s in x.shapes)
    everything, last = _results(g, x, count, hidden, 1)
    return g.emit_all("LSTM", given, everything, last, rough([x], last.shapes, -steps - 1, steps + 1, 16, 32), **how)
