"""What a callback is."""

from __future__ import annotations

from typing import Any

from singax.module import Module
from singax.training.batches import Arguments
from singax.training.history import History


class Callback:
    """Is told what goes on during `Module.fit`. Override what is of interest; all methods do nothing by default.

    `self.model` and `self.history` are set before anything is called. `self.stop(reason)` ends the training after the
    step or epoch in progress.

    >>> class Printer(Callback):
    ...     def on_epoch_end(self, epoch, values):
    ...         print(epoch, round(values["loss"], 2))
    """

    model: Module
    history: History
    stopped: str | None = None

    def stop(self, reason: str) -> None:
        """End the training; `reason` is printed and kept in the history."""
        self.stopped = reason

    def on_train_begin(self) -> None:
        """Before the first epoch."""

    def on_epoch_begin(self, epoch: int) -> None:
        """Before an epoch; they count from 1."""

    def on_step_end(self, step: int, arguments: Arguments) -> None:
        """After a step was dispatched; they count from 1 over all epochs. Its results may not be there yet."""

    def on_numbers(self, steps: list[dict[str, float]]) -> None:
        """The numbers of some steps have been fetched: those since the last time, in order."""

    def on_epoch_end(self, epoch: int, values: dict[str, Any]) -> None:
        """After an epoch: its means and metrics, also those of the validation ("val_…")."""

    def on_train_end(self) -> None:
        """At the end, also after an error or Ctrl-C."""
