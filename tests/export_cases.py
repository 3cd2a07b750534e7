"""What the tests of the exporter share: export, run in onnxruntime, compare, import back, compare again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnx.reference
import onnxruntime

import singax as sx
from singax import sonnx

SESSION = onnxruntime.SessionOptions()
SESSION.log_severity_level = 3
SESSION.intra_op_num_threads = 1


def run(model: onnx.ModelProto, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The outputs in onnxruntime."""
    session = onnxruntime.InferenceSession(model.SerializeToString(), SESSION, providers=["CPUExecutionProvider"])
    return session.run(None, feeds(model, inputs))


def referred(model: onnx.ModelProto, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The outputs in onnx's reference evaluator."""
    return onnx.reference.ReferenceEvaluator(model).run(None, feeds(model, inputs))


def feeds(model: onnx.ModelProto, inputs: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    """The inputs by name."""
    return {info.name: np.asarray(x) for info, x in zip(model.graph.input, inputs, strict=True)}


def expected(target: Any, inputs: Sequence[Any]) -> list[np.ndarray]:
    """The outputs in singax."""
    if isinstance(target, sx.Module):
        target.eval()
    out = target(*inputs) if isinstance(target, sx.layer.Layer) else target(*map(jnp.asarray, inputs))
    leaves = jax.tree.leaves(out, is_leaf=lambda v: isinstance(v, sx.Tensor))
    return [np.asarray(leaf.data if isinstance(leaf, sx.Tensor) else leaf) for leaf in leaves]


def assert_same(ours: Sequence[np.ndarray], theirs: Sequence[Any], tolerance: float = 1e-5) -> None:
    """Same shapes and dtypes, and values that are close."""
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        b = np.asarray(b)
        assert a.shape == b.shape
        assert a.dtype == b.dtype
        scale = max(float(np.max(np.abs(np.where(np.isfinite(a), a, 0)), initial=0)), 1.0)
        np.testing.assert_allclose(b.astype(np.float64), a.astype(np.float64), rtol=tolerance, atol=tolerance * scale)


def check(
    target: Any,
    draw: Callable[[int], Sequence[np.ndarray]],
    opsets: Sequence[int] = (17, 23),
    batches: Sequence[int] = (1, 7),
    tolerance: float = 1e-5,
    **options: Any,
) -> list[onnx.ModelProto]:
    """Export at each opset from inputs of batch 4; run at each batch in onnxruntime and, imported, in singax."""
    made = [sonnx.to_onnx(target, draw(4), opset=opset, **options) for opset in opsets]
    for model in made:
        rep = sonnx.prepare(model)
        for batch in batches:
            inputs = draw(batch)
            wanted = expected(target, inputs)
            assert_same(wanted, run(model, inputs), tolerance)
            assert_same(wanted, rep.run(list(inputs)), tolerance)
    return made


def normal(*shape: int, seed: int = 0) -> Callable[[int], list[np.ndarray]]:
    """Draws one input (batch, *shape)."""
    return lambda batch: [np.random.default_rng(seed).normal(size=(batch, *shape)).astype(np.float32)]
