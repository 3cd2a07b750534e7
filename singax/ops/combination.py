"""Several arrays combined into one: extremes, sums and means element by element, and cosines of rows."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
from jax import lax

from singax.errors import ArgumentError, ShapeError
from singax.ops.checks import broadcast, floating, same_shape
from singax.ops.operation import operation

Array = jax.Array


@operation("Min")
def min(*xs: Array) -> Array:
    """The smallest of the arrays, element by element, with broadcasting; equal ones share the gradient."""
    _check("min", xs)
    return functools.reduce(jnp.minimum, xs[1:], jnp.asarray(xs[0]))


@operation("Max")
def max(*xs: Array) -> Array:
    """The largest of the arrays, element by element, with broadcasting; equal ones share the gradient."""
    _check("max", xs)
    return functools.reduce(jnp.maximum, xs[1:], jnp.asarray(xs[0]))


@operation("Sum")
def sum(*xs: Array) -> Array:
    """The sum of the arrays, element by element, with broadcasting. Not a reduction: see `reduce_sum`."""
    _check("sum", xs)
    return functools.reduce(jnp.add, xs[1:], jnp.asarray(xs[0]))


@operation("Mean")
def mean(*xs: Array) -> Array:
    """The mean of the arrays, element by element, with broadcasting. Not a reduction: see `reduce_mean`."""
    _check("mean", xs)
    return functools.reduce(jnp.add, xs[1:], floating(xs[0])) / len(xs)


@operation(None)
def cossim(a: Array, b: Array) -> Array:
    """The cosine between the rows of a and of b (N, D) → (N,); 0 where a row is all 0."""
    same_shape("cossim", a, b)
    if jnp.ndim(a) != 2:
        raise ShapeError(f"cossim expected rows (N, D). Received shape {jnp.shape(a)}")
    return jnp.sum(_unit(floating(a)) * _unit(floating(b)), axis=-1)


def _unit(x: Array) -> Array:
    """Rows divided by their lengths, computed so that no square overflows or vanishes."""
    largest = lax.stop_gradient(jnp.max(jnp.abs(x), axis=-1, keepdims=True))
    x = x / jnp.where(largest == 0, 1, largest)
    square = jnp.sum(x * x, axis=-1, keepdims=True)
    return x * lax.rsqrt(jnp.where(square == 0, 1, square))


def _check(name: str, xs: tuple[Array, ...]) -> None:
    if not xs:
        raise ArgumentError(f"{name} expected at least one array. Received none")
    broadcast(name, *xs)
