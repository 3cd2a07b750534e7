"""Conditions on data that a compiled program watches and that are judged after it has run: indices within range, no
division of integers by zero.

XLA clamps an index, or gives some number, without a word. A program with such nodes has one output more, two integers:
the number of the first condition that failed (0: none) and the value that broke it. It costs a comparison and a
reduction for each condition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from singax.errors import ModelFileError

Report = jax.Array
"""(2,) int64: the number of a condition or 0, and a value."""


@dataclass(frozen=True)
class Condition:
    """What is wanted of the values of an input of a node."""

    where: str
    field: str
    wanted: str

    def refuse(self, value: int) -> None:
        """Raise `ModelFileError` for this value."""
        raise ModelFileError("", self.where, self.field, self.wanted, str(value))


class Checks:
    """The conditions of one program. They are numbered from 1; a body that is traced apart collects its own reports."""

    def __init__(self) -> None:
        self.conditions: list[Condition] = []
        self._reports: list[Report] = []

    def add(self, condition: Condition, failed: Any, value: Any) -> None:
        """Watch a condition: a boolean that says whether it failed, and the value that broke it."""
        self.conditions.append(condition)
        number = jnp.where(failed, len(self.conditions), 0)
        self.report(jnp.stack([number.astype(np.int64), jnp.asarray(value).astype(np.int64)]))

    def report(self, found: Report) -> None:
        """Take in the report of a body."""
        self._reports.append(found)

    @property
    def watching(self) -> bool:
        """Whether there is something to report."""
        return bool(self._reports)

    def first(self) -> Report:
        """The first report of a failure; zeros where there is none."""
        if not self._reports:
            return jnp.zeros(2, np.int64)
        all_reports = jnp.stack(self._reports)
        return all_reports[jnp.argmax(all_reports[:, 0] != 0)]

    def judge(self, report: Any) -> None:
        """Raise `ModelFileError` for the condition that failed, if one did."""
        number, value = (int(n) for n in np.asarray(report))
        if number:
            self.conditions[number - 1].refuse(value)

    @contextmanager
    def apart(self) -> Iterator[Callable[[], Report]]:
        """Collect the reports of a body, or of a whole program; the function that is given makes one of them."""
        outer, self._reports = self._reports, []
        try:
            yield self.first
        finally:
            self._reports = outer


def earlier(a: Report, b: Report) -> Report:
    """The first of two reports that tells of a failure."""
    return jnp.where(a[0] != 0, a, b)
