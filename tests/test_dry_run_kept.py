"""What a dry run says is kept for the backward pass, against what `jax.vjp` holds, for every row of the catalogue."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from catalogue import Row, rows
from subjects import KEY, Holder, drawn, placeholder, subject

import singax as sx
from singax.inspect.dry import Plan
from singax.inspect.flat import Flat
from singax.inspect.measure import kept_by


class Operation(sx.Module):
    """A model that is one operation."""

    def __init__(self, run: Callable[..., Any], attributes: dict[str, Any]) -> None:
        super().__init__()
        self.run, self.attributes = run, attributes

    def forward(self, *inputs: Any) -> Any:
        return self.run(*inputs, **self.attributes)


def model_of(row: Row) -> sx.Module:
    """The row's operation or layer as a model."""
    made = row.make()
    return Holder(made) if isinstance(made, sx.layer.Layer) else Operation(made, row.attributes)


def said(model: sx.Module, inputs: list[Any]) -> int:
    """Bytes kept, with states and inputs among them, according to a dry run."""
    kept = Plan(model, "forward", tuple(placeholder(inputs)), {}, None).seen(None, True, kept_by)
    return kept.total + kept.given


def held(row: Row) -> int:
    """Bytes of the residuals of `jax.vjp`, each array once."""
    made = subject(row)
    parameters, others = made.parameters, made.variables
    leaves, structure = jax.tree.flatten(made.inputs)
    places = [i for i, leaf in enumerate(leaves) if jnp.issubdtype(leaf.dtype, jnp.floating)]

    def run(values: dict[str, Any], floats: list[Any]) -> Any:
        for i, value in zip(places, floats, strict=True):
            leaves[i] = value
        inputs = jax.tree.unflatten(structure, leaves)
        if made.model is None:
            return made.run({}, inputs)
        return made.model.functional().apply({**others, **values}, *inputs, train=True, key=jax.random.key(KEY))[0]

    def residuals(values: dict[str, Any], floats: list[Any]) -> list[Any]:
        return jax.tree.leaves(jax.vjp(run, values, floats)[1])

    jaxpr = jax.make_jaxpr(residuals)(parameters, [leaves[i] for i in places])
    flat = Flat(jaxpr)
    return sum(flat.sizes[value] for value in {value for value in flat.results if value is not None})


@pytest.mark.parametrize("row", rows(), ids=str)
def test_bytes_kept_are_those_of_the_residuals(row: Row) -> None:
    assert said(model_of(row), drawn(row.inputs)) == held(row)
