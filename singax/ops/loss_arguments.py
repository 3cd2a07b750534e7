"""What the losses share: their options, wide numbers, and how terms become one loss."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from singax.errors import ArgumentError, DTypeError
from singax.ops.checks import same_shape

Array = jax.Array

REDUCTIONS = ("mean", "sum", "none")


def _number(lowest: float = -math.inf, highest: float = math.inf, above: bool = False) -> Callable[[Any], bool]:
    """Whether a value is a finite number from `lowest`, or only `above` it, to `highest`."""

    def holds(value: Any) -> bool:
        real = isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(value)
        return real and lowest <= value <= highest and not (above and value == lowest)

    return holds


def _is_integer(value: Any) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


_OPTIONS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "M": (_number(), "a finite number"),
    "alpha": (lambda v: v is None or _number(0, 1)(v), "None or a number from 0 to 1"),
    "axis": (_is_integer, "an integer"),
    "beta": (_number(0), "a number of at least 0"),
    "blank": (_is_integer, "an integer"),
    "delta": (_number(0, above=True), "a number above 0"),
    "eps": (_number(0, above=True), "a number above 0"),
    "full": (_is_flag, "True or False"),
    "gamma": (_number(0), "a number of at least 0"),
    "ignore_index": (lambda v: v is None or _is_integer(v), "None or an integer"),
    "label_smoothing": (_number(0, 1), "a number from 0 to 1"),
    "log_input": (_is_flag, "True or False"),
    "log_target": (_is_flag, "True or False"),
    "margin": (_number(), "a finite number"),
    "p": (lambda v: (isinstance(v, float) and v == math.inf) or _number(1)(v), "a number of at least 1, or infinity"),
    "reduction": (lambda v: isinstance(v, str) and v in REDUCTIONS, '"mean", "sum" or "none"'),
    "reduction_of_divergence": (
        lambda v: isinstance(v, str) and v in ("batchmean", *REDUCTIONS),
        '"batchmean", "mean", "sum" or "none"',
    ),
    "squared": (_is_flag, "True or False"),
    "swap": (_is_flag, "True or False"),
    "zero_infinity": (_is_flag, "True or False"),
}


def check_options(**options: Any) -> None:
    """Raise `ArgumentError` for an option of a loss whose value is not among the allowed ones."""
    for option, value in options.items():
        allowed, expected = _OPTIONS[option]
        if not allowed(value):
            raise ArgumentError(f"{option.split('_of_')[0]} must be {expected}. Received: {value!r}")


def wide(x: Any) -> Array:
    """x as floats of at least 32 bits. Raises `DTypeError` for complex numbers."""
    x = jnp.asarray(x)
    if jnp.issubdtype(x.dtype, jnp.complexfloating):
        raise DTypeError(f"a loss expected real numbers. Received dtype {x.dtype}")
    return x.astype(jnp.promote_types(x.dtype, jnp.float32))


def wide_pair(name: str, x: Any, t: Any) -> tuple[Array, Array]:
    """Outputs and targets of equal shape, both in the wide dtype of the outputs."""
    x, t = wide(x), wide(t)
    same_shape(name, x, t)
    return x, t.astype(x.dtype)


def magnitude(x: Array) -> Array:
    """|x| with gradient 0 at 0, where that of `jnp.abs` is 1."""
    return jnp.maximum(x, -x)


def reduced(terms: Array, reduction: str, count: Any = None) -> Array:
    """The terms themselves, or their sum, or their sum divided by `count` (default: how many there are), as (1,)."""
    if reduction == "none":
        return terms
    total = jnp.sum(terms)
    return (total if reduction == "sum" else total / (terms.size if count is None else count)).reshape(1)
