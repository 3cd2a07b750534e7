"""Every row of the catalogue as an ONNX file: in onnxruntime the same outputs as in singax, and imported again.

Files of layers are written once, from the batch of the row, and run at batch 1 and 7. In the everyday suite a row is
exported at one opset, 17 or 23, and every third one imported again: both are chosen by a hash of its name. With the
environment variable SINGAX_ALL_OPSETS all rows go through everything.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import onnx
import pytest
from catalogue import Row, rows
from export_cases import ALL, assert_same, number, opsets_of, referred, run
from subjects import Subject, bare, drawn, is_spec, subject

from singax import sonnx
from singax.errors import ExportError

NEWEST = onnx.defs.onnx_opset_version()
BATCHES = (7, 1)

# Rows that cannot be exported, and what the error says.
REFUSED = {
    "ops.dropout": "random numbers",
    "ops.channel_dropout": "random numbers",
    "ops.alpha_dropout": "random numbers",
    "ops.attention_with_dropout": "random numbers",
}
# Layers whose first axis is no batch: they want its size.
FIXED = {"layer.CudnnRNN-gru", "layer.Gemm-transposed"}
# Layers whose first axis is time, with lengths that it must reach.
TIMED = {"layer.RNN-deep", "layer.LSTM-deep", "layer.GRU-deep"}
# Layers whose outputs have a first axis of the batch's size, and yet depend on all samples.
COUPLED = {"layer.LogSoftmax"}
ROWS = [row for row in rows() if not row.training]


def has_batch(row: Row) -> bool:
    """Whether the file of a row is for any batch."""
    return row.name.startswith("layer.") and str(row) not in FIXED | TIMED


# What onnx's reference evaluator computes otherwise: it does not look at the lengths of a GRU.
MISREAD = {"layer.CudnnRNN-gru"}
SAMPLE = [row for row in ROWS if number(row) % 13 == 0 and row.name not in REFUSED and str(row) not in MISREAD]


def target(it: Subject) -> Any:
    """What is exported: the model, or a function of arrays."""
    if it.model is not None:
        it.model.eval()
        return it.model
    return lambda *inputs: bare(functools.partial(it.row.make(), **it.row.attributes)(*inputs))


def leaves(values: Any) -> list[np.ndarray]:
    """The arrays of a tree."""
    return [np.asarray(value) for value in jax.tree.leaves(values)]


def resized(row: Row, batch: int) -> list[Any]:
    """The row's inputs with another batch: the size of the first axis of the first input that has one."""
    specs, tree = jax.tree.flatten(list(row.inputs), is_leaf=is_spec)
    old = next(spec.shape[0] for spec in specs if spec.shape)
    wanted = [
        dataclasses.replace(spec, shape=(batch, *spec.shape[1:])) if spec.shape[:1] == (old,) else spec
        for spec in specs
    ]
    return drawn(jax.tree.unflatten(tree, wanted))


def cases(it: Subject) -> Iterator[tuple[list[np.ndarray], list[np.ndarray]]]:
    """Inputs with the outputs of singax. Outputs at batch 1 are the first ones of batch 7 where samples are apart."""
    compute = jax.jit(it.run)
    if not has_batch(it.row):
        yield leaves(it.inputs), leaves(compute(it.variables, it.inputs))
        return
    many, one = (resized(it.row, batch) for batch in BATCHES)
    inputs, outputs = leaves(many), leaves(compute(it.variables, many))
    yield inputs, outputs
    if str(it.row) in COUPLED or any(value.shape[:1] != (7,) for value in outputs):
        yield leaves(one), leaves(compute(it.variables, one))
    else:
        first = [x[:1] if x.shape[:1] == (7,) else x for x in inputs]
        yield first, [value[:1] for value in outputs]


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_rows(row: Row) -> None:
    it = subject(row)
    exported = target(it)
    if row.name in REFUSED:
        with pytest.raises(ExportError, match=REFUSED[row.name]):
            sonnx.to_onnx(exported, it.inputs, dynamic_batch=False)
        return
    known = list(cases(it))
    for opset in opsets_of(row):
        made = sonnx.to_onnx(exported, it.inputs, opset=opset, dynamic_batch=has_batch(row))
        for inputs, outputs in known:
            assert_same(outputs, run(made, inputs))
        if ALL or number(row) % 3 == 0:
            inputs, outputs = known[0]
            assert_same(outputs, sonnx.prepare(made).run(inputs))


@pytest.mark.parametrize("row", SAMPLE, ids=str)
def test_the_newest_opset(row: Row) -> None:
    """A sample in onnx's reference evaluator."""
    it = subject(row)
    made = sonnx.to_onnx(target(it), it.inputs, opset=NEWEST, dynamic_batch=has_batch(row))
    for inputs, outputs in cases(it):
        assert_same(outputs, referred(made, inputs))


@pytest.mark.parametrize("row", sorted(FIXED))
def test_other_layers_want_their_size(row: str) -> None:
    """What is said to have no batch is refused with one."""
    (found,) = [one for one in ROWS if str(one) == row]
    it = subject(found)
    with pytest.raises(ExportError, match="other sizes of batch"):
        sonnx.to_onnx(target(it), it.inputs)
