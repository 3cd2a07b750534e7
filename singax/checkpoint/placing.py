"""Putting values into a model: first all of them where they belong, then all of them into its cells at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax

from singax.interrupt import deferred_interrupts
from singax.storage import Cell, place_host_array

Staged = list[tuple[Cell, jax.Array]]


def staged(values: Mapping[str, Any], cells: Mapping[str, Cell]) -> Staged:
    """The values on the devices, or in the shardings, where the model's own are; nothing is changed yet."""
    found = [(cells[path], place_host_array(value, _place_of(cells[path]))) for path, value in values.items()]
    jax.block_until_ready([value for _, value in found])
    return found


def _place_of(cell: Cell) -> Any:
    value = cell.get()
    if isinstance(value, jax.Array) and value.committed:
        return value.sharding
    return cell.place


def put_all(pairs: Staged) -> None:
    """Give all cells their values, or none of them: Ctrl-C waits, and whatever else fails is undone."""
    before = [(cell, cell.get(), cell.lent) for cell, _ in pairs]
    with deferred_interrupts():
        try:
            for cell, value in pairs:
                cell.set(value, lent=False)
        except BaseException:
            for cell, old, lent in before:
                cell.set(old, lent)
            raise
