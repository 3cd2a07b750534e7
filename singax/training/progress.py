"""The bar of an epoch, and the line after it."""

from __future__ import annotations

import warnings
from typing import Any

from singax.training.history import numbers


class Progress:
    """A tqdm bar that starts with the first step that is done, so that compiling does not count; text without tqdm.

    `verbose`: 0 nothing, 1 a line for each epoch, 2 also a bar.
    """

    def __init__(self, verbose: int, epochs: int) -> None:
        self.verbose, self.epochs = verbose, epochs
        self.bar: Any = None

    def advance(self, count: int, done: int, total: int | None) -> None:
        """`count` more steps were dispatched, `done` in all of this epoch."""
        if self.verbose > 1 and self.bar is None:
            self.bar = _bar(total, done - count)
        if self.bar is not None:
            self.bar.update(count)

    def show(self, values: dict[str, float]) -> None:
        """Show the newest numbers beside the bar."""
        if self.bar is not None:
            self.bar.set_postfix_str(numbers(values), refresh=False)

    def close(self) -> None:
        """Take the bar away."""
        if self.bar is not None:
            self.bar.close()
            self.bar = None

    def end_epoch(self, values: dict[str, Any]) -> None:
        """Print the line of an epoch."""
        self.close()
        if self.verbose:
            print(f"epoch {values['epoch']}/{self.epochs}: {numbers(values)} ({values['seconds']:.1f} s)")

    def say(self, text: str) -> None:
        """Print a line."""
        self.close()
        if self.verbose:
            print(text)


def _bar(total: int | None, initial: int) -> Any:
    """A bar that is drawn at most four times a second; None without tqdm."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # tqdm's about ipywidgets
            from tqdm.auto import tqdm
    except ImportError:
        return None
    return tqdm(total=total, initial=initial, unit="step", leave=False, mininterval=0.25, dynamic_ncols=True)
