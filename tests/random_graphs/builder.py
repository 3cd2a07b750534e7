"""A graph under construction: the pool of values, random choices, and nodes."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper

from random_graphs.values import Unfit, Value, both, need, settled

T = TypeVar("T")
FLOATS = ("float32", "float64", "float16")
WIDE_FLOATS = ("float32", "float64")
F32 = ("float32",)
INTS = ("int32", "int64")
NUMBERS = ("float32", "float64", "int32", "int64")
ALL = ("float32", "float64", "float16", "int32", "int64", "uint8", "int8", "bool")


class Names:
    """Fresh names for the values of a model and its subgraphs."""

    def __init__(self) -> None:
        self.used = 0

    def fresh(self) -> str:
        """The next name."""
        self.used += 1
        return f"v{self.used}"


class Builder:
    """A graph that grows node by node; a child builds a subgraph and reads the values of the outer graphs too."""

    def __init__(self, chooser: random.Random, opset: int, names: Names | None = None, outer: Builder | None = None):
        self.random, self.opset, self.names, self.outer = chooser, opset, names or Names(), outer
        self.depth = 0 if outer is None else outer.depth + 1
        self.nodes: list[NodeProto] = []
        self.constants: list[TensorProto] = []
        self.pool: list[Value] = []
        self.results: list[Value] = []

    def child(self) -> Builder:
        """A builder of a subgraph."""
        return Builder(self.random, self.opset, self.names, self)

    # -- choices ----------------------------------------------------------------------------------------------------

    def chance(self, share: float = 0.5) -> bool:
        """True for this share of the draws."""
        return self.random.random() < share

    def choice(self, options: Sequence[T]) -> T:
        """One of the options; `Unfit` if there is none."""
        need(options)
        return self.random.choice(options)

    def int(self, low: int, high: int) -> int:
        """An integer from low to high, both included."""
        need(low <= high)
        return self.random.randint(low, high)

    def axis(self, x: Value, fixed: bool = False) -> int:
        """An axis, one of the same size in both runs if `fixed`."""
        axes = [axis for axis in range(x.rank) if not fixed or x.shapes[0][axis] == x.shapes[1][axis]]
        return self.choice(axes)

    def axes(self, x: Value) -> list[int]:
        """Some axes, at least one, in order."""
        need(x.rank)
        return sorted(self.random.sample(range(x.rank), self.int(1, x.rank)))

    def signed(self, axis: int, rank: int, since: int = 13) -> int:
        """The axis, half of the time counted from the end where the opset allows it."""
        return axis - rank if self.opset >= since and self.chance() else axis

    def values(self) -> list[Value]:
        """All values that may be read here, newest last."""
        return (self.outer.values() if self.outer else []) + self.pool

    def pick(
        self,
        dtypes: Iterable[str] = F32,
        ranks: Iterable[int] | None = None,
        exact: bool = False,
        where: Callable[[Value], Any] = lambda x: True,
    ) -> Value:
        """A value of the pool, a new one more likely; `Unfit` if none is of this kind."""
        kinds, allowed = set(dtypes), None if ranks is None else set(ranks)
        fitting = [
            x
            for x in self.values()
            if x.dtype in kinds and (allowed is None or x.rank in allowed) and (x.exact or not exact) and where(x)
        ]
        need(fitting)
        newest = min(len(fitting) - 1, int(self.random.expovariate(0.4)))
        return fitting[-1 - newest] if self.chance(0.7) else self.choice(fitting)

    # -- constants --------------------------------------------------------------------------------------------------

    def constant(self, numbers: Any, dtype: str, grid: int | None = 0, shared: float = 0.0) -> Value:
        """An initializer or a Constant node; it joins the pool for the given share of the draws."""
        array = np.asarray(numbers, dtype)
        low, high = (float(array.min()), float(array.max())) if array.size else (0.0, 0.0)
        value = Value(self.names.fresh(), dtype, both(array.shape), low, high, grid, numbers=array)
        if self.chance(0.7):
            self.constants.append(numpy_helper.from_array(array, value.name))
        else:
            made = helper.make_node("Constant", [], [value.name], value=numpy_helper.from_array(array))
            self.nodes.append(made)
        if self.chance(shared):
            self.pool.append(value)
        return value

    def ints(self, numbers: Any, dtype: str = "int64") -> Value:
        """An integer constant."""
        return self.constant(numbers, dtype)

    def weight(
        self, shape: Iterable[int], dtype: str = "float32", bound: float = 1.0, low: float | None = None
    ) -> Value:
        """A float constant of multiples of 1/8 (of `bound`, for small ones) between `low` and `bound`."""
        step = min(bound / 4, 0.125)
        first = round((-bound if low is None else low) / step)
        size = tuple(shape)
        count = int(np.prod(size))
        drawn = [self.random.randint(first, round(bound / step)) * step for _ in range(count)]
        return self.constant(np.reshape(drawn, size), dtype, int(np.ceil(-np.log2(step))), shared=0.15)

    # -- nodes ------------------------------------------------------------------------------------------------------

    def emit(self, op_type: str, inputs: Sequence[Value | None], *results: Value, **attributes: Any) -> Value:
        """Add a node; the first of its outputs. All outputs join the pool."""
        return self.emit_all(op_type, inputs, *results, **attributes)[0]

    def emit_all(self, op_type: str, inputs: Sequence[Value | None], *results: Value, **attributes: Any) -> list[Value]:
        """Add a node; its outputs."""
        made = [replace(settled(result), name=self.names.fresh(), numbers=None) for result in results]
        given = {name: value for name, value in attributes.items() if value is not None}
        names = ["" if x is None else x.name for x in inputs]
        while names and not names[-1]:
            names.pop()
        self.nodes.append(helper.make_node(op_type, names, [x.name for x in made], **given))
        self.pool += [x for x in made if not x.slack]
        self.results += made
        return made

    def attempt(self, rule: Callable[[Builder], Any]) -> bool:
        """Apply a rule; whether it fitted. One that does not leaves nothing behind."""
        marks = len(self.nodes), len(self.constants), len(self.pool), len(self.results)
        try:
            rule(self)
        except Unfit:
            for items, mark in zip((self.nodes, self.constants, self.pool, self.results), marks, strict=True):
                del items[mark:]
            return False
        return True
