"""Random ONNX graphs, each from a seed, and their comparison with onnxruntime.

A rule (`rules`) adds one operator to a graph under construction (`builder`), if its inputs can be had: the pool of
values knows dtypes, the shapes of both runs, ranges, and which values are exact (`values`).
"""
