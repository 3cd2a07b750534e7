"""Nodes computed on the host with NumPy, by the reference implementation that the onnx package carries.

Used for what is known while tracing (index arithmetic), for strings, and for what no compiled program can do.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from singax.errors import ModelFileError
from singax.sonnx.importer.graph import Graph, Node

MOST_STATIC_ELEMENTS = 1 << 16
_OWN = ("Sequence", "Optional", "ConcatFromSequence", "SplitToSequence")  # sequences are lists, optionals their value
_INDEX_ARITHMETIC = """
    Abs Add And ArgMax ArgMin BitCast BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Cast CastLike Ceil Clip
    Compress Concat Constant ConstantOfShape CumSum DequantizeLinear Div Equal Exp Expand EyeLike Flatten Floor Gather
    GatherND Greater GreaterOrEqual Identity IsInf IsNaN Less LessOrEqual Log Max Min Mod Mul Neg NonZero Not Or
    Pow Range Reciprocal ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum Relu Reshape Round ScatterElements
    ScatterND Shape Sign Size Slice Split Sqrt Squeeze Sub Sum Tile Transpose Trilu Unique Unsqueeze Where
    Xor
"""
"""What index arithmetic is made of. Of other operators the reference implementation lacks some and has mistakes in
others (old opsets of Softmax, rows beyond a sequence's length, pooling of one axis): they are left to our handlers."""
_KNOWN = frozenset(_INDEX_ARITHMETIC.split())


def folds(node: Node, inputs: list[Any]) -> bool:
    """Whether a node is computed while tracing: index arithmetic or strings, all inputs known and small."""
    text = any(map(_is_text, inputs)) and not node.op_type.startswith(_OWN)
    if node.domain != "" or not (text or node.op_type in _KNOWN) or not all(map(is_static, inputs)):
        return False
    return sum(value.size for value in _arrays(inputs)) <= MOST_STATIC_ELEMENTS


def _is_text(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype == object


def is_static(value: Any) -> bool:
    """Whether a value is known while tracing: NumPy arrays, absent ones, and sequences of such."""
    if isinstance(value, list | tuple):
        return all(map(is_static, value))
    return value is None or isinstance(value, np.ndarray | np.generic)


def _arrays(inputs: Sequence[Any]) -> list[Any]:
    found: list[Any] = []
    for value in inputs:
        found += _arrays(value) if isinstance(value, list | tuple) else [] if value is None else [value]
    return found


def as_numpy(value: Any) -> Any:
    """JAX arrays as NumPy arrays, also inside sequences."""
    if isinstance(value, list | tuple):
        return [as_numpy(item) for item in value]
    return value if value is None or isinstance(value, dict) else np.asarray(value)


def run(node: Node, inputs: list[Any], opsets: Mapping[str, int]) -> list[Any]:
    """The outputs of a node for NumPy inputs."""
    names = [name if value is not None else "" for name, value in zip(node.inputs, inputs, strict=True)]
    feeds = {name: value for name, value in zip(names, inputs, strict=True) if name}
    try:
        evaluator = _evaluator(node, tuple(names), tuple(sorted(opsets.items())))
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            results = evaluator.run(None, feeds, attributes={})
    except Exception as error:
        raise ModelFileError("", node.where, "inputs", _first_line(error), _described(inputs)) from error
    given = dict(zip(evaluator.output_names, results, strict=True))
    return [_settled(given[name]) if name else None for name in node.outputs]


@functools.lru_cache(maxsize=4096)
def _evaluator(node: Node, names: tuple[str, ...], opsets: tuple[tuple[str, int], ...]) -> Any:
    from onnx.reference import ReferenceEvaluator

    try:
        return ReferenceEvaluator(_function(node, names, opsets))
    except RuntimeError:  # the reference has no form of the operator that is so old: a bare node gets the newest one
        return ReferenceEvaluator(_proto(node, names))


def _function(node: Node, names: tuple[str, ...], opsets: tuple[tuple[str, int], ...]) -> Any:
    """A function of one node: it needs no types, and follows the opsets that it imports."""
    from onnx import helper

    imports = [helper.make_opsetid(domain, version) for domain, version in opsets]
    outputs = [name for name in node.outputs if name]
    given = list(dict.fromkeys(name for name in names if name))
    return helper.make_function("singax", "node", given, outputs, [_proto(node, names)], imports)


def _proto(node: Node, names: tuple[str, ...]) -> Any:
    import onnx
    from onnx import helper, numpy_helper

    made = helper.make_node(node.op_type, names, [n or "" for n in node.outputs], node.name, domain=node.domain)
    for name, value in node.attributes.items():
        if isinstance(value, Graph):
            raise ModelFileError("", node.where, name, "no subgraph on the host", "a graph")
        if isinstance(value, np.ndarray):
            attribute = onnx.AttributeProto(
                name=name, type=onnx.AttributeProto.TENSOR, t=numpy_helper.from_array(value)
            )
        else:
            attribute = helper.make_attribute(name, value, attr_type=_kind(value))
        made.attribute.append(attribute)
    return made


def _kind(value: Any) -> Any:
    """The kind of an empty list, which onnx cannot guess: integers."""
    import onnx

    return onnx.AttributeProto.INTS if isinstance(value, list) and not value else None


def _settled(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_settled(item) for item in value]
    if value is None or isinstance(value, dict):
        return value
    array = np.asarray(value)
    return array.astype(object) if array.dtype.kind in "US" else array


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _described(inputs: list[Any]) -> str:
    return ", ".join(f"{v.dtype}{list(v.shape)}" if isinstance(v, np.ndarray) else repr(v)[:60] for v in inputs)
