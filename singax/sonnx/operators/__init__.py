"""The operators: one file per family, which registers its handlers."""

from singax.sonnx.operators import (
    attention,
    control,
    convolution,
    derived,
    elementwise,
    loss,
    normalization,
    pooling,
    recurrent,
    reductions,
    regions,
    resizing,
    sequences,
    shapes,
    signal,
    vision,
)
