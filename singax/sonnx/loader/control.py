"""Operators with bodies: the inputs and outputs of If's branches and of the bodies of Loop, Scan and SequenceMap."""

from __future__ import annotations

from singax.sonnx.importer.graph import Graph, Node
from singax.sonnx.loader.refusal import refuse, shown


def check_bodies(node: Node, opset: int, where: str) -> None:
    """Compare the graphs of a node with its own inputs and outputs."""
    if node.domain:
        return
    if node.op_type == "If":
        for name in ("then_branch", "else_branch"):
            _body(node, name, 0, len(node.outputs), where)
    elif node.op_type == "Loop":
        _body(node, "body", max(len(node.inputs), 2), len(node.outputs) + 1, where)
    elif node.op_type == "Scan":
        _scan(node, opset, where)
    elif node.op_type == "SequenceMap":
        _body(node, "body", len(node.inputs), len(node.outputs), where)


def _scan(node: Node, opset: int, where: str) -> None:
    inputs = len(node.inputs) - (1 if opset < 9 else 0)
    scanned = node.attributes["num_scan_inputs"]
    if not 1 <= scanned <= inputs:
        refuse(where, "attribute 'num_scan_inputs'", f"1 to {inputs}", shown(scanned))
    _body(node, "body", inputs, len(node.outputs), where)


def _body(node: Node, name: str, inputs: int, outputs: int, where: str) -> None:
    graph = node.attributes.get(name)
    if not isinstance(graph, Graph):
        return
    for what, found, wanted in (("inputs", len(graph.inputs), inputs), ("outputs", len(graph.outputs), outputs)):
        if found != wanted:
            refuse(where, f"{what} of {name}", f"{wanted}, as the node's own say", f"{found}")
