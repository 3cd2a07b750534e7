"""Values from data that must lie within a range: known ones are judged at once, those of a program after it has run."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from singax.mode import traced
from singax.sonnx.importer.before import refuse_division, refuse_outside
from singax.sonnx.importer.checks import Condition
from singax.sonnx.registry import Call

Array = Any


def in_range(call: Call, indices: Array, length: int, what: str = "indices") -> Array:
    """Indices from 0, where negative ones count from the end of an axis of this length."""
    within(call, indices, -length, length - 1, what)
    from_start = jnp.where(indices < 0, indices + length, indices)
    if call.evaluator.checks is not None or not traced(indices):
        return from_start
    return jnp.where(from_start < 0, length, from_start)  # what is still negative must not count from the end again


def within(call: Call, values: Array, low: int, high: int, what: str, ignored: int | None = None) -> None:
    """Raise `ArgumentError` for a value outside low … high, other than `ignored`; a traced one is watched instead."""
    if values is None or not np.size(values):
        return
    if not traced(values):
        refuse_outside(np.asarray(values), low, high, what, ignored)
    elif call.evaluator.checks is not None:
        given = values if ignored is None else jnp.where(values == ignored, low, values)
        least, most = jnp.min(given).astype(np.int64), jnp.max(given).astype(np.int64)
        failed = (least < low) | (most > high)
        call.evaluator.checks.add(
            Condition(call.node.where, what, f"values from {low} to {high}"),
            failed,
            jnp.where(least < low, least, most),
        )


def fill_mode(call: Call) -> str:
    """How a gather reads beyond the end: clamped where conditions are watched; else NaN, or an integer's extreme."""
    return "clip" if call.evaluator.checks is not None else "fill"


def divisible(call: Call, a: Array, b: Array) -> None:
    """Refuse, or watch, a division of integers by 0, or of the smallest number by −1, whose quotient is no number."""
    if not np.size(a) or not np.size(b):
        return
    if not traced(b) and (not traced(a) or np.any(np.asarray(b) == 0)):
        refuse_division(call.node.op_type, a, b)
    elif (traced(b) or np.any(np.asarray(b) == -1)) and call.evaluator.checks is not None:
        wrong = jnp.any(_undefined(call.node.op_type, a, b))
        condition = Condition(call.node.where, "divisor", "one other than 0, and than -1 for the smallest number")
        call.evaluator.checks.add(condition, wrong, jnp.where(jnp.any(b == 0), 0, -1))


def _undefined(op_type: str, a: Array, b: Array) -> Array:
    wrong = b == 0
    if op_type == "Div" and np.issubdtype(a.dtype, np.signedinteger):
        wrong = wrong | ((b == -1) & (a == np.iinfo(a.dtype).min))
    return wrong
