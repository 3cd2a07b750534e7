"""Crashes, full disks, damage, races and interrupts at a small size; tools/checkpoint_faults.py runs them in full."""

from __future__ import annotations

import errno
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
from typing import Any

import numpy as np
import pytest
from models import MLP, assert_equal_states, assert_no_tracers, blobs, states, trained

import singax as sx
from singax import files
from singax.checkpoint import placing, wire
from singax.storage import Cell

HERE = pathlib.Path(__file__).resolve().parent
X, Y = blobs()


def experiment(name: str, count: int, folder: pathlib.Path) -> dict[str, int]:
    """The counts of one experiment, made by a process that forks its writers."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE.parent), str(HERE)])}
    command = [sys.executable, str(HERE / "checkpoint_faults.py"), name, str(count), str(folder)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment, timeout=500)
    found: dict[str, int] = json.loads(done.stdout)
    return found


def test_killed_writers(tmp_path: pathlib.Path) -> None:
    """Nothing lost, corrupt, mixed or stale; the next save removes what they left."""
    found = experiment("kills", 20, tmp_path)
    assert found["kills"] == 20
    assert found["interrupted in the middle of a file"] > 0
    bad = ("lost", "corrupt", "mixed", "stale", "litter")
    assert {kind: found.get(kind, 0) for kind in bad} == dict.fromkeys(bad, 0)


def test_a_limit_on_the_size_of_files(tmp_path: pathlib.Path) -> None:
    """The system refuses to write on: a clear OSError, the old file, no litter."""
    found = experiment("full_disk", 5, tmp_path)
    assert found == {"points": 5, "clear OSError": 5, "old file loads": 5, "litter": 0}


def test_two_writers(tmp_path: pathlib.Path) -> None:
    """Whole, of one of both."""
    found = experiment("races", 8, tmp_path)
    assert found == {"races": 8, "whole, of one of both": 8, "failed": 0, "mixed pair": 0, "litter": 0}


def test_a_reader_during_renames(tmp_path: pathlib.Path) -> None:
    """Always whole, and of more than one save in the end."""
    found = experiment("readers", 30, tmp_path)
    assert (found["whole"], found["loads"], found["mixed pair"]) == (30, 30, 0)
    assert found["different saves seen"] > 1


def test_flipped_bits(tmp_path: pathlib.Path) -> None:
    """None is silent, and none changes the model."""
    assert experiment("flips", 200, tmp_path) == {"clear error": 200}


def test_truncated_files(tmp_path: pathlib.Path) -> None:
    """A clear error wherever the file ends."""
    found = experiment("truncations", 20_000, tmp_path)
    assert set(found) == {"clear error"}
    assert found["clear error"] > 20


# -- a disk that is full ------------------------------------------------------------------------------------------


class FullDisk:
    """A file that holds `room` bytes."""

    def __init__(self, file: Any, room: int) -> None:
        self._file, self.room = file, room

    def write(self, content: Any) -> int:
        if len(content) > self.room:
            self._file.write(content[: self.room])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.room -= len(content)
        return int(self._file.write(content))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def _fill_disk(monkeypatch: pytest.MonkeyPatch, room: int) -> None:
    original = files.NewFile.__init__

    def limited(self: files.NewFile, path: Any) -> None:
        original(self, path)
        self.file = FullDisk(self.file, room)

    monkeypatch.setattr(files.NewFile, "__init__", limited)


def test_a_full_disk(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At twenty points, the second writing of the header among them."""
    net = trained(steps=2)
    net.save(tmp_path / "net", onnx=False)
    old, before = (tmp_path / "net.safetensors").read_bytes(), states(net)
    net(X, Y)
    later = states(net)
    for point in range(20):
        with monkeypatch.context() as patch:
            _fill_disk(patch, len(old) * point // 19 + (50 if point == 19 else 0))
            with pytest.raises(OSError, match=r"net\.safetensors failed \(the file that was there is unchanged\)") as e:
                net.save(tmp_path / "net", onnx=False)
        assert e.value.errno == errno.ENOSPC
        assert os.listdir(tmp_path) == ["net.safetensors"]
        assert (tmp_path / "net.safetensors").read_bytes() == old
    assert_equal_states(states(net), later)
    net.load(tmp_path / "net")
    assert_equal_states(states(net), before)


@pytest.mark.parametrize("call", ["fsync", "replace", "chmod"])
def test_a_disk_that_fails_at_the_end(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    """What was not flushed or renamed leaves no litter."""
    net = trained(steps=2)
    net.save(tmp_path / "net", onnx=False)
    old = (tmp_path / "net.safetensors").read_bytes()

    def fail(*arguments: Any) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        with pytest.raises(OSError, match="output error"):
            net.save(tmp_path / "net", onnx=False)
    assert os.listdir(tmp_path) == ["net.safetensors"]
    assert (tmp_path / "net.safetensors").read_bytes() == old


# -- exceptions at every array --------------------------------------------------------------------------------------


class FailsAt:
    """A function that raises at its k-th call."""

    def __init__(self, function: Any, k: int, error: BaseException) -> None:
        self.function, self.k, self.error, self.calls = function, k, error, 0

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        self.calls += 1
        if self.calls == self.k + 1:
            raise self.error
        return self.function(*arguments, **options)

    def __get__(self, instance: Any, owner: Any) -> Any:
        return lambda *arguments, **options: self(instance, *arguments, **options)


ERRORS = (MemoryError("no memory"), KeyboardInterrupt(), RuntimeError("a device failed"))


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_exception_at_any_array_while_saving(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    """The old file stays, nothing else does, and the model goes on."""
    net, twin = trained(steps=2), trained(steps=2)
    net.save(tmp_path / "net", onnx=False)
    old, count = (tmp_path / "net.safetensors").read_bytes(), len(states(net))
    for k in range(count):
        with monkeypatch.context() as patch:
            patch.setattr(wire, "host_array", FailsAt(wire.host_array, k, error))
            with pytest.raises(type(error)):
                net.save(tmp_path / "net", onnx=False)
        assert os.listdir(tmp_path) == ["net.safetensors"]
        assert (tmp_path / "net.safetensors").read_bytes() == old
    net(X, Y)
    twin(X, Y)
    assert_equal_states(states(net), states(twin))


PLACES = {"read": (files.SafetensorsFile, "read"), "place": (placing, "place_host_array"), "set": (Cell, "set")}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("slots", [True, False])
def test_an_exception_at_any_array_while_loading(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, place: str, slots: bool
) -> None:
    """The model stays bit for bit, whether it had slots or not, and loads afterwards."""
    source, net = trained(steps=3), trained(steps=1 if slots else 0)
    source.save(tmp_path / "net", onnx=False)
    before = states(net)
    owner, name = PLACES[place]
    for k in range(len(states(source))):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, FailsAt(getattr(owner, name), k, error))
            with pytest.raises(type(error)):
                net.load(tmp_path / "net")
        assert_equal_states(states(net), before)
        assert net._awaited is None
    net.load(tmp_path / "net")
    assert_equal_states(states(net), states(source))


def test_values_that_wait_survive_a_failing_compile(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception while they are put in their places undoes the compile; the next one finds them again."""
    source, net = trained(steps=3), MLP()
    source.save(tmp_path / "net", onnx=False)
    net.load(tmp_path / "net")
    for k in range(4):
        with monkeypatch.context() as patch:
            patch.setattr(placing, "place_host_array", FailsAt(placing.place_host_array, k, MemoryError()))
            with pytest.raises(MemoryError):
                net.compile([X])
        with pytest.raises(sx.errors.UninitializedError):
            net.get_params()
    with monkeypatch.context() as patch:
        patch.setattr(type(net._ledger), "check_unused", FailsAt(type(net._ledger).check_unused, 0, MemoryError()))
        patch.setattr(MLP, "_step_names", frozenset())
        with pytest.raises(MemoryError):
            net.compile([X])
    net.compile([X])
    assert_equal_states(states(net), states(source))


# -- Ctrl-C -------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(
    threading.current_thread() is not threading.main_thread(), reason="signals reach the main thread only"
)
@pytest.mark.usefixtures("interruptible")
def test_interrupts_in_a_training_loop_that_saves(tmp_path: pathlib.Path) -> None:
    """Two hundred times Ctrl-C: the model goes on, and the newest file that was finished, or a newer one, loads."""
    net, reader, caught = trained(steps=2), trained(steps=0), 0
    rng = np.random.default_rng(0)
    finished = -1
    for _ in range(200):
        timer = threading.Timer(float(rng.uniform(0.0, 0.02)), os.kill, (os.getpid(), signal.SIGINT))
        try:
            timer.start()
            deadline = time.monotonic() + 20
            while time.monotonic() < deadline:
                net(X, Y)
                step = int(net.optimizer.step_counter)
                net.save(tmp_path / "net", state={"step": step}, onnx=False)
                finished = step
        except KeyboardInterrupt:
            caught += 1
        timer.join()
        assert_no_tracers(net)
        assert np.isfinite(float(net(X, Y)[1]))
        if finished >= 0:
            found = reader.load(tmp_path / "net")["step"]
            assert found >= finished
            assert found == int(reader.optimizer.step_counter)
    assert caught == 200
    net.save(tmp_path / "net", onnx=False)
    assert os.listdir(tmp_path) == ["net.safetensors"]


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_between_the_renames_waits(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both files are of one save when KeyboardInterrupt reaches the caller."""
    published = files.NewFile.publish

    def interrupted(self: files.NewFile) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)
        published(self)

    monkeypatch.setattr(files.NewFile, "publish", interrupted)
    with pytest.raises(KeyboardInterrupt):
        trained(steps=2).save(tmp_path / "net")
    assert sorted(os.listdir(tmp_path)) == ["net.onnx", "net.safetensors"]
    trained(steps=2).load(tmp_path / "net")  # no warning
