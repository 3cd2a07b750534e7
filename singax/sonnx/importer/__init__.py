"""From an ONNX graph to JAX: the graph as plain objects, its evaluation, its division into compiled pieces."""
