"""The operators: one file per family, which registers its handlers."""

from singax.sonnx.operators import derived, elementwise, shapes
