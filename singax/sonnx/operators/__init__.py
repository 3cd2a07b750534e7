"""The operators: one file per family, which registers its handlers."""

from singax.sonnx.operators import (
    casting,
    control,
    convolution,
    derived,
    elementwise,
    normalization,
    pooling,
    preview,
    quantized,
    quantized_conv,
    random,
    reductions,
    regions,
    resizing,
    sequences,
    shapes,
    training,
    vision,
)
