"""The report on onnx's backend suite: what it counts, on cases made here."""

from __future__ import annotations

import sys
import unittest
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))

import onnx_backend_report as report

from singax.sonnx import prepare
from singax.sonnx.importer import pieces

X = np.float32([0, 1, 2])


def model(*op_types: str) -> Any:
    """A chain of operators."""
    nodes = [helper.make_node(op, [f"v{k}"], [f"v{k + 1}"]) for k, op in enumerate(op_types)]
    given = helper.make_tensor_value_info("v0", 1, [3])
    graph = helper.make_graph(nodes, "chain", [given], [onnx.ValueInfoProto(name=f"v{len(op_types)}")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def form(made: Any) -> str:
    rep = prepare(made)
    rep.run([X])
    return report.form_of(rep)


def test_forms(monkeypatch: pytest.MonkeyPatch) -> None:
    """One program; one for each value of an input; a node on the host, first or last; several, one being too long."""
    assert form(model("Neg", "Abs")) == "one program"
    assert form(model("NonZero")) == "by value"
    monkeypatch.setattr(pieces, "MOST_KNOWN_ELEMENTS", 2)
    assert form(model("Neg", "NonZero")) == form(model("NonZero", "Neg")) == "host"
    monkeypatch.setattr(pieces, "MOST_NODES", 1)
    monkeypatch.setattr(pieces, "NODES_OF_A_PART", 1)
    assert form(model("Neg", "Abs")) == "several"


class Cases(unittest.TestCase):
    """As onnx's runner makes them."""

    __test__ = False

    def test_passes(self) -> None:
        report.Recorder.prepare(model("Neg")).run([X])

    def test_fails(self) -> None:
        report.Recorder.prepare(model("Neg")).run([X])
        raise AssertionError("other values")

    def test_is_skipped(self) -> None:
        report.Recorder.prepare(model("Neg"))
        raise unittest.SkipTest("not compatible")

    def test_hides_that_nothing_ran(self) -> None:
        """What the runner does with a backend that is not supposed to implement an operator."""


def test_only_what_ran_and_agreed_passes() -> None:
    """A failure, a skip and a case that ran nothing are problems, named in the report."""
    names = ["test_passes", "test_fails", "test_is_skipped", "test_hides_that_nothing_ran"]
    found = [report._outcome("OnnxBackendNodeModelTest", name, Cases(name)) for name in names]
    assert [one.problem for one in found] == ["", "AssertionError: other values", "not compatible", "nothing was run"]
    assert found[0] == report.Outcome("Node", "test_passes", "one program", "")
    wanted = {"cases": 4, "pass": 1, "one program": 1, "by value": 0, "several": 0, "host": 0}
    assert report.counted(found) == {"Node": wanted, "all": wanted}
    assert "fails: test_fails: AssertionError: other values" in report.printed(found).splitlines()


def test_categories_and_forms_are_counted_apart() -> None:
    rows = [("Node", "host"), ("Node", "one program"), ("Real", "several")]
    table = report.counted(report.Outcome(category, "test", form, "") for category, form in rows)
    assert table["Node"] == {"cases": 2, "pass": 2, "one program": 1, "by value": 0, "several": 0, "host": 1}
    assert table["all"] == {"cases": 3, "pass": 3, "one program": 1, "by value": 0, "several": 1, "host": 1}
