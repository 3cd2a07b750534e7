"""Callbacks that look at the numbers of an epoch."""

from __future__ import annotations

import importlib
import os
from typing import Any

from singax.errors import ArgumentError
from singax.training.callback import Callback


class _Best(Callback):
    """Knows whether a number is the best so far."""

    def __init__(self, monitor: str, mode: str, min_delta: float = 0.0) -> None:
        if mode not in ("min", "max"):
            raise ArgumentError(f"mode is 'min' or 'max'. Received: {mode!r}")
        self.monitor, self.sign, self.min_delta = monitor, 1 if mode == "min" else -1, abs(min_delta)
        self.best: float | None = None

    def improves(self, values: dict[str, Any]) -> bool:
        """Note the value of the epoch; whether it is the best so far. NaN never is."""
        if self.monitor not in values:
            known = ", ".join(name for name in values if name not in ("epoch", "seconds"))
            raise ArgumentError(f"{type(self).__name__}: there is no number {self.monitor!r}; there are: {known}")
        value = float(values[self.monitor])
        if value == value and (self.best is None or self.sign * (value - self.best) < -self.min_delta):
            self.best = value
            return True
        return False


class EarlyStopping(_Best):
    """Ends the training when a number has not improved for `patience` epochs.

    **Args** monitor: a name of the history (default "val_loss"). patience: epochs without improvement that are
    allowed, default 3. mode: "min" (default) or "max". min_delta: how much counts as an improvement, default 0.
    restore_best: at the end, give the model back everything as it was after its best epoch (keeps a copy on the
    device).

    **Raises** `ArgumentError` for a number that the history does not have.
    """

    def __init__(
        self,
        monitor: str = "val_loss",
        patience: int = 3,
        mode: str = "min",
        min_delta: float = 0.0,
        restore_best: bool = False,
    ) -> None:
        super().__init__(monitor, mode, min_delta)
        self.patience, self.restore_best = patience, restore_best
        self.waited = 0
        self.kept: dict[str, Any] | None = None

    def on_epoch_end(self, epoch: int, values: dict[str, Any]) -> None:
        """Compare."""
        if self.improves(values):
            self.waited = 0
            self.kept = self.model.state_dict() if self.restore_best else None
            return
        self.waited += 1
        if self.waited >= self.patience:
            self.stop(f"{self.monitor} has not improved for {self.waited} epochs; its best was {self.best}")

    def on_train_end(self) -> None:
        """Go back, if wished."""
        if self.kept is not None:
            self.model.load_state_dict(self.kept)


class BestCheckpoint(_Best):
    """Saves the model by `Module.save` after each epoch that improves a number.

    **Args** path: as for `save`; monitor, mode: as for `EarlyStopping`; options: further arguments of `save`, such as
    `onnx=False`.
    """

    def __init__(
        self, path: str | os.PathLike[str], monitor: str = "val_loss", mode: str = "min", **options: Any
    ) -> None:
        super().__init__(monitor, mode)
        self.path, self.options = path, options

    def on_epoch_end(self, epoch: int, values: dict[str, Any]) -> None:
        """Save, if it is the best."""
        if self.improves(values):
            self.model.save(self.path, state={"epoch": epoch, self.monitor: self.best}, **self.options)


class TensorBoard(Callback):
    """Writes the numbers of each epoch for TensorBoard into a folder, by tensorboardX or torch.

    **Raises** `ArgumentError` when neither package is there.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.writer = _writer_class()(os.fspath(folder))

    def on_epoch_end(self, epoch: int, values: dict[str, Any]) -> None:
        """Write."""
        for name, value in values.items():
            if name != "epoch":
                self.writer.add_scalar(name, value, epoch)

    def on_train_end(self) -> None:
        """Flush."""
        self.writer.flush()


def _writer_class() -> Any:
    for module in ("tensorboardX", "torch.utils.tensorboard"):
        try:
            return importlib.import_module(module).SummaryWriter
        except ImportError:
            continue
    raise ArgumentError("TensorBoard needs the package tensorboardX (pip install tensorboardX), or torch")
