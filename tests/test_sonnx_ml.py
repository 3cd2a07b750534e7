"""The operators of ai.onnx.ml against onnxruntime."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx_pairs import assert_close, by_singax, feeds, model
from onnx_pairs import compare as compare_any

from singax.errors import ModelFileError
from singax.sonnx import prepare

RNG = np.random.default_rng(2)
ML = "ai.onnx.ml"
TRANSFORMS = ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"]
FLOAT, INT64, STRING = TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING


def compare(op_type: str, inputs: Any, *types: int, **options: Any) -> None:
    compare_any(op_type, inputs, domain=ML, types=types, outputs=len(types), **options)


def floats(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def numbers(*shape: int) -> list[float]:
    return [float(value) for value in floats(*shape).reshape(-1)]


# -- trees -------------------------------------------------------------------------------------------------------------

NODES = "nodeids treeids featureids values truenodeids falsenodeids missing_value_tracks_true modes"
MODES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]


class Forest:
    """Random trees over four features, as attributes."""

    def __init__(self, kind: str, trees: int, targets: list[int], modes: list[str], positive: bool = False) -> None:
        self.nodes: dict[str, list[Any]] = {f"nodes_{name}": [] for name in NODES.split()}
        self.votes: dict[str, list[Any]] = {f"{kind}_{name}": [] for name in ("treeids", "nodeids", "ids", "weights")}
        self.modes, self.targets, self.positive = modes, targets, positive
        for tree in range(trees):
            self._grow(tree, itertools.count(), 3)

    def _grow(self, tree: int, numbers: Any, depth: int) -> int:
        number, at = next(numbers), len(self.nodes["nodes_modes"])
        for name, column in self.nodes.items():
            column.append({"nodes_nodeids": number, "nodes_treeids": tree, "nodes_modes": "LEAF"}.get(name, 0))
        self.nodes["nodes_values"][at] = round(float(RNG.normal()), 1)
        if depth and (depth == 3 or RNG.random() < 0.8):
            self.nodes["nodes_modes"][at] = str(RNG.choice(self.modes))
            self.nodes["nodes_featureids"][at] = int(RNG.integers(4))
            self.nodes["nodes_missing_value_tracks_true"][at] = int(RNG.integers(2))
            for side in ("true", "false"):
                self.nodes[f"nodes_{side}nodeids"][at] = self._grow(tree, numbers, depth - 1)
        else:
            for target in self.targets if self.targets else [tree % 3]:
                weight = float(RNG.normal())
                row = (tree, number, target, abs(weight) / 4 if self.positive else weight)
                for column, value in zip(self.votes.values(), row, strict=True):
                    column.append(value)
        return number

    @property
    def attributes(self) -> dict[str, Any]:
        return {**self.nodes, **self.votes}


def rows() -> np.ndarray:
    x = np.round(floats(9, 4), 1)
    x[0, 1] = np.nan
    return x


@pytest.mark.parametrize("how", ["SUM", "AVERAGE", "MIN", "MAX"])
@pytest.mark.parametrize(("targets", "base", "transform"), [(1, 1, "NONE"), (3, 3, "SOFTMAX"), (2, 0, "LOGISTIC")])
def test_tree_regressor(how: str, targets: int, base: int, transform: str) -> None:
    forest = Forest("target", 4, list(range(targets)), MODES)
    options = {"n_targets": targets, "aggregate_function": how, "post_transform": transform}
    more = {"base_values": numbers(base)} if base else {}
    compare("TreeEnsembleRegressor", [rows()], FLOAT, **forest.attributes, **options, **more)


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize(("targets", "base"), [([0, 1, 2], 0), ([], 3), ([], 0)])
def test_tree_classifier_of_three(targets: list[int], base: int, transform: str) -> None:
    """All leaves vote for all classes, or those of a tree for one."""
    forest = Forest("class", 4, targets, ["BRANCH_LEQ"])
    options = {"classlabels_int64s": [5, 7, 9], "post_transform": transform}
    more = {"base_values": numbers(base)} if base else {}
    compare("TreeEnsembleClassifier", [rows()], INT64, FLOAT, **forest.attributes, **options, **more)


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize(("voted", "base"), [(0, 0), (0, 1), (1, 0)])
@pytest.mark.parametrize("positive", [False, True])
def test_tree_classifier_of_two(voted: int, base: int, positive: bool, transform: str) -> None:
    forest = Forest("class", 4, [voted], ["BRANCH_LT"], positive)
    options = {"classlabels_int64s": [5, 7], "post_transform": transform}
    more = {"base_values": numbers(base)} if base else {}
    compare("TreeEnsembleClassifier", [rows()], INT64, FLOAT, **forest.attributes, **options, **more)


def test_tree_classifier_with_names() -> None:
    forest = Forest("class", 3, [0, 1, 2], ["BRANCH_LEQ"])
    names = {"classlabels_strings": ["ant", "bee", "cat"]}
    compare("TreeEnsembleClassifier", [rows()], STRING, FLOAT, compiled=False, **forest.attributes, **names)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("how", [0, 1, 2, 3])
def test_tree_ensemble_of_the_fifth_version(dtype: Any, how: int) -> None:
    """Two trees, one of them asking for membership of sets."""

    def tensor(name: str, values: list[float], kind: Any = dtype) -> Any:
        array = np.asarray(values, kind)
        return helper.make_tensor(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape, array)

    attributes = {
        "tree_roots": [0, 2],
        "nodes_modes": tensor("modes", [6, 0, 6], np.uint8),
        "nodes_splits": tensor("splits", [0, 0.5, 0]),
        "nodes_featureids": [0, 1, 2],
        "nodes_truenodeids": [1, 0, 2],
        "nodes_trueleafs": [0, 1, 1],
        "nodes_falsenodeids": [1, 3, 0],
        "nodes_falseleafs": [1, 1, 1],
        "leaf_weights": tensor("weights", [0.5, -1.5, 2.5, 3.5]),
        "leaf_targetids": [0, 1, 0, 1],
        "membership_values": tensor("members", [1, 2, np.nan, 3, np.nan]),
        "n_targets": 2,
        "aggregate_function": how,
    }
    x = np.asarray([[1, 0, 3, 9], [2, 1, 0, 9], [5, 0, 3, 9], [np.nan, 0, 1, 9]], dtype)
    compare("TreeEnsemble", [x], helper.np_dtype_to_tensor_dtype(x.dtype), version=5, **attributes)


def test_trees_that_never_end_are_refused() -> None:
    attributes = Forest("target", 1, [0], ["BRANCH_LEQ"]).attributes
    attributes["nodes_truenodeids"] = [1 if at == 1 else n for at, n in enumerate(attributes["nodes_truenodeids"])]
    attributes["nodes_modes"] = ["BRANCH_LEQ" if at < 2 else mode for at, mode in enumerate(attributes["nodes_modes"])]
    attributes["nodes_falsenodeids"] = [1 if at == 1 else n for at, n in enumerate(attributes["nodes_falsenodeids"])]
    made = model("TreeEnsembleRegressor", [rows()], domain=ML, types=[FLOAT], n_targets=1, **attributes)
    with pytest.raises(ModelFileError, match="lead back"):
        prepare(made).run({"x0": rows()})


def test_features_that_are_missing_are_refused() -> None:
    made = model(
        "TreeEnsembleRegressor", [rows()[:, :1]], domain=ML, types=[FLOAT], **Forest("target", 4, [0], MODES).attributes
    )
    with pytest.raises(ModelFileError, match="features"):
        prepare(made).run({"x0": rows()[:, :1]})


# -- linear models and support vectors ---------------------------------------------------------------------------------


@pytest.mark.parametrize("transform", [*TRANSFORMS, "PROBIT"])
def test_linear_models(transform: str) -> None:
    x = np.abs(floats(5, 4)) / 10 if transform == "PROBIT" else floats(5, 4)
    options = {"post_transform": transform}
    for targets in (1, 3):
        weights = {"coefficients": numbers(targets, 4), "intercepts": numbers(targets), "targets": targets}
        compare("LinearRegressor", [x], FLOAT, **weights, **options)
    if transform == "PROBIT":
        return
    for count, labels in ((3, [4, 5, 6]), (1, [4, 5]), (2, [4, 5])):
        weights = {"coefficients": numbers(count, 4), "intercepts": numbers(count), "classlabels_ints": labels}
        compare("LinearClassifier", [x], INT64, FLOAT, **weights, **options)


def test_linear_classifier_with_names_and_of_other_types() -> None:
    weights = {"coefficients": numbers(3, 4), "intercepts": numbers(3)}
    names = {"classlabels_strings": ["a", "b", "c"]}
    compare("LinearClassifier", [floats(5, 4)], STRING, FLOAT, compiled=False, **weights, **names)
    for dtype in (np.float64, np.int64, np.int32):
        x = (floats(5, 4) * 3).astype(dtype)
        compare("LinearClassifier", [x], INT64, FLOAT, **weights, classlabels_ints=[4, 5, 6])


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("kernel", ["LINEAR", "POLY", "RBF", "SIGMOID"])
def test_support_vectors(kernel: str, transform: str) -> None:
    x = floats(5, 4)
    options = {"kernel_type": kernel, "kernel_params": [0.5, 0.3, 2.0], "post_transform": transform}
    regressor = {"coefficients": numbers(3), "n_supports": 3, "rho": numbers(1), "support_vectors": numbers(3, 4)}
    compare("SVMRegressor", [x], FLOAT, **regressor, **options)
    three = {"vectors_per_class": [2, 1, 3], "support_vectors": numbers(6, 4), "coefficients": numbers(2, 6)}
    three |= {"rho": numbers(3), "classlabels_ints": [4, 5, 6]}
    compare("SVMClassifier", [x], INT64, FLOAT, **three, **options)
    compare("SVMClassifier", [x], INT64, FLOAT, **three, **options, prob_a=numbers(3), prob_b=numbers(3))
    two = {"vectors_per_class": [2, 2], "support_vectors": numbers(4, 4), "coefficients": numbers(1, 4)}
    two |= {"rho": numbers(1)}
    compare("SVMClassifier", [x], INT64, FLOAT, **two, **options, classlabels_ints=[4, 5])
    names = {"classlabels_strings": ["a", "b"], "prob_a": numbers(1), "prob_b": numbers(1)}
    compare("SVMClassifier", [x], STRING, FLOAT, compiled=False, **two, **options, **names)


def test_other_support_vector_machines() -> None:
    x = floats(5, 4)
    one = {"coefficients": numbers(3), "n_supports": 3, "rho": numbers(1), "support_vectors": numbers(3, 4)}
    compare("SVMRegressor", [x], FLOAT, **one, kernel_type="RBF", kernel_params=[0.5, 0.3, 2.0], one_class=1)
    plain = {"kernel_params": [0.0, 0.0, 0.0], "rho": numbers(1)}
    compare("SVMRegressor", [x], FLOAT, coefficients=numbers(4), **plain)
    compare("SVMClassifier", [x], INT64, FLOAT, coefficients=numbers(3, 4), **plain, classlabels_ints=[4, 5, 6])


# -- features ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.int32])
def test_features_of_all_types(dtype: Any) -> None:
    x = (floats(5, 4) * 3).astype(dtype)
    x[2] = 0
    for norm in ("MAX", "L1", "L2"):
        compare("Normalizer", [x], FLOAT, norm=norm)
    for count in (1, 4):
        compare("Scaler", [x], FLOAT, offset=numbers(count), scale=numbers(count))
    compare("FeatureVectorizer", [x, x[:, :2]], FLOAT, inputdimensions=[4, 2])
    if dtype != np.int32:
        compare("OneHotEncoder", [np.abs(x)], FLOAT, cats_int64s=[0, 1, 3, 2])


def test_columns() -> None:
    x = floats(3, 4)
    for values in (x, x[0]):
        compare("ArrayFeatureExtractor", [values, np.asarray([2, 0])], FLOAT)
    compare("Binarizer", [x], FLOAT, threshold=0.2)
    x[0, 1] = np.nan
    compare("Imputer", [x], FLOAT, imputed_value_floats=numbers(4), replaced_value_float=float("nan"))
    whole = np.asarray([[1, 2], [2, 3]])
    compare("Imputer", [whole], INT64, imputed_value_int64s=[9], replaced_value_int64=2)


def test_an_unknown_category_is_an_error_only_without_zeros() -> None:
    known, unknown = np.asarray([0, 1]), np.asarray([0, 7])
    compare("OneHotEncoder", [known], FLOAT, cats_int64s=[0, 1], zeros=0, compiled=False)
    made = model("OneHotEncoder", [unknown], domain=ML, types=[FLOAT], cats_int64s=[0, 1], zeros=0)
    with pytest.raises(ModelFileError, match="unknown"):
        prepare(made).run({"x0": unknown})


# -- labels ------------------------------------------------------------------------------------------------------------

WORDS = np.asarray([["a", "b"], ["c", "a"]], object)


def test_label_encoder_of_numbers() -> None:
    x = np.asarray([1, 5, 2])
    lists = {"keys_int64s": [2, 1, 2], "values_floats": [0.5, 0.25, 0.75], "default_float": 9.0}
    made = model("LabelEncoder", [x], domain=ML, types=[FLOAT], version=4, **lists)
    np.testing.assert_array_equal(by_singax(made, feeds(made, [x]))[0], np.float32([0.25, 9, 0.75]))
    compare("LabelEncoder", [x], INT64, version=2, keys_int64s=[1, 2], values_int64s=[7, 8])
    nan = np.asarray([1, np.nan, 2], np.float32)
    lists = {"keys_floats": [2.0, float("nan")], "values_floats": [3.0, 4.0]}
    compare("LabelEncoder", [nan], FLOAT, version=4, **lists)


def test_label_encoder_of_strings() -> None:
    places = np.asarray([1, 5, 0])
    lists = {"keys_strings": ["a", "b"], "values_int64s": [5, 6], "default_int64": -3}
    compare("LabelEncoder", [WORDS], INT64, compiled=False, version=2, **lists)
    lists = {"keys_int64s": [1, 0], "values_strings": ["u", "v"]}
    compare("LabelEncoder", [places], STRING, version=2, compiled=False, **lists)
    compare("LabelEncoder", [WORDS], INT64, compiled=False, version=1, classes_strings=["a", "b"], default_int64=7)
    options = {"classes_strings": ["a", "b"], "default_string": "none"}
    compare("LabelEncoder", [places], STRING, version=1, compiled=False, **options)
    compare("OneHotEncoder", [WORDS], FLOAT, compiled=False, cats_strings=["a", "b"])


def test_category_mapper() -> None:
    lists = {"cats_strings": ["a", "b"], "cats_int64s": [3, 4]}
    compare("CategoryMapper", [WORDS], INT64, compiled=False, default_int64=8, **lists)
    compare("CategoryMapper", [np.asarray([3, 9])], STRING, default_string="q", compiled=False, **lists)


@pytest.mark.parametrize("labels", [{"classlabels_strings": ["a", "b", "c"]}, {"classlabels_int64s": [4, 5, 6]}])
def test_zip_map(labels: dict[str, list[Any]]) -> None:
    x = floats(2, 3)
    made = model("ZipMap", [x], domain=ML, **labels)
    key = TensorProto.STRING if "classlabels_strings" in labels else TensorProto.INT64
    map_type = helper.make_map_type_proto(key, helper.make_tensor_type_proto(FLOAT, []))
    made.graph.output[0].CopyFrom(helper.make_value_info("y0", helper.make_sequence_type_proto(map_type)))
    names = next(iter(labels.values()))
    wanted = [dict(zip(names, map(float, row), strict=True)) for row in x]
    assert_close(by_singax(made, {"x0": x}, compiled=False)[0], wanted, 0, 0)
