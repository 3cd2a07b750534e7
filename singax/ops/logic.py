"""Logic on 0 and 1: whatever is not 0 counts as true. Results are float32, as in SINGA."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from singax.ops.checks import broadcast
from singax.ops.operation import operation

Array = jax.Array


@operation("And")
def logical_and(a: Array, b: Array) -> Array:
    """1 where both are true, else 0."""
    broadcast("_and", a, b)
    return jnp.logical_and(a, b).astype(jnp.float32)


@operation("Or")
def logical_or(a: Array, b: Array) -> Array:
    """1 where one or both are true, else 0."""
    broadcast("_or", a, b)
    return jnp.logical_or(a, b).astype(jnp.float32)


@operation("Xor")
def logical_xor(a: Array, b: Array) -> Array:
    """1 where exactly one is true, else 0."""
    broadcast("_xor", a, b)
    return jnp.logical_xor(a, b).astype(jnp.float32)


@operation("Not")
def logical_not(x: Array) -> Array:
    """1 where x is 0, else 0."""
    return jnp.logical_not(x).astype(jnp.float32)


@operation("Where")
def where(condition: Array, x: Array, y: Array) -> Array:
    """x where the condition is true, else y; all three broadcast."""
    broadcast("where", condition, x, y)
    return jnp.where(jnp.asarray(condition) != 0, x, y)
