"""Models as ONNX files: the same outputs in onnxruntime and, imported again, in singax; names; structure."""

from __future__ import annotations

import pathlib
import sys

import numpy as np
from export_cases import assert_same, check, expected, normal, referred

import singax as sx

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "examples"))

from mnist_cnn import CNN


def test_the_cnn_of_the_examples() -> None:
    sx.device.set_seed(0)
    net = CNN()
    net.compile([sx.Placeholder((4, 1, 28, 28))])
    images = normal(1, 28, 28)
    old, _ = check(net, images)
    assert [node.name for node in old.graph.node] == ["conv1", "pool1", "conv2", "pool2", "flatten", "linear1", "relu",
                                                      "linear2"]  # fmt: skip
    assert [node.op_type for node in old.graph.node[:2]] == ["Conv2d", "MaxPool"]
    assert {tensor.name for tensor in old.graph.initializer} == set(net.get_params())
    assert_same(expected(net, images(3)), referred(old, images(3)))


def test_without_functions_nodes_have_the_paths_of_their_layers() -> None:
    net = CNN()
    net.compile([sx.Placeholder((None, 1, 28, 28))])
    (flat,) = check(net, normal(1, 28, 28), opsets=[13], functions=False)
    assert not flat.functions
    assert [node.name for node in flat.graph.node][:3] == ["conv1/Conv", "conv1/Relu", "pool1/MaxPool"]


def test_the_header() -> None:
    made = sx.sonnx.to_onnx(lambda x: x * 2, [np.ones((4, 3), np.float32)], metadata={"id": "7"}, model_version=3)
    assert made.producer_name == "singax"
    assert made.model_version == 3
    assert {entry.key: entry.value for entry in made.metadata_props} == {"id": "7"}
