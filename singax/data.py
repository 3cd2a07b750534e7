"""Batches of images, prepared by worker processes while a model trains.

>>> import pathlib, tempfile
>>> from PIL import Image
>>> folder = pathlib.Path(tempfile.mkdtemp())
>>> for k in range(3):
...     Image.new("RGB", (8, 8), (k, 0, 0)).save(folder / f"{k}.png")
>>> _ = (folder / "list.txt").write_text("0.png 0\\n1.png 1\\n2.png 0\\n")
>>> load = lambda path: [Image.open(path)]
>>> with ImageBatchIter(folder / "list.txt", 2, load, shuffle=False, image_folder=folder) as batches:
...     images, labels = next(batches)
>>> images.shape, labels
((2, 3, 8, 8), array([0, 1], dtype=int32))
"""

from __future__ import annotations

import multiprocessing
import os
import queue
import random
import signal
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from singax.checked import integer
from singax.errors import ArgumentError, DataError, ShapeError

Batch = tuple[np.ndarray, Any]

_PATIENCE_SECONDS = 0.2


class ImageBatchIter:
    """Endless batches of the images that a text file lists, one `path<delimiter>label` a line.

    **Args**
      img_list_file: the list. A label is whatever follows the first delimiter.
      batch_size: images in a batch.
      image_transform: from the path of an image to a list of Pillow images of one size; each becomes a sample.
      shuffle: whether each pass over the list has a new order (default True).
      delimiter: what stands between path and label (default a blank).
      image_folder: what the paths are relative to (default: the folder one is in).
      capacity: how many batches may wait (default 10).
      num_workers: processes (default 1). Each takes every n-th image of a pass, so the order is the same on each run.
      seed: of the order and of what `image_transform` draws from `random` or `numpy.random` (default: a new one).
      start_method: of the processes; default "fork" where there is one, so that `image_transform` may be a lambda or
        stand in a notebook, else "spawn".

    `next(batches)` or `batches.next()` gives (images, labels): float32 (N, 3, H, W) with values 0 … 255, and int32 (N,)
    if every label is an integer, else a list of strings. `start()` runs the workers (the first `next` does it too),
    `end()` ends them; a `with` block does both.

    **Raises** `ArgumentError` for an empty list or arguments outside of these; `DataError` from `next` when a worker
    has failed, with its message.
    """

    def __init__(
        self,
        img_list_file: Any,
        batch_size: int,
        image_transform: Callable[[str], list[Any]],
        shuffle: bool = True,
        delimiter: str = " ",
        image_folder: Any = None,
        capacity: int = 10,
        num_workers: int = 1,
        seed: int | None = None,
        start_method: str | None = None,
    ) -> None:
        for name, value in (("batch_size", batch_size), ("capacity", capacity), ("num_workers", num_workers)):
            integer(name, value, 1)
        self.samples = _listed(img_list_file, delimiter, image_folder)
        self.num_samples = len(self.samples)
        if num_workers > self.num_samples:
            raise ArgumentError(f"expected at most one worker per image, {self.num_samples}. Received: {num_workers}")
        self.batch_size, self.image_transform, self.shuffle = batch_size, image_transform, shuffle
        self.capacity, self.num_workers = capacity, num_workers
        self.seed = random.randrange(2**32) if seed is None else seed
        methods = multiprocessing.get_all_start_methods()
        self.context: Any = multiprocessing.get_context(start_method or ("fork" if "fork" in methods else "spawn"))
        self._workers: list[Any] = []
        self._queues: list[Any] = []
        self._turn = 0

    def start(self) -> None:
        """Run the workers, if they do not run yet."""
        if self._workers:
            return
        share = max(self.capacity // self.num_workers, 1)
        self._queues = [self.context.Queue(share) for _ in range(self.num_workers)]
        self._stop, self._turn = self.context.Event(), 0
        for number, waiting in enumerate(self._queues):
            plan = _Plan(self.samples, self.batch_size, self.image_transform, self.shuffle, self.seed)
            args = (plan, number, self.num_workers, waiting, self._stop, os.getpid())
            self._workers.append(self.context.Process(target=_work, args=args, daemon=True))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the children of a fork use neither JAX nor threads
            for worker in self._workers:
                worker.start()

    def next(self) -> Batch:
        """The next batch. Raises `DataError` when a worker has failed."""
        self.start()
        number = self._turn % self.num_workers
        while True:
            try:
                found = self._queues[number].get(timeout=_PATIENCE_SECONDS)
                break
            except queue.Empty:
                if not self._workers[number].is_alive() and self._queues[number].empty():
                    self.end()
                    raise DataError("a worker that prepares images has ended without a word") from None
        if isinstance(found, str):
            self.end()
            raise DataError(found)
        self._turn += 1
        return found

    __next__ = next

    def __iter__(self) -> Iterator[Batch]:
        return self

    def end(self) -> None:
        """End the workers and forget the batches that wait. Nothing happens if none run."""
        workers, self._workers = self._workers, []
        if not workers:
            return
        self._stop.set()
        for worker, waiting in zip(workers, self._queues, strict=True):
            _drain(worker, waiting)
            waiting.close()
            waiting.join_thread()

    def __enter__(self) -> ImageBatchIter:
        self.start()
        return self

    def __exit__(self, *error: Any) -> None:
        self.end()

    def __del__(self) -> None:
        if getattr(self, "_workers", None):
            self.end()


def _drain(worker: Any, waiting: Any) -> None:
    """Empty a worker's queue until it has ended: a process does not end while its queue is full."""
    for _ in range(int(10 / _PATIENCE_SECONDS)):
        while not waiting.empty():
            waiting.get()
        worker.join(_PATIENCE_SECONDS)
        if not worker.is_alive():
            return
    worker.kill()
    worker.join()


def _listed(path: Any, delimiter: str, folder: Any) -> list[tuple[str, str]]:
    """(full path, label) of each line that is not empty."""
    samples = []
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            name, found, label = line.rstrip("\r\n").partition(delimiter)
            if not found and name:
                raise ArgumentError(f"line {number} of {path} must hold path{delimiter}label. Received: {name!r}")
            if name:
                samples.append((os.path.join(folder or "", name), label.strip()))
    if not samples:
        raise ArgumentError(f"{path} lists no images")
    return samples


@dataclass
class _Plan:
    """What a worker does: the samples and how they become batches."""

    samples: list[tuple[str, str]]
    batch_size: int
    transform: Callable[[str], list[Any]]
    shuffle: bool
    seed: int

    def __post_init__(self) -> None:
        self.integers = all(label.removeprefix("-").isdigit() for _, label in self.samples)

    def share(self, number: int, workers: int) -> Iterator[tuple[str, str]]:
        """Every n-th sample of one pass after another; all workers shuffle alike."""
        order = random.Random(self.seed)
        while True:
            samples = list(self.samples)
            if self.shuffle:
                order.shuffle(samples)
            yield from samples[number::workers]

    def batches(self, number: int, workers: int) -> Iterator[Batch]:
        """Batches of one worker, for ever."""
        images: list[np.ndarray] = []
        labels: list[Any] = []
        for path, label in self.share(number, workers):
            made = [_as_array(image) for image in self.transform(path)]
            images += made
            labels += [int(label) if self.integers else label] * len(made)
            while len(images) >= self.batch_size:
                yield self._stacked(images[: self.batch_size], labels[: self.batch_size])
                del images[: self.batch_size], labels[: self.batch_size]

    def _stacked(self, images: list[np.ndarray], labels: list[Any]) -> Batch:
        sizes = {image.shape for image in images}
        if len(sizes) > 1:
            raise ShapeError(f"expected images of one size in a batch. Received sizes (3, H, W): {sorted(sizes)}")
        return np.stack(images), np.asarray(labels, np.int32) if self.integers else labels


def _as_array(image: Any) -> np.ndarray:
    """A Pillow image as float32 (3, H, W)."""
    return np.ascontiguousarray(np.asarray(image.convert("RGB"), np.float32).transpose(2, 0, 1))


def _work(plan: _Plan, number: int, workers: int, waiting: Any, stop: Any, parent: int) -> None:
    """The body of a worker: it ends when it is told to, or when nobody is there any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    random.seed(plan.seed + number)
    np.random.seed((plan.seed + number) % 2**32)
    try:
        for batch in plan.batches(number, workers):
            if not _handed_over(batch, waiting, stop, parent):
                break
    except Exception as error:
        _handed_over(f"a worker that prepares images failed: {type(error).__name__}: {error}", waiting, stop, parent)


def _handed_over(what: Any, waiting: Any, stop: Any, parent: int) -> bool:
    while not stop.is_set() and os.getppid() == parent:
        try:
            waiting.put(what, timeout=_PATIENCE_SECONDS)
            return True
        except queue.Full:
            continue
    waiting.cancel_join_thread()
    return False
