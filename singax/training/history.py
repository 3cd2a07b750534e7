"""What a training has shown so far."""

from __future__ import annotations

import html
import math
from typing import Any

STYLE = (
    "<style>.singax-history{border-collapse:collapse;font-variant-numeric:tabular-nums}"
    ".singax-history td,.singax-history th{padding:2px 10px;text-align:right;border-bottom:1px solid #8886}</style>"
)


class History:
    """The numbers of `Module.fit`.

    `epochs`: a list of dicts, one per epoch: "epoch" (from 1), "seconds", the mean of each number that the step returns
    ("loss"), metrics, and the same of the validation as "val_…". `steps`: name → the numbers of all steps.
    `history["loss"]` → the values of all epochs, NaN where an epoch has none. `stopped`: why it ended early, or None.

    >>> history = History()
    >>> history.epochs.append({"epoch": 1, "seconds": 0.5, "loss": 0.25})
    >>> history
    1 epoch: loss 0.25
    >>> history["loss"]
    [0.25]
    """

    def __init__(self) -> None:
        self.epochs: list[dict[str, Any]] = []
        self.steps: dict[str, list[float]] = {}
        self.stopped: str | None = None

    @property
    def names(self) -> list[str]:
        """The names of all numbers, in the order in which they came."""
        found = dict.fromkeys(name for values in self.epochs for name in values)
        return [name for name in found if name not in ("epoch", "seconds")]

    def __getitem__(self, name: str) -> list[float]:
        if name not in self.names:
            raise KeyError(f"{name!r}; there are: {', '.join(self.names) or 'none yet'}")
        return [values.get(name, math.nan) for values in self.epochs]

    def __len__(self) -> int:
        return len(self.epochs)

    def to_dict(self) -> dict[str, Any]:
        """Everything as numbers, strings, lists and dicts."""
        return {"epochs": [dict(v) for v in self.epochs], "steps": dict(self.steps), "stopped": self.stopped}

    def __repr__(self) -> str:
        count = len(self.epochs)
        shown = f"{count} epoch{'s' * (count != 1)}"
        if self.epochs:
            shown += ": " + numbers(self.epochs[-1])
        return shown + (f"; stopped: {self.stopped}" if self.stopped else "")

    def _repr_html_(self) -> str:
        names = ["epoch", *self.names, "seconds"]
        head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
        rows = ["".join(f"<td>{_cell(values.get(name))}</td>" for name in names) for values in self.epochs]
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        note = f"<p>stopped: {html.escape(self.stopped)}</p>" if self.stopped else ""
        return f'{STYLE}<table class="singax-history"><tr>{head}</tr>{body}</table>{note}'

    def plot(self, *names: str) -> Any:
        """Curves over the epochs with matplotlib, training and validation of a number in one picture.

        **Args** names: which numbers; default all. **Returns** the figure. Raises `ImportError` without matplotlib.
        """
        from matplotlib import pyplot  # a notebook shows figures once this is loaded

        wanted = list(names) or [name for name in self.names if not name.startswith("val_")] or self.names
        figure = pyplot.figure(figsize=(5 * max(len(wanted), 1), 3.5), layout="constrained")
        panels = figure.subplots(1, max(len(wanted), 1), squeeze=False)[0]
        for axes, name in zip(panels, wanted, strict=False):
            self._draw(axes, name)
        pyplot.close(figure)  # it is shown as the result of a cell, not a second time
        return figure

    def _draw(self, axes: Any, name: str) -> None:
        epochs = [values["epoch"] for values in self.epochs]
        for shown, label in ((name, "train"), (f"val_{name}", "validation")):
            if shown in self.names:
                values = [v if isinstance(v, int | float) else math.nan for v in self[shown]]
                axes.plot(epochs, values, marker="o", label=label)
        axes.set_xlabel("epoch")
        axes.set_title(name)
        axes.xaxis.get_major_locator().set_params(integer=True)
        if axes.lines:
            axes.legend()


def numbers(values: dict[str, Any]) -> str:
    """The numbers of an epoch as text."""
    return ", ".join(f"{name} {_cell(value)}" for name, value in values.items() if name not in ("epoch", "seconds"))


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else html.escape(str(value))
