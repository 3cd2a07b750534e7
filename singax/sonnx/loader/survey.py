"""Measuring every tensor of a model, wherever it is, before any is decoded."""

from __future__ import annotations

from typing import Any

from singax.sonnx.loader.labels import node_label
from singax.sonnx.loader.refusal import refuse, shown
from singax.sonnx.loader.sparse import measure_sparse
from singax.sonnx.loader.tensors import Measure, measure


def survey(model: Any, total: Measure) -> None:
    """Check the tensors of the graph and of the functions."""
    _graph(model.graph, total, "")
    for function in model.functions:
        inside = f"function {shown(function.name)}: "
        for attribute in function.attribute_proto:
            _attribute(attribute, total, f"{inside}attribute {shown(attribute.name)}")
        _nodes(function.node, total, inside)


def _graph(graph: Any, total: Measure, inside: str) -> None:
    for tensor in graph.initializer:
        measure(tensor, total, f"{inside}tensor {shown(tensor.name or '')}")
    for sparse in graph.sparse_initializer:
        name = sparse.values.name if sparse.values is not None else None
        measure_sparse(sparse, total, f"{inside}sparse tensor {shown(name or '')}")
    _nodes(graph.node, total, inside)


def _nodes(nodes: Any, total: Measure, inside: str) -> None:
    for position, node in enumerate(nodes):
        if len(node.attribute) > total.limits.attributes:
            where = f"{inside}{node_label(node, position)}"
            refuse(
                where, "attributes", f"at most {total.limits.attributes} (Limits.attributes)", str(len(node.attribute))
            )
        for attribute in node.attribute:
            _attribute(
                attribute, total, f"{inside}{node_label(node, position)}: attribute {shown(attribute.name)}", inside
            )


def _attribute(raw: Any, total: Measure, where: str, inside: str = "") -> None:
    for tensor in (*((raw.t,) if raw.t is not None else ()), *raw.tensors):
        measure(tensor, total, where)
    for sparse in (*((raw.sparse_tensor,) if raw.sparse_tensor is not None else ()), *raw.sparse_tensors):
        measure_sparse(sparse, total, where)
    for graph in (*((raw.g,) if raw.g is not None else ()), *raw.graphs):
        _graph(graph, total, inside)
    total.take("string_bytes", len(raw.s or b"") + sum(map(len, raw.strings)), where)
