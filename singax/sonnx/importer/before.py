"""What is looked at before a node with known inputs is computed: how large its results will be, and whether it divides
integers by zero.

NumPy would allocate at once what a tensor of two numbers asks for. The sizes are Python integers; they are exact for
the operators that make shapes from values, and not too small for all others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from singax.errors import ArgumentError, ModelFileError
from singax.ops.explain import FROM_BELOW
from singax.sonnx.importer.graph import Node

Inputs = Sequence[Any]


def elements(node: Node, inputs: Inputs) -> int:
    """How many elements the results of a node have at most, or the bytes of its strings.

    Raises `ModelFileError` for inputs that are no inputs of the operator.
    """
    rule = _RULES.get(node.op_type, _usual)
    try:
        return max(int(rule(node, inputs)), 0)
    except FROM_BELOW as error:
        raise ModelFileError("", node.where, "inputs", "values that give a shape", str(error)) from error


def refuse_division(op_type: str, a: Any, b: Any) -> None:
    """Raise `ArgumentError` for known integers without a quotient."""
    if not np.size(a) or not np.size(b) or not np.issubdtype(b.dtype, np.integer):
        return
    if np.any(np.asarray(b) == 0):
        raise ArgumentError("expected a divisor other than 0. Received: 0")
    if op_type == "Div" and np.issubdtype(b.dtype, np.signedinteger):
        least = np.iinfo(b.dtype).min
        if np.any((np.asarray(b) == -1) & (np.asarray(a) == least)):
            raise ArgumentError(f"expected a quotient that {b.dtype} holds. Received: {least} / -1")


def refuse_nonsense(node: Node, inputs: Inputs) -> None:
    """Raise `ArgumentError` for known integers without a quotient, or known indices that are out of range."""
    if node.op_type in ("Div", "Mod"):
        refuse_division(node.op_type, *inputs)
    elif node.op_type in ("Gather", "GatherElements", "Scatter", "ScatterElements"):
        axis = node.attributes.get("axis", 0)
        _refuse_index(inputs[1], np.shape(inputs[0])[axis])
    elif node.op_type in ("GatherND", "ScatterND"):
        batch = node.attributes.get("batch_dims", 0)
        for place in range(np.shape(inputs[1])[-1]):
            _refuse_index(inputs[1][..., place], np.shape(inputs[0])[batch + place])


def refuse_outside(values: np.ndarray, low: int, high: int, what: str = "indices", ignored: int | None = None) -> None:
    """Raise `ArgumentError` for a known value outside low … high, other than `ignored`."""
    wrong = (values < low) | (values > high)
    if ignored is not None:
        wrong &= values != ignored
    if wrong.any():
        raise ArgumentError(f"expected {what} from {low} to {high}. Received: {values[wrong].reshape(-1)[0]}")


def _refuse_index(indices: np.ndarray, length: int) -> None:
    refuse_outside(indices, -length, length - 1)


def _leaves(values: Any) -> list[Any]:
    found: list[Any] = []
    for value in values:
        found += _leaves(value) if isinstance(value, list | tuple) else [] if value is None else [value]
    return found


def _usual(node: Node, inputs: Inputs) -> int:
    """All inputs broadcast against each other, or one behind the other: whichever is more."""
    shapes = [np.shape(value) for value in _leaves(inputs)]
    total = sum(map(math.prod, shapes))
    rank = max(map(len, shapes), default=0)
    return max(total, math.prod(max((s[-k] for s in shapes if k <= len(s)), default=1) for k in range(1, rank + 1)))


def _ints(inputs: Inputs, place: int) -> list[int] | None:
    """The numbers of an input, None if it is absent."""
    value = inputs[place] if place < len(inputs) else None
    return None if value is None else [int(n) for n in np.asarray(value).reshape(-1)]


def _shape(inputs: Inputs, place: int = 0) -> tuple[int, ...]:
    return tuple(np.shape(inputs[place]))


def _expand(node: Node, inputs: Inputs) -> int:
    x, wanted = list(_shape(inputs)), _ints(inputs, 1) or list(node.attributes.get("shape", []))
    rank = max(len(x), len(wanted))
    pairs = zip([1] * (rank - len(x)) + x, [1] * (rank - len(wanted)) + wanted, strict=True)
    return math.prod(b if a == 1 else a for a, b in pairs)


def _tile(node: Node, inputs: Inputs) -> int:
    return math.prod(_shape(inputs)) * math.prod(max(n, 0) for n in _ints(inputs, 1) or [])


def _split(node: Node, inputs: Inputs) -> int:
    count = node.attributes.get("num_outputs", len(node.outputs))
    if count != len(node.outputs):
        raise ArgumentError(f"{len(node.outputs)} in num_outputs. Received: {count}")
    return math.prod(_shape(inputs))


def _range(node: Node, inputs: Inputs) -> int:
    first, last, step = (np.asarray(value).reshape(()).item() for value in inputs[:3])
    if step == 0:
        return 0
    if all(isinstance(n, int) for n in (first, last, step)):
        return -((first - last) // step)
    return math.ceil((last - first) / step)


def _constant_of_shape(node: Node, inputs: Inputs) -> int:
    sizes = _ints(inputs, 0) or node.attributes.get("shape") or []
    if min(sizes, default=0) < 0:
        raise ArgumentError(f"sizes of 0 or more. Received: {list(sizes)}")
    return math.prod(sizes)


def _one_hot(node: Node, inputs: Inputs) -> int:
    return math.prod(_shape(inputs)) * max((_ints(inputs, 1) or [0])[0], 0)


def _pad(node: Node, inputs: Inputs) -> int:
    x = list(_shape(inputs))
    pads = _ints(inputs, 1) or node.attributes.get("pads") or node.attributes.get("paddings") or []
    axes = _ints(inputs, 3) or range(len(pads) // 2)
    for k, axis in enumerate(axes):
        x[axis] += pads[k] + pads[k + len(pads) // 2]
    return math.prod(max(n, 0) for n in x)


def _gather(node: Node, inputs: Inputs) -> int:
    x, axis = _shape(inputs), node.attributes.get("axis", 0)
    rest = [n for k, n in enumerate(x) if k != axis % max(len(x), 1)]
    return math.prod(_shape(inputs, 1)) * math.prod(rest)


def _gather_nd(node: Node, inputs: Inputs) -> int:
    x, indices, batch = _shape(inputs), _shape(inputs, 1), node.attributes.get("batch_dims", 0)
    return math.prod(indices[:-1]) * math.prod(x[batch + indices[-1] :])


def _matmul(node: Node, inputs: Inputs) -> int:
    a, b = (list(_shape(inputs, k)) for k in (0, 1))
    a, b = a if len(a) > 1 else [1, *a], b if len(b) > 1 else [*b, 1]
    batch = [max(pair) for pair in zip(a[-3::-1], b[-3::-1], strict=False)]
    longer = max((a[:-2], b[:-2]), key=len)
    return math.prod(batch) * math.prod(longer[: len(longer) - len(batch)]) * a[-2] * b[-1]


def _gemm(node: Node, inputs: Inputs) -> int:
    a, b = _shape(inputs), _shape(inputs, 1)
    return a[1 if node.attributes.get("transA", 0) else 0] * b[0 if node.attributes.get("transB", 0) else 1]


def _product(node: Node, inputs: Inputs) -> int:
    return math.prod(math.prod(np.shape(value)) for value in _leaves(inputs))


def _non_zero(node: Node, inputs: Inputs) -> int:
    return math.prod(_shape(inputs)) * max(len(_shape(inputs)), 1)


def _of_attribute(node: Node, inputs: Inputs) -> int:
    return _constant_of_shape(node, [None])


def _window(node: Node, inputs: Inputs) -> int:
    return (_ints(inputs, 0) or [0])[0]


def _multinomial(node: Node, inputs: Inputs) -> int:
    return _shape(inputs)[0] * node.attributes.get("sample_size", 1)


def _crop_or_pad(node: Node, inputs: Inputs) -> int:
    x, wanted = list(_shape(inputs)), _ints(inputs, 1) or []
    for axis, size in zip(node.attributes.get("axes") or range(len(x)), wanted, strict=False):
        x[axis] = size
    return math.prod(x)


def _tf_idf(node: Node, inputs: Inputs) -> int:
    x = _shape(inputs)
    return (x[0] if len(x) > 1 else 1) * (max(node.attributes.get("ngram_indexes") or [0]) + 1)


def _concatenated_strings(node: Node, inputs: Inputs) -> int:
    longest = sum(max((len(str(s)) for s in np.asarray(value).reshape(-1)), default=0) for value in inputs)
    return _usual(node, inputs) * (longest + 8)


def _split_strings(node: Node, inputs: Inputs) -> int:
    texts = [str(s) for s in np.asarray(inputs[0]).reshape(-1)]
    mark = node.attributes.get("delimiter")
    pieces = max((text.count(mark) + 1 if mark else len(text.split()) for text in texts), default=1)
    most = node.attributes.get("maxsplit")
    return len(texts) * (pieces if most is None else min(pieces, most + 1)) * 8 + sum(map(len, texts))


_RULES: Mapping[str, Callable[[Node, Inputs], int]] = {
    "Expand": _expand, "Tile": _tile, "Split": _split,
    "Range": _range, "ConstantOfShape": _constant_of_shape, "OneHot": _one_hot,
    "Pad": _pad, "Gather": _gather, "GatherND": _gather_nd, "MatMul": _matmul, "Gemm": _gemm, "Einsum": _product,
    "MatMulInteger": _matmul, "NonZero": _non_zero, "RandomNormal": _of_attribute, "RandomUniform": _of_attribute,
    "Multinomial": _multinomial, "CenterCropPad": _crop_or_pad, "TfIdfVectorizer": _tf_idf,
    "StringConcat": _concatenated_strings, "StringSplit": _split_strings, "HannWindow": _window,
    "HammingWindow": _window, "BlackmanWindow": _window,
}  # fmt: skip
