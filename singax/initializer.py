"""Initializers: SINGA's functions, which fill a Tensor in place, and the names that layers accept.

Fans: a 2-d shape is (in, out); 3-d to 5-d is channels first, (out, in, *kernel); otherwise both are the root of the
size. A scale s gives N(0, s/fan) or U(±sqrt(3 s/fan)).

>>> import singax as sx
>>> t = sx.Tensor((1000, 100)); he_uniform(t)
>>> bool(abs(t.to_numpy()).max() <= (6 / 1000) ** 0.5)
True
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from singax import recipes
from singax.errors import ArgumentError, NameMismatchError, ShapeError
from singax.recipes import Recipe
from singax.tensor import Tensor
from singax.tensor.values import real

Sizes = tuple[int, ...]


def _compute_fans(shape: Sizes, data_format: str = "channels_first") -> tuple[float, float]:
    """(fan_in, fan_out) of a weight of this shape."""
    if data_format not in ("channels_first", "channels_last"):
        raise ArgumentError(f'data_format is "channels_first" or "channels_last". Received: {data_format!r}')
    if len(shape) == 2:
        return shape[0], shape[1]
    if not 3 <= len(shape) <= 5:
        return math.sqrt(math.prod(shape)), math.sqrt(math.prod(shape))
    if data_format == "channels_last":
        return shape[-2] * math.prod(shape[:-2]), shape[-1] * math.prod(shape[:-2])
    return shape[1] * math.prod(shape[2:]), shape[0] * math.prod(shape[2:])


def _scaled(shape: Sizes, scale: float, fan: float, distribution: str) -> Recipe:
    s = scale / max(1.0, fan)
    return (
        recipes.Normal(0.0, math.sqrt(s))
        if distribution == "normal"
        else recipes.Uniform(-math.sqrt(3 * s), math.sqrt(3 * s))
    )


def _family(scale: float, mode: str, distribution: str) -> Callable[[Sizes], Recipe]:
    return lambda shape: _scaled(shape, scale, _FANS[mode](*_compute_fans(shape)), distribution)


_FANS: dict[str, Callable[[float, float], float]] = {
    "fan_in": lambda fan_in, fan_out: fan_in,
    "fan_out": lambda fan_in, fan_out: fan_out,
    "fan_avg": lambda fan_in, fan_out: (fan_in + fan_out) / 2,
}


def _first(name: str, shape: Sizes, count: int) -> Sizes:
    """The first `count` sizes, which are all that SINGA's deprecated initializers look at."""
    if len(shape) < count:
        raise ShapeError(f"{name} fills a tensor of at least {count} axes. Received shape {shape}")
    return shape[:count]


def _eye(shape: Sizes) -> Recipe:
    if len(shape) != 2:
        raise ShapeError(f"eye fills a 2-d tensor. Received shape {shape}")
    return recipes.Eye()


def _orthogonal(shape: Sizes, gain: float = 1.0) -> Recipe:
    if len(shape) < 2:
        raise ShapeError(f"orthogonal fills a tensor of at least two axes. Received shape {shape}")
    return recipes.Orthogonal(gain)


def _shape_of(t: Any) -> Sizes:
    if not isinstance(t, Tensor):
        raise ArgumentError(f"an initializer fills a Tensor. Received: {type(t).__name__}")
    return t._known_shape()


NAMES: dict[str, Callable[[Sizes], Recipe]] = {
    "zeros": lambda shape: recipes.Constant(0.0),
    "ones": lambda shape: recipes.Constant(1.0),
    "gaussian": lambda shape: recipes.Normal(0.0, 1.0),
    "normal": lambda shape: recipes.Normal(0.0, 1.0),
    "uniform": lambda shape: recipes.Uniform(-1.0, 1.0),
    "lecun_uniform": _family(1.0, "fan_in", "uniform"),
    "lecun_normal": _family(1.0, "fan_in", "normal"),
    "glorot_uniform": _family(1.0, "fan_avg", "uniform"),
    "glorot_normal": _family(1.0, "fan_avg", "normal"),
    "he_uniform": _family(2.0, "fan_in", "uniform"),
    "he_normal": _family(2.0, "fan_in", "normal"),
    "xavier": lambda shape: _scaled(shape, 1.0, sum(_first("xavier", shape, 2)) / 2, "uniform"),
    "glorot": lambda shape: _scaled(shape, 1.0, sum(_first("glorot", shape, 2)) / 2, "normal"),
    "msra": lambda shape: _scaled(shape, 2.0, _first("msra", shape, 1)[0], "normal"),
    "eye": _eye,
    "orthogonal": _orthogonal,
}


def recipe_for(initializer: Any, shape: Sizes) -> Recipe | None:
    """The recipe that `initializer` stands for at this shape, or None for a function that fills a Tensor in place."""
    if isinstance(initializer, str):
        if initializer not in NAMES:
            raise NameMismatchError(f"there is no initializer named {initializer!r}; known: {', '.join(sorted(NAMES))}")
        return NAMES[initializer](shape)
    if isinstance(initializer, int | float):
        return recipes.Constant(initializer)
    if hasattr(initializer, "draw"):
        return initializer
    if not callable(initializer):
        raise ArgumentError(f"an initializer is a name, a number or a function. Received: {initializer!r}")
    return None if recipes.required_parameters(initializer) == 1 else recipes.FromFunction(initializer)


def fill(t: Tensor, initializer: Any) -> None:
    """Fill `t` with a named initializer, a number, a recipe, `f(tensor)` or a JAX-style `f(key, shape, dtype)`.

    Raises `NameMismatchError` for an unknown name and `ArgumentError` for anything else.
    """
    recipe = recipe_for(initializer, _shape_of(t))
    if recipe is None:
        initializer(t)
    else:
        t._fill(recipe)


def _random_fill(t: Tensor, scale: float, mode: str, distribution: str) -> None:
    """SINGA's general form: `mode` is "fan_in", "fan_out" or "fan_avg", `distribution` "normal" or "uniform"."""
    shape = _shape_of(t)
    scale = real("_random_fill", "scale", scale)
    if str(mode) not in _FANS or str(distribution) not in ("normal", "uniform") or not scale > 0:
        raise ArgumentError(
            f"_random_fill expected a scale above 0, one of {', '.join(_FANS)}, and normal or uniform. "
            f"Received: {scale!r}, {mode!r} and {distribution!r}"
        )
    t._fill(_scaled(shape, scale, _FANS[mode](*_compute_fans(shape)), distribution))


def lecun_uniform(t: Tensor) -> None:
    """U(±sqrt(3 / fan_in)) (LeCun et al. 1998)."""
    fill(t, "lecun_uniform")


def lecun_normal(t: Tensor) -> None:
    """N(0, 1 / fan_in) (LeCun et al. 1998)."""
    fill(t, "lecun_normal")


def glorot_uniform(t: Tensor) -> None:
    """U(±sqrt(6 / (fan_in + fan_out))) (Glorot and Bengio 2010)."""
    fill(t, "glorot_uniform")


def glorot_normal(t: Tensor) -> None:
    """N(0, 2 / (fan_in + fan_out)) (Glorot and Bengio 2010)."""
    fill(t, "glorot_normal")


def he_uniform(t: Tensor) -> None:
    """U(±sqrt(6 / fan_in)) (He et al. 2015)."""
    fill(t, "he_uniform")


def he_normal(t: Tensor) -> None:
    """N(0, 2 / fan_in) (He et al. 2015)."""
    fill(t, "he_normal")


def eye(t: Tensor) -> None:
    """The identity matrix, for 2-d tensors. *Differences from SINGA*: SINGA rejects 2-d tensors by mistake."""
    fill(t, "eye")


def orthogonal(t: Tensor, gain: float = 1.0) -> None:
    """`gain` times an orthogonal matrix (Saxe et al. 2014); axes after the first are taken as one."""
    recipe = _orthogonal(_shape_of(t), real("orthogonal", "gain", gain))
    t._fill(recipe)


def gaussian(t: Tensor, fan_in: float = 0, fan_out: float = 0) -> None:
    """N(0, 2 a / (fan_in + fan_out)), a = 2 if both are given, else 1. Deprecated in SINGA."""
    _ = _shape_of(t)
    fan_in, fan_out = real("gaussian", "fan_in", fan_in), real("gaussian", "fan_out", fan_out)
    if not fan_in + fan_out > 0:
        raise ArgumentError(f"gaussian expected fan_in or fan_out. Received: {fan_in} and {fan_out}")
    average = 2 if fan_in > 0 and fan_out > 0 else 1
    t.gaussian(0.0, math.sqrt(2.0 * average / (fan_in + fan_out)))


def xavier(t: Tensor) -> None:
    """U(±sqrt(6 / (shape[0] + shape[1]))). Deprecated in SINGA: use `glorot_uniform`."""
    fill(t, "xavier")


def glorot(t: Tensor) -> None:
    """N(0, 2 / (shape[0] + shape[1])). Deprecated in SINGA: use `glorot_normal`."""
    fill(t, "glorot")


def msra(t: Tensor) -> None:
    """N(0, 2 / shape[0]). Deprecated in SINGA: use `he_normal`."""
    fill(t, "msra")
