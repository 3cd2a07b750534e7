"""The MNIST examples run, and their reader of IDX files refuses damaged ones."""

from __future__ import annotations

import gzip
import os
import struct
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"


@pytest.fixture(name="data", scope="module")
def _data() -> ModuleType:
    sys.path.insert(0, str(EXAMPLES))
    try:
        import data
    finally:
        sys.path.remove(str(EXAMPLES))
    return data


def idx(values: np.ndarray) -> bytes:
    """The bytes of an IDX file."""
    return bytes([0, 0, 8, values.ndim]) + struct.pack(f">{values.ndim}I", *values.shape) + values.tobytes()


def digits(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Random images and the labels 0, 1, …"""
    pixels = np.random.default_rng(count).integers(0, 256, (count, 28, 28)).astype(np.uint8)
    return pixels, (np.arange(count) % 10).astype(np.uint8)


@pytest.fixture(name="folder")
def _folder(tmp_path: Path) -> Path:
    for part, count in (("train", 100), ("t10k", 12)):
        pixels, labels = digits(count)
        (tmp_path / f"{part}-images-idx3-ubyte").write_bytes(idx(pixels))
        (tmp_path / f"{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(labels)))
    return tmp_path


def run_example(name: str, *args: str) -> str:
    """Run an example in a process of its own; returns what it prints."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, str(EXAMPLES / name), *args]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


# -- the examples -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flags", [[], ["--eager"]])
def test_cnn_trains_one_small_epoch(folder: Path, flags: list[str]) -> None:
    printed = run_example(
        "mnist_cnn.py", "--data", str(folder), "--epochs", "1", "--limit", "64", "--batch", "16", *flags
    )
    assert printed.splitlines()[-1].startswith("test accuracy: 0.")


def test_gan_writes_its_samples(tmp_path: Path) -> None:
    printed = run_example("gan_mnist.py", "--quick", "--out", str(tmp_path / "digits.png"))
    assert "samples:" in printed
    assert (tmp_path / "digits.png").read_bytes().startswith(b"\x89PNG")


def test_gan_steps_update_one_network_each(data: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import gan_mnist

    import singax as sx

    model = gan_mnist.GAN(1e-3)
    model.compile([sx.Placeholder((4, gan_mnist.NOISE))])
    rng = np.random.default_rng(0)
    noise, images = gan_mnist.noise_for(4, rng), rng.random((4, 784), np.float32)
    ones, zeros = np.ones((4, 1), np.float32), np.zeros((4, 1), np.float32)
    model.train_one_batch_dis(images, ones, noise, zeros)
    for step, part in (
        (lambda: model.train_one_batch(noise, ones), "gen_net"),
        (lambda: model.train_one_batch_dis(images, ones, noise, zeros), "dis_net"),
    ):
        before = {path: p.to_numpy() for path, p in model.get_params().items()}
        step()
        moved = {path for path, p in model.get_params().items() if (p.to_numpy() != before[path]).any()}
        assert {path for path in moved if not path.startswith(part)} == set()
        assert f"{part}.out.W" in moved


# -- the bundled digits -----------------------------------------------------------------------------------------


def test_bundled_digits(data: ModuleType) -> None:
    split = data.mnist()
    assert split.train_x.shape == (4000, 1, 28, 28)
    assert split.test_x.shape == (1000, 1, 28, 28)
    assert split.train_x.dtype == np.float32
    assert split.train_y.dtype == np.int32
    assert (split.train_x.min(), split.train_x.max()) == (0, 1)
    assert np.bincount(split.test_y).tolist() == [100] * 10


def test_shifts_move_by_at_most_so_many_pixels(data: ModuleType) -> None:
    image = np.zeros((1, 1, 9, 9), np.float32)
    image[0, 0, 4, 4] = 1
    many = data.shifted(np.repeat(image, 200, 0), 2, np.random.default_rng(0))
    assert many.shape == (200, 1, 9, 9)
    assert (many.sum((1, 2, 3)) == 1).all()
    assert {tuple(place) for place in np.argwhere(many)[:, 2:].tolist()} == {
        (r, c) for r in range(2, 7) for c in range(2, 7)
    }


def test_batches_have_one_size_and_no_sample_twice(data: ModuleType) -> None:
    x = np.arange(10)
    got = list(data.batches((x, x), 4, np.random.default_rng(0)))
    assert [len(bx) for bx, _ in got] == [4, 4]
    assert len(np.unique(np.concatenate([bx for bx, _ in got]))) == 8


# -- IDX files --------------------------------------------------------------------------------------------------


def test_folder_plain_and_gzipped(data: ModuleType, folder: Path) -> None:
    split = data.mnist(folder)
    pixels, labels = digits(100)
    np.testing.assert_array_equal(split.train_x[:, 0], pixels.astype(np.float32) / 255)
    np.testing.assert_array_equal(split.train_y, labels)
    assert split.test_x.shape == (12, 1, 28, 28)


GOOD = idx(digits(3)[1])
DAMAGED = {
    "empty": (b"", "begins with"),
    "other magic": (b"\x00\x00\x08\x03" + GOOD[4:], "begins with"),
    "floats": (b"\x00\x00\x0d\x01" + GOOD[4:], "begins with"),
    "ends in the header": (GOOD[:6], "inside its header"),
    "too short": (GOOD[:-1], "3 bytes"),
    "too long": (GOOD + b"\x00", "found more"),
    "header asks for 4 GiB": (GOOD[:4] + b"\xff\xff\xff\xff" + GOOD[8:], "4294967295"),
}


@pytest.mark.parametrize("name", DAMAGED)
@pytest.mark.parametrize("zipped", [False, True])
def test_damaged_files_are_refused(data: ModuleType, tmp_path: Path, name: str, zipped: bool) -> None:
    content, message = DAMAGED[name]
    path = tmp_path / ("labels.gz" if zipped else "labels")
    path.write_bytes(gzip.compress(content) if zipped else content)
    with pytest.raises(data.IdxError, match=message):
        data.read_idx(path, axes=1)


def test_sizes_do_not_overflow(data: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "images"
    path.write_bytes(b"\x00\x00\x08\x03" + struct.pack(">3I", 2**31, 2**31, 4) + bytes(100))  # product 0 modulo 2**64
    with pytest.raises(data.IdxError, match="more than the file can hold"):
        data.read_idx(path, axes=3)


ZIPPED = gzip.compress(GOOD, mtime=0)  # the same bytes, and so the same names of tests, in every process


@pytest.mark.parametrize(
    "content", [b"not gzip", ZIPPED[:-12], ZIPPED[:10] + bytes(30)], ids=["no", "short", "damaged"]
)
def test_damaged_gzip_is_refused(data: ModuleType, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "labels.gz"
    path.write_bytes(content)
    with pytest.raises(data.IdxError):
        data.read_idx(path, axes=1)


def test_missing_and_mismatched_files(data: ModuleType, folder: Path) -> None:
    pixels, labels = digits(12)
    (folder / "t10k-images-idx3-ubyte").write_bytes(idx(pixels[:11]))
    with pytest.raises(data.IdxError, match="t10k images"):
        data.mnist(folder)
    (folder / "t10k-images-idx3-ubyte").write_bytes(idx(pixels))
    (folder / "t10k-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(labels + 10)))
    with pytest.raises(data.IdxError, match="label is"):
        data.mnist(folder)
    (folder / "t10k-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(FileNotFoundError, match="t10k-labels-idx1-ubyte"):
        data.mnist(folder)
