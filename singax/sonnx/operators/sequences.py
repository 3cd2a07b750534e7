"""Sequences are lists, optionals are their value or None."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from singax.errors import ArgumentError
from singax.sonnx.registry import Call, onnx_operator

Array = Any


@onnx_operator("SequenceConstruct")
def construct(call: Call, *items: Array) -> list[Array]:
    """A sequence of these tensors."""
    return list(items)


@onnx_operator("SequenceEmpty")
def empty(call: Call) -> list[Array]:
    """A sequence without tensors."""
    return []


@onnx_operator("SequenceAt")
def at(call: Call, sequence: list[Array], _: Array) -> Array:
    """The tensor at a place."""
    return sequence[_place(call, len(sequence), 1)]


@onnx_operator("SequenceInsert")
def insert(call: Call, sequence: list[Array], item: Array, _: Array = None) -> list[Array]:
    """A sequence with one tensor more, by default at the end."""
    place = int(call.static(2, np.asarray(len(sequence))).reshape(()))
    if not -len(sequence) <= place <= len(sequence):
        raise ArgumentError(f"expected a place among {len(sequence)} tensors. Received: {place}")
    made = list(sequence)
    made.insert(place, item)
    return made


@onnx_operator("SequenceErase")
def erase(call: Call, sequence: list[Array], _: Array = None) -> list[Array]:
    """A sequence without one tensor, by default the last."""
    place = _place(call, len(sequence), 1) % len(sequence)
    return [*sequence[:place], *sequence[place + 1 :]]


def _place(call: Call, length: int, position: int) -> int:
    place = int(call.static(position, np.asarray(-1)).reshape(()))
    if not -length <= place < length:
        raise ArgumentError(f"expected a place among {length} tensors. Received: {place}")
    return place


@onnx_operator("SequenceLength")
def length(call: Call, sequence: list[Array]) -> np.ndarray:
    """How many tensors there are."""
    return np.asarray(len(sequence), np.int64)


@onnx_operator("ConcatFromSequence")
def concatenated(call: Call, sequence: list[Array]) -> Array:
    """The tensors joined along an axis, or stacked along a new one."""
    join = jnp.stack if call.attribute("new_axis", 0) else jnp.concatenate
    return join(sequence, axis=call.attribute("axis"))


@onnx_operator("SplitToSequence")
def split_to_sequence(call: Call, x: Array, _: Array = None) -> list[Array]:
    """Pieces of given sizes along an axis; by default of size 1, without the axis unless `keepdims`."""
    axis, sizes = call.attribute("axis", 0), call.static(1)
    count = np.shape(x)[axis]
    if sizes is None:
        pieces = jnp.split(x, count, axis)
        return pieces if call.attribute("keepdims", 1) else [jnp.squeeze(p, axis) for p in pieces]
    bounds = np.arange(int(sizes), count, int(sizes)) if sizes.ndim == 0 else np.cumsum(sizes)[:-1]
    return jnp.split(x, [int(b) for b in bounds], axis)


@onnx_operator("Optional")
def optional(call: Call, value: Array = None) -> Array:
    """A value that may be absent."""
    return value


@onnx_operator("OptionalHasElement")
def has_element(call: Call, value: Array = None) -> np.ndarray:
    """Whether the value is there."""
    return np.asarray(value is not None)


@onnx_operator("OptionalGetElement")
def get_element(call: Call, value: Array) -> Array:
    """The value."""
    if value is None:
        raise ArgumentError("expected an optional with a value. Received: one without")
    return value
