"""What is said about primitives that cannot be exported."""

from __future__ import annotations

_RANDOM = "draws random numbers, which no two programs draw alike: take them as an input of the model"
_REASONS = {
    "pure_callback": "calls Python, which a file cannot hold",
    "io_callback": "calls Python, which a file cannot hold",
    "debug_callback": "calls Python, which a file cannot hold: leave jax.debug.print out of the forward",
    "fft": "has no form in ONNX that onnxruntime computes",
    "custom_call": "calls native code",
    "pallas_call": "is a kernel for one kind of device",
}


def refusal(primitive: str) -> str:
    """The message for a primitive without a lowering."""
    if primitive.startswith(("random_", "threefry")):
        return f"{primitive} {_RANDOM}"
    return f"{primitive} {_REASONS.get(primitive, 'has no lowering to ONNX')}"
