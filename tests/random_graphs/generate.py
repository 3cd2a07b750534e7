"""A whole model from a seed, with the inputs of its runs."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from random_graphs import families  # noqa: F401  (fills the table of rules)
from random_graphs.builder import Builder
from random_graphs.casts import code
from random_graphs.rules import Rule, fitting
from random_graphs.values import Shape, Value, integers

OPSETS = (7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23)
_WEIGHTS = (1, 1, 3, 3, 3, 3, 4, 3, 3, 4, 4, 4, 3, 4, 4, 4, 8)
_RANGES = {"int64": (-6, 6), "int32": (-6, 6), "uint8": (0, 20), "int8": (-10, 10), "bool": (0, 1)}
_KINDS = ("float32", "float32", "float32", "int64", "int32", "bool", "float16", "float64", "uint8", "int8")


# what a family likes to have: ranks of the first inputs, the dtype of the second one
_THEMES: dict[str, tuple[Any, str]] = {
    "arithmetic": ([1, 2, 3], "bool"),
    "windows": ([3, 4], "float32"),
    "norms": ([3, 4], "float32"),
    "recurrent": ([3], "float32"),
    "quantized": ([2, 4], "uint8"),
    "vision": ([3, 4], "float32"),
    "signal": ([2, 3], "float32"),
    "scores": ([2, 4], "int64"),
    "indexing": ([1, 2, 3], "int64"),
    "control": ([0, 1, 2, 3], "int64"),
}


@dataclass(frozen=True)
class RandomModel:
    """A model, the inputs of one or two runs, and what is known of its outputs."""

    seed: int
    proto: onnx.ModelProto
    feeds: list[dict[str, np.ndarray]]
    outputs: list[Value]


def random_model(seed: int, only: Rule | None = None, opset: int | None = None) -> RandomModel:
    """The model of a seed: the same on every machine. `only` adds nodes of one rule (to look at a rule alone)."""
    chooser = random.Random(seed)
    opset = opset or chooser.choices(OPSETS, _WEIGHTS)[0]
    g = Builder(chooser, opset)
    theme = chooser.choice(sorted({r.family for r in fitting(opset, 0)}))
    inputs, symbols = _inputs(g, theme)
    wanted = chooser.randint(5, 15)
    _grow(g, fitting(opset, 0) if only is None else [only], theme, wanted)
    outputs = _outputs(g)
    feeds = [_feeds(inputs, chooser.randrange(1 << 30), run) for run in ((0, 1) if symbols else (0,))]
    proto = _proto(g, inputs, outputs, opset, seed)
    if len(feeds) == 1 and g.chance(0.1):
        _freeze(proto, feeds[0])
    return RandomModel(seed, proto, feeds, outputs)


def _freeze(proto: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> None:
    """Make the inputs initializers: everything is known then."""
    proto.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in feeds.items())
    del proto.graph.input[:]
    feeds.clear()


def _grow(g: Builder, rules: list[Rule], theme: str, wanted: int) -> None:
    """Half of the draws come from the theme's family, so that operators with rare inputs are not crowded out."""
    own = [r for r in rules if r.family == theme] or rules
    for _ in range(40 * wanted):
        if len(g.nodes) >= wanted:
            return
        g.attempt(g.choice(own if g.chance() else rules).make)


def _inputs(g: Builder, theme: str) -> tuple[list[tuple[Value, list[Any]]], dict[str, tuple[int, int]]]:
    names = {"N": (2, 3), "T": (4, 6), "M": (3, 5)}
    symbols = {"N": names["N"], **({"T": names["T"]} if g.chance() else {})} if g.chance(0.45) else {}
    made: list[tuple[Value, list[Any]]] = []
    for at in range(g.int(1, 3)):
        dtype = "float32" if at == 0 else g.choice(_KINDS)
        ranks, second = _THEMES.get(theme, (range(6), dtype))
        rank = g.choice(ranks) if at < 2 and g.chance(0.7) else g.random.choices(range(6), [1, 3, 5, 6, 7, 1])[0]
        value, dims = _input(g, second if at == 1 and g.chance(0.6) else dtype, rank, symbols)
        made.append((value, dims))
        g.pool.append(value)
    used = {name: symbols[name] for _, dims in made for name in dims if name in symbols}
    return made, used


def _input(g: Builder, dtype: str, rank: int, symbols: dict[str, tuple[int, int]]) -> tuple[Value, list[Any]]:
    dims: list[Any] = [g.choice([1, 2, 3, 4, 4, 5, 6]) for _ in range(rank)]
    for name in symbols:
        if rank and g.chance(0.8):
            dims[g.choice([0, 0, g.int(0, rank - 1)])] = name
    first, second = (tuple(symbols[d][run] if d in symbols else d for d in dims) for run in (0, 1))
    name = g.names.fresh()
    if dtype in _RANGES:
        low, high = _RANGES[dtype]
        low = 0 if dtype == "int64" and g.chance(0.3) else low
        made = integers(dtype, (first, second), low, high)
        return Value(name, dtype, made.shapes, low, high, 0), dims
    grid = (2 if dtype == "float16" else 3) if g.chance(0.7) else None
    return Value(name, dtype, (first, second), -4, 4, grid), dims


def _feeds(inputs: list[tuple[Value, list[Any]]], seed: int, run: int) -> dict[str, np.ndarray]:
    drawn = np.random.default_rng([seed, run])
    return {x.name: _numbers(drawn, x, x.shapes[run]) for x, _ in inputs}


def _numbers(drawn: np.random.Generator, x: Value, shape: Shape) -> np.ndarray:
    if x.grid is None:
        return np.asarray(drawn.normal(0, 1.5, shape).clip(-4, 4), x.dtype)
    steps = drawn.integers(x.low * 2**x.grid, x.high * 2**x.grid, shape, endpoint=True)
    return np.asarray(steps / 2**x.grid if x.floating else steps, x.dtype)


def _outputs(g: Builder) -> list[Value]:
    """What no node reads, and some other values."""
    read = {name for graph in _graphs(g.nodes) for node in graph for name in node.input}
    kept = [x for x in g.results if x.name not in read or g.chance(0.1)]
    return kept or g.results[-1:]


def _graphs(nodes: Any) -> Iterator[Any]:
    yield nodes
    for node in nodes:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from _graphs(attribute.g.node)


def _proto(
    g: Builder, inputs: list[tuple[Value, list[Any]]], outputs: list[Value], opset: int, seed: int
) -> onnx.ModelProto:
    given = [helper.make_tensor_value_info(x.name, code(x.dtype), dims) for x, dims in inputs]
    made = [helper.make_tensor_value_info(x.name, code(x.dtype), None) for x in outputs]
    graph = helper.make_graph(g.nodes, f"random graph {seed}", given, made, g.constants)
    imports = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8 if opset < 19 else 10)


def operators(proto: onnx.ModelProto) -> set[str]:
    """The operators of a model, those in subgraphs included."""
    return {node.op_type for graph in _graphs(proto.graph.node) for node in graph}
