"""Products of matrices, and convolution."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from singax.errors import ExportError
from singax.sonnx.exporter.graph import Graph, Ref
from singax.sonnx.exporter.lowering.dtypes import within
from singax.sonnx.exporter.lowering.movement import END, cut, spread
from singax.sonnx.exporter.lowering.shapes import reshaped
from singax.sonnx.exporter.registry import Call, lowers
from singax.sonnx.exporter.symbolic import Size, numbers


@lowers("dot_general")
def dot_general(call: Call, a: Ref, b: Ref) -> Ref:
    """A product over contracted axes, with batch axes first: as MatMul where the axes allow, else as Einsum."""
    (left, right), (left_batch, right_batch) = call.params["dimension_numbers"]
    dtype = call.out.dtype
    a, b = (_described(v, within(call.graph, v, dtype)) for v in (a, b))
    if _is_matmul(a, b, left, right, left_batch, right_batch):
        return call.graph.op("MatMul", a, b)
    batch = len(left_batch)
    rows = _others(a, left, left_batch)
    columns = _others(b, right, right_batch)
    x = _matrices(call.graph, a, [*left_batch, *rows, *left], batch, len(rows))
    y = _matrices(call.graph, b, [*right_batch, *right, *columns], batch, len(right))
    return reshaped(call.graph, call.graph.op("MatMul", x, y), call.out.shape)


def _described(old: Ref, new: Ref) -> Ref:
    new.shape = old.shape
    return new


def _is_matmul(
    a: Ref, b: Ref, left: Sequence[int], right: Sequence[int], left_batch: Sequence[int], right_batch: Sequence[int]
) -> bool:
    batch = list(range(len(left_batch)))
    if list(left_batch) != batch or list(right_batch) != batch or len(left) != 1 or left[0] != a.ndim - 1:
        return False
    if batch:
        return a.ndim == b.ndim == len(batch) + 2 and right[0] == len(batch)
    return b.ndim <= 2 and right[0] == 0


def _others(x: Ref, *taken: Sequence[int]) -> list[int]:
    return [axis for axis in range(x.ndim) if not any(axis in axes for axes in taken)]


def _matrices(graph: Graph, x: Ref, order: list[int], batch: int, rows: int) -> Ref:
    """x with its axes in this order, the `rows` axes behind the batch and those behind them made one each."""
    made = x if order == list(range(x.ndim)) else graph.op("Transpose", x, perm=order)
    sizes = [x.shape[axis] for axis in order]
    groups = [*sizes[:batch], _product(sizes[batch : batch + rows]), _product(sizes[batch + rows :])]
    return made if groups == sizes else reshaped(graph, made, tuple(groups))


def _product(sizes: Sequence[Size]) -> Size:
    return math.prod(sizes)


@lowers("conv_general_dilated")
def convolution(call: Call, x: Ref, kernel: Ref) -> Ref:
    """A convolution in any layout; one whose input is dilated puts zeros between its elements first."""
    graph, params, layout = call.graph, call.params, call.params["dimension_numbers"]
    if params["batch_group_count"] != 1:
        raise ExportError("conv_general_dilated has no form in ONNX for batch_group_count above 1")
    x = _permuted(graph, x, layout.lhs_spec)
    kernel = _permuted(graph, kernel, layout.rhs_spec)
    spatial = x.ndim - 2
    x = _dilated(graph, x, params["lhs_dilation"])
    given = numbers([n for pair in params["padding"] for n in pair], "the padding of a convolution")
    x, padding = _cropped(graph, x, given)
    made = graph.op(
        "Conv", x, kernel,
        strides=list(params["window_strides"]), dilations=list(params["rhs_dilation"]),
        pads=[*padding[::2], *padding[1::2]], group=params["feature_group_count"],
        kernel_shape=list(numbers(kernel.shape[2:], "a kernel")) if spatial else None,
    )  # fmt: skip
    back = [layout.out_spec.index(axis) for axis in range(spatial + 2)]
    return made if back == list(range(spatial + 2)) else graph.op("Transpose", made, perm=back)


def _permuted(graph: Graph, x: Ref, order: Sequence[int]) -> Ref:
    if list(order) == list(range(x.ndim)):
        return x
    made = graph.op("Transpose", x, perm=list(order))
    return Ref(made.name, tuple(x.shape[axis] for axis in order), x.dtype)


def _dilated(graph: Graph, x: Ref, dilation: Sequence[int]) -> Ref:
    sizes = list(x.shape)
    for axis, step in enumerate(dilation, 2):
        if step > 1:
            made = spread(graph, x, Ref(None, (), x.dtype, np.zeros((), x.dtype)), axis, step - 1, sizes)
            sizes[axis] = (sizes[axis] - 1) * step + 1
            x = Ref(made.name, tuple(sizes), x.dtype)
    return x


def _cropped(graph: Graph, x: Ref, padding: Sequence[int]) -> tuple[Ref, list[int]]:
    """Cut off what negative padding says."""
    pairs = list(zip(padding[::2], padding[1::2], strict=True))
    ends: dict[int, tuple[Size, Size, int]] = {
        axis: (max(-low, 0), min(high, 0) or END, 1) for axis, (low, high) in enumerate(pairs, 2) if min(low, high) < 0
    }
    return cut(graph, x, ends), [max(n, 0) for n in padding]
