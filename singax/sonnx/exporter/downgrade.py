"""Twins are written for new opsets; here they are fitted to older ones.

Where an older operator says the same in another form it is used; where it cannot, the operation is exported as what it
is made of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from singax.ops.operation import Operation
from singax.sonnx.exporter import schemas
from singax.sonnx.exporter.graph import Ref

_AXES_AS_ATTRIBUTE = {"ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSum", "Squeeze", "Unsqueeze"}
_ONLY_FROM = {"GroupNormalization": 21}  # with another meaning before
_ONLY_BEFORE = {"GlobalLpPool": 22}  # onnxruntime 1.32 has no newer kernel


@dataclass(frozen=True)
class Fit:
    """A node to be written."""

    op_type: str
    inputs: list[Ref | None]
    attributes: dict[str, Any]


def fitted(made: Operation, inputs: Sequence[Ref | None], attributes: dict[str, Any], opset: int) -> Fit | None:
    """The twin of an operation at an opset; None if that has no operator that says the same."""
    op_type, domain = str(made.twin.op_type), made.twin.domain
    schema = schemas.schema_of(op_type, opset, domain)
    if schema is None or not _ONLY_FROM.get(op_type, 0) <= opset < _ONLY_BEFORE.get(op_type, opset + 1):
        return None
    fit: Fit | None = Fit(op_type, list(inputs), dict(attributes))
    if op_type in _AXES_AS_ATTRIBUTE and "axes" in schema.attributes:
        fit = _axes_as_attribute(Fit(op_type, list(inputs), dict(attributes)))
    return fit if fit is not None and _is_allowed(fit, schema) else None


def _axes_as_attribute(fit: Fit) -> Fit | None:
    data, *rest = fit.inputs
    attributes = {key: value for key, value in fit.attributes.items() if key != "noop_with_empty_axes"}
    if not rest or rest[0] is None:
        return Fit(fit.op_type, [data], attributes)
    axes = rest[0].value
    if axes is None or not axes.size:
        return None
    return Fit(fit.op_type, [data], attributes | {"axes": axes.tolist()})


def _is_allowed(fit: Fit, schema: Any) -> bool:
    count = max((k for k, given in enumerate(fit.inputs, 1) if given is not None), default=0)
    return schema.min_input <= count <= schema.max_input and not set(fit.attributes) - set(schema.attributes)
