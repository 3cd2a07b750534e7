"""Models as ONNX files: a forward is captured as equations, and these are written as nodes."""
