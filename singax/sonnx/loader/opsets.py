"""Versions: of the format, and of the operator sets that a model imports."""

from __future__ import annotations

import functools
from typing import Any

import onnx

from singax.sonnx.loader.refusal import refuse, shown

_FIRST_WITH_OPSETS = 3
_STANDARD = "ai.onnx"


def domain_of(text: str | None) -> str:
    """A domain; the standard one has two names."""
    return "" if text in (None, _STANDARD) else str(text)


def check_format(version: int | None) -> None:
    """Refuse a version of the file format that is not known, since its meaning is not."""
    if version is None or not 1 <= version <= onnx.IR_VERSION:
        refuse("the model", "ir_version", f"1 to {onnx.IR_VERSION}, which the installed onnx knows", shown(version))


def imported(imports: Any, where: str, format_version: int) -> dict[str, int]:
    """Domain → version. A version above what the installed onnx knows is refused: its operators may mean other things.

    Domains that onnx does not define may have any version.
    """
    found: dict[str, int] = {}
    for entry in imports:
        domain, version = domain_of(entry.domain), entry.version
        field = f"opset_import {domain or _STANDARD!r}"
        newest = newest_opsets().get(domain)
        if version is None or version < 1 or (newest is not None and version > newest):
            wanted = "1 or above" if newest is None else f"1 to {newest}, which the installed onnx knows"
            refuse(where, field, wanted, shown(version))
        if found.setdefault(domain, version) != version:
            refuse(where, field, "one version", f"{found[domain]} and {version}")
    if not found and format_version < _FIRST_WITH_OPSETS:
        return {"": 1}
    if not found:
        refuse(where, "opset_import", "at least one operator set", "none")
    return found


@functools.cache
def newest_opsets() -> dict[str, int]:
    """The newest version of each domain that the installed onnx defines."""
    newest = {schema.domain: 1 for schema in onnx.defs.get_all_schemas()}
    for schema in onnx.defs.get_all_schemas():
        newest[schema.domain] = max(newest[schema.domain], schema.since_version)
    released = [row[2:5] for row in onnx.helper.VERSION_TABLE]
    for domain, column in (("", 0), ("ai.onnx.ml", 1), ("ai.onnx.preview.training", 2)):
        newest[domain] = max([newest.get(domain, 1), *(row[column] for row in released if len(row) > column)])
    return newest
