"""What can go wrong with a checkpoint: killed writers, full disks, flipped bits, races. Counts what came of each.

Run as a process of its own: `checkpoint_faults.py NAME COUNT FOLDER` prints the counts of one experiment as JSON.
Writers are forked from this process, so that a thousand of them cost no thousand imports; they touch no device.
"""

from __future__ import annotations

import errno
import json
import os
import pathlib
import random
import resource
import signal
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

import singax as sx
from singax.checkpoint import network, saving
from singax.errors import FileFormatError

SIZES = {"a": (200, 500), "b": (7,), "c": (300, 300), "d": (), "e": (64, 64, 3)}


class Numbered(sx.Module):
    """A model all of whose states are one number, so that a mixture of two saves shows."""

    def __init__(self) -> None:
        super().__init__()
        for name, size in SIZES.items():
            setattr(self, name, sx.Tensor(data=np.zeros(size, np.float32), requires_grad=False))

    def fill(self, number: int) -> None:
        """Set all states, without any device."""
        for name, size in SIZES.items():
            self.__dict__[name]._cell.set(np.full(size, number, np.float32), lent=False)
        self._generator.cell.set(np.array([0, number], np.uint32), lent=False)

    def numbers(self) -> set[float]:
        """The numbers in all states."""
        return {float(number) for tensor in self.get_states().values() for number in np.unique(tensor.to_numpy())}


def tiny_network(model: Any, save_id: str) -> bytes:
    """The smallest ONNX file with a save id: one entry of metadata."""
    key, value = network.SAVE_ID.encode(), save_id.encode()
    entry = b"\x0a" + bytes([len(key)]) + key + b"\x12" + bytes([len(value)]) + value
    return b"\x08\x08\x72" + bytes([len(entry)]) + entry


def without_device() -> None:
    """Let `save` read host arrays as they are, and write a tiny network: what a forked process can do."""
    network.network_bytes = tiny_network
    saving._array_of = lambda home: home.cell.get()


def loaded(path: pathlib.Path) -> tuple[set[float], Any, bool]:
    """(numbers in the states, the state's own number, whether the two files are of different saves)."""
    net = Numbered()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        state = net.load(path)
    return net.numbers(), state["number"], any("another save" in str(w.message) for w in caught)


def litter(folder: pathlib.Path) -> list[str]:
    """Files that are neither of the two."""
    return [name for name in os.listdir(folder) if name not in ("net.safetensors", "net.onnx")]


def forked(work: Callable[[int], None]) -> tuple[int, int]:
    """A child that runs `work(pipe)`; returns its id and the other end of the pipe."""
    there, here = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(there)
            work(here)
            code = 0
        finally:
            os._exit(code)
    os.close(here)
    return child, there


def read_all(pipe: int) -> bytes:
    """What a child has written until it ended."""
    with os.fdopen(pipe, "rb") as file:
        return file.read()


def saved(net: Numbered, path: pathlib.Path, number: int) -> None:
    """Save a model that is all `number`."""
    net.fill(number)
    net.save(path, state={"number": number})


# -- experiments ----------------------------------------------------------------------------------------------------


def kills(count: int, folder: pathlib.Path) -> Counter[str]:
    """`kill -9` of a process that saves again and again, at a random moment; the next one goes on from there."""
    net, path, counts = Numbered(), folder / "net", Counter[str]()
    saved(net, path, 0)
    last, rng = 0, random.Random(0)
    for _ in range(count):

        def work(pipe: int, start: int = last) -> None:
            for number in range(start + 1, start + 1000):
                saved(net, path, number)
                os.write(pipe, number.to_bytes(4, "little"))

        child, pipe = forked(work)
        time.sleep(rng.uniform(0, 0.05))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        reported = read_all(pipe)
        newest = int.from_bytes(reported[-4:], "little") if reported else last
        counts["interrupted in the middle of a file"] += bool(litter(folder))
        last = _judged(path, newest, counts)
    saved(net, path, last + 1)
    counts["litter"] += len(litter(folder))
    return counts


def _judged(path: pathlib.Path, newest: int, counts: Counter[str]) -> int:
    """Count what the file is after a kill; the number in it."""
    counts["kills"] += 1
    try:
        numbers, number, differ = loaded(path)
    except FileNotFoundError:
        counts["lost"] += 1
        return newest
    except FileFormatError:
        counts["corrupt"] += 1
        return newest
    counts["mixed"] += numbers != {float(number)}
    counts["stale"] += number < newest
    counts["not yet reported"] += number > newest
    counts["between the two renames, and noticed"] += differ
    return int(number)


def full_disk(count: int, folder: pathlib.Path) -> Counter[str]:
    """A limit on the size of files at `count` points: the system refuses to write on."""
    net, path, counts = Numbered(), folder / "net", Counter[str]()
    saved(net, path, 1)
    size = (folder / "net.safetensors").stat().st_size

    def limited(limit: int) -> Callable[[int], None]:
        def work(pipe: int) -> None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            try:
                saved(net, path, 2)
            except OSError as error:
                clear = error.errno in (errno.EFBIG, errno.ENOSPC) and str(path) in str(error)
                os.write(pipe, b"clear" if clear else str(error).encode())

        return work

    for point in range(count):
        child, pipe = forked(limited(point * size // count))
        os.waitpid(child, 0)
        counts["clear OSError"] += read_all(pipe) == b"clear"
        numbers, number, _ = loaded(path)
        counts["old file loads"] += numbers == {1.0} and number == 1
        counts["litter"] += len(litter(folder))
    counts["points"] = count
    return counts


def races(count: int, folder: pathlib.Path) -> Counter[str]:
    """Two writers at the same time: the file is whole, of one of both, and so is the pair."""
    net, path, counts = Numbered(), folder / "net", Counter[str]()
    for number in range(count):
        gate, opener = os.pipe()

        def work(pipe: int, number: int = number, side: int = 0, gate: int = gate) -> None:
            os.read(gate, 1)
            saved(net, path, 2 * number + side)

        children = [
            forked(lambda pipe, side=side, work=work: work(pipe, side=side)) for side in (0, 1)
        ]  # both wait at the gate
        os.write(opener, b"go")
        for child, pipe in children:
            counts["failed"] += os.waitpid(child, 0)[1] != 0
            os.close(pipe)
        os.close(gate)
        os.close(opener)
        numbers, found, differ = loaded(path)
        counts["whole, of one of both"] += numbers == {float(found)} and found in (2 * number, 2 * number + 1)
        counts["mixed pair"] += differ
        counts["litter"] += len(litter(folder))
    counts["races"] = count
    return counts


def readers(count: int, folder: pathlib.Path) -> Counter[str]:
    """Loads while another process saves without a pause."""
    net, path, counts = Numbered(), folder / "net", Counter[str]()
    saved(net, path, 0)

    def work(pipe: int) -> None:
        number = 1
        while True:
            saved(net, path, number)
            number += 1

    child, pipe = forked(work)
    seen = set()
    try:
        for _ in range(count):
            numbers, found, differ = loaded(path)
            seen.add(found)
            counts["whole"] += numbers == {float(found)}
            counts["mixed pair"] += differ
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(pipe)
    counts["loads"], counts["different saves seen"] = count, len(seen)
    return counts


def flips(count: int, folder: pathlib.Path) -> Counter[str]:
    """Single bits flipped, a third of them in the header: each load fails with a clear error."""
    small, counts, rng = folder / "net.safetensors", Counter[str](), random.Random(1)
    net = _small(folder)
    whole = small.read_bytes()
    header = 8 + int.from_bytes(whole[:8], "little")
    for index in range(count):
        damaged = bytearray(whole)
        byte = rng.randrange(header) if index % 3 == 0 else rng.randrange(len(whole))
        damaged[byte] ^= 1 << rng.randrange(8)
        small.write_bytes(damaged)
        counts[_load_small(net, small)] += 1
    return counts


def truncations(count: int, folder: pathlib.Path) -> Counter[str]:
    """Cut at every `count`-th byte."""
    saved(Numbered(), folder / "net", 1)
    path, counts = folder / "net.safetensors", Counter[str]()
    net = Numbered()
    for length in range(path.stat().st_size - 1, -1, -count):
        os.truncate(path, length)
        counts[_load_small(net, path)] += 1
    return counts


def _small(folder: pathlib.Path) -> Any:
    class Small(sx.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = sx.Tensor(data=np.arange(90, dtype=np.float32), requires_grad=False)

    made = Small()
    made._generator.cell.set(np.array([0, 1], np.uint32), lent=False)
    made.save(folder / "net", state={"epoch": 3, "note": "x", "list": [1.5, None]}, onnx=False)
    return made


def _load_small(net: Any, path: pathlib.Path) -> str:
    before = {name: tensor.to_numpy().copy() for name, tensor in net.get_states().items()}
    try:
        net.load(path)
    except FileFormatError:
        same = all((tensor.to_numpy() == before[name]).all() for name, tensor in net.get_states().items())
        return "clear error" if same else "changed the model"
    return "silent"


EXPERIMENTS: dict[str, Callable[[int, pathlib.Path], Counter[str]]] = {
    "kills": kills, "full_disk": full_disk, "races": races, "readers": readers, "flips": flips,
    "truncations": truncations,
}  # fmt: skip


def run(name: str, count: int, folder: pathlib.Path) -> dict[str, int]:
    """The counts of one experiment."""
    warnings.filterwarnings("ignore", "os.fork")
    without_device()
    return dict(EXPERIMENTS[name](count, folder))


if __name__ == "__main__":
    print(json.dumps(run(sys.argv[1], int(sys.argv[2]), pathlib.Path(sys.argv[3]))))
