"""Malicious and broken model files: each is refused by name or loads, within limits of time and memory, in peace."""

from __future__ import annotations

import json
import os
import pathlib
import select
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hostile_models import CASES, SECRET, good
from hostile_runs import add_runs

add_runs()
ROOT = pathlib.Path(__file__).resolve().parent.parent
WORKERS = 2
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


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    root = tmp_path_factory.mktemp("hostile")
    warm = root / "warm.onnx"
    warm.write_bytes(good().SerializeToString())
    names = list(CASES)
    with ThreadPoolExecutor(WORKERS) as pool:
        parts = pool.map(lambda n: _run(names[n::WORKERS], root, warm), range(WORKERS))
        return {name: result for part in parts for name, result in part.items()}


def test_there_are_enough_cases() -> None:
    assert sum(case.culprit is not None for case in CASES.values()) >= 200


def test_no_crash_no_hang_no_other_exception(results: dict[str, dict[str, Any]]) -> None:
    strange = {n: (r["outcome"], r["message"]) for n, r in results.items() if r["outcome"] not in ("loads", "refused")}
    assert strange == {}


def test_the_result_is_right_or_the_error_names_the_culprit(results: dict[str, dict[str, Any]]) -> None:
    wrong = {
        n: (r["outcome"], r["message"]) for n, r in results.items() if not CASES[n].judge(r["outcome"], r["message"])
    }
    share = 1 - len(wrong) / len(results)
    slowest = max(results, key=lambda name: results[name].get("seconds", 0))
    peak = max(result.get("MiB", 0) for result in results.values())
    print(f"{len(results)} files: {share:.1%} right; most {results[slowest]['seconds']:.1f} s ({slowest}), {peak} MiB")
    assert wrong == {}


def test_no_file_outside_is_opened_and_none_is_left_behind(results: dict[str, dict[str, Any]]) -> None:
    assert {n: r["touched"] for n, r in results.items() if r.get("touched")} == {}
    assert {n: r["left behind"] for n, r in results.items() if r["left behind"]} == {}
    assert {n: r["open"] for n, r in results.items() if r.get("open")} == {}


def test_messages_are_lines(results: dict[str, dict[str, Any]]) -> None:
    long = {name: len(result["message"]) for name, result in results.items() if len(result["message"]) > 2000}
    assert long == {}
    assert [n for n, r in results.items() if r["outcome"] == "refused" and "\n" in r["message"]] == []


def test_a_crash_belongs_to_its_file(tmp_path: pathlib.Path) -> None:
    warm = tmp_path / "warm.onnx"
    warm.write_bytes(good().SerializeToString())
    worker = Worker(warm)
    folder = _prepared("file/good", tmp_path)
    outcomes = [worker.answer(line)["outcome"] for line in (str(folder), "crash", str(folder))]
    worker.close()
    assert outcomes[0] == outcomes[2] == "loads"
    assert outcomes[1].startswith("died")
