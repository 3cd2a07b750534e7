"""The operators: one file per family, which registers its handlers."""

from singax.sonnx.operators import (
    casting,
    classical,
    control,
    derived,
    dynamic_lstm,
    elementwise,
    labels,
    linear_models,
    microsoft,
    microsoft_attention,
    microsoft_quantized,
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
