"""SHA-256 beside reading or writing: hashing lets other threads run, so it need not wait for the disk.

Ctrl-C is held back wherever the worker is talked to: Python's locks may stay locked when an interrupt meets them, and
the worker, and whoever waits for it, would then wait for ever.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

from singax.interrupt import deferred_interrupts

CHUNK = 1 << 23
_MOST_WAITING = 4


class Checksum:
    """The SHA-256 of what it is fed, computed by a worker; what is fed must not change before `hexdigest`."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self._pool, self._hash = pool, hashlib.sha256()
        self._waiting: deque[Future[None]] = deque()

    def feed(self, chunk: memoryview) -> None:
        """Take the next bytes, in order."""
        with deferred_interrupts():
            self._waiting.append(self._pool.submit(self._hash.update, chunk))
            while len(self._waiting) > _MOST_WAITING:
                self._waiting.popleft().result()

    def hexdigest(self) -> str:
        """64 hexadecimal digits, once everything has been hashed."""
        with deferred_interrupts():
            while self._waiting:
                self._waiting.popleft().result()
        return self._hash.hexdigest()


@contextmanager
def hashing() -> Iterator[ThreadPoolExecutor]:
    """One worker, so that chunks are hashed in the order in which they come."""
    pool = ThreadPoolExecutor(1, thread_name_prefix="singax-sha256")
    try:
        yield pool
    finally:
        with deferred_interrupts():
            pool.shutdown(wait=True, cancel_futures=True)


def chunks(content: memoryview) -> Iterator[memoryview]:
    """`content` (bytes) in pieces of at most 8 MiB."""
    for start in range(0, len(content), CHUNK):
        yield content[start : start + CHUNK]
