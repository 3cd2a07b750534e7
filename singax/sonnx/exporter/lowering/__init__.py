"""How each primitive of JAX is said in ONNX, one file per family; importing the package registers them all."""

from singax.sonnx.exporter.lowering import (
    arithmetic,
    comparison,
    control,
    dynamic,
    gathering,
    movement,
    products,
    reduction,
    running,
    scattering,
    shapes,
    sorting,
    windows,
)
from singax.sonnx.exporter.lowering.refusal import refusal
