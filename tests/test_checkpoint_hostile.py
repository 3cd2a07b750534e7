"""Hostile files of states: clear errors, within 256 MiB and 5 seconds each."""

from __future__ import annotations

import io
import json
import os
import pathlib
import struct
import subprocess
import sys
import warnings
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from checkpoint_hostile import Net

HERE = pathlib.Path(__file__).resolve().parent
GIB = 1 << 30
ATTRIBUTES = json.dumps({"a": {"state_type": 0, "shape": [4], "dtype": 0}})


def npy(descr: Any, shape: Any, body: bytes = b"") -> bytes:
    """An array in NumPy's format with any header."""
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": descr, "fortran_order": False, "shape": shape})
    return stream.getvalue() + body


def zipped(members: list[tuple[str, bytes]], compression: int = zipfile.ZIP_STORED) -> bytes:
    """A zip file of these members, in this order, equal names included."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as archive, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Duplicate name")
        for name, content in members:
            archive.writestr(name, content)
    return stream.getvalue()


def singa(arrays: list[tuple[str, bytes]], attributes: bytes | str = ATTRIBUTES, deflated: bool = False) -> bytes:
    """A checkpoint of SINGA whose arrays are these members."""
    inner = zipped(arrays, zipfile.ZIP_DEFLATED if deflated else zipfile.ZIP_STORED)
    return zipped([("tensor_dict.npz", inner), ("states_attr.json", attributes)])  # type: ignore[list-item]


def bomb(name: str, size: int) -> bytes:
    """A zip file with `size` zeros in one member."""
    stream = io.BytesIO()
    with (
        zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open(name, "w", force_zip64=True) as member,
    ):
        for _ in range(size >> 24):
            member.write(bytes(1 << 24))
    return stream.getvalue()


def tensors(header: Any, data: bytes = b"", length: int | None = None) -> bytes:
    """A safetensors file with any header."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def checkpoint(entries: dict[str, Any], data: bytes, **texts: Any) -> bytes:
    """A checkpoint with any texts; its seal is missing."""
    metadata = {"singax.format": "1", "singax.save_id": "x", "singax.versions": "{}", "singax.state": "{}", **texts}
    return tensors({"__metadata__": metadata, **entries}, data)


FLOATS = {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}
FINE = npy("<f4", (4,), bytes(16))

FILES: dict[str, Callable[[], bytes]] = {
    "objects.zip": lambda: singa([("a.npy", npy("|O", (1,), b"cos\nsystem\n(S'true'\ntR."))]),
    "pickle.zip": lambda: singa([("a.npy", b"\x80\x04cos\nsystem\n(S'true'\ntR.")]),
    "claim.zip": lambda: singa([("a.npy", npy("<f4", (3 * GIB,), bytes(16)))]),
    "negative.zip": lambda: singa([("a.npy", npy("<f4", (-4, -1), bytes(16)))]),
    "overflow.zip": lambda: singa([("a.npy", npy("<f4", (1 << 62, 1 << 62), bytes(16)))]),
    "dtype.zip": lambda: singa([("a.npy", npy("|V3221225472", (1,), bytes(16)))]),
    "bomb inside.zip": lambda: zipped([("tensor_dict.npz", bomb("a.npy", 3 * GIB)), ("states_attr.json", b"{}")]),
    "bomb.zip": lambda: bomb("tensor_dict.npz", 3 * GIB),
    "duplicate.zip": lambda: singa([("a.npy", FINE), ("a.npy", FINE)]),
    "duplicate member.zip": lambda: zipped(
        [("tensor_dict.npz", zipped([("a.npy", FINE)])), ("states_attr.json", b"{}"), ("states_attr.json", b"{}")]
    ),
    "missing.zip": lambda: zipped([("states_attr.json", ATTRIBUTES.encode())]),
    "outside.zip": lambda: singa([("../../a.npy", FINE)], ATTRIBUTES.replace('"a"', '"../../a"')),
    "deep.zip": lambda: singa([("a.npy", FINE)], b"[" * 200_000 + b"]" * 200_000),
    "deep header.zip": lambda: singa([("a.npy", b"\x93NUMPY\x01\x00\xff\xff" + b"(" * 65_535)]),
    "attributes.zip": lambda: singa([("a.npy", FINE)], b"[" + b"[]," * 3_000_000 + b"[]]"),
    "lzma.zip": lambda: zipped([("tensor_dict.npz", bytes(100)), ("states_attr.json", b"{}")], zipfile.ZIP_LZMA),
    "length.safetensors": lambda: tensors({"a": FLOATS}, bytes(16), (1 << 64) - 1),
    "claim.safetensors": lambda: tensors({"a": {**FLOATS, "shape": [3 * GIB], "data_offsets": [0, 12 * GIB]}}),
    "deep.safetensors": lambda: tensors(b'{"a":' + b"[" * 200_000 + b"]" * 200_000 + b"}"),
    "values.safetensors": lambda: tensors(b"[" + b"[]," * 5_000_000 + b"[]]"),
    "empty lists.safetensors": lambda: tensors(b"[" + b"[]," * 490_000 + b"[]]"),
    "texts.safetensors": lambda: tensors(b"[" + b'"0123456789",' * 900_000 + b'""]'),
    "duplicate.safetensors": lambda: tensors(
        b'{"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}}',
        bytes(16),
    ),
    "missing.safetensors": lambda: checkpoint({}, b"", **{"singax.arrays": '{"a":["state","",""]}'}),
    "unsealed.safetensors": lambda: checkpoint({"a": FLOATS}, bytes(16), **{"singax.arrays": "{}"}),
    "plain.safetensors": lambda: tensors({"../../a": FLOATS}, bytes(16)),
    "network.onnx": lambda: b"\x08\x08\x72\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
}


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What a process with little memory said to each file."""
    folder = tmp_path_factory.mktemp("hostile")
    Net().save(folder / "fine", onnx=False)
    for name, content in FILES.items():
        (folder / name).write_bytes(content())
    _write_sparse(folder / "sparse.safetensors")
    names = ["fine.safetensors", *FILES, "sparse.safetensors"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE.parent), str(HERE)])}
    command = [sys.executable, str(HERE / "checkpoint_hostile.py"), *(str(folder / name) for name in names)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment, timeout=500)
    return dict(zip(names, map(json.loads, done.stdout.splitlines()), strict=True))


def _write_sparse(path: pathlib.Path) -> None:
    """A whole checkpoint with right checksums everywhere but of the array, which is 3 GiB of nothing on the disk."""
    from singax.checkpoint.document import About, Document
    from singax.files.safetensors_format import header_text
    from singax.files.safetensors_writer import NO_CHECKSUM, SEAL, _sealed

    rows = {"a": About("state", "", NO_CHECKSUM)}
    texts = {**Document("x", {}, rows, {"dict": []}).texts(), SEAL: NO_CHECKSUM}
    text = _sealed(header_text({"a": (np.dtype("float32"), (3 * GIB // 4,))}, texts))
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + 3 * GIB)


def test_the_harmless_file_loads(answers: dict[str, dict[str, Any]]) -> None:
    """So that the others are refused for what they are."""
    assert answers["fine.safetensors"]["outcome"] == "loads"


@pytest.mark.parametrize("name", [*FILES, "sparse.safetensors"])
def test_hostile_files(name: str, answers: dict[str, dict[str, Any]]) -> None:
    """A clear error, in time; running out of memory would be another one."""
    answer = answers[name]
    assert answer["outcome"] == "refused", answer
    assert answer["message"]
    assert answer["seconds"] < 5
