"""The graph of a file while it is written: values, nodes, constants, and sizes that are computed when it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import GraphProto, NodeProto, helper, numpy_helper

from singax.errors import ExportError
from singax.sonnx.exporter.names import Names
from singax.sonnx.exporter.symbolic import Dim, Expression, Size, expression, is_static, rounded_down

Scope = tuple[int, ...]
INITIALIZER_BYTES = 1024  # constants from this size on are stored once, beside the parameters


@dataclass(eq=False)
class Ref:
    """A value: a tensor of the graph, or a constant that no node has needed yet.

    A constant has a `value`, or, if it is a number that follows from unknown sizes, what it was in each trace.
    """

    name: str | None
    shape: tuple[Size, ...] = ()
    dtype: Any = None
    value: np.ndarray | None = None
    samples: tuple[Any, ...] | None = None

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)


Operand = Ref | np.ndarray | None


@dataclass
class Placed:
    """A node and the layer calls that it lies in."""

    node: NodeProto
    scope: Scope


@dataclass
class Session:
    """What all graphs of one file share."""

    opset: int
    symbols: Mapping[str, Dim] = field(default_factory=dict)
    names: Names = field(default_factory=Names)
    initializers: dict[str, np.ndarray] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    scope: Scope = ()
    large: dict[bytes, str] = field(default_factory=dict)

    def problem(self, text: str) -> None:
        """Note something that cannot be exported; all of it is reported together."""
        if text not in self.problems:
            self.problems.append(text)


class Graph:
    """Collects nodes in order. A body of Loop, Scan or If is a graph with a parent, whose tensors it may read."""

    def __init__(self, session: Session, parent: Graph | None = None) -> None:
        self.session, self.parent = session, parent
        self.nodes: list[Placed] = []
        self._constants: dict[Any, str] = {}
        self._symbols: dict[str, str] = {} if parent is None else parent._symbols
        self._axes: dict[tuple[int, ...], tuple[str, int]] = {} if parent is None else dict(parent._axes)

    # -- nodes ------------------------------------------------------------------------------------------------------

    def op(self, op_type: str, *inputs: Operand, domain: str = "", **attributes: Any) -> Ref:
        """The first output of a new node."""
        return self.ops(op_type, *inputs, domain=domain, **attributes)[0]

    def ops(
        self, op_type: str, *inputs: Operand, outputs: int = 1, domain: str = "", **attributes: Any
    ) -> tuple[Ref, ...]:
        """The outputs of a new node; None is an absent input, or an absent attribute."""
        names = [self.name(value) for value in inputs]
        while names and not names[-1]:
            names.pop()
        made = [Ref(self.session.names.take(op_type)) for _ in range(outputs)]
        given = {key: value for key, value in attributes.items() if value is not None}
        node = helper.make_node(op_type, names, [str(ref.name) for ref in made], domain=domain, **given)
        self.nodes.append(Placed(node, self.session.scope))
        return tuple(made)

    def name(self, value: Operand) -> str:
        """The name of a tensor; a constant is written into the file first."""
        if value is None:
            return ""
        if isinstance(value, np.ndarray | np.generic):
            return self._constant(np.asarray(value))
        if value.name is not None:
            return value.name
        if value.samples is not None:
            return str(self._following(value).name)
        assert value.value is not None, "a Ref has a name, a value or samples"
        return self._constant(value.value)

    def _constant(self, value: np.ndarray) -> str:
        key = (value.tobytes(), value.dtype, value.shape)
        if value.nbytes >= INITIALIZER_BYTES:
            return self._large(repr(key[1:]).encode() + key[0], value)
        placed = (*key, self.session.scope)
        if placed not in self._constants:
            name = self.session.names.take("constant")
            tensor = numpy_helper.from_array(value)
            self.nodes.append(Placed(helper.make_node("Constant", [], [name], value=tensor), self.session.scope))
            self._constants[placed] = name
        return self._constants[placed]

    def _large(self, key: bytes, value: np.ndarray) -> str:
        if key not in self.session.large:
            name = self.session.large[key] = self.session.names.take("constant")
            self.session.initializers[name] = value
        return self.session.large[key]

    # -- sizes ------------------------------------------------------------------------------------------------------

    def has_axes(self, ref: Ref) -> None:
        """Note the sizes of a tensor, which others may need."""
        for axis, size in enumerate(ref.shape):
            if isinstance(size, Dim) and ref.name is not None:
                self._axes.setdefault(size.samples, (ref.name, axis))

    def sizes(self, sizes: Sequence[Size]) -> Ref:
        """The sizes as an int64 vector."""
        if is_static(sizes):
            return constant(np.asarray(sizes, np.int64).reshape(len(sizes)))
        parts = [self.size(size) for size in sizes]
        return self.op("Concat", *parts, axis=0) if len(parts) > 1 else parts[0]

    def scalar(self, size: Size) -> Ref:
        """A size as an int64 scalar."""
        if isinstance(size, int):
            return constant(np.asarray(size, np.int64))
        return self.op("Squeeze", self.size(size), np.zeros(1, np.int64))

    def size(self, size: Size) -> Ref:
        """A size as an int64 vector of length 1."""
        if isinstance(size, int):
            return constant(np.asarray([size], np.int64))
        symbols = self.session.symbols
        found = expression(size, symbols)
        if found is None and size.samples in self._axes:
            return self._axis(*self._axes[size.samples])
        found = found or rounded_down(size, symbols)
        if found is None:
            raise ExportError(
                f"a size follows from {', '.join(symbols)} in a way that is not supported: give that size"
            )
        return self._computed(found)

    def _computed(self, found: Expression) -> Ref:
        total: Ref | None = None
        for names, factor in found.terms:
            factors: list[Ref] = [Ref(self._symbols[name]) for name in names]
            if factor != 1 or not factors:
                factors.append(constant(np.asarray([factor], np.int64)))
            product = factors[0]
            for other in factors[1:]:
                product = self.op("Mul", product, other)
            total = product if total is None else self.op("Add", total, product)
        assert total is not None, "an expression has terms"
        return total if found.divisor == 1 else self.op("Div", total, np.asarray([found.divisor], np.int64))

    def _following(self, ref: Ref) -> Ref:
        """A constant that follows from unknown sizes."""
        assert ref.samples is not None, "the caller has asked"
        if not is_static(ref.shape):
            steps = self.op("Range", np.asarray(0, np.int64), self.scalar(ref.shape[0]), np.asarray(1, np.int64))
            return self.op("Cast", steps, to=element_type(ref.dtype))
        columns = zip(*[sample.ravel().tolist() for sample in ref.samples], strict=True)
        numbers = [self._number(column, ref.dtype) for column in columns]
        if not ref.shape:
            return numbers[0]
        parts = [self.op("Unsqueeze", number, np.zeros(1, np.int64)) for number in numbers]
        return self.op("Reshape", self.op("Concat", *parts, axis=0), np.asarray(ref.shape, np.int64))

    def _number(self, samples: Sequence[Any], dtype: Any) -> Ref:
        """A scalar that follows from unknown sizes: a size, its root, or one divided by these."""
        if len(set(samples)) == 1:
            return constant(np.asarray(samples[0], dtype))
        for power in (1.0, -1.0, 0.5, -0.5):
            powers = np.asarray(samples, np.float64) ** (1 / power)
            whole = np.round(powers)
            if np.all(np.abs(powers - whole) <= 1e-6 * np.abs(whole)) and whole.any():
                number = self.op("Cast", self.scalar(Dim([int(n) for n in whole])), to=element_type(dtype))
                return number if power == 1 else self.op("Pow", number, np.asarray(power, dtype))
        raise ExportError(f"the number {samples[0]} follows from an unknown size in a way that is not supported")

    def _axis(self, name: str, axis: int) -> Ref:
        return self.op("Gather", self.op("Shape", Ref(name)), np.asarray([axis], np.int64), axis=0)

    def defines_symbols(self, inputs: Sequence[tuple[str, Sequence[Size]]]) -> None:
        """Compute the symbols, from the first inputs that have them, at the top of the graph."""
        for symbol, size in self.session.symbols.items():
            for name, sizes in inputs:
                if size in sizes and symbol not in self._symbols:
                    self._symbols[symbol] = str(self._axis(name, list(sizes).index(size)).name)

    # -- bodies -----------------------------------------------------------------------------------------------------

    def body(self, inputs: Sequence[Any], outputs: Sequence[Any], name: str) -> GraphProto:
        """The graph as the body of a node; `inputs` and `outputs` are value infos."""
        return helper.make_graph([placed.node for placed in self.nodes], name, list(inputs), list(outputs))


def constant(value: Any) -> Ref:
    """A constant that is written into the file when a node reads it."""
    array = np.asarray(value)
    return Ref(None, array.shape, array.dtype, array)


def element_type(dtype: Any) -> int:
    """The number of a dtype in onnx; `ExportError` if it has none."""
    try:
        return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    except (KeyError, TypeError, ValueError):
        raise ExportError(f"ONNX has no dtype {dtype}") from None


def value_info(name: str, shape: Sequence[Any] | None, dtype: Any) -> Any:
    """A declared tensor; sizes are ints, names, or None."""
    return helper.make_tensor_value_info(name, element_type(dtype), shape)
