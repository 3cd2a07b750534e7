"""Reading safetensors with suspicion: the header is checked as a whole before anything of its sizes is allocated."""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np

from singax.errors import FileFormatError
from singax.files.checksum import Checksum, chunks, hashing
from singax.files.safetensors_format import LENGTH_BYTES, MOST_HEADER_BYTES, Field, parsed_header
from singax.files.safetensors_writer import SEAL, seal_holds

Path = str | os.PathLike[str]


class SafetensorsFile:
    """An open file: `metadata` (texts by name), `fields` (dtype, shape and place by name), and the arrays on demand."""

    def __init__(self, file: Any, size: int, pool: ThreadPoolExecutor) -> None:
        self._file, self._pool = file, pool
        text = _header(file, size)
        self._start = LENGTH_BYTES + len(text)
        self.metadata, self.fields = parsed_header(text, size - self._start)
        digest = self.metadata.get(SEAL)
        self.sealed = digest is not None
        if digest is not None and not seal_holds(text, digest):
            raise FileFormatError("its header is damaged: it does not fit its SHA-256")

    def read(self, name: str, checksum: str | None = None) -> np.ndarray:
        """The array `name`, in memory of its own; with `checksum`, once it is found to have this SHA-256."""
        field = self.fields[name]
        content = np.empty(field.end - field.begin, np.uint8)
        found = self._filled(name, field, content.data, checksum is not None)
        if checksum is not None and found != checksum:
            raise FileFormatError(f"{name} is damaged: its SHA-256 is {found}, and was {checksum} when it was saved")
        if field.dtype == np.dtype(bool) and content.size and content.max() > 1:
            raise FileFormatError(f"{name} holds bytes that are neither true nor false")
        return _as_array(content, field)

    def _filled(self, name: str, field: Field, content: memoryview, hashed: bool) -> str:
        self._file.seek(self._start + field.begin)
        checksum = Checksum(self._pool)
        for chunk in chunks(content):
            if self._file.readinto(chunk) != len(chunk):
                raise FileFormatError(f"the file ended in the middle of {name}: it has become shorter meanwhile")
            if hashed:
                checksum.feed(chunk)
        return checksum.hexdigest()


@contextmanager
def open_safetensors(path: Path) -> Iterator[SafetensorsFile]:
    """Open a file and check its header.

    Raises `FileFormatError`, with the path, for anything that is no whole safetensors file; FileNotFoundError.
    """
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise FileFormatError(f"{os.fspath(path)} is no regular file")
    with open(path, "rb") as file, hashing() as pool:
        try:
            yield SafetensorsFile(file, os.fstat(file.fileno()).st_size, pool)
        except FileFormatError as error:
            if os.fspath(path) in str(error):
                raise
            raise FileFormatError(f"{os.fspath(path)}: {error}") from None


def _header(file: Any, size: int) -> bytes:
    start = file.read(LENGTH_BYTES)
    if len(start) < LENGTH_BYTES:
        raise FileFormatError(f"a safetensors file begins with 8 bytes for the length of its header; it has {size}")
    (length,) = struct.unpack("<Q", start)
    if length > size - LENGTH_BYTES:
        raise FileFormatError(f"it claims a header of {length} bytes, but only {size - LENGTH_BYTES} follow")
    if length > MOST_HEADER_BYTES:
        raise FileFormatError(f"it claims a header of {length} bytes; at most {MOST_HEADER_BYTES} are read")
    text: bytes = file.read(length)
    return text


def _as_array(content: np.ndarray, field: Field) -> np.ndarray:
    """Bytes as numbers of this machine's byte order."""
    little = content.view(field.dtype.newbyteorder("<")).reshape(field.shape)
    return little.astype(field.dtype, copy=False)
