"""Single operators as models, run here and by onnxruntime."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from singax.sonnx import prepare

OPSETS = {"": 17, "com.microsoft": 1, "ai.onnx.ml": 3}


def model(
    op_type: str,
    inputs: Sequence[np.ndarray | None],
    outputs: int | Sequence[str] = 1,
    domain: str = "",
    constants: Iterable[int] = (),
    types: Sequence[Any] = (),
    version: int | None = None,
    **attributes: Any,
) -> onnx.ModelProto:
    """A model of one node; inputs are x0, x1 … (None: absent), those at `constants` are initializers."""
    names = [f"x{at}" if value is not None else "" for at, value in enumerate(inputs)]
    results = [f"y{at}" for at in range(outputs)] if isinstance(outputs, int) else list(outputs)
    node = helper.make_node(op_type, names, results, domain=domain, **attributes)
    fixed = set(constants)
    given = [(at, value) for at, value in enumerate(inputs) if value is not None]
    infos = [_info(names[at], value) for at, value in given if at not in fixed]
    weights = [numpy_helper.from_array(value, names[at]) for at, value in given if at in fixed]
    declared = itertools.chain(types, itertools.repeat(TensorProto.UNDEFINED))
    made = [
        helper.make_tensor_value_info(name, kind, None) if kind else onnx.ValueInfoProto(name=name)
        for name, kind in zip([name for name in results if name], declared, strict=False)
    ]
    graph = helper.make_graph([node], "one node", infos, made, weights)
    versions = {**OPSETS, **({} if version is None else {domain: version})}
    imports = [helper.make_opsetid(name, version) for name, version in versions.items()]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def _info(name: str, value: np.ndarray) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)


def feeds(made: onnx.ModelProto, inputs: Sequence[np.ndarray | None]) -> dict[str, np.ndarray]:
    """The inputs by name, without those that are initializers."""
    names = [info.name for info in made.graph.input]
    return {name: value for name in names if (value := inputs[int(name[1:])]) is not None}


def exact_weights(rng: np.random.Generator, dtype: Any, *shape: int) -> np.ndarray:
    """8-bit weights on which onnxruntime's products are exact on every processor.

    Where a processor has no VNNI instructions, onnxruntime adds two products of an unsigned and a signed byte in 16
    bits that saturate (255 · 127 · 2 is more than 32,767): signed weights keep to 7 bits, as its documentation advises.
    """
    low, high = (-64, 63) if dtype == np.int8 else (0, 255)
    return rng.integers(low, high, shape, endpoint=True).astype(dtype)


def by_onnxruntime(made: onnx.ModelProto, given: dict[str, np.ndarray]) -> list[Any]:
    """The outputs that onnxruntime gives, on one thread."""
    onnxruntime = pytest.importorskip("onnxruntime", reason="the comparison needs onnxruntime")
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    session = onnxruntime.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, given)


def by_singax(made: onnx.ModelProto, given: dict[str, np.ndarray], compiled: bool = True) -> list[Any]:
    """Our outputs; everything is one compiled program, unless `compiled` is False."""
    rep = prepare(made)
    results = rep.run(given)
    assert ("on the host" not in rep.report()) == compiled, rep.report()
    return results


def compare(
    op_type: str, inputs: Sequence[np.ndarray | None], steps: int = 0, tolerance: float = 1e-5, **options: Any
) -> None:
    """Equal dtypes and shapes; integers within `steps`, floats within `tolerance` of the largest."""
    compiled = options.pop("compiled", True)
    made = model(op_type, inputs, **options)
    given = feeds(made, inputs)
    theirs = by_onnxruntime(made, given)
    for info, value in zip(made.graph.output, theirs, strict=True):
        if not info.type.WhichOneof("value") and isinstance(value, np.ndarray) and value.dtype != object:
            info.CopyFrom(_info(info.name, value))
            info.type.tensor_type.ClearField("shape")
    for ours, wanted in zip(by_singax(made, given, compiled), theirs, strict=True):
        assert_close(ours, wanted, steps, tolerance)


def assert_close(ours: Any, wanted: Any, steps: int, tolerance: float) -> None:
    """What `compare` checks for one output."""
    if isinstance(wanted, list):
        assert [row.keys() for row in ours] == [row.keys() for row in wanted]
        np.testing.assert_allclose([list(row.values()) for row in ours], [list(row.values()) for row in wanted])
        return
    assert ours.dtype == wanted.dtype
    assert ours.shape == wanted.shape
    if wanted.dtype == object:
        assert ours.tolist() == wanted.tolist()
    elif wanted.dtype.kind in "iub":
        assert np.abs(ours.astype(np.int64) - wanted.astype(np.int64)).max(initial=0) <= steps
    else:
        scale = max(1.0, float(np.abs(wanted[np.isfinite(wanted)]).max(initial=0)))
        np.testing.assert_allclose(ours, wanted, rtol=0, atol=tolerance * scale)
