"""What the catalogue's suites call: a row's operation or layer as one pure function of (variables, inputs)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from catalogue import Row, Spec

import singax as sx

KEY = 7


class Holder(sx.Module):
    """A model of one layer."""

    def __init__(self, layer: sx.layer.Layer) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, *inputs: Any) -> Any:
        return self.layer(*inputs)


@dataclass
class Subject:
    """`run(variables, inputs)` is pure; `variables` is empty for an operation; `model` holds a layer."""

    row: Row
    run: Callable[[dict[str, Any], list[Any]], Any]
    variables: dict[str, Any]
    inputs: list[Any]
    model: Holder | None = None

    @functools.cached_property
    def compiled(self) -> Callable[[dict[str, Any], list[Any]], Any]:
        """`run` under `jax.jit`."""
        return jax.jit(self.run)

    @property
    def parameters(self) -> dict[str, Any]:
        """The variables that have gradients."""
        return {} if self.model is None else {name: self.variables[name] for name in self.model.get_params()}


def is_spec(value: Any) -> bool:
    """Leaf test for trees of specs."""
    return isinstance(value, Spec)


def drawn(specs: Any, dtype: Any = None, seed: int = 0) -> list[Any]:
    """Arrays for a tree of specs; floating ones as `dtype`."""
    leaves, tree = jax.tree.flatten(list(specs), is_leaf=is_spec)
    values = [cast(leaf.draw(seed + k), dtype) for k, leaf in enumerate(leaves)]
    return jax.tree.unflatten(tree, values)


def cast(value: Any, dtype: Any) -> Any:
    """Floating values as `dtype`, others as they are."""
    wanted = dtype is not None and jnp.issubdtype(value.dtype, jnp.floating)
    return jnp.asarray(np.asarray(value, dtype if wanted else value.dtype))  # NumPy compiles nothing to convert


def subject(row: Row, dtype: Any = None, seed: int = 0) -> Subject:
    """The row's operation or layer with its inputs; a layer's variables are those of seed 0."""
    made, inputs = row.make(), drawn(row.inputs, dtype, seed)
    if not isinstance(made, sx.layer.Layer):
        bound = functools.partial(made, **row.attributes)
        return Subject(row, lambda variables, inputs: bare(bound(*inputs)), {}, inputs)
    model = Holder(made)
    model.compile([placeholder(i) for i in inputs], is_train=row.training)
    functional = model.functional()

    def run(variables: dict[str, Any], inputs: list[Any]) -> Any:
        if not row.training:
            return functional.apply(variables, *inputs)
        return functional.apply(variables, *inputs, train=True, key=jax.random.key(KEY))[0]

    return Subject(row, run, dict(functional.init(0, *inputs)), inputs, model)


shared = functools.lru_cache(maxsize=4)(subject)
"""`subject`, made once for the suites that run over one row after the other."""


def names_of(row: Row, made: Any) -> list[str]:
    """Which names an error of the row may carry: the operation's, or that of the layer or of one below it."""
    if not isinstance(made, sx.layer.Layer):
        return [row.name.split(".")[1]]
    return [type(layer).__name__ for _, layer in sx.layer.tree.layers(made)]


def placeholder(tree: Any) -> Any:
    """Placeholders for arrays."""
    return jax.tree.map(lambda v: sx.Placeholder(v.shape, dtype=v.dtype), tree)


def tensors(tree: Any) -> Any:
    """Tensors for arrays."""
    return jax.tree.map(lambda v: sx.Tensor(data=v), tree)


def bare(tree: Any) -> Any:
    """Arrays for Tensors."""
    return jax.tree.map(lambda v: v.data if isinstance(v, sx.Tensor) else v, tree)


def floating(values: Any) -> list[Any]:
    """The floating arrays of a tree."""
    return [v for v in jax.tree.leaves(values) if hasattr(v, "dtype") and jnp.issubdtype(v.dtype, jnp.floating)]


def assert_close(ours: Any, theirs: Any, rtol: float, atol: float) -> None:
    """Same number of outputs, same shapes, close values."""
    ours, theirs = jax.tree.leaves(bare(ours)), jax.tree.leaves(bare(theirs))
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert a.shape == b.shape
        np.testing.assert_allclose(a.astype(np.float64), b.astype(np.float64), rtol=rtol, atol=atol)
