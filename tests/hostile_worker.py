"""Loads models, one folder after the other, in a process with little memory, and tells what it did.

Reads a folder from each line of its input; answers with one line of JSON: the outcome and the message, what was opened
or started meanwhile outside the folder, how many files stay open, and the CPU time. A file that takes longer than
`CPU_SECONDS` kills the process. A model with a file of inputs is run, and its outputs are compared.
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
RUN_BYTES = 256 << 20

_TOUCHING = ("os.", "socket.", "subprocess.", "shutil.", "ctypes.", "tempfile.")
_SOURCES = (str(pathlib.Path(__file__).resolve().parent.parent),)
_seen: list[tuple[str, str]] = []
_folder: list[str] = []
_libraries: list[bool] = []
"""Not empty while a model runs: modules are imported then, and the machine is looked at."""


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    """An audit hook: remember what is touched while a model is loaded."""
    if not _folder or (_libraries and _is_library(event, arguments)):
        return
    if event == "open":
        path = os.path.realpath(os.fspath(arguments[0])) if not isinstance(arguments[0], int) else ""
        if path and not path.startswith(_folder[0] + os.sep):
            _seen.append((event, path))
    elif event.startswith(_TOUCHING):
        _seen.append((event, repr(arguments[:1])))


def _is_library(event: str, arguments: tuple[Any, ...]) -> bool:
    """Whether an event is that of an import."""
    if event == "open":
        path = arguments[0]
        return isinstance(path, str) and path.startswith((sys.prefix, sys.base_prefix, *_SOURCES))
    return event in ("os.listdir", "os.scandir", "ctypes.dlopen", "ctypes.dlsym")


def _load(load: Any, folder: str) -> tuple[str, str]:
    from singax.errors import ModelFileError

    path, data = os.path.join(folder, "model.onnx"), os.path.join(folder, "run.npz")
    try:
        if os.path.exists(data):
            return _run(path, data)
        load(path)
    except ModelFileError as error:
        return "refused", str(error)
    except BaseException as error:
        return type(error).__name__, str(error)[:500]
    return "loads", ""


def _run(path: str, data: str) -> tuple[str, str]:
    """Run a model; "loads" if its outputs are the wanted ones."""
    import numpy as np

    from singax.sonnx import Limits, prepare

    _libraries.append(True)
    with np.load(data, allow_pickle=False) as arrays:
        feeds = {name[3:]: arrays[name] for name in arrays.files if name.startswith("in ")}
        wanted = [arrays[name] for name in arrays.files if name.startswith("out ")]
    found = prepare(path, limits=Limits(run_bytes=RUN_BYTES), most_trips=1000).run(feeds)
    for got, right in zip(found, wanted, strict=False):
        if got.dtype != right.dtype or not np.allclose(got, right, rtol=1e-5, equal_nan=True):
            return "wrong result", f"{got} for {right}"
    return "loads", ""


def _answer(load: Any, folder: str) -> dict[str, Any]:
    before, start = len(os.listdir("/proc/self/fd")), time.process_time()
    _folder[:], _seen[:] = [os.path.realpath(folder)], []
    signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
    outcome, message = _load(load, folder)
    signal.setitimer(signal.ITIMER_PROF, 0)
    _folder.clear()
    _libraries.clear()
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
    import numpy as np

    from singax.sonnx import load, prepare

    for warm in sys.argv[1:]:
        prepare(load(pathlib.Path(warm))).run([np.ones(2, np.float32)])
    gc.freeze()  # what is here now need not be looked through after each model
    sys.addaudithook(_watch)
    print("ready", flush=True)
    for line in sys.stdin:
        folder = line.rstrip("\n")
        if folder == "crash":  # for the test of the test
            os.abort()
        print(json.dumps(_answer(load, folder)), flush=True)


if __name__ == "__main__":
    main()
