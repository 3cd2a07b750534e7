"""SINGA's zip checkpoints: written and read, and hostile ones refused."""

from __future__ import annotations

import io
import json
import os
import pathlib
import zipfile
from typing import Any

import numpy as np
import pytest
from models import MLP, blobs, states

import singax as sx
from singax import files
from singax.errors import ArgumentError, FileFormatError, NameMismatchError, ShapeError


def trained(hidden: int = 8) -> MLP:
    """A model after two steps."""
    net = MLP(hidden=hidden)
    net.compile([sx.Placeholder((16, 5))])
    for _ in range(2):
        net(*blobs())
    return net


def by_hand(path: pathlib.Path, arrays: dict[str, Any], attributes: Any = None, npz: bytes | None = None) -> None:
    """A checkpoint as SINGA 5.1 writes it: `numpy.savez` and a JSON file in one zip."""
    packed = io.BytesIO()
    np.savez(packed, **arrays)
    named = {n: {"state_type": 0, "shape": list(np.shape(a)), "dtype": 0} for n, a in arrays.items()}
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("tensor_dict.npz", packed.getvalue() if npz is None else npz)
        archive.writestr("states_attr.json", json.dumps(named if attributes is None else attributes))


def test_round_trip(tmp_path: pathlib.Path) -> None:
    """States and further values come back; the trained model goes on as if nothing had happened."""
    net, other = trained(), MLP()
    aux = {"epoch": 3, "mean": sx.Tensor(data=np.ones(2, np.float32)), "best": 0.5}
    net.save_states(tmp_path / "a.zip", aux)
    other.compile([sx.Placeholder((16, 5))])
    extra = other.load_states(tmp_path / "a.zip")
    assert sorted(extra) == ["best", "epoch", "mean"]
    assert (int(extra["epoch"]), float(extra["best"])) == (3, 0.5)
    for name, tensor in net.get_states().items():
        np.testing.assert_array_equal(tensor.to_numpy(), other.get_states()[name].to_numpy())
    assert os.listdir(tmp_path) == ["a.zip"]


def test_the_format_is_singas(tmp_path: pathlib.Path) -> None:
    """Two members with SINGA's names and attributes."""
    trained().save_states(tmp_path / "a.zip", {"epoch": 3})
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        assert sorted(archive.namelist()) == ["states_attr.json", "tensor_dict.npz"]
        attributes = json.loads(archive.read("states_attr.json"))
        arrays = np.load(io.BytesIO(archive.read("tensor_dict.npz")), allow_pickle=False)
        assert sorted(arrays) == sorted(attributes) == ["epoch", "fc1.W", "fc1.b", "fc2.W", "fc2.b"]
    assert attributes["fc1.W"] == {"state_type": 0, "shape": [5, 8], "dtype": 0}
    assert attributes["epoch"] == {"state_type": 1, "shape": [], "dtype": 2}


def test_a_file_of_singa_is_read(tmp_path: pathlib.Path) -> None:
    """What SINGA itself writes sets the model's states."""
    net = trained()
    wanted = {name: np.full(t.shape, 0.25, np.float32) for name, t in net.get_states().items()}
    by_hand(tmp_path / "a.zip", wanted)
    assert net.load_states(tmp_path / "a.zip") == {}
    assert all((t.to_numpy() == 0.25).all() for t in net.get_states().values())


def test_no_file_is_overwritten(tmp_path: pathlib.Path) -> None:
    """As in SINGA."""
    (tmp_path / "a.zip").write_bytes(b"mine")
    with pytest.raises(ArgumentError, match="overwrite"):
        trained().save_states(tmp_path / "a.zip")
    assert (tmp_path / "a.zip").read_bytes() == b"mine"


def test_dtypes_that_singa_lacks_are_refused(tmp_path: pathlib.Path) -> None:
    """Nothing is written then."""
    with pytest.raises(FileFormatError, match="flag has dtype bool"):
        trained().save_states(tmp_path / "a.zip", {"flag": True})
    with pytest.raises(FileFormatError, match=r"fc1\.W"):
        trained().save_states(tmp_path / "a.zip", {"fc1.W": 1.0})
    assert os.listdir(tmp_path) == []


def test_a_file_of_another_model_changes_nothing(tmp_path: pathlib.Path) -> None:
    """Unknown names and other shapes are refused before anything is set."""
    net = trained()
    before = states(net)
    by_hand(tmp_path / "names.zip", {"fc1.W": np.zeros((5, 8), np.float32), "fc9.W": np.zeros(2, np.float32)})
    with pytest.raises(NameMismatchError, match=r"fc9\.W"):
        net.load_states(tmp_path / "names.zip")
    by_hand(tmp_path / "shapes.zip", {"fc1.b": np.zeros(8, np.float32), "fc1.W": np.zeros((5, 9), np.float32)})
    with pytest.raises(ShapeError, match=r"fc1\.W"):
        net.load_states(tmp_path / "shapes.zip")
    for name, value in states(net).items():
        np.testing.assert_array_equal(value, before[name])


def _npy(header: dict[str, Any], body: bytes) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, header)
    return stream.getvalue() + body


def _npz(member: bytes, name: str = "fc1.b.npy", compression: int = zipfile.ZIP_STORED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as archive:
        archive.writestr(name, member)
    return stream.getvalue()


HUGE = {"descr": "<f4", "fortran_order": False, "shape": (1 << 40,)}
OBJECTS = {"descr": "|O", "fortran_order": False, "shape": (1,)}
ONE = {"fc1.b": {"state_type": 0, "shape": [8], "dtype": 0}}


@pytest.mark.parametrize(
    ("npz", "attributes", "message"),
    [
        (_npz(_npy(HUGE, b"1234")), ONE, "claims shape"),
        (_npz(_npy(OBJECTS, b"cos\nsystem\n(S'true'\ntR.")), ONE, "Python objects"),
        (_npz(b"no array"), ONE, "no checkpoint"),
        (b"no zip", ONE, "no checkpoint"),
        (_npz(bytes(600 << 20), compression=zipfile.ZIP_DEFLATED), ONE, "claim far more"),
        (None, {"other": {"state_type": 0}}, "do not name the same"),
        (None, [1, 2], "do not name the same"),
        (None, {"fc1.b": {"state_type": 7}}, "state_type of fc1.b"),
        (None, {"fc1.b": 3}, "state_type of fc1.b"),
    ],
)
def test_hostile_files(tmp_path: pathlib.Path, npz: bytes | None, attributes: Any, message: str) -> None:
    """Refused by name, before anything large is allocated and without running anything."""
    path = tmp_path / "a.zip"
    by_hand(path, {"fc1.b": np.zeros(8, np.float32)}, attributes, npz)
    with pytest.raises(FileFormatError, match=message):
        files.read_singa_zip(path)


def test_other_files(tmp_path: pathlib.Path) -> None:
    """A truncated file, an empty zip, a missing file."""
    trained().save_states(tmp_path / "a.zip")
    whole = (tmp_path / "a.zip").read_bytes()
    (tmp_path / "half.zip").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(FileFormatError, match="no checkpoint"):
        files.read_singa_zip(tmp_path / "half.zip")
    with zipfile.ZipFile(tmp_path / "empty.zip", "w"):
        pass
    with pytest.raises(FileFormatError, match=r"states_attr\.json"):
        files.read_singa_zip(tmp_path / "empty.zip")
    with pytest.raises(FileNotFoundError):
        files.read_singa_zip(tmp_path / "none.zip")


def _write_half(path: pathlib.Path) -> None:
    with files.replacing(path) as file:
        file.write(b"half")
        raise KeyboardInterrupt


def test_a_failed_write_leaves_the_old_file(tmp_path: pathlib.Path) -> None:
    """`replacing` removes its temporary file and keeps what was there."""
    path = tmp_path / "a"
    path.write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt):
        _write_half(path)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a"]
