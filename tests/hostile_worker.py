"""Loads models, one folder after the other, in a process with little memory, and tells what it did.

Reads a folder from each line of its input; answers with one line of JSON: the outcome and the message, what was opened
or started meanwhile outside the folder, how many files stay open, and the CPU time. A file that takes longer than
`CPU_SECONDS` kills the process.
"""

from __future__ import annotations

import gc
import json
import os
import pathlib
import resource
import signal
import sys
import time
from typing import Any

MEMORY = 2 << 30
CPU_SECONDS = 20

_TOUCHING = ("os.", "socket.", "subprocess.", "shutil.", "ctypes.", "tempfile.")
_seen: list[tuple[str, str]] = []
_folder: list[str] = []


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    """An audit hook: remember what is touched while a model is loaded."""
    if not _folder:
        return
    if event == "open":
        path = os.path.realpath(os.fspath(arguments[0])) if not isinstance(arguments[0], int) else ""
        if path and not path.startswith(_folder[0] + os.sep):
            _seen.append((event, path))
    elif event.startswith(_TOUCHING):
        _seen.append((event, repr(arguments[:1])))


def _load(load: Any, folder: str) -> tuple[str, str]:
    from singax.errors import ModelFileError

    try:
        load(os.path.join(folder, "model.onnx"))
    except ModelFileError as error:
        return "refused", str(error)
    except BaseException as error:
        return type(error).__name__, str(error)[:500]
    return "loads", ""


def _answer(load: Any, folder: str) -> dict[str, Any]:
    before, start = len(os.listdir("/proc/self/fd")), time.process_time()
    _folder[:], _seen[:] = [os.path.realpath(folder)], []
    signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
    outcome, message = _load(load, folder)
    signal.setitimer(signal.ITIMER_PROF, 0)
    _folder.clear()
    seconds = time.process_time() - start
    gc.collect()
    open_files = len(os.listdir("/proc/self/fd")) - before
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    return {
        "outcome": outcome,
        "message": message,
        "touched": _seen,
        "open": open_files,
        "seconds": seconds,
        "MiB": peak,
    }


def main() -> None:
    """Answer until the input ends."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    from singax.sonnx.loader import load

    for warm in sys.argv[1:]:
        load(pathlib.Path(warm))
    sys.addaudithook(_watch)
    for line in sys.stdin:
        folder = line.rstrip("\n")
        if folder == "crash":  # for the test of the test
            os.abort()
        print(json.dumps(_answer(load, folder)), flush=True)


if __name__ == "__main__":
    main()
