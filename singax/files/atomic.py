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
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from singax.files.leftovers import new_temporary, remove_leftovers
from singax.interrupt import deferred_interrupts


class NewFile:
    """A file that is written beside `path` and takes its place when it is published.

    `seal` puts it on the disk, `publish` renames it; `discard` removes it unless it was published. What processes that
    died in the middle of writing the same file have left is removed first.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.target = pathlib.Path(path)
        with deferred_interrupts():
            remove_leftovers(self.target)
            handle, self.temporary = new_temporary(self.target)
            self.file: Any = os.fdopen(handle, "w+b")

    def seal(self) -> None:
        """Flush everything to the disk, with the permissions of the file that will be replaced."""
        self.file.flush()
        os.fsync(self.file.fileno())
        os.chmod(self.temporary, _usual_mode(self.target))

    def publish(self) -> None:
        """Take the place of the target."""
        os.replace(self.temporary, self.target)

    def discard(self) -> None:
        """Close the file, and remove it if it was not published."""
        with deferred_interrupts():
            with suppress(OSError):  # what could not be flushed is not wanted any more
                self.file.close()
            with suppress(OSError):
                os.unlink(self.temporary)


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Any]:
    """A binary file that takes the place of `path` when the block ends; if the block fails, `path` stays as it was.

    It is written beside `path`, flushed to the disk and renamed, so that a crash leaves the old file or the new one.
    """
    with ExitStack() as stack:
        new = new_file(path, stack)
        yield new.file
        new.seal()
        new.publish()
        sync_folder(new.target.parent)


def new_file(path: str | os.PathLike[str], stack: ExitStack) -> NewFile:
    """A `NewFile` that is discarded when `stack` is left; Ctrl-C waits until that is settled."""
    with deferred_interrupts():
        new = NewFile(path)
        stack.callback(new.discard)
    return new


def _usual_mode(target: pathlib.Path) -> int:
    """The permissions of the file that is replaced, or those of a new one."""
    with suppress(FileNotFoundError):
        return target.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def sync_folder(folder: pathlib.Path) -> None:
    """Make the rename itself durable, where folders can be opened (not on Windows)."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
