"""Temporary files: each is locked by the process that writes it, so that what a dead one has left can be told."""

from __future__ import annotations

import os
import pathlib
import re
import tempfile
from contextlib import suppress

from singax.files.locks import lock, try_lock

_MOST_TRIES = 100


def new_temporary(target: pathlib.Path) -> tuple[int, pathlib.Path]:
    """Create a file beside `target`, locked; returns its handle and path."""
    for _ in range(_MOST_TRIES):
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
        try:
            if not lock(handle) or os.fstat(handle).st_nlink:
                return handle, pathlib.Path(name)
        except BaseException:
            os.close(handle)
            with suppress(OSError):
                os.unlink(name)
            raise
        os.close(handle)  # somebody took it for a leftover between its creation and the lock
    raise FileExistsError(f"no temporary file can be kept in {target.parent}: each one was removed at once")


def remove_leftovers(target: pathlib.Path) -> list[pathlib.Path]:
    """Remove the temporary files of `target` whose writers have died; returns their paths.

    A file that a living process writes is locked and stays, in whatever container or on whatever host that process is.
    """
    pattern = re.compile(rf"\.{re.escape(target.name)}\.[^.]+\.tmp")
    with suppress(OSError):
        found = [target.parent / name for name in os.listdir(target.parent) if pattern.fullmatch(name)]
        return [path for path in found if _removed(path)]
    return []


def _removed(path: pathlib.Path) -> bool:
    with suppress(OSError):
        handle = os.open(path, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
        try:
            if not try_lock(handle) or os.fstat(handle).st_ino != os.stat(path).st_ino:
                return False
            os.unlink(path)
            return True
        finally:
            os.close(handle)
    return False
