"""Images read at places between their values."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

Array = Any
Inside = Callable[[Array, int], tuple[Array, Array | None]]


def zeros_outside(places: Array, size: int) -> tuple[Array, Array | None]:
    """Whole places made valid indices, and which of them were: what lies outside counts as 0."""
    return jnp.clip(places, 0, size - 1), (places >= 0) & (places < size)


def values_at(x: Array, places: Sequence[Array], inside: Inside = zeros_outside) -> Array:
    """x (N, C, …) at whole places (N, …), one array for each axis: (N, C, …)."""
    shape, flat, valid = places[0].shape, jnp.zeros((), places[0].dtype), None
    for place, size in zip(places, x.shape[2:], strict=True):
        index, known = inside(place, size)
        flat = flat * size + index
        valid = known if valid is None else valid if known is None else valid & known
    found = jax.vmap(lambda values, index: values[:, index])(
        x.reshape(*x.shape[:2], -1), flat.reshape(shape[0], -1)
    ).reshape(*x.shape[:2], *shape[1:])
    return found if valid is None else jnp.where(valid[:, None], found, jnp.zeros_like(found))


def sampled(
    x: Array, points: Sequence[Array], taps: Callable[[Array], list[tuple[int, Array]]], inside: Inside = zeros_outside
) -> Array:
    """x (N, C, …) at points (N, …) of floats: sums of the values nearby times weights.

    `taps` gives, for the fractions of an axis, steps from the place below and their weights.
    """
    low = [jnp.floor(point) for point in points]
    weights = [taps(point - below) for point, below in zip(points, low, strict=True)]
    whole = [below.astype(jnp.int32) for below in low]
    total: Array = 0
    for choice in itertools.product(*weights):
        places = [place + step for place, (step, _) in zip(whole, choice, strict=True)]
        factor: Array = 1
        for _, weight in choice:
            factor = factor * weight
        total = total + values_at(x, places, inside) * factor[:, None].astype(x.dtype)
    return total


def sampled_linearly(x: Array, points: Sequence[Array], inside: Inside = zeros_outside) -> Array:
    """x (N, C, …) at points between its values, linearly."""
    return sampled(x, points, lambda t: [(0, 1 - t), (1, t)], inside)


def cubic_weights(t: Array, a: float) -> list[Array]:
    """The weights of the four values around a point, the fraction t beyond the second (Keys 1981)."""
    outer = [((a * u - 5 * a) * u + 8 * a) * u - 4 * a for u in (t + 1, 2 - t)]
    inner = [((a + 2) * u - (a + 3)) * u * u + 1 for u in (t, 1 - t)]
    return [outer[0], inner[0], inner[1], outer[1]]
