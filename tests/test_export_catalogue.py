"""Every row of the catalogue as an ONNX file: in onnxruntime the same outputs as in singax, and imported again."""

from __future__ import annotations

import functools
from typing import Any

import jax
import numpy as np
import pytest
from catalogue import Row, rows
from export_cases import assert_same, run
from subjects import Subject, bare, subject

from singax import sonnx
from singax.errors import ExportError

# Rows that cannot be exported, and what the error says.
REFUSED = {
    "ops.dropout": "random numbers",
    "ops.channel_dropout": "random numbers",
    "ops.alpha_dropout": "random numbers",
    "ops.attention_with_dropout": "random numbers",
}
ROWS = [row for row in rows() if not row.training]


def _target(it: Subject) -> Any:
    if it.model is not None:
        it.model.eval()
        return it.model
    return lambda *inputs: bare(functools.partial(it.row.make(), **it.row.attributes)(*inputs))


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_rows(row: Row) -> None:
    """At opsets 17 and 23; imported again from the older one."""
    it = subject(row)
    target = _target(it)
    if row.name in REFUSED:
        with pytest.raises(ExportError, match=REFUSED[row.name]):
            sonnx.to_onnx(target, it.inputs, dynamic_batch=False)
        return
    inputs = [np.asarray(value) for value in jax.tree.leaves(it.inputs)]
    wanted = [np.asarray(value) for value in jax.tree.leaves(jax.jit(it.run)(it.variables, it.inputs))]
    old, new = (sonnx.to_onnx(target, it.inputs, opset=opset, dynamic_batch=False) for opset in (17, 23))
    assert_same(wanted, run(old, inputs))
    assert_same(wanted, run(new, inputs))
    assert_same(wanted, sonnx.prepare(old).run(inputs))
