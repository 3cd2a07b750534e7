"""The ONNX twin of an operation, computed by onnx.reference."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx.helper
import onnx.reference


def onnx_of(operation: Any, inputs: list[Any], outputs: int = 1, opset: int = 20, **attributes: Any) -> Any:
    """The result of the ONNX twin of `operation` on these inputs."""
    names = [f"x{i}" for i in range(len(inputs))]
    results = [f"y{i}" for i in range(outputs)]
    node = onnx.helper.make_node(operation.twin.op_type, names, results, **operation.twin.convert(attributes))
    values = [onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, None) for n in names + results]
    graph = onnx.helper.make_graph([node], "twin", values[: len(names)], values[len(names) :])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])
    feeds = dict(zip(names, map(np.asarray, inputs), strict=True))
    return onnx.reference.ReferenceEvaluator(model).run(None, feeds)[0]


def normal(*shape: int, seed: int = 0) -> jax.Array:
    """Normal numbers of this shape."""
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), jnp.float32)
