"""The operators: one file per family, which registers its handlers."""

from singax.sonnx.operators import control, derived, elementwise, reductions, sequences, shapes
from singax.sonnx.operators import casting, preview, quantized, quantized_conv, random, training
