"""Loads every family of rules into the table."""

from random_graphs import (  # noqa: F401
    arithmetic,
    arithmetic_of_shapes,
    casts,
    control,
    elementwise,
    indexing,
    moves,
    norms,
    products,
    quantized,
    recurrent,
    reductions,
    scores,
    sequences,
    signal,
    vision,
    windows,
)
