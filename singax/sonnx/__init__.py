"""ONNX models as singax models. Loaded when it is first used, since it needs the onnx package."""
