"""Real models, imported and exported again: outputs in ONNX Runtime beside those of the file that came in."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_sonnx_real_models import CASES, EXACT, by_runtime, error, file_of

from singax import sonnx

FREE: dict[str, dict[str, Any]] = {
    "orientation": {},
    "captcha": {"dynamic_batch": False, "dynamic_axes": {"input_0": {3: "width"}}},
    "voice-16k": {"dynamic_axes": {"input_1": {1: "batch"}}},
    "echo": {"dynamic_batch": False, "dynamic_axes": {"input_0": {2: "frames"}}},
    "pitch": {},
    "noise": {},
}
"""What may vary in the file that goes out: the batch, and the axes that are named.

The others keep the sizes of their inputs. `boxes` is declared with batch 1; the images of `detection` must have sizes
that 32 divides, which the numbers that the exporter tries for unknown sizes are not; `voice` has branches for two
rates, each for windows of its own; `minilm` and `loss` compute indices from shapes while they are traced, which the
exporter reports as constant arrays that depend on an unknown size.
"""


def arguments(name: str, inputs: list[Any]) -> list[Any]:
    """The inputs of the forward: the rate of `voice` is a number, since it decides between branches."""
    return [*inputs[:2], int(inputs[2])] if name == "voice" else inputs


def feeds(model: Any, inputs: list[Any]) -> list[Any]:
    """The arrays among the inputs, with the dtypes that the file declares: JAX has made integers 32 bits wide."""
    from onnx import helper

    arrays = [value for value in inputs if isinstance(value, np.ndarray)]
    dtypes = [helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type) for info in model.graph.input]
    return [value.astype(dtype) for value, dtype in zip(arrays, dtypes, strict=True)]


@pytest.mark.parametrize("name", EXACT)
def test_a_model_goes_out_as_it_came_in(name: str) -> None:
    case = CASES[name]
    path = file_of(case)
    net = sonnx.SONNXModel(path)
    net.eval()
    first = arguments(name, case.inputs[0]())
    made = sonnx.to_onnx(net, first, **FREE.get(name, {"dynamic_batch": False}))
    content = made.SerializeToString()
    for make in case.inputs if name in FREE else case.inputs[:1]:
        inputs = make()
        expected, found = by_runtime(path, inputs), by_runtime(content, feeds(made, arguments(name, inputs)))
        assert len(found) == len(expected)
        assert max(error(a, b.astype(a.dtype)) for a, b in zip(expected, found, strict=True)) < 1e-5
