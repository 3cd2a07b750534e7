"""What the definition of an operator says about its nodes: how many inputs and outputs, which attributes."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import onnx

from singax.sonnx.loader.refusal import listed, refuse, shown

_MOST_NAME = 256
_UNCHECKED = "__"


@dataclass(frozen=True)
class Signature:
    """The signature of an operator in one version."""

    since: int
    deprecated: bool
    inputs: tuple[int, int]
    outputs: tuple[int, int]
    single: frozenset[int]
    attributes: Mapping[str, str]
    required: tuple[str, ...]


@functools.lru_cache(maxsize=8192)
def signature(domain: str, op_type: str, opset: int) -> Signature | None:
    """The newest definition that is not newer than `opset`; None if onnx has none."""
    printable = op_type.isascii() and op_type.isprintable() and len(op_type) <= _MOST_NAME
    opset = min(opset, 1 << 30)
    if not printable or "\0" in domain or not onnx.defs.has(op_type, opset, domain):
        return None
    schema = onnx.defs.get_schema(op_type, opset, domain)
    single = onnx.defs.OpSchema.FormalParameterOption.Single
    return Signature(
        schema.since_version,
        schema.deprecated,
        (schema.min_input, schema.max_input),
        (schema.min_output, schema.max_output),
        frozenset(at for at, parameter in enumerate(schema.inputs) if parameter.option == single),
        {name: str(attribute.type).split(".")[-1] for name, attribute in schema.attributes.items()},
        tuple(name for name, attribute in schema.attributes.items() if attribute.required),
    )


def check_arity(inputs: Any, outputs: Any, known: Signature, where: str) -> None:
    """Compare the inputs and outputs of a node with its signature."""
    for what, given, (least, most) in (("inputs", inputs, known.inputs), ("outputs", outputs, known.outputs)):
        if not least <= len(given) <= most:
            wanted = f"{least}" if least == most else f"{least} to {most}" if most < 1 << 30 else f"{least} or more"
            refuse(where, what, wanted, f"{len(given)}: {listed(given)}")
    missing = [at for at in known.single if at < len(inputs) and not inputs[at]]
    if missing:
        refuse(where, f"input {missing[0]}", "a value, since it is not optional", "none")


def check_attributes(kinds: Mapping[str, str], known: Signature, where: str) -> None:
    """Compare the attributes of a node (name → kind) with its signature."""
    for name, kind in kinds.items():
        wanted = known.attributes.get(name)
        if wanted is None and not name.startswith(_UNCHECKED):
            refuse(where, f"attribute {shown(name)}", f"one of {listed(known.attributes, 40) or 'no attributes'}", kind)
        if wanted is not None and kind not in (wanted, ""):
            refuse(where, f"attribute {shown(name)}", wanted, kind)
    missing = [name for name in known.required if name not in kinds]
    if missing:
        refuse(where, f"attribute {shown(missing[0])}", known.attributes[missing[0]], "none")
