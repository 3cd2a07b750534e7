"""SHA-256 beside reading or writing: hashing lets other threads run, so it need not wait for the disk."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

CHUNK = 1 << 23


class Checksum:
    """The SHA-256 of what it is fed, computed by a worker; what is fed must not change before `hexdigest`."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self._pool, self._hash = pool, hashlib.sha256()
        self._running: list[Future[None]] = []

    def feed(self, chunk: memoryview) -> None:
        """Take the next bytes, in order."""
        self._running.append(self._pool.submit(self._hash.update, chunk))

    def hexdigest(self) -> str:
        """64 hexadecimal digits, once everything has been hashed."""
        for future in self._running:
            future.result()
        self._running.clear()
        return self._hash.hexdigest()


@contextmanager
def hashing() -> Iterator[ThreadPoolExecutor]:
    """One worker, so that chunks are hashed in the order in which they come."""
    pool = ThreadPoolExecutor(1, thread_name_prefix="singax-sha256")
    try:
        yield pool
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def chunks(content: memoryview) -> Iterator[memoryview]:
    """`content` (bytes) in pieces of at most 8 MiB."""
    for start in range(0, len(content), CHUNK):
        yield content[start : start + CHUNK]
