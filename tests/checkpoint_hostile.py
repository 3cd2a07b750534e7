"""Loads hostile files in a process with little memory, and tells what it did: one line of JSON for each path given."""

from __future__ import annotations

import json
import resource
import sys
import time
from typing import Any

import conftest  # noqa: F401  # the settings of the tests
import numpy as np

import singax as sx
from singax.errors import SingaxError

MORE_MEMORY = 256 << 20


class Net(sx.Module):
    """One state, a: float32[4]."""

    def __init__(self) -> None:
        super().__init__()
        self.a = sx.Tensor(data=np.zeros(4, np.float32), requires_grad=False)


def attempt(net: Net, path: str) -> dict[str, Any]:
    """What came of loading a file, and how long that took."""
    start = time.process_time()
    try:
        (net.load_states if path.endswith(".zip") else net.load)(path)
        outcome, message = "loads", ""
    except SingaxError as error:
        outcome, message = "refused", str(error)
    except BaseException as error:
        outcome, message = type(error).__name__, str(error)
    return {"outcome": outcome, "message": message[:500], "seconds": time.process_time() - start}


def main(paths: list[str]) -> None:
    """All files, with no more than 256 MiB on top of what the first, harmless one needs."""
    net = Net()
    attempt(net, paths[0])
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MORE_MEMORY, used + MORE_MEMORY))
    for path in paths:
        print(json.dumps(attempt(net, path)), flush=True)
    assert (net.a.to_numpy() == 0).all()


if __name__ == "__main__":
    main(sys.argv[1:])
