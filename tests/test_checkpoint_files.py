"""The files themselves: the format, the pair, the checksums, the temporary files, damage of every kind."""

from __future__ import annotations

import json
import os
import pathlib
import struct
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from models import MLP, assert_equal_states, blobs, states, trained
from safetensors.numpy import load_file, save_file

import singax as sx
from singax import files
from singax.checkpoint import network, saving
from singax.errors import ArgumentError, FileFormatError, StateMismatchError
from singax.files import leftovers, locks

X, Y = blobs()


# -- the format ---------------------------------------------------------------------------------------------------


def test_a_file_of_another_writer_is_read(tmp_path: pathlib.Path) -> None:
    """What the safetensors package writes, and metadata with it."""
    arrays = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.array(True), "c": np.zeros((0, 2), np.int64)}
    save_file(arrays, tmp_path / "a", {"format": "np"})
    with files.open_safetensors(tmp_path / "a") as file:
        assert file.metadata == {"format": "np"}
        assert not file.sealed
        assert_equal_states({name: file.read(name) for name in file.fields}, arrays)


def test_arrays_in_any_order_of_bytes(tmp_path: pathlib.Path) -> None:
    """Transposed, of the other byte order, with negative strides."""
    base = np.arange(12, dtype=np.float32).reshape(3, 4)
    arrays = {"t": base.T, "big": base.astype(">f4"), "back": base[::-1, ::2]}
    entries = {n: files.Entry(np.dtype("float32"), a.shape, lambda a=a: a) for n, a in arrays.items()}
    with files.replacing(tmp_path / "a") as file:
        files.write_safetensors(file, entries, lambda checksums: checksums)
    found = load_file(tmp_path / "a")
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)


def header_file(path: pathlib.Path, header: Any, data: bytes = b"", length: int | None = None) -> pathlib.Path:
    """A safetensors file with a header made by hand."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text) if length is None else length) + text + data)
    return path


def entry(begin: int = 0, end: int = 8, shape: Any = (2,), dtype: Any = "F32") -> dict[str, Any]:
    """One entry of a header."""
    return {"dtype": dtype, "shape": list(shape) if isinstance(shape, tuple) else shape, "data_offsets": [begin, end]}


BROKEN: list[tuple[Any, bytes, str]] = [
    (b"", b"", "JSON is broken"),
    ([], b"", "no JSON object"),
    ({"a": 3}, b"", "does not give dtype"),
    ({"a": {**entry(), "more": 1}}, bytes(8), "does not give dtype"),
    ({"a": entry(dtype="F33")}, bytes(8), "dtype that is not known"),
    ({"a": entry(dtype=["F32"])}, bytes(8), "dtype that is not known"),
    ({"a": entry(shape="22")}, bytes(8), "shape that is none"),
    ({"a": entry(shape=[2.0])}, bytes(8), "shape that is none"),
    ({"a": entry(shape=[True])}, bytes(8), "shape that is none"),
    ({"a": entry(shape=[-2])}, bytes(8), "shape that is none"),
    ({"a": entry(shape=[1] * 65)}, bytes(8), "shape that is none"),
    ({"a": entry(0, 0, shape=[0, 1 << 61, 1 << 61])}, b"", "shape that is none"),
    ({"a": entry(shape=[10**400])}, bytes(8), "shape that is none"),
    ({"a": entry(0, 8, (3,))}, bytes(8), "which are 12 bytes, but 8"),
    ({"a": entry(0, -8)}, bytes(8), "data_offsets that are none"),
    ({"a": entry(8, 0)}, bytes(8), "which are 8 bytes, but -8"),
    ({"a": entry(4, 12)}, bytes(12), "begin at 4; expected 0"),
    ({"a": entry(), "b": entry()}, bytes(8), "begin at 0; expected 8"),
    ({"a": entry(), "b": entry(12, 20)}, bytes(20), "begin at 12; expected 8"),
    ({"a": entry()}, bytes(9), "describes 8 bytes, but 9"),
    ({"a": entry()}, bytes(7), "describes 8 bytes, but 7"),
    ({"a": entry(0, 1 << 33, (1 << 31,))}, bytes(8), "describes 8589934592 bytes, but 8"),
    ({"__metadata__": {"a": 3}}, b"", "no mapping of texts"),
    (b'{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"a":{}}', b"", "'a' twice"),
    (b'{"a":NaN}', b"", "NaN"),
    (b'{"a":"\xff"}', b"", "JSON is broken"),
    (b"[" * 200_000 + b"]" * 200_000, b"", "nested deeper"),
    (b'{"a":' * 100_000, b"", "nested deeper"),
    (b"[" + b"0," * 1_100_000 + b"0]", b"", "more than 1000000 values"),
]


@pytest.mark.parametrize(("header", "data", "message"), BROKEN, ids=range(len(BROKEN)))
def test_headers_that_lie(tmp_path: pathlib.Path, header: Any, data: bytes, message: str) -> None:
    """Refused by name before anything of their sizes is allocated."""
    path = header_file(tmp_path / "a.safetensors", header, data)
    with pytest.raises(FileFormatError, match=message) as caught, files.open_safetensors(path):
        pytest.fail("opened")
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("length", [0, 1, 1 << 24, 1 << 40, 1 << 63, (1 << 64) - 1])
def test_lengths_that_lie(tmp_path: pathlib.Path, length: int) -> None:
    """The first eight bytes are believed only if so many bytes follow."""
    path = header_file(tmp_path / "a.safetensors", {"a": entry()}, bytes(8), length)
    with pytest.raises(FileFormatError), files.open_safetensors(path):
        pytest.fail("opened")


def test_booleans_are_true_or_false(tmp_path: pathlib.Path) -> None:
    """Other bytes would make arrays that NumPy treats strangely."""
    header_file(tmp_path / "a", {"a": entry(0, 2, (2,), "BOOL")}, b"\1\2")
    with files.open_safetensors(tmp_path / "a") as file, pytest.raises(FileFormatError, match="neither true nor"):
        file.read("a")


def test_what_is_no_file(tmp_path: pathlib.Path) -> None:
    """A folder, a pipe, an empty file, a missing one."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "empty").write_bytes(b"")
    for name in ("pipe", ".", "empty"):
        with pytest.raises(FileFormatError), files.open_safetensors(tmp_path / name):
            pytest.fail("opened")
    with pytest.raises(FileNotFoundError, match=r"net\.safetensors nor"):
        trained(steps=0).load(tmp_path / "net")


# -- checkpoints --------------------------------------------------------------------------------------------------


def rewritten(path: pathlib.Path, change: Any) -> None:
    """A checkpoint with changed metadata and right checksums, as somebody could make one on purpose."""
    with files.open_safetensors(path) as file:
        arrays = {name: file.read(name) for name in file.fields}
        texts = {key: text for key, text in file.metadata.items() if key != "singax.header_sha256"}
    arrays, texts = change(arrays, texts) or (arrays, texts)
    entries = {name: files.Entry(a.dtype, a.shape, lambda a=a: a) for name, a in arrays.items()}
    with files.replacing(path) as file:
        files.write_safetensors(file, entries, lambda checksums: texts)


def set_text(key: str, text: str) -> Any:
    """A change of one metadata text."""
    return lambda arrays, texts: (arrays, {**texts, f"singax.{key}": text})


def without(key: str) -> Any:
    """A change that drops one metadata text."""
    return lambda arrays, texts: (arrays, {k: t for k, t in texts.items() if k != f"singax.{key}"})


def one_less(arrays: Mapping[str, Any], texts: Mapping[str, str]) -> Any:
    """A change that drops an array."""
    return {name: array for name, array in arrays.items() if name != "fc1.b"}, texts


STRANGE = [
    (set_text("format", "2"), "format '2'.*reads format 1"),
    (without("format"), "no checkpoint of singax"),
    (without("save_id"), "lacks singax.save_id"),
    (set_text("arrays", "{}"), "does not fit its arrays"),
    (set_text("arrays", "[]"), "is no dict"),
    (set_text("arrays", '{"a": 3}'), "not kind, note and SHA-256"),
    (set_text("arrays", '{"a": ["code", "", ""]}'), "kind that is not known"),
    (set_text("state", "["), "JSON is broken"),
    (set_text("state", '{"eval": "1"}'), "what no state holds"),
    (set_text("state", '{"array": "../../fc1.W"}'), "what no state holds"),
    (set_text("state", "[" * 100_000 + "]" * 100_000), "nested deeper"),
    (set_text("state", '{"tuple": []}'), "no dict"),
    (set_text("state", '{"dict": [[1, {"array": "state/b"}], [2, {"array": "state/b"}]]}'), "what no state holds"),
    (one_less, "does not fit its arrays: fc1.b"),
]


@pytest.mark.parametrize(("change", "message"), STRANGE, ids=range(len(STRANGE)))
def test_checkpoints_made_on_purpose(tmp_path: pathlib.Path, change: Any, message: str) -> None:
    """With right checksums, but wrong in themselves: refused, and the model is as it was."""
    trained(steps=2).save(tmp_path / "net", state={"b": np.zeros(3)}, onnx=False)
    rewritten(tmp_path / "net.safetensors", change)
    net = trained(steps=1)
    before = states(net)
    with pytest.raises(FileFormatError, match=message):
        net.load(tmp_path / "net")
    assert_equal_states(states(net), before)


def test_names_are_only_names(tmp_path: pathlib.Path) -> None:
    """An array called ../../a is one that the model does not have; nothing is opened or written by it."""

    def renamed(arrays: dict[str, Any], texts: dict[str, str]) -> Any:
        arrays["../../a"] = arrays.pop("fc1.b")
        rows = json.loads(texts["singax.arrays"])
        rows["../../a"] = rows.pop("fc1.b")
        return arrays, {**texts, "singax.arrays": json.dumps(rows)}

    trained(steps=2).save(tmp_path / "net", onnx=False)
    rewritten(tmp_path / "net.safetensors", renamed)
    with pytest.raises(StateMismatchError, match=r"unexpected: \.\./\.\./a"):
        trained(steps=2).load(tmp_path / "net")


# -- two files ----------------------------------------------------------------------------------------------------


def test_both_files(tmp_path: pathlib.Path) -> None:
    """One save id in both; the network opens as a model without its class."""
    net = trained(steps=2)
    net.save(tmp_path / "net", state={"a": 1})
    assert sorted(os.listdir(tmp_path)) == ["net.onnx", "net.safetensors"]
    with files.open_safetensors(tmp_path / "net.safetensors") as file:
        assert file.metadata["singax.save_id"] == network.save_id_of(tmp_path / "net.onnx")
    assert trained(steps=2).load(tmp_path / "net") == {"a": 1}
    found = sx.load(tmp_path / "net")
    found.eval()
    net.eval()
    np.testing.assert_allclose(found(X)[0].to_numpy(), net(X).to_numpy(), rtol=1e-5, atol=1e-6)
    with pytest.raises(ArgumentError, match="holds states"):
        sx.load(tmp_path / "net.safetensors")


def test_from_onnx_alone(tmp_path: pathlib.Path) -> None:
    """Weights by their names; optimizer and random key stay. Also before compile."""
    net = trained(steps=2)
    net.save(tmp_path / "net")
    os.remove(tmp_path / "net.safetensors")
    for path in ("net", "net.onnx"):
        for other in (trained(steps=5), MLP()):
            assert other.load(tmp_path / path) == {}
            other.compile([X])
            for name, tensor in net.get_params().items():
                np.testing.assert_array_equal(other.get_params()[name].to_numpy(), tensor.to_numpy())
    wide = MLP(hidden=9)
    wide.compile([X])
    with pytest.raises(StateMismatchError, match=r"net\.onnx does not fit.*\n.*fc1\.W"):
        wide.load(tmp_path / "net.onnx")


def test_files_of_two_saves(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A crash between the two renames is noticed, and the complete file is taken."""
    trained(steps=1).save(tmp_path / "net")
    published = files.NewFile.publish

    def crash(self: files.NewFile) -> None:
        if self.target.suffix == ".onnx":
            raise KeyboardInterrupt
        published(self)

    monkeypatch.setattr(files.NewFile, "publish", crash)
    net, other = trained(steps=2), trained(steps=0)
    with pytest.raises(KeyboardInterrupt):
        net.save(tmp_path / "net")
    with pytest.warns(UserWarning, match="of another save"):
        other.load(tmp_path / "net")
    assert_equal_states(states(other), states(net))
    assert sorted(os.listdir(tmp_path)) == ["net.onnx", "net.safetensors"]
    other.load(tmp_path / "net.safetensors")  # named alone: no word about the other one
    (tmp_path / "net.onnx").write_bytes(b"\xff" * 40)
    with pytest.warns(UserWarning, match="of another save"):
        other.load(tmp_path / "net")


# -- temporary files ----------------------------------------------------------------------------------------------


def test_leftovers_of_the_dead_are_removed(tmp_path: pathlib.Path) -> None:
    """Of this file only; what a living process is writing stays."""
    code = (
        "import sys, os; from singax.files.leftovers import new_temporary; import pathlib;"
        "print(new_temporary(pathlib.Path(sys.argv[1]))[1], flush=True); sys.stdin.read(); os._exit(1)"
    )
    target = tmp_path / "net.safetensors"
    environment = {**os.environ, "PYTHONPATH": str(pathlib.Path(sx.__file__).parent.parent)}
    command = [sys.executable, "-c", code, str(target)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as alive:
        assert alive.stdout is not None
        assert alive.stdin is not None
        temporary = pathlib.Path(alive.stdout.readline().strip())
        foreign = tmp_path / ".other.safetensors.abc.tmp"
        foreign.write_bytes(b"mine")
        net = trained(steps=2)
        net.save(target, onnx=False)
        assert temporary.exists()
        alive.stdin.close()
        alive.wait()
    net.save(target, onnx=False)
    assert not temporary.exists()
    assert sorted(os.listdir(tmp_path)) == [foreign.name, target.name]


def test_a_file_taken_for_a_leftover_before_it_was_locked(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its writer makes another one."""
    made, lock = [], leftovers.lock

    def late(handle: int) -> bool:
        made.append(handle)
        if len(made) < 3:
            assert len(leftovers.remove_leftovers(tmp_path / "a")) == 1
        return lock(handle)

    monkeypatch.setattr(leftovers, "lock", late)
    with files.replacing(tmp_path / "a") as file:
        file.write(b"whole")
    assert len(made) == 3
    assert (tmp_path / "a").read_bytes() == b"whole"


def test_a_lock_that_is_never_released(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that was stopped while it held the folder's lock stops nobody else for ever."""
    monkeypatch.setattr(locks, "_LONGEST_WAIT", 0.05)
    net = trained(steps=2)
    with files.folder_lock(tmp_path):
        net.save(tmp_path / "net", onnx=False)
        assert net.load(tmp_path / "net") == {}


def test_permissions_stay(tmp_path: pathlib.Path) -> None:
    """Those of the file that is replaced."""
    trained(steps=2).save(tmp_path / "net", onnx=False)
    os.chmod(tmp_path / "net.safetensors", 0o640)
    trained(steps=2).save(tmp_path / "net", onnx=False)
    assert (tmp_path / "net.safetensors").stat().st_mode & 0o777 == 0o640


def test_the_arrays_are_checked_when_their_turn_comes(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread that gives a state another shape meanwhile spoils no file."""
    net = trained(steps=2)
    stored = saving.stored_states(net)
    net.fc1.b._cell.values[net.fc1.b._cell.index] = np.zeros(3, np.float32)
    monkeypatch.setattr(saving, "stored_states", lambda model: stored)
    with pytest.raises(FileFormatError, match=r"fc1\.b was float32\[8\] and has become float32\[3\]"):
        net.save(tmp_path / "net", onnx=False)
    assert os.listdir(tmp_path) == []
