"""`Module.fit`: a thin loop over training steps."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from singax.checked import integer
from singax.errors import ArgumentError
from singax.metric import Metric
from singax.mode import refuse_inside
from singax.module import Module
from singax.training.batches import Arguments, arguments_of, iterated, padded, rows_of
from singax.training.callback import Callback
from singax.training.history import History
from singax.training.progress import Progress
from singax.training.results import number
from singax.training.steps import Done, Steps
from singax.training.validation import validate

FETCHED = 50
"""After how many steps their numbers are fetched together."""

LAST = ("compile", "drop", "pad")


class Fit:
    """One call of `Module.fit`: the loop and what it needs."""

    def __init__(
        self, model: Module, callbacks: Sequence[Callback], metrics: Mapping[str, Metric], steps: Steps, last: str
    ) -> None:
        self.model, self.callbacks, self.metrics, self.steps, self.last = model, callbacks, metrics, steps, last
        self.history = History()
        self.rows: int | None = None
        self.warned = False
        self.step = 0
        self.pending: list[tuple[int, dict[str, Any]]] = []
        for callback in callbacks:
            callback.model, callback.history, callback.stopped = model, self.history, None

    # -- the loop -----------------------------------------------------------------------------------------------

    def run(self, data: Any, epochs: int, validation: Any, progress: Progress) -> None:
        """All epochs; ends early when a callback says so."""
        self._tell(lambda callback: callback.on_train_begin())
        try:
            for epoch in range(1, epochs + 1):
                self._epoch(epoch, data, validation, progress)
                if self._stopped():
                    break
        except KeyboardInterrupt:
            self.history.stopped = f"interrupted in step {self.step + 1}"
        finally:
            progress.close()
            self._fetch()
            self._tell(lambda callback: callback.on_train_end())
        if self._stopped():
            progress.say(f"stopped: {self.history.stopped}")

    def _epoch(self, epoch: int, data: Any, validation: Any, progress: Progress) -> None:
        start, begin = time.perf_counter(), {name: len(v) for name, v in self.history.steps.items()}
        self._tell(lambda callback: callback.on_epoch_begin(epoch))
        for metric in self.metrics.values():
            metric.reset()
        self._steps(data, progress)
        values: dict[str, Any] = {"epoch": epoch, **self._means(begin)}
        values.update({name: number(metric.compute()) for name, metric in self.metrics.items()})
        if validation is not None and not self._stopped():
            values.update(validate(self.model, validation, self.metrics))
        values["seconds"] = time.perf_counter() - start
        self.history.epochs.append(values)
        progress.end_epoch(values)
        self._tell(lambda callback: callback.on_epoch_end(epoch, values))

    def _steps(self, data: Any, progress: Progress) -> None:
        total, done = _length(data), 0
        for block in self._blocks(data):
            for each in self.steps.run(block):
                self._note(each)
            self._count(block)
            done += len(block)
            progress.advance(len(block), done, total)
            if sum(count for count, _ in self.pending) >= FETCHED:
                progress.show(self._fetch())
                if self._stopped():
                    break
        self._fetch()
        if not done:
            raise ArgumentError("the data has no batches (an iterator can be read only once: pass a list, or a loader)")

    def _count(self, block: list[Arguments]) -> None:
        for batch in block:
            self.step += 1
            for callback in self.callbacks:
                callback.on_step_end(self.step, batch)

    def _blocks(self, data: Any) -> Iterator[list[Arguments]]:
        """Batches, as many together as one call takes."""
        block: list[Arguments] = []
        for batch in iterated(data):
            arguments = self._whole(arguments_of(batch))
            if arguments is not None:
                block.append(arguments)
            if len(block) >= self.steps.size:
                yield block
                block = []
        if block:
            yield block

    # -- the last batch -----------------------------------------------------------------------------------------

    def _whole(self, arguments: Arguments) -> Arguments | None:
        """A batch as it is to be run; None to leave it out."""
        rows = rows_of(arguments)
        self.rows = rows if self.rows is None else self.rows
        smaller = rows is not None and self.rows is not None and rows < self.rows
        if smaller and self.last == "drop":
            return None
        if self.last == "pad" and self.rows is not None:
            return padded(arguments, max(self.rows, rows or 0))
        if rows != self.rows and not self.warned:
            self.warned = True
            warnings.warn(
                f"a batch has {rows} rows instead of {self.rows}: the step is compiled once more for it. "
                "fit(last='drop') leaves it out; fit(last='pad') fills it up and passes `weight`",
                stacklevel=8,
            )
        return arguments

    # -- numbers ------------------------------------------------------------------------------------------------

    def _note(self, done: Done) -> None:
        self.pending.append((done.count, done.numbers))  # not the outputs, which may be large
        for metric in self.metrics.values():
            metric.update(done.output, done.target, **({} if done.weight is None else {"weight": done.weight}))

    def _fetch(self) -> dict[str, float]:
        """Wait for the numbers that are pending; the newest of each."""
        pending, self.pending = self.pending, []
        if not pending:
            return {}
        fetched = jax.device_get([numbers for _, numbers in pending])
        steps: list[dict[str, float]] = []
        for (count, _), numbers in zip(pending, fetched, strict=True):
            columns = {name: np.asarray(value, np.float64).reshape(-1) for name, value in numbers.items()}
            steps += [{name: float(column[k]) for name, column in columns.items()} for k in range(count)]
        for one in steps:
            for name, value in one.items():
                self.history.steps.setdefault(name, []).append(value)
        self._tell(lambda callback: callback.on_numbers(steps))
        return steps[-1]

    def _means(self, begin: Mapping[str, int]) -> dict[str, float]:
        """The mean of each number over the steps of the epoch."""
        found = {name: values[begin.get(name, 0) :] for name, values in self.history.steps.items()}
        return {name: float(np.mean(values)) for name, values in found.items() if values}

    # -- callbacks ----------------------------------------------------------------------------------------------

    def _tell(self, what: Callable[[Callback], None]) -> None:
        for callback in self.callbacks:
            what(callback)

    def _stopped(self) -> bool:
        reasons = [callback.stopped for callback in self.callbacks if callback.stopped is not None]
        self.history.stopped = self.history.stopped or (reasons[0] if reasons else None)
        return self.history.stopped is not None


def _length(data: Any) -> int | None:
    try:
        return len(data)
    except TypeError:
        return None


def fit(
    model: Module,
    data: Any,
    epochs: int,
    validation: Any,
    callbacks: Sequence[Callback],
    metrics: Any,
    steps_per_call: int | str,
    last: str,
    verbose: int,
) -> History:
    """See `Module.fit`."""
    refuse_inside("fit")
    integer("epochs", epochs, 0)
    if last not in LAST:
        raise ArgumentError(f"last is one of {', '.join(LAST)}. Received: {last!r}")
    for name, given in (("data", data), ("validation", validation)):
        if epochs > 1 and isinstance(given, Iterator):
            raise ArgumentError(
                f"the {name} is an iterator, which can be read only once: for several epochs pass a list, a loader, or "
                f"a function that returns an iterator. Received: {type(given).__name__}"
            )
    for callback in callbacks:
        if not isinstance(callback, Callback):
            raise ArgumentError(f"callbacks are instances of singax.training.Callback. Received: {callback!r}")
    loop = Fit(model, tuple(callbacks), _named(metrics), Steps(model, steps_per_call, last == "pad"), last)
    was = model.training
    model.train()
    try:
        loop.run(data, epochs, validation, Progress(verbose, epochs))
    finally:
        model.train(was)
    return loop.history


def _named(metrics: Any) -> dict[str, Metric]:
    """Metrics by name; those of a list are called after their classes."""
    if not isinstance(metrics, Mapping):
        metrics = {type(metric).__name__.lower(): metric for metric in metrics}
    for name, metric in metrics.items():
        if not isinstance(metric, Metric):
            raise ArgumentError(f"metrics are instances of singax.metric classes. Received for {name!r}: {metric!r}")
    return dict(metrics)
