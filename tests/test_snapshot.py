"""Snapshot: arrays by name in one file."""

from __future__ import annotations

import pathlib
import warnings

import numpy as np
import pytest

import singax as sx
from singax.errors import ArgumentError, FileFormatError, NameMismatchError
from singax.snapshot import Snapshot


def opened(path: pathlib.Path, mode: bool) -> Snapshot:
    """A snapshot without its deprecation warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return Snapshot(path, mode)


def test_round_trip(tmp_path: pathlib.Path) -> None:
    """Tensors and arrays come back as Tensors; each write leaves a whole file."""
    writer = opened(tmp_path / "a", True)
    writer.write("W", sx.Tensor(data=np.arange(4.0).reshape(2, 2)))
    assert list(opened(tmp_path / "a", False).read()) == ["W"]
    writer.write("n", np.int32(3))
    found = opened(tmp_path / "a", False).read()
    np.testing.assert_array_equal(found["W"].to_numpy(), [[0, 1], [2, 3]])
    assert (int(found["n"]), found["n"].dtype) == (3, sx.int32)


def test_errors(tmp_path: pathlib.Path) -> None:
    """A missing file, a wrong mode, a name twice, Python objects, and a file that is no npz."""
    with pytest.raises(FileNotFoundError):
        opened(tmp_path / "a", False)
    writer = opened(tmp_path / "a", True)
    writer.write("W", np.ones(1))
    with pytest.raises(NameMismatchError, match="W"):
        writer.write("W", np.ones(1))
    with pytest.raises(FileFormatError, match="object"):
        writer.write("o", np.array([None]))
    with pytest.raises(ArgumentError, match="writing"):
        writer.read()
    with pytest.raises(ArgumentError, match="reading"):
        opened(tmp_path / "a", False).write("V", np.ones(1))
    (tmp_path / "b.npz").write_bytes(b"garbage")
    with pytest.raises(FileFormatError, match=r"b\.npz"):
        opened(tmp_path / "b", False).read()


def test_it_says_that_it_is_deprecated(tmp_path: pathlib.Path) -> None:
    """And what to use."""
    with pytest.warns(DeprecationWarning, match="save_states"):
        Snapshot(tmp_path / "a", True)
