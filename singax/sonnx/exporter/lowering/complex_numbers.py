"""Complex numbers inside a graph, and Fourier transforms as DFT.

ONNX's operators know no complex numbers. A complex value of shape (…) is a tensor (…, 2) of real and imaginary parts;
the `Ref` keeps the shape that JAX sees. Primitives that do the same to both parts are lowered part by part, a few
others have lowerings here, and all others are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from singax.errors import ExportError
from singax.sonnx.exporter.graph import Graph, Ref, constant
from singax.sonnx.exporter.lowering.dtypes import within
from singax.sonnx.exporter.lowering.movement import BEGIN, cut
from singax.sonnx.exporter.registry import Call, lowering_of, lowers
from singax.sonnx.exporter.symbolic import numbers

_BY_PARTS = frozenset((
    "add", "broadcast_in_dim", "concatenate", "copy", "copy_p", "cumsum", "dynamic_slice", "expand_dims", "gather",
    "neg", "pad", "reduce_sum", "reshape", "rev", "select_n", "slice", "squeeze", "stop_gradient", "sub", "transpose",
))  # fmt: skip
_OWN = frozenset(("complex", "conj", "fft", "imag", "real"))
FFT_OPSET = 17


def is_complex(dtype: Any) -> bool:
    """Whether a dtype is complex."""
    return bool(jnp.issubdtype(dtype, jnp.complexfloating))


def lowered(call: Call, operands: Sequence[Ref]) -> Ref | Sequence[Ref]:
    """The result of an equation that reads or gives complex numbers."""
    name = call.equation.name
    found = _ARITHMETIC.get(name) or (lowering_of(name) if name in _OWN else None)
    if found is not None:
        return found(call, *operands)
    if name not in _BY_PARTS:
        raise ExportError(f"{name} of complex numbers has no form in ONNX: take real and imaginary part before it")
    real, imaginary = (_lowered_part(call, operands, which) for which in (0, 1))
    return joined(call.graph, real, imaginary, len(call.out.shape))


def _lowered_part(call: Call, operands: Sequence[Ref], which: int) -> Ref:
    """What the primitive makes of real (0) or imaginary (1) parts."""
    found = lowering_of(call.equation.name)
    assert found is not None, "what goes part by part has a lowering"
    made = found(call, *[part(call.graph, z, which) if is_complex(z.dtype) else z for z in operands])
    return made if isinstance(made, Ref) else made[0]


# -- parts --------------------------------------------------------------------------------------------------------


def part(graph: Graph, z: Ref, which: int) -> Ref:
    """The real (0) or imaginary (1) part, a tensor of the shape of z."""
    if z.value is not None:
        return constant(z.value.imag if which else z.value.real)
    dtype = np.float64 if np.dtype(z.dtype) == np.complex128 else np.float32
    return Ref(graph.op("Gather", z, np.asarray(which, np.int64), axis=z.ndim).name, z.shape, np.dtype(dtype))


def joined(graph: Graph, real: Ref, imaginary: Ref, rank: int) -> Ref:
    """A complex value of `rank` axes of its parts."""
    places = np.asarray([rank], np.int64)
    return graph.op("Concat", graph.op("Unsqueeze", real, places), graph.op("Unsqueeze", imaginary, places), axis=rank)


def _without_imaginary(graph: Graph, x: Ref) -> Ref:
    return joined(graph, x, graph.op("Expand", np.zeros((), x.dtype), graph.sizes(x.shape)), x.ndim)


def _parts(graph: Graph, z: Ref) -> tuple[Ref, Ref]:
    return part(graph, z, 0), part(graph, z, 1)


@lowers("real")
def real_part(call: Call, z: Ref) -> Ref:
    return part(call.graph, z, 0)


@lowers("imag")
def imaginary_part(call: Call, z: Ref) -> Ref:
    return part(call.graph, z, 1)


@lowers("complex")
def from_parts(call: Call, x: Ref, y: Ref) -> Ref:
    graph, sizes = call.graph, call.graph.sizes(call.out.shape)
    return joined(graph, graph.op("Expand", x, sizes), graph.op("Expand", y, sizes), len(call.out.shape))


@lowers("conj")
def conjugate(call: Call, z: Ref) -> Ref:
    """Of a real number it is the complex number without an imaginary part."""
    graph = call.graph
    if not is_complex(z.dtype):
        return _without_imaginary(graph, z)
    x, y = _parts(graph, z)
    return joined(graph, x, graph.op("Neg", y), z.ndim)


# -- arithmetic ---------------------------------------------------------------------------------------------------


def _size(call: Call, z: Ref) -> Ref:
    """|z|, scaled by its larger part, so that squares neither overflow nor vanish."""
    graph = call.graph
    x, y = (graph.op("Abs", v) for v in _parts(graph, z))
    large, small = graph.op("Max", x, y), graph.op("Min", x, y)
    one = np.ones((), call.out.dtype)
    safe = graph.op("Where", graph.op("Equal", large, np.zeros((), call.out.dtype)), one, large)
    ratio = graph.op("Div", small, safe)
    return graph.op("Mul", large, graph.op("Sqrt", graph.op("Add", one, graph.op("Mul", ratio, ratio))))


def _converted(call: Call, z: Ref) -> Ref:
    """A real number as a complex one. There is one complex dtype."""
    graph = call.graph
    if is_complex(z.dtype):
        return z
    x = within(graph, z, np.float32)
    return _without_imaginary(graph, Ref(x.name, z.shape, np.dtype(np.float32), x.value))


def _product(call: Call, a: Ref, b: Ref) -> Ref:
    graph = call.graph
    (x, y), (u, v) = _parts(graph, a), _parts(graph, b)
    first = graph.op("Sub", graph.op("Mul", x, u), graph.op("Mul", y, v))
    second = graph.op("Add", graph.op("Mul", x, v), graph.op("Mul", y, u))
    return joined(graph, first, second, len(call.out.shape))


_ARITHMETIC: dict[str, Any] = {"abs": _size, "convert_element_type": _converted, "mul": _product}


# -- transforms ---------------------------------------------------------------------------------------------------


@lowers("fft")
def fourier(call: Call, x: Ref) -> Ref:
    """fft, ifft, rfft and irfft along the last axes, one DFT for each."""
    if call.opset < FFT_OPSET:
        raise ExportError(f"fft has an operator only from opset {FFT_OPSET} on")
    graph, kind = call.graph, call.equation.variants[0].params["fft_type"].name
    lengths = numbers(call.params["fft_lengths"], "the length of a transform")
    rank = len(call.out.shape)
    axes = list(range(rank - len(lengths), rank))
    if kind == "RFFT":
        z = _dft(graph, graph.op("Unsqueeze", x, np.asarray([rank], np.int64)), axes[-1], onesided=1)
        return _along(graph, z, axes[:-1])
    if kind != "IRFFT":
        return _along(graph, _written(graph, x), axes, inverse=int(kind == "IFFT"))
    z = _along(graph, _written(graph, x), axes[:-1], inverse=1)
    z = _dft(graph, _mirrored(graph, z, axes[-1], rank, lengths[-1]), axes[-1], inverse=1)
    return graph.op("Gather", z, np.asarray(0, np.int64), axis=rank)


def _written(graph: Graph, z: Ref) -> Ref:
    """A complex constant as its parts."""
    return z if z.value is None else joined(graph, *_parts(graph, z), z.ndim)


def _along(graph: Graph, z: Ref, axes: Sequence[int], inverse: int = 0) -> Ref:
    for axis in reversed(axes):
        z = _dft(graph, z, axis, inverse=inverse)
    return z


def _dft(graph: Graph, z: Ref, axis: int, inverse: int = 0, onesided: int = 0) -> Ref:
    if graph.session.opset < 20:
        return graph.op("DFT", z, axis=axis, inverse=inverse, onesided=onesided)
    return graph.op("DFT", z, None, np.asarray(axis, np.int64), inverse=inverse, onesided=onesided)


def _mirrored(graph: Graph, z: Ref, axis: int, rank: int, length: int) -> Ref:
    """The second half of a spectrum, the first half backwards and conjugated, behind the first."""
    half = cut(graph, z, {axis: (0, length // 2 + 1, 1)})
    count = length - length // 2 - 1
    if not count:
        return half
    back = cut(graph, cut(graph, half, {axis: (1, count + 1, 1)}), {axis: (-1, BEGIN, -1)})
    x, y = (graph.op("Gather", back, np.asarray(k, np.int64), axis=rank) for k in (0, 1))
    return graph.op("Concat", half, joined(graph, x, graph.op("Neg", y), rank), axis=axis)
