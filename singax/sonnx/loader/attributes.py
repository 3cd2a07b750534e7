"""Attributes: which field holds the value, and the value as a Python object."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import onnx

from singax.sonnx.loader.limits import Limits
from singax.sonnx.loader.messages import FORMATS
from singax.sonnx.loader.refusal import refuse, shown
from singax.sonnx.loader.sparse import decode_sparse
from singax.sonnx.loader.tensors import Measure, decode
from singax.sonnx.loader.value_infos import described_type
from singax.sonnx.loader.wire import Parser

KINDS = {
    1: ("FLOAT", "f"),
    2: ("INT", "i"),
    3: ("STRING", "s"),
    4: ("TENSOR", "t"),
    5: ("GRAPH", "g"),
    6: ("FLOATS", "floats"),
    7: ("INTS", "ints"),
    8: ("STRINGS", "strings"),
    9: ("TENSORS", "tensors"),
    10: ("GRAPHS", "graphs"),
    11: ("SPARSE_TENSOR", "sparse_tensor"),
    12: ("SPARSE_TENSORS", "sparse_tensors"),
    13: ("TYPE_PROTO", "tp"),
    14: ("TYPE_PROTOS", "type_protos"),
}
_DEFAULTS: dict[str, Any] = {"f": 0.0, "i": 0, "s": b""}
"""What writers leave out because it is the default of protobuf 3."""


def kind_of(raw: Any, where: str) -> tuple[str, str]:
    """The kind of an attribute and the slot of its value; ("", "") for a reference of which nothing more is said."""
    filled = [slot for _, slot in KINDS.values() if getattr(raw, slot) not in (None, ())]
    field = f"attribute {shown(raw.name)}"
    if raw.type not in (None, 0) and raw.type not in KINDS:
        refuse(where, field, "a type from 1 to 14", f"type {raw.type}")
    if raw.ref_attr_name:
        if filled:
            refuse(where, field, "a reference or a value", f"both, {filled[0]}")
        return KINDS[raw.type] if raw.type else ("", "")
    if raw.type in (None, 0):
        if len(filled) != 1:
            refuse(where, field, "a type and its value", f"no type, and {', '.join(filled) or 'no value'}")
        return next(pair for pair in KINDS.values() if pair[1] == filled[0])
    kind, slot = KINDS[raw.type]
    if [name for name in filled if name != slot]:
        refuse(where, field, f"a value in {slot}, as its type says", f"in {', '.join(filled)}")
    if not filled and getattr(raw, slot) is None and slot not in _DEFAULTS:
        refuse(where, field, f"a value in {slot}, as its type says", "none")
    return kind, slot


def value_of(raw: Any, slot: str, total: Measure, where: str, graph: Callable[[Any], Any]) -> Any:
    """The value as a Python object; `graph` converts a graph."""
    value = getattr(raw, slot)
    if value is None:
        value = _DEFAULTS[slot]
    field = f"{where}: attribute {shown(raw.name)}"
    if slot in ("f", "i"):
        return value
    if slot in ("floats", "ints"):
        return list(value)
    single: dict[str, Callable[[Any], Any]] = {
        "s": text,
        "t": lambda tensor: decode(tensor, total, field),
        "g": graph,
        "sparse_tensor": lambda sparse: decode_sparse(sparse, total, field),
        "tp": lambda view: type_proto(view, total.limits, field),
    }
    many = {"strings": "s", "tensors": "t", "graphs": "g", "sparse_tensors": "sparse_tensor", "type_protos": "tp"}
    return [single[many[slot]](item) for item in value] if slot in many else single[slot](value)


def text(value: bytes) -> str | bytes:
    """A string; bytes where it is no text."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


def type_proto(view: memoryview, limits: Limits, where: str) -> onnx.TypeProto:
    """A type, as the onnx package has it, after it was read with our own eyes."""
    described_type(Parser(bytes(view), FORMATS, limits).message("Type"), where)
    return onnx.TypeProto.FromString(bytes(view))


def graphs_in(node: Any) -> Iterator[Any]:
    """The graphs among the attributes of a node as it was read."""
    for attribute in node.attribute:
        if attribute.g is not None:
            yield attribute.g
        yield from attribute.graphs
