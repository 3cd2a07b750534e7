"""One row for each operation and layer; `test_catalogue.py` runs every suite over all of them.

The rows of a family stand in `tests/rows/<family>.py`, each of which has a list `ROWS`.
"""

from __future__ import annotations

import importlib
import pathlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

TWIN = "twin"


@dataclass(frozen=True)
class Spec:
    """An input: its shape, its dtype, and the interval its values are drawn from (integers exclude `high`)."""

    shape: tuple[int, ...]
    dtype: str = "float32"
    low: float = -2.0
    high: float = 2.0

    def draw(self, seed: int) -> np.ndarray:
        """Values that are the same on every run."""
        rng = np.random.default_rng(seed)
        if self.dtype == "bool":
            return rng.integers(0, 2, self.shape).astype(bool)
        if "int" in self.dtype:
            return rng.integers(int(self.low), int(self.high), self.shape).astype(self.dtype)
        return rng.uniform(self.low, self.high, self.shape).astype(self.dtype)


def floats(*shape: int, low: float = -2.0, high: float = 2.0) -> Spec:
    """float32 values from an interval."""
    return Spec(shape, "float32", low, high)


def integers(*shape: int, low: int = 0, high: int = 3, dtype: str = "int32") -> Spec:
    """Integers from low to high − 1."""
    return Spec(shape, dtype, low, high)


@dataclass(frozen=True, eq=False)
class Row:
    """One operation or layer with one set of arguments.

    `name`: "ops.relu", "layer.Conv2d", "autograd.softmax", "loss.CTC" …: the public name that the row stands for.
    `make()`: what is called with the inputs: a pure function on arrays with its attributes bound, or a fresh layer.
    `inputs`: specs, or any nesting of lists, tuples and None around specs.
    `reference`: NumPy arrays in, NumPy arrays out (of a layer: a dict of its states first); TWIN: the operation's ONNX
    twin under onnx.reference decides; None: only the other suites.
    `attributes`: an operation's keyword arguments (they are bound by the suite, and handed to the twin).
    `grad`: whether gradients are compared with finite differences at float64 (to all floating inputs and parameters).
    `vmap`: whether a batch of inputs under `jax.vmap` equals one call after another.
    `bfloat16`: the largest difference from float32, relative to the largest output; None: not meant for bfloat16.
    `training`: whether a layer runs in training mode. `random`: its training mode draws random numbers.
    `rejects`: lists of input specs that must be refused with a `SingaxError`.
    `note`: tells rows of one name apart.
    """

    name: str
    make: Callable[[], Callable[..., Any]]
    inputs: Sequence[Any]
    reference: Callable[..., Any] | str | None = None
    attributes: dict[str, Any] = field(default_factory=dict)
    grad: bool = True
    vmap: bool = True
    bfloat16: float | None = 0.05
    training: bool = False
    random: bool = False
    rejects: Sequence[Sequence[Any]] = ()
    note: str = ""
    rtol: float = 1e-5
    atol: float = 1e-5

    def __str__(self) -> str:
        return f"{self.name}-{self.note}" if self.note else self.name


def rows() -> list[Row]:
    """All rows of all families."""
    found: list[Row] = []
    for path in sorted(pathlib.Path(__file__).with_name("rows").glob("*.py")):
        if path.stem != "__init__":
            found += importlib.import_module(f"rows.{path.stem}").ROWS
    return found
