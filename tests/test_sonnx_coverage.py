"""Which operators of the onnx package, in which versions, have a handler, and which only run on the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx_pairs import compare

import singax.sonnx
from singax.errors import ModelFileError
from singax.sonnx.loader.opsets import newest_opsets
from singax.sonnx.operators.shapes import depends_on_data
from singax.sonnx.registry import handled, handler_of

_STRINGS = "strings, which XLA does not have"
_SHAPE = "the shape of its result depends on values; folded where these are known"

# Operators that never are part of a compiled program, each with the reason; reality is compared.
HOST_ONLY: dict[str, str] = {
    "ImageDecoder": "reads image files, whose size is in the file",
    "RegexFullMatch": _STRINGS,
    "StringConcat": _STRINGS,
    "StringNormalizer": _STRINGS,
    "StringSplit": _STRINGS,
    "Compress": _SHAPE,
    "NonMaxSuppression": _SHAPE,
    "NonZero": _SHAPE,
    "Unique": _SHAPE,
}


def schemas() -> list[Any]:
    """All versions of all operators of the installed onnx package."""
    return list(onnx.defs.get_all_schemas_with_history())


def on_host(schema: Any) -> bool:
    handler = handler_of(schema.domain, schema.name, schema.since_version)
    return handler is None or handler is depends_on_data


def test_every_version_has_a_handler_or_a_reason() -> None:
    """No operator is left to the host without being in the table, and the table has nothing else."""
    assert singax.sonnx.operators is not None
    assert {schema.name for schema in schemas() if on_host(schema)} == set(HOST_ONLY)
    assert all(schema.domain == "" for schema in schemas() if on_host(schema))


def test_handlers_begin_with_a_version() -> None:
    """Where an operator has several handlers, each begins at a version that the standard knows, or at the first."""
    known: dict[tuple[str, str], set[int]] = {}
    for schema in schemas():
        known.setdefault((schema.domain, schema.name), set()).add(schema.since_version)
    for key, versions in handled().items():
        if key in known:
            assert set(versions) <= {1, *known[key]}, key


def test_no_handler_belongs_to_nobody() -> None:
    """What has a handler is an operator of the standard, or of onnxruntime."""
    known = {(schema.domain, schema.name) for schema in schemas()}
    others = {domain for domain, name in handled() if (domain, name) not in known}
    assert others <= {"com.microsoft", ""}
    assert [name for domain, name in handled() if domain == "" and (domain, name) not in known] == OF_ONNXRUNTIME


OF_ONNXRUNTIME = ["SimplifiedLayerNormalization"]
"""Operators without a domain that onnxruntime adds, and exporters write."""


@pytest.mark.parametrize("domain", ["", "ai.onnx.ml", "ai.onnx.preview.training"])
def test_an_opset_that_nobody_knows(domain: str) -> None:
    """A version above the newest one is refused by name and number."""
    version = newest_opsets()[domain] + 1
    node = helper.make_node("Relu", ["x"], ["y"])
    info = helper.make_tensor_value_info
    graph = helper.make_graph([node], "graph", [info("x", 1, [2])], [info("y", 1, [2])])
    imports = [helper.make_opsetid(name, number) for name, number in {"": 13, domain: version}.items()]
    made = helper.make_model(graph, opset_imports=imports, ir_version=8)
    with pytest.raises(ModelFileError, match=rf"opset_import.*{version}"):
        singax.sonnx.prepare(made)


@pytest.mark.parametrize(("name", "opset"), [("Gelu", 19), ("Sin", 6), ("Loop", 0), ("Upsample", 10), ("Scatter", 11)])
def test_an_operator_outside_its_opsets(name: str, opset: int) -> None:
    """Too new for the opset, or withdrawn: refused by name, before anything runs."""
    graph = helper.make_graph([helper.make_node(name, ["x"], ["y"])], "graph", [], [onnx.ValueInfoProto(name="y")])
    graph.input.append(helper.make_tensor_value_info("x", 1, [2]))
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    with pytest.raises(ModelFileError, match=rf"{name} \(opset {opset}\)" if opset else "opset_import"):
        singax.sonnx.prepare(made)


@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
@pytest.mark.parametrize(("shape", "skips", "lengths"), [((12,), 0, (1, 2)), ((3, 9), 2, (2, 3)), ((2, 2), 1, (1, 3))])
def test_n_grams_are_counted_in_a_program(mode: str, shape: Any, skips: int, lengths: Any) -> None:
    """Of all lengths, near and apart, as onnxruntime counts them."""
    x = np.random.default_rng(2).integers(0, 3, shape)
    pool = [0, 1, 2, 0, 1, 1, 1, 2, 0, 0, 1, 2, 1, 1, 1]
    options: dict[str, Any] = {"ngram_counts": [0, 3, 9], "ngram_indexes": [1, 0, 2, 3, 6, 5, 4, 7]}
    options |= {"pool_int64s": pool, "weights": [0.5 * k for k in range(1, 9)], "mode": mode, "max_skip_count": skips}
    compare("TfIdfVectorizer", [x], min_gram_length=lengths[0], max_gram_length=lengths[1], **options)


def test_a_size_that_a_branch_reads_becomes_known() -> None:
    """What a branch computes from an input of sizes is followed to that input: one program for each value of it."""
    info = helper.make_tensor_value_info
    nodes = [helper.make_node("Add", ["sizes", "sizes"], ["twice"]), helper.make_node("Expand", ["x", "twice"], ["y"])]
    then = helper.make_graph(nodes, "then", [], [info("y", 1, None)])
    other = helper.make_graph([helper.make_node("Identity", ["x"], ["z"])], "else", [], [info("z", 1, None)])
    tops = [
        helper.make_node("Constant", [], ["yes"], value=helper.make_tensor("", onnx.TensorProto.BOOL, [], [True])),
        helper.make_node("If", ["yes"], ["out"], then_branch=then, else_branch=other),
    ]
    inputs = [info("x", 1, [1]), info("sizes", onnx.TensorProto.INT64, [2])]
    graph = helper.make_graph(tops, "graph", inputs, [info("out", 1, None)])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    rep = singax.sonnx.prepare(made)
    for sizes in ([1, 2], [3, 1]):
        found = rep.run([np.float32([5]), np.int64(sizes)])[0]
        np.testing.assert_array_equal(found, np.full([2 * n for n in sizes], 5, np.float32))
    assert rep.report() == "2 compiled programs for 1 nodes\nknown inputs: sizes"
