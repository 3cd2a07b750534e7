"""The operators: one file per family, which registers its handlers."""

from singax.sonnx.operators import (
    casting,
    classical,
    control,
    derived,
    elementwise,
    labels,
    linear_models,
    preview,
    quantized,
    quantized_conv,
    random,
    reductions,
    sequences,
    shapes,
    training,
    trees,
)
