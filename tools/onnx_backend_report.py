"""Run onnx's own backend suite on singax as anybody would, and count: `python tools/onnx_backend_report.py [PATTERN]`.

Prints, for each category, how many cases there are and pass, and how many of those that pass ran as one compiled
program, as one for each value of some small inputs, as several, or with nodes on the host; then every case that fails,
and every one that is not a single program.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import unittest
import warnings
from collections.abc import Iterable
from typing import Any, NamedTuple

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from onnx.backend.test import BackendTest

from singax.sonnx.backend import SingaBackend
from singax.sonnx.rep import SingaRep

FORMS = ("one program", "by value", "several", "host")
COLUMNS = ("cases", "pass", *FORMS)
_DEVICE = "_cpu"


class Outcome(NamedTuple):
    """What became of a case; `problem` is empty if it passed."""

    category: str
    name: str
    form: str
    problem: str


class Recorder(SingaBackend):
    """The backend, which keeps the model that it prepared last."""

    last: SingaRep | None = None

    @classmethod
    def is_compatible(cls, model: Any, device: str = "CPU", **kwargs: Any) -> bool:
        """True: no case may be skipped."""
        return True

    @classmethod
    def prepare(cls, model: Any, device: str = "CPU", **kwargs: Any) -> Any:
        """A model that runs."""
        cls.last = super().prepare(model, device, **kwargs)
        return cls.last


def form_of(rep: SingaRep) -> str:
    """How a model has run: the last of `FORMS` that applies to it."""
    pieces = rep.executor.pieces()
    if any(piece.reason for piece in pieces):
        return "host"
    if any(piece.start > 0 for piece in pieces):
        return "several"
    return "by value" if rep.executor.known_inputs else "one program"


def outcomes(pattern: str = "") -> Iterable[Outcome]:
    """Run the cases whose names match, one after another."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        suites = BackendTest(Recorder, __name__).test_cases
    for category, suite in suites.items():
        for name in unittest.defaultTestLoader.getTestCaseNames(suite):
            if name.endswith(_DEVICE) and re.search(pattern, name):
                yield _outcome(category, name, suite(name))


def _outcome(category: str, name: str, case: unittest.TestCase) -> Outcome:
    Recorder.last, result = None, unittest.TestResult()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        case.run(result)
    problems = [*result.errors, *result.failures, *result.skipped]
    problem = str(problems[0][1]).strip().splitlines()[-1] if problems else ""
    if not problem and Recorder.last is None:
        problem = "nothing was run"
    form = form_of(Recorder.last) if Recorder.last is not None else ""
    return Outcome(category.removeprefix("OnnxBackend").removesuffix("ModelTest"), name, form, problem)


def counted(found: Iterable[Outcome]) -> dict[str, dict[str, int]]:
    """Category → column → how many, with a row "all" at the end."""
    table: dict[str, dict[str, int]] = {}
    total = dict.fromkeys(COLUMNS, 0)
    for one in found:
        for row in (table.setdefault(one.category, dict.fromkeys(COLUMNS, 0)), total):
            row["cases"] += 1
            if not one.problem:
                row["pass"] += 1
                row[one.form] += 1
    return {**table, "all": total}


def printed(found: list[Outcome]) -> str:
    """The table, then what fails and what needs the host."""
    rows = counted(found)
    lines = [f"{'category':20}" + "".join(f"{column:>13}" for column in COLUMNS)]
    lines += [f"{name:20}" + "".join(f"{row[column]:13}" for column in COLUMNS) for name, row in rows.items()]
    lines += [f"fails: {one.name}: {one.problem}" for one in found if one.problem]
    return "\n".join(lines + [f"{one.form}: {one.name}" for one in found if one.form not in ("", FORMS[0])])


def main() -> None:
    """Run what the command line asks for; onnx's runner leaves the light models' data in a folder that goes away."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("ONNX_MODELS", folder)
        sys.stdout.write(printed(list(outcomes(*sys.argv[1:2]))) + "\n")


if __name__ == "__main__":
    main()
