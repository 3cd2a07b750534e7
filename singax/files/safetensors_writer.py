"""Writing safetensors, one array at a time: no more than one of them is on the host, and each is hashed on its way.

The checksums stand in the header, in front of the numbers. So the header is written twice, with zeros in their places
first; it has the same length both times.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from singax.dtypes import nbytes
from singax.errors import FileFormatError
from singax.files.checksum import Checksum, chunks, hashing
from singax.files.safetensors_format import header_text, ordered

NO_CHECKSUM = "0" * 64
SEAL = "singax.header_sha256"

Checksums = dict[str, str]
Metadata = Callable[[Checksums], Mapping[str, str]]


@dataclass(frozen=True)
class Entry:
    """An array that will be written: `read()` gives it, as NumPy array of this dtype and shape, when its turn comes."""

    dtype: np.dtype
    shape: tuple[int, ...]
    read: Callable[[], np.ndarray]


def write_safetensors(file: Any, entries: Mapping[str, Entry], metadata: Metadata, sealed: bool = True) -> None:
    """Write a file of `entries` into the open binary `file`.

    **Args**
      metadata: SHA-256 by name → the texts of the header; their lengths must not depend on the digits.
      sealed: add a checksum of the header itself, under `singax.header_sha256`.

    **Raises** `FileFormatError` for what the format cannot hold, before anything is written.
    """
    layout = {name: (entry.dtype, entry.shape) for name, entry in entries.items()}

    def header(checksums: Checksums) -> bytes:
        text = header_text(layout, {**metadata(checksums), **({SEAL: NO_CHECKSUM} if sealed else {})})
        return _sealed(text) if sealed else text

    first = header(dict.fromkeys(entries, NO_CHECKSUM))
    file.write(struct.pack("<Q", len(first)) + first)
    checksums: Checksums = {}
    with hashing() as pool:
        for name in ordered(layout):
            checksums[name] = _write_array(file, name, entries[name], pool)
    last = header(checksums)
    assert len(last) == len(first), "the header's length depends on the checksums"
    file.seek(8)
    file.write(last)


def _write_array(file: Any, name: str, entry: Entry, pool: ThreadPoolExecutor) -> str:
    content = _bytes_of(name, entry)
    checksum = Checksum(pool)
    try:
        for chunk in chunks(content):
            checksum.feed(chunk)
            file.write(chunk)
    finally:
        digest = checksum.hexdigest()
    return digest


def _bytes_of(name: str, entry: Entry) -> memoryview:
    """The array as little-endian bytes in C order; the array itself where it is that already."""
    array = entry.read()
    if array.dtype.newbyteorder("=") != entry.dtype or array.shape != entry.shape:
        raise FileFormatError(
            f"{name} was {entry.dtype}{list(entry.shape)} and has become {array.dtype}{list(array.shape)} meanwhile"
        )
    little = np.require(array, array.dtype.newbyteorder("<"), "C")
    assert little.nbytes == nbytes(entry.shape, entry.dtype)
    return little.reshape(-1).view(np.uint8).data if little.size else memoryview(b"")


def _sealed(text: bytes) -> bytes:
    """The header with its own checksum in the place of the zeros."""
    unsealed = _seal_text(NO_CHECKSUM)
    assert text.count(unsealed) == 1, "the seal has one place"
    return text.replace(unsealed, _seal_text(hashlib.sha256(text).hexdigest()))


def seal_holds(text: bytes, digest: str) -> bool:
    """Whether `digest` is the checksum that `_sealed` has put into this header."""
    seal = _seal_text(digest)
    unsealed = text.replace(seal, _seal_text(NO_CHECKSUM))
    return text.count(seal) == 1 and hashlib.sha256(unsealed).hexdigest() == digest


def _seal_text(digest: str) -> bytes:
    return f'"{SEAL}":"{digest}"'.encode()
