"""What ONNX's operators want that their twins do not say: attributes that are obligatory, masks of full size."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from singax.sonnx.exporter.downgrade import Fit
from singax.sonnx.exporter.graph import Graph, Ref, element_type
from singax.sonnx.exporter.symbolic import Size

Detail = Callable[[Graph, Fit], Fit]


def completed(graph: Graph, fit: Fit) -> Fit:
    """The node with everything that its operator needs."""
    detail = _DETAILS.get(fit.op_type)
    return fit if detail is None else detail(graph, fit)


def _recurrent(graph: Graph, fit: Fit) -> Fit:
    """onnxruntime wants to be told the hidden size, which ONNX could infer from R."""
    recurrence = fit.inputs[2]
    assert recurrence is not None, "R is not optional"
    return Fit(fit.op_type, fit.inputs, {"hidden_size": recurrence.shape[-1], **fit.attributes})


def _attention(graph: Graph, fit: Fit) -> Fit:
    """onnxruntime takes a mask only if its last two sizes are those of the weights."""
    query, key, _, mask, past, *_ = [*fit.inputs, None, None, None]
    if mask is None:
        return fit
    assert query is not None, "q is not optional"
    assert key is not None, "k is not optional"
    wanted: list[Size] = [query.shape[-2], key.shape[-2] + (0 if past is None else past.shape[-2])]
    if list(mask.shape[-2:]) == wanted:
        return fit
    sizes = (*mask.shape[:-2], *wanted)
    full = Ref(graph.op("Expand", mask, graph.sizes(sizes)).name, sizes, mask.dtype)
    return Fit(fit.op_type, [*fit.inputs[:3], full, *fit.inputs[4:]], fit.attributes)


def _one_hot(graph: Graph, fit: Fit) -> Fit:
    """onnxruntime has a kernel for indices and depth that are both int64."""
    indices = fit.inputs[0]
    assert indices is not None, "the indices are not optional"
    wide = Ref(graph.op("Cast", indices, to=element_type(np.int64)).name, indices.shape, np.dtype(np.int64))
    return Fit(fit.op_type, [wide, *fit.inputs[1:]], fit.attributes)


_DETAILS: dict[str, Detail] = {
    "RNN": _recurrent, "LSTM": _recurrent, "GRU": _recurrent, "Attention": _attention, "OneHot": _one_hot,
}  # fmt: skip
