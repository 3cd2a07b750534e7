"""A model as ONNX without the numbers of its parameters: what stays the same from one save to the next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import onnx
from onnx import TensorProto, ValueInfoProto

from singax.sonnx.exporter.export import DEFAULT_OPSET, check, exported, own_function
from singax.sonnx.exporter.inputs import arguments


@dataclass(frozen=True)
class Skeleton:
    """`head` is everything but the graph, `graph` the graph without parameters, `parameters` these without values."""

    head: onnx.ModelProto
    graph: bytes
    parameters: tuple[TensorProto, ...]


def skeleton(model: Any, inputs: Sequence[Any], dynamic_batch: bool) -> Skeleton:
    """The forward of `model`, which has been checked; see `to_onnx`, with its defaults.

    **Raises** `ExportError`, which names everything that cannot be exported.
    """
    given = arguments(own_function(model), inputs, dynamic_batch, None, None)
    made = exported(model, given, DEFAULT_OPSET, weights=False)
    check(made)
    count = len(given.inputs)
    parameters = tuple(_emptied(info) for info in made.graph.input[count:])
    del made.graph.input[count:]
    graph = made.graph.SerializeToString()
    made.ClearField("graph")
    return Skeleton(made, graph, parameters)


def _emptied(info: ValueInfoProto) -> TensorProto:
    declared = info.type.tensor_type
    dims = [dim.dim_value for dim in declared.shape.dim]
    return TensorProto(name=info.name, data_type=declared.elem_type, dims=dims)
