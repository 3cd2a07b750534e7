"""`save` writes the network too: any ONNX tool runs it, and it comes back as a model; StableHLO beside it."""

from __future__ import annotations

import copy
import os
import pathlib
import subprocess
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from checkpoint_models import CASES, compiled, trained
from export_cases import SESSION
from jax import export
from models import MLP, Trained, assert_equal_states, blobs, states
from onnx import helper, numpy_helper

import singax as sx
from singax import files
from singax.checkpoint import network, network_file
from singax.errors import ExportError, FileFormatError, UninitializedError
from singax.sonnx.exporter import capture

ort = pytest.importorskip("onnxruntime")


def by_runtime(path: pathlib.Path, *inputs: np.ndarray) -> np.ndarray:
    """The first output of an ONNX file in onnxruntime."""
    session = ort.InferenceSession(os.fspath(path), SESSION, providers=["CPUExecutionProvider"])
    return session.run(None, dict(zip([info.name for info in session.get_inputs()], inputs, strict=True)))[0]


def evaluated(net: Any, *inputs: np.ndarray) -> np.ndarray:
    """The output in evaluation mode."""
    net.eval()
    out = net(*inputs)
    net.train()
    return np.asarray((out[0] if isinstance(out, list) else out).to_numpy())


def batch_of(path: pathlib.Path) -> int | str:
    """The declared size of the first axis of the first input."""
    dim = onnx.load(path).graph.input[0].type.tensor_type.shape.dim[0]
    return dim.dim_param or dim.dim_value


@pytest.fixture
def traces(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows with every trace for an export."""
    found: list[int] = []
    program = capture._Trace.program

    def counted(self: Any, avals: Any) -> Any:
        found.append(1)
        return program(self, avals)

    monkeypatch.setattr(capture._Trace, "program", counted)
    return found


# -- one save, two files --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES)
def test_the_network_computes_what_the_model_does(tmp_path: pathlib.Path, case: str) -> None:
    """In onnxruntime, and as a model without its class; the file holds the states by name and the save id."""
    net = trained(compiled(case), case, range(2))
    net.save(tmp_path / "net", state={"epoch": 1})
    saved = {name: np.array(tensor.to_numpy()) for name, tensor in net.get_states().items()}
    (x, _), tolerance = CASES[case][1](7), 2e-3 if case == "float16" else 1e-5
    ours = evaluated(net, x)
    for theirs in (by_runtime(tmp_path / "net.onnx", x), evaluated(sx.load(tmp_path / "net"), x)):
        assert theirs.dtype == ours.dtype
        np.testing.assert_allclose(theirs, ours, rtol=tolerance, atol=tolerance)
    made = onnx.load(tmp_path / "net.onnx")
    onnx.checker.check_model(made, full_check=True)
    held = {tensor.name: numpy_helper.to_array(tensor) for tensor in made.graph.initializer}
    assert_equal_states(held, saved)
    with files.open_safetensors(tmp_path / "net.safetensors") as file:
        assert file.metadata[network.SAVE_ID] == network.save_id_of(tmp_path / "net.onnx")


def test_train_save_run_load_continue(tmp_path: pathlib.Path) -> None:
    """A new process goes on where this one stopped, bit for bit, and its file is the same network."""
    net = trained(compiled("momentum"), "momentum", range(4))
    net.save(tmp_path / "net", state={"step": 4})
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); from checkpoint_models import compiled, trained;"
        "net = compiled('momentum'); step = net.load(sys.argv[2])['step'];"
        "trained(net, 'momentum', range(step, 6)).save(sys.argv[3])"
    )
    folder = pathlib.Path(__file__).parent
    environment = {**os.environ, "PYTHONPATH": str(folder.parent)}
    command = [sys.executable, "-c", code, str(folder), str(tmp_path / "net"), str(tmp_path / "on")]
    subprocess.run(command, check=True, env=environment, timeout=600)
    trained(net, "momentum", range(4, 6))
    other = compiled("momentum")
    other.load(tmp_path / "on")
    assert_equal_states(states(other), states(net))
    x = blobs(3, seed=9)[0]
    np.testing.assert_allclose(by_runtime(tmp_path / "on.onnx", x), evaluated(net, x), rtol=1e-5, atol=1e-6)


def test_the_onnx_file_alone(tmp_path: pathlib.Path) -> None:
    """Running statistics come with the weights, into a model that was not compiled too."""
    net = trained(compiled("batchnorm"), "batchnorm", range(2))
    net.save(tmp_path / "net")
    os.remove(tmp_path / "net.safetensors")
    x, _ = CASES["batchnorm"][1](5)
    for other in (compiled("batchnorm"), CASES["batchnorm"][0]()):
        assert other.load(tmp_path / "net") == {}
        np.testing.assert_array_equal(evaluated(other, x), evaluated(net, x))


def test_an_imported_model_is_saved_again(tmp_path: pathlib.Path) -> None:
    """A first call tells what it takes; the states keep their names through both files."""
    trained(compiled("momentum"), "momentum", range(1)).save(tmp_path / "net")
    x, net = blobs()[0], sx.load(tmp_path / "net")
    expected = evaluated(net, x)
    net.save(tmp_path / "again")
    again = sx.load(tmp_path / "again")
    np.testing.assert_array_equal(evaluated(again, x), expected)
    assert list(again.get_params()) == list(net.get_params())
    assert net.load(tmp_path / "again.onnx") == net.load(tmp_path / "again") == {}


# -- what the forward takes -----------------------------------------------------------------------------------------


class Both(Trained):
    """Two inputs, one of them in a list, and a number that is none."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = sx.layer.Linear(3)

    def forward(self, pair: list[jax.Array], scale: float = 1.0) -> jax.Array:
        return self.fc(pair[0] + pair[1][:, None]) * scale


def test_inputs_of_compile_and_of_the_first_call(tmp_path: pathlib.Path) -> None:
    """Without compile the first call tells; a size that is None, and the batch, are free."""
    x, y = blobs(4)
    called, unknown, twice = MLP(), MLP(), Both()
    called(x, y)
    called(x[:2], y[:2])
    unknown.compile([sx.Placeholder((None, 5))])
    for net in (called, unknown, copy.deepcopy(called)):
        net.save(tmp_path / "net")
        assert batch_of(tmp_path / "net.onnx") == "batch"
        np.testing.assert_allclose(by_runtime(tmp_path / "net.onnx", x), evaluated(net, x), rtol=1e-5, atol=1e-6)
    twice.eval()
    pair = [x, x[:, 0]]
    expected = twice(pair, scale=2.0).to_numpy()
    twice.save(tmp_path / "net")
    np.testing.assert_allclose(by_runtime(tmp_path / "net.onnx", *pair), expected, rtol=1e-5, atol=1e-6)


def test_a_model_that_saw_nothing(tmp_path: pathlib.Path) -> None:
    """Values that wait for it in vain, or no parameters at all: the error says what to call."""
    trained(compiled("momentum"), "momentum", range(1)).save(tmp_path / "net")
    waiting = MLP()
    waiting.load(tmp_path / "net")
    with pytest.raises(UninitializedError, match=r"forward of MLP .* compile.*onnx=False"):
        waiting.save(tmp_path / "other")
    waiting.save(tmp_path / "other", onnx=False)
    assert not (tmp_path / "other.onnx").exists()


def test_a_batch_that_cannot_vary(tmp_path: pathlib.Path) -> None:
    """The state of a character RNN has the batch of training: the file keeps that size."""
    net = trained(compiled("charrnn"), "charrnn", range(1))
    net.save(tmp_path / "net")
    assert batch_of(tmp_path / "net.onnx") == 16


class Wanted(sx.Module):
    """Its parameter and its input have one name."""

    def initialize(self, W: jax.Array) -> None:
        self.W = self.param(W.shape[1:], "normal")

    def forward(self, W: jax.Array) -> jax.Array:
        return W * self.W.data


def test_a_parameter_keeps_its_name(tmp_path: pathlib.Path) -> None:
    """An input that is called like it gets another one."""
    net = Wanted()
    net.compile([sx.Placeholder((2, 3))], is_train=False)
    net.save(tmp_path / "net")
    made = onnx.load(tmp_path / "net.onnx")
    assert ([info.name for info in made.graph.input], [t.name for t in made.graph.initializer]) == (["W_1"], ["W"])
    x = np.ones((5, 3), np.float32)
    np.testing.assert_allclose(by_runtime(tmp_path / "net.onnx", x), evaluated(net, x))


# -- one trace ------------------------------------------------------------------------------------------------------


def test_further_saves_trace_nothing(tmp_path: pathlib.Path, traces: list[int]) -> None:
    """The values are new each time; what changes the forward is noticed."""
    net = trained(compiled("momentum"), "momentum", range(1))
    x, y = blobs()
    net.save(tmp_path / "net")
    first = len(traces)
    assert first > 0
    net(x, y)
    net.save(tmp_path / "net")
    assert len(traces) == first
    np.testing.assert_allclose(by_runtime(tmp_path / "net.onnx", x), evaluated(net, x), rtol=1e-5, atol=1e-6)
    net.fc2 = sx.layer.Linear(2)
    net.compile([sx.Placeholder((16, 5))])
    net.save(tmp_path / "net")
    assert len(traces) > first
    assert by_runtime(tmp_path / "net.onnx", x).shape == (16, 2)


class Scaled(sx.Module):
    """A plain attribute goes into the trace; so does an array that NumPy made."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.scale = sx.layer.Linear(3), 1.0

    def forward(self, x: jax.Array) -> jax.Array:
        return self.fc(x) * self.scale + jnp.asarray(np.linspace(0, 1, 900, dtype=np.float32)).reshape(300, 3)[7]


def test_an_attribute_that_changes(tmp_path: pathlib.Path) -> None:
    net, x = Scaled(), blobs()[0]
    net.compile([sx.Placeholder((16, 5))], is_train=False)
    net.save(tmp_path / "net")
    net.scale = 3.0
    net.save(tmp_path / "net")
    net.compile([sx.Placeholder((16, 5))], is_train=False)
    np.testing.assert_allclose(by_runtime(tmp_path / "net.onnx", x), evaluated(net, x), rtol=1e-5, atol=1e-6)
    other = Scaled()
    other.load(tmp_path / "net.onnx")  # constants of the graph are no states
    other.compile([sx.Placeholder((16, 5))])


# -- what cannot be written -----------------------------------------------------------------------------------------


class Transformed(Trained):
    """A singular value decomposition, which ONNX has no operators for."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = sx.layer.Linear(3)

    def forward(self, x: jax.Array) -> jax.Array:
        return self.fc(jnp.linalg.svd(x.T @ x)[1][None] + x)


def test_a_model_that_onnx_cannot_express(tmp_path: pathlib.Path) -> None:
    """The error names the operation and says what to do; nothing is written, and the rest can be."""
    net = Transformed()
    net.compile([sx.Placeholder((4, 5))])
    with pytest.raises(ExportError, match=r"Transformed .*onnx=False.*svd"):
        net.save(tmp_path / "net")
    assert os.listdir(tmp_path) == []
    net.save(tmp_path / "net", onnx=False)


def test_a_file_that_would_be_too_large(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    net = trained(compiled("momentum"), "momentum", range(1))
    net.save(tmp_path / "net")
    size = (tmp_path / "net.onnx").stat().st_size
    old = (tmp_path / "net.onnx").read_bytes()
    monkeypatch.setattr(network_file, "LARGEST", size - 1)
    with pytest.raises(ExportError, match=rf"onnx=False.*{size} bytes"):
        net.save(tmp_path / "net")
    assert (tmp_path / "net.onnx").read_bytes() == old
    monkeypatch.setattr(network_file, "LARGEST", size)
    net.save(tmp_path / "net")


def test_the_pieces_are_one_message(tmp_path: pathlib.Path) -> None:
    """What is written piece by piece is what onnx itself would serialize: nothing is unknown, nothing is lost."""
    net = trained(compiled("momentum"), "momentum", range(1))
    net.save(tmp_path / "net")
    written = onnx.load(tmp_path / "net.onnx")
    made = sx.sonnx.to_onnx(net, [sx.Placeholder((16, 5))])
    metadata = {entry.key: entry.value for entry in written.metadata_props}
    helper.set_model_props(made, metadata)
    made.ClearField("model_version")
    assert written == made
    assert set(metadata) == {network.SAVE_ID, network.STATES}


# -- StableHLO ------------------------------------------------------------------------------------------------------


def test_stablehlo_and_back(tmp_path: pathlib.Path) -> None:
    """At any batch, with and without singax, inside jit too; the model is as it was."""
    net = trained(compiled("batchnorm"), "batchnorm", range(2))
    before = states(net)
    net.export_stablehlo(tmp_path / "net.hlo")
    assert os.listdir(tmp_path) == ["net.hlo"]
    assert_equal_states(states(net), before)
    forward = sx.load_stablehlo(tmp_path / "net.hlo")
    for rows in (1, 4, 7):
        x = np.random.default_rng(rows).normal(size=(rows, 2, 8, 8)).astype(np.float32)
        expected = evaluated(net, x)
        for found in (forward(x), forward(sx.Tensor(data=x)), jax.jit(forward)(x)):
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    plain = export.deserialize(bytearray((tmp_path / "net.hlo").read_bytes()))
    np.testing.assert_allclose(plain.call(x), expected, rtol=1e-5, atol=1e-6)


def test_stablehlo_of_inputs_that_are_given(tmp_path: pathlib.Path) -> None:
    """A list, a number that is no array, another platform; integers of 64 bits are taken as 32."""
    net, (x, _) = Both(), blobs(4)
    pair = [sx.Placeholder((4, 5)), sx.Placeholder((4,), dtype=sx.int32)]
    net.export_stablehlo(tmp_path / "net", [pair, 2.0], platforms=("cpu", "cuda"))
    net.eval()
    whole = np.arange(3)
    expected = net([x[:3], whole.astype(np.int32)], 2.0).to_numpy()
    np.testing.assert_allclose(sx.load_stablehlo(tmp_path / "net")(x[:3], whole), expected, rtol=1e-5, atol=1e-6)


def test_stablehlo_that_keeps_its_batch_or_cannot_be_made(tmp_path: pathlib.Path) -> None:
    net = compiled("charrnn")
    net.export_stablehlo(tmp_path / "net")
    x = CASES["charrnn"][1](0)[0]
    np.testing.assert_allclose(sx.load_stablehlo(tmp_path / "net")(x), evaluated(net, x), rtol=1e-5, atol=1e-6)
    with pytest.raises(ExportError, match="give all of them"):
        compiled("charrnn").export_stablehlo(tmp_path / "none", [sx.Placeholder((None, 5))])
    with pytest.raises(UninitializedError, match="pass inputs"):
        MLP().export_stablehlo(tmp_path / "none")
    assert os.listdir(tmp_path) == ["net"]


@pytest.mark.parametrize("content", [b"", b"abc" * 20, b"\xff" * 500, bytes(64)])
def test_no_stablehlo(tmp_path: pathlib.Path, content: bytes) -> None:
    (tmp_path / "net").write_bytes(content)
    with pytest.raises(FileFormatError, match="holds no StableHLO"):
        sx.load_stablehlo(tmp_path / "net")
