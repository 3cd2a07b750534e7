"""Saving and loading a model of 1 GB: time beside `safetensors.numpy.save_file`, and memory above the state.

    python benchmarks/save_load.py
    python benchmarks/save_load.py --megabytes 100 --rounds 7

The model has 20 float32 matrices of equal size. Save and load are timed in turn with safetensors' own, which writes
neither checksums nor waits for the disk; the third column adds the wait (fsync) and a SHA-256 of each array to it. The
figures are medians over the rounds. Memory is the most that a process of its own takes above what it took before, in
sizes of the largest array.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable

import numpy as np
from safetensors.numpy import load_file, save_file

import singax as sx

ARRAYS = 20


class Large(sx.Module):
    """`ARRAYS` float32 matrices of 1024 columns."""

    def __init__(self, megabytes: int) -> None:
        super().__init__()
        rows = megabytes * 1_000_000 // (4 * 1024 * ARRAYS)
        rng = np.random.default_rng(0)
        for number in range(ARRAYS):
            value = sx.Tensor(data=rng.standard_normal((rows, 1024), np.float32), requires_grad=False)
            setattr(self, f"w{number}", value)
            _ = value.data.block_until_ready()


def resident() -> int:
    """Bytes of memory that this process takes."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def most_above(work: Callable[[], None]) -> int:
    """The most bytes that this process takes above what it took before, while `work()` runs."""
    before, most, done = resident(), [0], threading.Event()

    def watch() -> None:
        while not done.wait(0.001):
            most[0] = max(most[0], resident() - before)

    watcher = threading.Thread(target=watch)
    watcher.start()
    work()
    done.set()
    watcher.join()
    return most[0]


def seconds(work: Callable[[], object]) -> float:
    """How long `work()` takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def theirs(net: Large, path: pathlib.Path, safely: bool) -> None:
    """The same arrays by safetensors' own writer; `safely` with checksums and fsync."""
    arrays = {name: np.asarray(value) for name, value in net.state_dict().items()}
    if safely:
        for array in arrays.values():
            hashlib.sha256(array.reshape(-1).view(np.uint8).data).hexdigest()
    save_file(arrays, path)
    if safely:
        with open(path, "rb") as file:
            os.fsync(file.fileno())


def memory(megabytes: int, path: str) -> None:
    """Print the memory that one save takes; in a process of its own."""
    net = Large(megabytes)
    net.save(path + "/warm", onnx=False)
    largest = net.w0.memsize()
    print(f"memory above the state while saving: {most_above(lambda: net.save(path, onnx=False)) / largest:.2f}")


def times(megabytes: int, rounds: int, folder: pathlib.Path) -> None:
    """Print the medians, and their ratios."""
    net, other = Large(megabytes), Large(megabytes)
    ways: dict[str, Callable[[], object]] = {
        "singax save": lambda: net.save(folder / "ours", onnx=False),
        "safetensors save": lambda: theirs(net, folder / "theirs", safely=False),
        "safetensors save + SHA-256 + fsync": lambda: theirs(net, folder / "theirs", safely=True),
        "singax load": lambda: other.load(folder / "ours"),
        "safetensors load": lambda: load_file(folder / "theirs"),
    }
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, work in ways.items():
            taken[name].append(seconds(work))
    medians = {name: statistics.median(values) for name, values in taken.items()}
    for name, median in medians.items():
        print(f"{name}: {median:.2f} s")
    save, load = medians["singax save"], medians["singax load"]
    print(f"ratio to safetensors: save {save / medians['safetensors save']:.2f}, ", end="")
    print(f"save as safely {save / medians['safetensors save + SHA-256 + fsync']:.2f}, ", end="")
    print(f"load {load / medians['safetensors load']:.2f}")


def main() -> None:
    """Memory first, then times."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--memory", help="only measure memory, saving to this path")
    given = parser.parse_args()
    if given.memory:
        memory(given.megabytes, given.memory)
        return
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "net").mkdir()
        command = [sys.executable, __file__, "--megabytes", str(given.megabytes), "--memory", f"{folder}/net"]
        subprocess.run(command, check=True)
        times(given.megabytes, given.rounds, pathlib.Path(folder))


if __name__ == "__main__":
    main()
