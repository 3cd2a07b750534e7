"""Writing a file whole or not at all.

>>> import pathlib, tempfile
>>> path = pathlib.Path(tempfile.mkdtemp(), "a.txt")
>>> with replacing(path) as file:
...     _ = file.write(b"new")
>>> path.read_bytes()
b'new'
"""

from __future__ import annotations

import os
import pathlib
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Any]:
    """A binary file that takes the place of `path` when the block ends; if the block fails, `path` stays as it was.

    It is written beside `path`, flushed to the disk and renamed, so that a crash leaves the old file or the new one.
    """
    target = pathlib.Path(path)
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
    try:
        with os.fdopen(handle, "w+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, _usual_mode(target))
        os.replace(name, target)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(name)
        raise
    _sync_folder(target.parent)


def _usual_mode(target: pathlib.Path) -> int:
    """The permissions of the file that is replaced, or those of a new one."""
    with suppress(FileNotFoundError):
        return target.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def _sync_folder(folder: pathlib.Path) -> None:
    """Make the rename itself durable, where folders can be opened (not on Windows)."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
