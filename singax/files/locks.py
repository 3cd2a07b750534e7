"""Advisory locks, which the system releases when their holder dies. Without them (Windows) nothing is locked."""

from __future__ import annotations

import os
import pathlib
import time
from collections.abc import Iterator
from contextlib import contextmanager

_LONGEST_WAIT, _PAUSE = 10.0, 0.002

try:
    import fcntl
except ImportError:  # not a Unix
    fcntl = None  # type: ignore[assignment]


def try_lock(handle: int) -> bool:
    """Lock an open file; False if somebody else holds it, or if this file system knows no locks."""
    return _flock(handle, shared=False, wait=False)


def lock(handle: int) -> bool:
    """The same, but wait for whoever holds it, at most ten seconds."""
    return _flock(handle, shared=False, wait=True)


def _flock(handle: int, shared: bool, wait: bool) -> bool:
    if fcntl is None:
        return False
    flags = (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB
    end = time.monotonic() + (_LONGEST_WAIT if wait else 0)
    while True:
        try:
            fcntl.flock(handle, flags)
            return True
        except BlockingIOError:
            if time.monotonic() >= end:
                return False
            time.sleep(_PAUSE)
        except OSError:
            return False


@contextmanager
def folder_lock(folder: pathlib.Path, shared: bool = False) -> Iterator[None]:
    """Hold a lock on a folder itself: writers one at a time, or (`shared`) readers together and no writer.

    Where folders cannot be opened or locked, or somebody keeps the lock for ten seconds, the block runs all the same.
    """
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        yield
        return
    try:
        _flock(handle, shared, wait=True)
        yield
    finally:
        os.close(handle)
