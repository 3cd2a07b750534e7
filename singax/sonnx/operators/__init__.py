"""The operators: one file per family, which registers its handlers."""

from singax.sonnx.operators import (  # noqa: F401
    control,
    convolution,
    derived,
    elementwise,
    normalization,
    pooling,
    recurrent,
    reductions,
    regions,
    resizing,
    sequences,
    shapes,
    vision,
)
