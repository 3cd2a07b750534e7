"""What exports of classical pipelines (scalers, support vectors, forests, text) need: cases that went wrong once."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

from singax import sonnx
from singax.errors import ModelFileError

STRING, FLOAT, INT64 = TensorProto.STRING, TensorProto.FLOAT, TensorProto.INT64
node = helper.make_node


def model(nodes: list[Any], x: Any, *outputs: Any) -> bytes:
    graph = helper.make_graph(nodes, "graph", [x], list(outputs))
    versions = {"": 18, "ai.onnx.ml": 3, "com.microsoft": 1}
    imports = [helper.make_opsetid(domain, version) for domain, version in versions.items()]
    return helper.make_model(graph, opset_imports=imports, ir_version=8).SerializeToString()


def info(name: str, dtype: int, rank: int) -> Any:
    return helper.make_tensor_value_info(name, dtype, [None] * rank)


def by_runtime(source: bytes, x: np.ndarray) -> list[np.ndarray]:
    return onnxruntime.InferenceSession(source).run(None, {"x": x})


def one_hot() -> Any:
    return node("OneHotEncoder", ["x"], ["hot"], domain="ai.onnx.ml", cats_strings=["red", "green"], zeros=1)


def test_string_labels_of_strings() -> None:
    """The features are known while tracing, since strings are: the labels are not for all that."""
    flat = node("Flatten", ["hot"], ["features"])
    tree = node(
        "TreeEnsembleClassifier", ["features"], ["label", "scores"], domain="ai.onnx.ml",
        classlabels_strings=["no", "yes", "perhaps"], nodes_treeids=[0] * 3, nodes_nodeids=[0, 1, 2],
        nodes_featureids=[0, 0, 0], nodes_values=[0.5, 0, 0], nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"],
        nodes_truenodeids=[1, 0, 0], nodes_falsenodeids=[2, 0, 0], class_treeids=[0] * 2, class_nodeids=[1, 2],
        class_ids=[1, 2], class_weights=[0.75, 0.5], nodes_hitrates=[1.0] * 3,
        nodes_missing_value_tracks_true=[0] * 3, post_transform="NONE",
    )  # fmt: skip
    source = model([one_hot(), flat, tree], info("x", STRING, 2), info("label", STRING, 1), info("scores", FLOAT, 2))
    x = np.array([["red"], ["green"], ["blue"]], object)
    labels, scores = sonnx.prepare(source).run([x])
    theirs, their_scores = by_runtime(source, x)
    assert labels.tolist() == list(theirs) == ["perhaps", "yes", "yes"]
    np.testing.assert_array_equal(scores, their_scores)


def test_linear_support_vectors_are_added_up_exactly() -> None:
    """Large products that cancel: float32 sums over the vectors lose all but one digit."""
    rng, count = np.random.default_rng(0), 400
    vectors = (rng.normal(size=(count, 6)) * 1000 + 5000).astype(np.float32)
    weights = rng.normal(size=(1, count)).astype(np.float32)
    weights[0, -1] = -weights[0, :-1].sum(dtype=np.float64)
    attributes = {
        "kernel_type": "LINEAR", "kernel_params": [0.0, 0.0, 0.0], "coefficients": weights.ravel().tolist(),
        "support_vectors": vectors.ravel().tolist(), "rho": [0.25],
    }  # fmt: skip
    svm = node("SVMRegressor", ["x"], ["y"], domain="ai.onnx.ml", n_supports=count, **attributes)
    x = (rng.normal(size=(5, 6)) * 1000).astype(np.float32)
    (y,) = sonnx.prepare(model([svm], info("x", FLOAT, 2), info("y", FLOAT, 2))).run([x])
    exact = x.astype(np.float64) @ (weights.astype(np.float64) @ vectors.astype(np.float64)).T + 0.25
    np.testing.assert_allclose(y, exact, rtol=1e-4)
    classes = node(
        "SVMClassifier", ["x"], ["label", "y"], domain="ai.onnx.ml", classlabels_ints=[0, 1],
        vectors_per_class=[count // 2, count // 2], **attributes,
    )  # fmt: skip
    source = model([classes], info("x", FLOAT, 2), info("label", INT64, 1), info("y", FLOAT, 2))
    label, scores = sonnx.prepare(source).run([x])
    np.testing.assert_allclose(np.abs(scores[:, :1]), np.abs(exact), rtol=1e-4)
    np.testing.assert_array_equal(label, (exact[:, 0] <= 0).astype(np.int64))


TEXTS = np.array(["a bc,def", "", "héé  llo", "a", "ab ab"], object)


def tokens(**attributes: Any) -> bytes:
    given = {"mark": 0, "pad_value": "#", "mincharnum": 1, **attributes}
    return model(
        [node("Tokenizer", ["x"], ["y"], domain="com.microsoft", **given)],
        helper.make_tensor_value_info("x", STRING, None), helper.make_tensor_value_info("y", STRING, None),
    )  # fmt: skip


@pytest.mark.parametrize(
    "attributes",
    [
        {"tokenexp": "[a-z]+"}, {"tokenexp": "[a-z]+", "mark": 1, "mincharnum": 2}, {"separators": [" ", ","]},
        {"separators": [" "], "mark": 1, "mincharnum": 2}, {"separators": [""]}, {"separators": [""], "mark": 1},
        {"tokenexp": "x*"}, {"separators": [" ", "b"]}, {"separators": ["[ ,]+"]},
        {"separators": [" "], "tokenexp": "a"},
    ],
)  # fmt: skip
@pytest.mark.parametrize("texts", [TEXTS, TEXTS.reshape(1, 5), np.array(["", ""], object), np.array([",,"], object)])
def test_texts_become_tokens(attributes: dict[str, Any], texts: np.ndarray) -> None:
    source = tokens(**attributes)
    (found,), (theirs,) = sonnx.prepare(source).run([texts]), by_runtime(source, texts)
    assert found.shape == theirs.shape
    assert found.tolist() == theirs.tolist()


@pytest.mark.parametrize(
    "attributes", [{}, {"separators": [" "], "mincharnum": 0}, {"tokenexp": "("}, {"tokenexp": "(a+)+b"}]
)
def test_a_bad_tokenizer_is_refused(attributes: dict[str, Any]) -> None:
    with pytest.raises(ModelFileError, match=r"Tokenizer"):
        sonnx.prepare(tokens(**attributes)).run([TEXTS])
