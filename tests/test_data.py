"""ImageBatchIter: batches, order, workers that end."""

from __future__ import annotations

import multiprocessing
import pathlib
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from PIL import Image

from singax.data import ImageBatchIter
from singax.errors import ArgumentError, DataError

COUNT = 6


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    """Six images of one colour each, whose labels are their numbers."""
    for k in range(COUNT):
        Image.new("RGB", (5, 4), (k, 10 * k, 0)).save(tmp_path / f"{k}.png")
    (tmp_path / "list.txt").write_text("".join(f"{k}.png {k}\n" for k in range(COUNT)))
    yield tmp_path
    assert multiprocessing.active_children() == []


def load(path: str) -> list[Any]:
    """One image as it is."""
    return [Image.open(path)]


def taken(batches: ImageBatchIter, count: int) -> list[int]:
    """The labels of the next `count` batches."""
    return [int(label) for _ in range(count) for label in batches.next()[1]]


@pytest.mark.parametrize("start_method", ["fork", "spawn"])
def test_batches(folder: pathlib.Path, start_method: str) -> None:
    """float32 images in NCHW with their labels, pass after pass, in the order of the list."""
    options: dict[str, Any] = {"shuffle": False, "image_folder": folder, "start_method": start_method}
    with ImageBatchIter(folder / "list.txt", 4, load, **options) as batches:
        images, labels = next(batches)
        assert (images.shape, images.dtype, labels.dtype) == ((4, 3, 4, 5), np.float32, np.int32)
        np.testing.assert_array_equal(images[:, 0, 0, 0], labels)
        np.testing.assert_array_equal(images[:, 1, 3, 4], 10 * labels)
        assert [*labels, *taken(batches, 2)] == [0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5]


def test_shuffling(folder: pathlib.Path) -> None:
    """Every pass has each image once, in an order that the seed determines; workers share a pass."""
    orders = []
    for seed, workers in ((0, 1), (0, 1), (1, 1), (0, 3)):
        options: dict[str, Any] = {"image_folder": folder, "seed": seed, "num_workers": workers}
        with ImageBatchIter(folder / "list.txt", 2, load, **options) as batches:
            orders.append(taken(batches, 6))
    for order in orders:
        assert sorted(order[:COUNT]) == list(range(COUNT))
    assert orders[0] == orders[1]
    assert orders[0] != orders[2]
    assert orders[0][:COUNT] != orders[0][COUNT:]


def test_several_images_from_one(folder: pathlib.Path) -> None:
    """Each image that a transform returns is a sample with the same label; batches are always full."""
    options: dict[str, Any] = {"shuffle": False, "image_folder": folder}
    with ImageBatchIter(folder / "list.txt", 4, lambda path: load(path) * 3, **options) as batches:
        assert taken(batches, 2) == [0, 0, 0, 1, 1, 1, 2, 2]


def test_labels_that_are_no_integers(folder: pathlib.Path) -> None:
    """They stay strings, whatever stands between them and the path."""
    (folder / "words.txt").write_text("0.png,a cat\n1.png,7\n")
    with ImageBatchIter(folder / "words.txt", 2, load, False, ",", folder) as batches:
        assert next(batches)[1] == ["a cat", "7"]


def test_errors_of_a_worker_reach_the_user(folder: pathlib.Path) -> None:
    """A missing file and images of several sizes are named; the workers have ended then."""
    (folder / "bad.txt").write_text("0.png 0\nnone.png 1\n")
    batches = ImageBatchIter(folder / "bad.txt", 2, load, False, image_folder=folder)
    with pytest.raises(DataError, match=r"none\.png"):
        batches.next()

    def uneven(path: str) -> list[Any]:
        return [image.resize((3 + int(pathlib.Path(path).stem), 4)) for image in load(path)]

    batches = ImageBatchIter(folder / "list.txt", 2, uneven, False, image_folder=folder)
    with pytest.raises(DataError, match="one size"):
        batches.next()


def test_a_killed_worker_is_noticed(folder: pathlib.Path) -> None:
    """`next` does not wait for ever."""
    batches = ImageBatchIter(folder / "list.txt", 2, load, image_folder=folder, capacity=1)
    batches.start()
    batches._workers[0].kill()
    batches._workers[0].join()
    with pytest.raises(DataError):
        taken(batches, 5)


@pytest.mark.parametrize(
    "options", [{"batch_size": 0}, {"batch_size": 2.0}, {"capacity": 0}, {"num_workers": 7}, {"num_workers": True}]
)
def test_bad_arguments(folder: pathlib.Path, options: dict[str, Any]) -> None:
    """They are refused at once."""
    with pytest.raises(ArgumentError, match="Received"):
        ImageBatchIter(folder / "list.txt", **{"batch_size": 2, "image_transform": load, **options})


def test_bad_lists(folder: pathlib.Path) -> None:
    """A line without a label, an empty file, a missing file."""
    (folder / "bad.txt").write_text("0.png 0\n1.png\n")
    with pytest.raises(ArgumentError, match="line 2"):
        ImageBatchIter(folder / "bad.txt", 2, load)
    (folder / "empty.txt").write_text("\n")
    with pytest.raises(ArgumentError, match="no images"):
        ImageBatchIter(folder / "empty.txt", 2, load)
    with pytest.raises(FileNotFoundError):
        ImageBatchIter(folder / "nowhere.txt", 2, load)


def test_a_script_that_forgets_to_end_ends(folder: pathlib.Path) -> None:
    """Workers do not keep the interpreter alive."""
    code = (
        "import sys; from singax.data import ImageBatchIter; from PIL import Image\n"
        "batches = ImageBatchIter(sys.argv[1] + '/list.txt', 2, lambda p: [Image.open(p)], image_folder=sys.argv[1])\n"
        "print(batches.next()[0].shape)"
    )
    root = pathlib.Path(__file__).parent.parent
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder)], capture_output=True, text=True, timeout=60, cwd=root, check=True
    )
    assert done.stdout.strip() == "(2, 3, 4, 5)"
