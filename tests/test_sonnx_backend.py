"""onnx's own backend suite: every case that ships inside the onnx package."""

from __future__ import annotations

import functools
import pathlib
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from onnx.backend.test.loader import load_model_tests
    from onnx.backend.test.runner import Runner

from singax.sonnx import prepare

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator", "real")
PACKAGE = pathlib.Path(onnx.__file__).parent.parent

# Cases that cannot pass, each with the reason; one that starts to pass must leave the table.
_NUMPY_DRAWS = "the values are those of NumPy's generator, which JAX does not draw"
FAILS: dict[str, str] = {
    f"node/test_bernoulli{kind}{form}": _NUMPY_DRAWS for kind in ("", "_double", "_seed") for form in ("", "_expanded")
}

LOGITS = {"real/test_squeezenet": "r65"}
"""Light models whose probabilities, 1/1000 each, are compared by their logits. Those are near 9.5e9, so a difference in
the last bit decides everything, and XLA rounds the last columns of a matrix product otherwise than the others."""


ROUNDED = {f"node/test_dft_inverse{form}": 2e-6 for form in ("", "_opset19")}
"""Cases whose expected values are themselves off by rounding, and by how much: those of the inverse DFT, which NumPy
computed in float32, by 1.5e-6 (1.9e-7 where the exact value is 0), and the case allows 1e-7."""


@functools.cache
def cases() -> dict[str, Any]:
    """Name → case, for all kinds."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return {f"{kind}/{case.name}": case for kind in KINDS for case in load_model_tests(kind=kind)}


def data_sets(case: Any) -> Iterator[tuple[list[Any], list[Any]]]:
    """(inputs, outputs) of a case."""
    if case.data_sets is not None:
        for inputs, outputs in case.data_sets:
            yield [_array(value) for value in inputs], [_array(value) for value in outputs]
        return
    if case.url is not None:
        yield _light(PACKAGE / case.url)
        return
    graph = onnx.load(pathlib.Path(case.model_dir, "model.onnx")).graph
    for folder in sorted(pathlib.Path(case.model_dir).glob("test_data_set_*")):
        yield _read(folder, "input", graph.input), _read(folder, "output", graph.output)


def _light(path: pathlib.Path) -> tuple[list[Any], list[Any]]:
    """The inputs that onnx's runner makes up for a light model, and the outputs that lie beside it."""
    graph = onnx.load(path).graph
    given = {tensor.name for tensor in graph.initializer}
    inputs = [Runner.generate_dummy_data(info) for info in graph.input if info.name not in given]
    files = [path.with_name(f"{path.stem}_output_{k}.pb") for k in range(len(graph.output))]
    return inputs, [numpy_helper.to_array(onnx.load_tensor(file)) for file in files]


def _source(case: Any) -> Any:
    if case.model is not None:
        return case.model
    return PACKAGE / case.url if case.url is not None else pathlib.Path(case.model_dir, "model.onnx")


def _array(value: Any) -> Any:
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def _read(folder: pathlib.Path, kind: str, infos: Any) -> list[Any]:
    count = len(list(folder.glob(f"{kind}_*.pb")))
    return [_decoded((folder / f"{kind}_{k}.pb").read_bytes(), infos[k].type) for k in range(count)]


def _decoded(content: bytes, type_: Any) -> Any:
    readers = {
        "tensor_type": (onnx.TensorProto, numpy_helper.to_array),
        "sequence_type": (onnx.SequenceProto, numpy_helper.to_list),
        "optional_type": (onnx.OptionalProto, numpy_helper.to_optional),
    }
    proto, convert = readers[type_.WhichOneof("value")]
    made = proto()
    made.ParseFromString(content)
    return convert(made)


def assert_same(ours: Any, theirs: Any, rtol: float, atol: float) -> None:
    """Equal structure, dtype and shape, close values."""
    if isinstance(theirs, list | tuple):
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            assert_same(a, b, rtol, atol)
    elif theirs is None or isinstance(theirs, dict):
        assert ours == theirs
    else:
        _assert_same_arrays(np.asarray(ours), np.asarray(theirs), rtol, atol)


def _assert_same_arrays(ours: np.ndarray, theirs: np.ndarray, rtol: float, atol: float) -> None:
    assert ours.shape == theirs.shape
    if theirs.dtype.kind in "OUS":
        assert [str(v) for v in ours.reshape(-1)] == [str(v) for v in theirs.reshape(-1)]
        return
    assert ours.dtype == theirs.dtype
    rtol = max(rtol, 2**-6) if theirs.dtype.name == "bfloat16" else rtol  # as onnx's own runner
    wide = theirs.dtype if theirs.dtype.kind in "biufc" else np.float64
    np.testing.assert_allclose(ours.astype(wide), theirs.astype(wide), rtol=rtol, atol=atol)


def _name(case: Any) -> str:
    return f"{case.kind}/{case.name}"


def run(case: Any) -> None:
    """Raise unless the case passes."""
    rep = prepare(_source(case))
    for inputs, outputs in data_sets(case):
        assert_same(rep.run(list(inputs)), list(outputs), case.rtol, ROUNDED.get(_name(case), case.atol))


def test_no_case_is_left_out() -> None:
    """All that onnx's own runner would run, the nine light models among them, under different names."""
    loaded = [case for kind in KINDS for case in load_model_tests(kind=kind)]
    assert len(cases()) == len(loaded)
    assert sum(case.url is not None for case in cases().values()) == 9


@pytest.mark.parametrize("name", sorted(set(cases()) - set(FAILS) - set(LOGITS)))
def test_case(name: str) -> None:
    """It passes."""
    run(cases()[name])


@pytest.mark.parametrize("name", sorted(LOGITS))
def test_equal_probabilities_come_from_equal_logits(name: str) -> None:
    """They are onnxruntime's but for rounding."""
    model = onnx.load(_source(cases()[name]))
    del model.graph.output[:]
    model.graph.output.append(onnx.ValueInfoProto(name=LOGITS[name]))
    session = onnxruntime.InferenceSession(model.SerializeToString())
    for (x,), (probabilities,) in data_sets(cases()[name]):
        (logits,) = prepare(model).run([x])
        assert probabilities.min() == probabilities.max()
        (theirs,) = session.run(None, {session.get_inputs()[0].name: x})
        assert np.ptp(theirs) == 0
        np.testing.assert_allclose(logits, theirs, rtol=1e-5)


@pytest.mark.parametrize("name", sorted(FAILS))
def test_what_fails_is_in_the_table(name: str) -> None:
    """It still fails."""
    with pytest.raises(Exception):  # noqa: B017
        run(cases()[name])
