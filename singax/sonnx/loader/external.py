"""Tensor data in other files: only regular files inside the model's folder, with no second name elsewhere."""

from __future__ import annotations

import hashlib
import os
import pathlib
import stat
from dataclasses import dataclass, field
from io import BufferedReader
from typing import Any

import numpy as np

from singax.sonnx.loader.limits import Limits
from singax.sonnx.loader.refusal import above_limit, refuse, shown

_KEYS = ("location", "offset", "length", "checksum")
_OPENING = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
_BLOCK = 1 << 20


@dataclass(frozen=True)
class Stretch:
    """Bytes of a file."""

    path: str
    offset: int
    length: int


@dataclass
class Folder:
    """The folder of a model, None for a model that comes from memory, and the files that were found to be in it."""

    path: pathlib.Path | None
    limits: Limits
    sizes: dict[str, int] = field(default_factory=dict)
    sums: dict[str, str] = field(default_factory=dict)

    def stretch(self, entries: Any, needed: int, where: str) -> Stretch:
        """Where `needed` bytes of external data lie. Raises `ModelFileError` unless they are all there."""
        given = _entries(entries, where)
        path = self._inside(given.get("location", ""), where)
        size = self._size(path, where)
        offset = _number(given.get("offset", "0"), where, "offset")
        length = _number(given.get("length", str(needed)), where, "length")
        if length != needed:
            refuse(where, "external_data.length", f"{needed} bytes, which its shape needs", f"{length}")
        if offset + length > size:
            refuse(
                where,
                "external_data",
                f"bytes inside the {size} of {shown(path.name)}",
                f"{offset} to {offset + length}",
            )
        if "checksum" in given:
            self._compare(path, given["checksum"], where)
        return Stretch(os.fspath(path), offset, length)

    def _inside(self, location: str, where: str) -> pathlib.Path:
        """The resolved path of a location. It lies in the model's folder, or in that of the file that a link names."""
        wanted = "the relative path of a file in the model's folder"
        if self.path is None:
            refuse(
                where, "external_data.location", "a model given as a path", f"{shown(location)} of a model in memory"
            )
        relative = pathlib.PurePath(location)
        windows = pathlib.PureWindowsPath(location)
        strange = "\0" in location or relative.is_absolute() or windows.is_absolute() or windows.drive
        if not location or strange or ".." in (*relative.parts, *windows.parts):
            refuse(where, "external_data.location", wanted, shown(location))
        try:
            resolved = (self.path.parent / location).resolve()
            homes = (self.path.parent.resolve(), self.path.resolve().parent)
        except (OSError, RuntimeError) as error:
            refuse(where, "external_data.location", wanted, f"{shown(location)} ({_reason(error)})")
        if not any(resolved.is_relative_to(home) and resolved != home for home in homes):
            refuse(where, "external_data.location", wanted, f"{shown(location)}, which leads out of it")
        return resolved

    def _size(self, path: pathlib.Path, where: str) -> int:
        key = os.fspath(path)
        if key not in self.sizes:
            try:
                self.sizes[key] = regular(os.lstat(path), where, f"external_data.location {shown(path.name)}")
            except OSError as error:
                refuse(
                    where, "external_data.location", "a file that can be read", f"{shown(path.name)} ({_reason(error)})"
                )
        return self.sizes[key]

    def _compare(self, path: pathlib.Path, wanted: str, where: str) -> None:
        key = os.fspath(path)
        if key not in self.sums:
            if self.sizes[key] > self.limits.checksum_bytes:
                above_limit(where, self.limits, "checksum_bytes", self.sizes[key])
            with opened(key, where) as file:
                self.sums[key] = _sha1(file)
        if wanted.strip().lower() != self.sums[key]:
            refuse(where, "external_data.checksum", f"{self.sums[key]}, the SHA-1 of {shown(path.name)}", shown(wanted))


def regular(found: os.stat_result, where: str, what: str, links: int | None = 1) -> int:
    """The size of a file, if it is a regular one with so many names."""
    if not stat.S_ISREG(found.st_mode):
        refuse(where, what, "a regular file", _kind(found.st_mode))
    if links is not None and found.st_nlink != links:
        refuse(where, what, "a file with one name (hard link)", f"one with {found.st_nlink}")
    return found.st_size


def opened(path: str, where: str, links: int | None = 1) -> BufferedReader:
    """A regular file, opened so that neither a pipe nor a link put in its place can harm."""
    try:
        handle = os.open(path, _OPENING)
    except OSError as error:
        refuse(where, "external_data.location", "a file that can be read", f"{shown(path)} ({_reason(error)})")
    file = os.fdopen(handle, "rb")
    try:
        regular(os.fstat(handle), where, "external_data.location", links)
    except BaseException:
        file.close()
        raise
    return file


def read(stretch: Stretch, where: str) -> np.ndarray:
    """The bytes of a stretch, read once into fresh memory."""
    made = np.empty(stretch.length, np.uint8)
    view, done = made.data, 0
    with opened(stretch.path, where) as file:
        file.seek(stretch.offset)
        while done < stretch.length:
            count = file.readinto(view[done:])
            if not count:
                refuse(where, "external_data", f"{stretch.length} bytes", f"a file that ends after {done}")
            done += count
    return made


def _entries(entries: Any, where: str) -> dict[str, str]:
    """The entries by key; those that the standard does not name are ignored, as onnx does."""
    given: dict[str, str] = {}
    for entry in entries:
        try:
            key, value = (entry.key or b"").decode(), (entry.value or b"").decode()
        except UnicodeDecodeError:
            refuse(where, "external_data", "UTF-8", shown((entry.key, entry.value)))
        if key in given:
            refuse(where, f"external_data.{key}", "one entry", "two")
        if key in _KEYS:
            given[key] = value
    return given


def _number(text: str, where: str, name: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 19):
        refuse(where, f"external_data.{name}", "a number of bytes, not negative", shown(text))
    return int(text)


def _sha1(file: BufferedReader) -> str:
    total = hashlib.sha1(usedforsecurity=False)
    while block := file.read(_BLOCK):
        total.update(block)
    return total.hexdigest()


def _kind(mode: int) -> str:
    kinds = (
        (stat.S_ISDIR, "a folder"),
        (stat.S_ISFIFO, "a pipe"),
        (stat.S_ISLNK, "a link"),
        (stat.S_ISSOCK, "a socket"),
    )
    return next((name for test, name in kinds if test(mode)), "a device")


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
