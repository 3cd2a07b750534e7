"""How each primitive of JAX is said in ONNX, one file per family; importing the package registers them all."""

from singax.sonnx.exporter.lowering import arithmetic, comparison, movement, products, reduction, shapes
from singax.sonnx.exporter.lowering.refusal import refusal
