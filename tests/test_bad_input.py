"""Inputs that were tampered with: each row of the catalogue computes something or raises one clear error of ours."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

import jax
import numpy as np
import pytest
from catalogue import Row, rows
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from subjects import Holder, drawn, is_spec, names_of, placeholder

import singax as sx
from singax.errors import SingaxError

ROWS = rows()
DTYPES = ["int32", "bool", "float16", "complex64", "uint8"]
NOT_ARRAYS = [None, "text", {"a": 1}, object()]


def _tampered_shape(draw: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    kinds = ["more axes"] + ["fewer axes", "other size"] * bool(shape)
    match draw(st.sampled_from(kinds)):
        case "more axes":
            return (draw(st.integers(1, 2)), *shape)
        case "fewer axes":
            return shape[draw(st.integers(1, len(shape))) :]
        case _:
            axis = draw(st.integers(0, len(shape) - 1))
            return (*shape[:axis], draw(st.integers(0, shape[axis] + 3)), *shape[axis + 1 :])


@st.composite
def tampered(draw: Any, row: Row) -> list[Any]:
    """The row's inputs as shapes, one of which has another shape or dtype, or is no array at all."""
    leaves, tree = jax.tree.flatten(list(row.inputs), is_leaf=is_spec)
    which = draw(st.integers(0, len(leaves) - 1))
    spec = leaves[which]
    values = [jax.ShapeDtypeStruct(leaf.shape, np.dtype(leaf.dtype)) for leaf in leaves]
    match draw(st.sampled_from(["shape", "shape", "dtype", "object"])):
        case "shape":
            values[which] = jax.ShapeDtypeStruct(_tampered_shape(draw, spec.shape), np.dtype(spec.dtype))
        case "dtype":
            values[which] = jax.ShapeDtypeStruct(spec.shape, np.dtype(draw(st.sampled_from(DTYPES))))
        case _:
            values[which] = draw(st.sampled_from(NOT_ARRAYS))
    return jax.tree.unflatten(tree, values)


def _traced(function: Any, inputs: list[Any]) -> Any:
    """`function` on abstract arrays; what is no array is handed over as it is."""
    leaves, tree = jax.tree.flatten(inputs, is_leaf=lambda v: v is None or isinstance(v, dict))
    arrays = [k for k, leaf in enumerate(leaves) if isinstance(leaf, jax.ShapeDtypeStruct)]

    def run(*values: Any) -> Any:
        given = list(leaves)
        for k, value in zip(arrays, values, strict=True):
            given[k] = value
        return jax.tree.leaves(function(*jax.tree.unflatten(tree, given)))

    return jax.eval_shape(run, *[leaves[k] for k in arrays])


QUIET = settings(
    max_examples=15, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck)
)


@pytest.mark.parametrize("row", [r for r in ROWS if r.inputs], ids=str)
def test_bad_input_gives_a_result_or_one_clear_error(row: Row) -> None:
    """Never another exception, never a message that does not say what was received; the layer stays usable."""
    made = row.make()
    is_layer = isinstance(made, sx.layer.Layer)
    call = _built(made, row) if is_layer else lambda *inputs: made(*inputs, **row.attributes)
    good = _traced(call, _abstract(row))
    names = names_of(row, made)  # with the layers that the first input has created

    @given(st.data())
    @QUIET
    def check(data: Any) -> None:
        message = _refusal(call, data.draw(tampered(row)))
        assert message is None or ("eceived" in message and any(name in message for name in names))

    check()
    assert [v.shape for v in _traced(call, _abstract(row))] == [v.shape for v in good]


def _refusal(call: Any, inputs: list[Any]) -> str | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # JAX's, about None where it expects an array
        try:
            _traced(call, inputs)
        except SingaxError as error:
            return str(error)
    return None


def _abstract(row: Row) -> list[Any]:
    return jax.tree.map(lambda s: jax.ShapeDtypeStruct(s.shape, np.dtype(s.dtype)), list(row.inputs), is_leaf=is_spec)


def _built(layer: Any, row: Row) -> Any:
    model = Holder(layer)
    model.compile([placeholder(i) for i in drawn(row.inputs)], is_train=False)
    functional = model.functional()
    variables = functional.init(0, *drawn(row.inputs))
    return lambda *inputs: functional.apply(variables, *inputs)


@pytest.mark.parametrize(
    ("row", "name"), [(r, name) for r in ROWS for name in r.attributes if name in ("axis", "axes", "perm")], ids=str
)
def test_axis_out_of_range(row: Row, name: str) -> None:
    """An axis that the input does not have is refused."""
    made, value = row.make(), row.attributes[name]
    far: Any = 99 if isinstance(value, int) else (99, *tuple(value or ())[1:])
    changed = dataclasses.replace(row, attributes={**row.attributes, name: far})
    with pytest.raises(SingaxError, match="eceived"):
        _traced(lambda *inputs: made(*inputs, **changed.attributes), _abstract(changed))
