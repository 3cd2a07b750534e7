"""Which public names have rows in the catalogue, and what their states are called."""

from __future__ import annotations

import json
import os
import pathlib
from typing import Any

import pytest
from catalogue import Row, rows
from subjects import subject

import singax as sx
from singax import layer, ops

GOLDEN = pathlib.Path(__file__).parent / "golden" / "states.json"
ROWS = rows()
LAYERS = [row for row in ROWS if isinstance(row.make(), layer.Layer)]
NAMED = {row.name for row in ROWS}
BASES = {"Layer", "Loss", "RNN_Base"}
UNTRACEABLE = {"ops.constant_of_shape", "ops.nonzero"}  # shapes depend on values: tests/test_operations.py has them


def _public_layers() -> set[str]:
    classes = [v for v in vars(layer).values() if isinstance(v, type) and issubclass(v, layer.Layer)]
    return {f"layer.{c.__name__}" for c in classes if c.__name__ not in BASES and not issubclass(c, sx.Module)}


def test_every_operation_has_a_row() -> None:
    """A new operation without a row fails here."""
    assert {f"ops.{name}" for name in ops.operations()} - NAMED == UNTRACEABLE


def test_every_layer_has_a_row() -> None:
    """A new layer without a row fails here."""
    assert _public_layers() - NAMED == set()


def test_no_row_stands_for_nothing() -> None:
    """Rows name what exists."""
    for name in NAMED:
        room, _, public = name.partition(".")
        assert hasattr(getattr(sx, room), public), name


def test_rows_are_told_apart() -> None:
    """Two rows of one name have different notes."""
    labels = [str(row) for row in ROWS]
    assert sorted(labels) == sorted(set(labels))


def _states(row: Row) -> dict[str, Any]:
    it = subject(row)
    assert it.model is not None
    parameters = it.model.get_params()
    return {
        name.removeprefix("layer."): [str(t.dtype), list(t.shape), "parameter" if name in parameters else "state"]
        for name, t in it.model.get_states().items()
    }


@pytest.mark.parametrize("row", LAYERS, ids=str)
def test_names_and_shapes_of_states(row: Row) -> None:
    """Names in files must never change by accident. `SINGAX_WRITE_GOLDEN=1 pytest -n 0 -k states` writes them anew."""
    found = _states(row)
    golden = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}
    if os.environ.get("SINGAX_WRITE_GOLDEN"):
        golden[str(row)] = found
        GOLDEN.write_text(_shown(golden))
    assert golden.get(str(row)) == found


def _shown(golden: dict[str, Any]) -> str:
    """One state on a line."""
    entries = []
    for label in sorted(golden):
        states = [f"    {json.dumps(name)}: {json.dumps(golden[label][name])}" for name in sorted(golden[label])]
        body = "{\n" + ",\n".join(states) + "\n  }" if states else "{}"
        entries.append(f"  {json.dumps(label)}: {body}")
    return "{\n" + ",\n".join(entries) + "\n}\n"
