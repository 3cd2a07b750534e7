"""Trigonometric and hyperbolic functions."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from singax.ops.operation import operation

Array = jax.Array


@operation("Cos")
def cos(x: Array) -> Array:
    """Cosine."""
    return jnp.cos(x)


@operation("Cosh")
def cosh(x: Array) -> Array:
    """Hyperbolic cosine."""
    return jnp.cosh(x)


@operation("Acos")
def acos(x: Array) -> Array:
    """Inverse of the cosine; nan outside −1 … 1."""
    return jnp.arccos(x)


@operation("Acosh")
def acosh(x: Array) -> Array:
    """Inverse of the hyperbolic cosine; nan below 1."""
    return jnp.arccosh(x)


@operation("Sin")
def sin(x: Array) -> Array:
    """Sine."""
    return jnp.sin(x)


@operation("Sinh")
def sinh(x: Array) -> Array:
    """Hyperbolic sine."""
    return jnp.sinh(x)


@operation("Asin")
def asin(x: Array) -> Array:
    """Inverse of the sine; nan outside −1 … 1."""
    return jnp.arcsin(x)


@operation("Asinh")
def asinh(x: Array) -> Array:
    """Inverse of the hyperbolic sine."""
    return jnp.arcsinh(x)


@operation("Tan")
def tan(x: Array) -> Array:
    """Tangent."""
    return jnp.tan(x)


@operation("Atan")
def atan(x: Array) -> Array:
    """Inverse of the tangent."""
    return jnp.arctan(x)


@operation("Atanh")
def atanh(x: Array) -> Array:
    """Inverse of the hyperbolic tangent; nan outside −1 … 1."""
    return jnp.arctanh(x)
