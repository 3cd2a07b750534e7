"""Malicious and broken model files: each is refused by name or loads, within limits of time and memory, in peace."""

from __future__ import annotations

import json
import os
import pathlib
import select
import subprocess
import sys
from typing import Any

import pytest
from hostile_models import CASES, SECRET, good
from hostile_runs import add_runs

add_runs()
ROOT = pathlib.Path(__file__).resolve().parent.parent
PARTS = 4
"""The cases are spread over as many tests, each with a process of its own."""

WALL_SECONDS = 120
"""When a process is given up that uses no CPU; the CPU time itself is limited to 20 s."""


class Worker:
    """A process that loads models. It is started again after it died."""

    def __init__(self, warm: pathlib.Path) -> None:
        self.warm, self.process = warm, self._started(warm)

    @staticmethod
    def _started(warm: pathlib.Path) -> subprocess.Popen[str]:
        command = [sys.executable, str(ROOT / "tests" / "hostile_worker.py"), str(warm)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"}
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=environment)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n", process.communicate()
        return process

    def answer(self, folder: str) -> dict[str, Any]:
        """What the process says to a folder; its death is the answer to this folder and no other."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(folder + "\n")
        self.process.stdin.flush()
        ready, _, _ = select.select([self.process.stdout], [], [], WALL_SECONDS)
        line = self.process.stdout.readline() if ready else ""
        if line:
            return json.loads(line)
        if not ready:
            self.process.kill()
        _, errors = self.process.communicate()
        self.process = self._started(self.warm)
        return {"outcome": f"died, {self.process.returncode}" if ready else "hung", "message": errors[-2000:]}

    def close(self) -> None:
        """End the process."""
        self.process.communicate()


def _prepared(name: str, root: pathlib.Path) -> pathlib.Path:
    folder = root / name.replace("/", " ").replace("\0", "")[:60] / "model"
    folder.mkdir(parents=True)
    (folder.parent / SECRET).write_bytes(b"secret, 8 bytes and more")
    CASES[name].write(folder)
    return folder


def _listing(folder: pathlib.Path) -> list[tuple[str, int, int, int]]:
    """All entries at and below the parent of a folder, with size, time of change and mode."""
    found = []
    for path in sorted(folder.parent.rglob("*")):
        status = path.lstat()
        found.append((str(path), status.st_size, status.st_mtime_ns, status.st_mode))
    return found


def _run(names: list[str], root: pathlib.Path, warm: pathlib.Path) -> dict[str, dict[str, Any]]:
    worker, results = Worker(warm), {}
    for name in names:
        folder = _prepared(name, root)
        before = _listing(folder)
        results[name] = worker.answer(str(folder))
        results[name]["left behind"] = sorted(set(_listing(folder)) ^ set(before))
        for path in [folder / "model.onnx", folder / "data.bin"]:
            if path.is_file() and not path.is_symlink():
                path.unlink()
    worker.close()
    return results


def test_there_are_enough_cases() -> None:
    assert sum(case.culprit is not None for case in CASES.values()) >= 200


@pytest.mark.parametrize("part", range(PARTS))
def test_each_file_is_refused_by_name_or_loads(part: int, tmp_path: pathlib.Path) -> None:
    """No crash, no hang, no other exception, the right result, nothing touched outside, and nothing left behind."""
    warm = tmp_path / "warm.onnx"
    warm.write_bytes(good().SerializeToString())
    results = _run(list(CASES)[part::PARTS], tmp_path, warm)
    _print_figures(results)
    assert {name: faults for name, result in results.items() if (faults := _faults(name, result))} == {}


def _faults(name: str, result: dict[str, Any]) -> list[Any]:
    """What is wrong with the answer to a file."""
    outcome, message = result["outcome"], result["message"]
    found = [result.get("touched"), result["left behind"], result.get("open")]
    if outcome not in ("loads", "refused") or not CASES[name].judge(outcome, message):
        found.append((outcome, message))
    if len(message) > 2000 or (outcome == "refused" and "\n" in message):
        found.append(("expected a line", message))
    return [fault for fault in found if fault]


def _print_figures(results: dict[str, dict[str, Any]]) -> None:
    slowest = max(results, key=lambda name: results[name].get("seconds", 0))
    peak = max(result.get("MiB", 0) for result in results.values())
    print(f"{len(results)} files: at most {results[slowest].get('seconds')} s ({slowest}), {peak} MiB")


def test_a_crash_belongs_to_its_file(tmp_path: pathlib.Path) -> None:
    warm = tmp_path / "warm.onnx"
    warm.write_bytes(good().SerializeToString())
    worker = Worker(warm)
    folder = _prepared("file/good", tmp_path)
    outcomes = [worker.answer(line)["outcome"] for line in (str(folder), "crash", str(folder))]
    worker.close()
    assert outcomes[0] == outcomes[2] == "loads"
    assert outcomes[1].startswith("died")
