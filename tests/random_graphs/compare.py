"""Running a random model here and by onnxruntime, and comparing."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx

from random_graphs.generate import RandomModel
from random_graphs.values import Value
from singax.sonnx import prepare

TOLERANCE = {"float16": 2e-2, "float32": 1e-4, "float64": 1e-7}
"""Relative to max(|y|, 1). Both sides add in other orders and have their own exp, tanh and erf, each right to a few
units in the last place (1.2e-7 for float32); a graph of fifteen nodes with the bounded gains that the generator allows
keeps the estimated error under a fifth of this, while a wrong operator is off by far more."""


def session(proto: onnx.ModelProto) -> Any:
    """onnxruntime's session: one thread, and no rewriting of the graph, so that operators are compared."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    return ort.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])


def mismatches(model: RandomModel) -> list[str]:
    """What differs, in words; an empty list if nothing does."""
    names = [x.name for x in model.outputs]
    theirs = session(model.proto)
    wanted = [theirs.run(names, feeds) for feeds in model.feeds]
    rep = prepare(model.proto)
    found = []
    for run, feeds in enumerate(model.feeds):
        for value, ours, right in zip(model.outputs, rep.run(feeds), wanted[run], strict=True):
            problem = difference(value, np.asarray(ours), np.asarray(right))
            found += [f"seed {model.seed}, run {run}, {value.name}: {problem}"] if problem else []
    return found


def difference(value: Value, ours: np.ndarray, right: np.ndarray) -> str:
    """How the result differs from the right one; empty if it does not."""
    if ours.dtype != right.dtype or ours.shape != right.shape:
        return f"{ours.dtype}{list(ours.shape)} instead of {right.dtype}{list(right.shape)}"
    if value.dtype in TOLERANCE:
        limit = TOLERANCE[value.dtype] * np.maximum(np.abs(right.astype(np.float64)), 1)
        off = np.abs(ours.astype(np.float64) - right.astype(np.float64))
        wrong = ~((off <= limit) | (ours == right) | (np.isnan(ours) & np.isnan(right)))
    else:
        off = np.abs(ours.astype(np.int64) - right.astype(np.int64))
        wrong = off > value.slack
    if not wrong.any():
        return ""
    at = np.unravel_index(np.argmax(np.where(wrong, off, -1)), off.shape)
    return f"{wrong.sum()} of {wrong.size} differ; at {tuple(map(int, at))} {ours[at]} instead of {right[at]}"
