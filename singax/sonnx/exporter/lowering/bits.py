"""Bits of integers and floats."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from singax.errors import ExportError
from singax.sonnx.exporter.graph import Graph, Ref
from singax.sonnx.exporter.lowering.dtypes import element_type, is_integer, is_unsigned, within
from singax.sonnx.exporter.registry import Call, lowers

_BITS = {"and": "BitwiseAnd", "or": "BitwiseOr", "xor": "BitwiseXor"}
_LOGIC = {"and": "And", "or": "Or", "xor": "Xor"}
_FIRST_OPSET = 18  # of the operators on bits
_CAST_OPSET = 26  # of BitCast


def combined(call: Call, a: Ref, b: Ref) -> Ref:
    """`and`, `or`, `xor` of integers: an operator from opset 18 on, bit after bit before."""
    name, graph = call.equation.name, call.graph
    if call.opset >= _FIRST_OPSET:
        return graph.op(_BITS[name], a, b)
    wide = np.dtype(a.dtype).itemsize == 8
    spread = [_spread(graph, v, wide) for v in (a, b)]
    return _gathered(graph, graph.op(_LOGIC[name], *spread), wide, a)


def _spread(graph: Graph, x: Ref, wide: bool) -> Ref:
    """The bits of integers (…) as booleans (…, 32) or, if they are wide, (…, 64)."""
    kind = np.uint64 if wide else np.uint32
    flat = graph.op("Unsqueeze", within(graph, x, kind), np.asarray([x.ndim], np.int64))
    moved = graph.op("BitShift", flat, np.arange(64 if wide else 32, dtype=kind), direction="RIGHT")
    return graph.op("Cast", graph.op("Mod", moved, np.asarray(2, kind)), to=element_type(np.bool_))


def _gathered(graph: Graph, bits: Ref, wide: bool, like: Ref) -> Ref:
    """Integers of their bits; the weight of the highest is negative, as in two's complement."""
    kind = np.int64 if wide else np.int32
    weights = np.left_shift(np.asarray(1, kind), np.arange(64 if wide else 32, dtype=kind))
    parts = graph.op("Mul", graph.op("Cast", bits, to=element_type(kind)), weights)
    total = graph.op("ReduceSum", parts, np.asarray([like.ndim], np.int64), keepdims=0)
    return graph.op("Cast", total, to=element_type(like.dtype))


def inverted(call: Call, x: Ref) -> Ref:
    """`not` of integers: the largest one less x without a sign, −1 − x with one."""
    if call.opset >= _FIRST_OPSET:
        return call.graph.op("BitwiseNot", x)
    top = np.asarray(np.iinfo(x.dtype).max if is_unsigned(x) else -1, x.dtype)
    return call.graph.op("Sub", top, x)


@lowers("bitcast_convert_type")
def bit_cast(call: Call, x: Ref) -> Ref:
    """The same bits as another dtype: a conversion between integers of one width, which keeps them, else BitCast."""
    wanted, given = np.dtype(call.out.dtype), np.dtype(x.dtype)
    if wanted == given:
        return x
    if wanted.itemsize == given.itemsize and is_integer(x) and jnp.issubdtype(wanted, jnp.integer):
        return call.graph.op("Cast", x, to=element_type(wanted))
    if wanted.itemsize != given.itemsize or call.opset < _CAST_OPSET:
        raise ExportError(
            f"bitcast_convert_type of {given} to {wanted} has no operator at opset {call.opset}: dtypes of one width "
            f"have one from opset {_CAST_OPSET} on, integers of one width always"
        )
    return call.graph.op("BitCast", x, to=element_type(wanted))


@lowers("reduce_precision")
def reduce_precision(call: Call, x: Ref) -> Ref:
    """Rounding to fewer bits: there and back through the dtype that has so many."""
    exponent, mantissa = call.params["exponent_bits"], call.params["mantissa_bits"]
    own = jnp.finfo(x.dtype)
    if exponent >= own.nexp and mantissa >= own.nmant:
        return call.graph.op("Identity", x)
    for dtype in (jnp.float16, jnp.bfloat16, jnp.float32):
        found = jnp.finfo(dtype)
        if (found.nexp, found.nmant) == (exponent, mantissa):
            narrow = call.graph.op("Cast", x, to=element_type(dtype))
            return call.graph.op("Cast", narrow, to=element_type(x.dtype))
    raise ExportError(f"reduce_precision to {exponent} and {mantissa} bits has no form in ONNX: no dtype has them")
