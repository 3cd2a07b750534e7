"""The loader on models that are in order: every kind of tensor, attribute, type and place of data."""

from __future__ import annotations

import os
import pathlib
import warnings
from collections.abc import Iterator
from typing import Any

import hostile_models as build
import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from singax.errors import ArgumentError, ModelFileError
from singax.sonnx.importer.graph import Graph, Reference
from singax.sonnx.loader import Limits, load

TYPES = {name: number for name, number in TensorProto.DataType.items() if number}


def same(found: Any, wanted: Any) -> bool:
    """The same dtype, shape and bits."""
    if found.dtype != wanted.dtype or found.shape != wanted.shape:
        return False
    return list(found.flat) == list(wanted.flat) if found.dtype == object else found.tobytes() == wanted.tobytes()


# -- onnx's own test models -----------------------------------------------------------------------------------------


def backend_models() -> Iterator[tuple[str, Any]]:
    """All models of onnx's backend tests that are there without a network."""
    from onnx.backend.test import loader

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for kind in ("node", "simple", "pytorch-operator", "pytorch-converted"):
            for case in loader.load_model_tests(kind=kind):
                yield case.name, os.path.join(case.model_dir, "model.onnx") if case.model_dir else case.model
    for path in sorted(pathlib.Path(loader.__file__).parent.parent.glob("data/light/*.onnx")):
        yield path.stem, path


def test_all_models_of_the_backend_tests_load_with_the_same_values() -> None:
    count, refused, wrong = 0, {}, []
    for name, source in backend_models():
        count += 1
        try:
            found = load(source)
        except ModelFileError as error:
            refused[name] = str(error)
            continue
        proto = onnx.load(source) if isinstance(source, str | pathlib.Path) else source
        wrong += [f"{name}: {what}" for what in differences(found.graph, proto.graph)]
    print(f"{count} models, {len(refused)} refused")
    assert refused == {}
    assert wrong == []
    assert count >= 2000


def differences(found: Graph, proto: Any) -> Iterator[str]:
    """Where a loaded graph is not what the onnx package reads."""
    if [info.name for info in found.inputs] != [info.name for info in proto.input]:
        yield "inputs"
    for tensor in proto.initializer:
        if not same(found.constants[tensor.name], numpy_helper.to_array(tensor)):
            yield tensor.name
    for node, read in zip(found.nodes, proto.node, strict=True):
        if (node.op_type, node.inputs, node.outputs) != (read.op_type, tuple(read.input), tuple(read.output)):
            yield node.where
        for attribute in read.attribute:
            if not equal_attribute(node.attributes[attribute.name], attribute):
                yield f"{node.where} {attribute.name}"


def equal_attribute(found: Any, attribute: Any) -> bool:
    if not attribute.type:
        return True  # the loader takes the one value that is there
    wanted = helper.get_attribute_value(attribute)
    if attribute.type == onnx.AttributeProto.TENSOR:
        return same(found, numpy_helper.to_array(wanted))
    if attribute.type == onnx.AttributeProto.GRAPH:
        return not list(differences(found, wanted))
    if attribute.type == onnx.AttributeProto.STRING:
        return found == wanted.decode()
    if attribute.type == onnx.AttributeProto.STRINGS:
        return found == [text.decode() for text in wanted]
    return found == (list(wanted) if isinstance(found, list) else wanted)


# -- tensors --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("raw", [False, True])
def test_tensors_of_every_type(name: str, raw: bool) -> None:
    if name == "STRING":
        tensor = helper.make_tensor("culprit", TYPES[name], (2, 2), ["a", "", "ä🦜", "d\n"])
    else:
        values = np.array([0, 1, 1, 0, 1, 0, 1], np.float32).astype(helper.tensor_dtype_to_np_dtype(TYPES[name]))
        tensor = numpy_helper.from_array(values, "culprit")
        if not raw:
            tensor = helper.make_tensor("culprit", TYPES[name], (7,), values)
    found = load(build.with_tensor(tensor)).graph.constants["culprit"]
    assert same(found, numpy_helper.to_array(tensor))


@pytest.mark.parametrize("kind", ["int4", "int2", "uint4", "uint2"])
def test_small_integers_with_signs(kind: str) -> None:
    import ml_dtypes

    dtype = np.dtype(getattr(ml_dtypes, kind))
    values = np.arange(-2, 2) if kind.startswith("i") else np.arange(4)
    tensor = numpy_helper.from_array(values.astype(dtype), "culprit")
    np.testing.assert_array_equal(load(build.with_tensor(tensor)).graph.constants["culprit"].astype(int), values)


def test_four_bit_values_packed_eight_to_a_number_as_the_standard_says() -> None:
    tensor = build.tensor(dims=(9,), dtype=TensorProto.UINT4, int32_data=[0x76543210, 8])
    np.testing.assert_array_equal(load(build.with_tensor(tensor)).graph.constants["culprit"].astype(int), np.arange(9))


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=200), st.integers(1, 6))
def test_lists_of_integers_are_what_protobuf_reads(values: list[int], repeats: int) -> None:
    values = values * repeats**4
    packed = build.tensor("t", (len(values),), TensorProto.INT64, int64_data=values)
    node = build.node("Constant", [], ["y"])
    node.attribute.extend([build.attribute("__i", type=7, ints=values), build.attribute("value", type=4, t=packed)])
    found = load(build.model([node], outputs=[build.info("y", None)])).graph.nodes[0].attributes
    assert found["__i"] == values
    assert found["value"].tolist() == values


@settings(deadline=None, max_examples=40)
@given(st.lists(st.floats(width=32, allow_nan=False), max_size=100), st.integers(1, 5))
def test_lists_of_floats_are_what_protobuf_reads(values: list[float], repeats: int) -> None:
    values = values * repeats**4
    node = build.node("Constant", [], ["y"])
    node.attribute.append(build.attribute("value_floats", type=6, floats=values))
    made = build.model([node], outputs=[build.info("y", None)])
    assert load(made).graph.nodes[0].attributes["value_floats"] == list(made.graph.node[0].attribute[0].floats)


def test_packed_attributes_and_lists_in_pieces() -> None:
    pieces = build.field(8, b"\x01\x02") + b"\x40\x03" + b"\x40" + b"\xff" * 9 + b"\x01" + build.field(8, b"\xac\x02")
    ints = build.field(5, build.field(1, b"__i") + b"\xa0\x01\x07" + pieces)
    node = build.field(1, b"x") + build.field(2, b"y") + build.field(4, b"Relu") + ints
    graph = build.field(1, node) + build.field(11, build.field(1, b"x")) + build.field(12, build.field(1, b"y"))
    assert load(build.wire_model(graph)).graph.nodes[0].attributes["__i"] == [1, 2, 3, -1, 300]


def test_sparse_tensors_become_dense() -> None:
    values = build.tensor(dims=(2,), float_data=[5.0, 7.0])
    linear = build.sparse_model(values=values, indices=build.indexed([1, 3]), dims=(2, 2))
    pairs = build.sparse_model(values=values, indices=build.indexed([0, 1, 1, 1], (2, 2)), dims=(2, 2))
    for made in (linear, pairs):
        np.testing.assert_array_equal(load(made).graph.constants["culprit"], [[0, 5], [0, 7]])


# -- external data --------------------------------------------------------------------------------------------------


def saved(folder: pathlib.Path) -> dict[str, np.ndarray]:
    """A model whose tensors lie in another file; returns them."""
    rng = np.random.default_rng(0)
    arrays = {
        "a": rng.normal(size=(5, 7)).astype(np.float32),
        "b": rng.integers(0, 9, 300),
        "c": np.array([True, False]),
    }
    nodes = [build.node("Identity", [name], [f"{name}_out"], name) for name in arrays]
    tensors = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    made = build.model(nodes, tensors=tensors, inputs=(), outputs=[build.info(f"{name}_out", None) for name in arrays])
    onnx.save(made, folder / "model.onnx", save_as_external_data=True, location="weights", size_threshold=0)
    return arrays


def test_external_data_of_onnx(tmp_path: pathlib.Path) -> None:
    arrays = saved(tmp_path)
    found = load(tmp_path / "model.onnx").graph.constants
    assert all(same(found[name], array) for name, array in arrays.items())
    os.truncate(tmp_path / "weights", 0)  # the arrays do not depend on the file any more
    assert all(same(found[name], array) for name, array in arrays.items())


def test_a_model_and_its_data_that_are_links_into_one_store(tmp_path: pathlib.Path) -> None:
    (tmp_path / "blobs").mkdir()
    (tmp_path / "snapshot").mkdir()
    arrays = saved(tmp_path / "blobs")
    for name in ("model.onnx", "weights"):
        (tmp_path / "blobs" / name).rename(tmp_path / "blobs" / f"0{name}")
        (tmp_path / "snapshot" / name).symlink_to(f"../blobs/0{name}")
    found = load(tmp_path / "snapshot" / "model.onnx").graph.constants
    assert all(same(found[name], array) for name, array in arrays.items())


def test_external_data_needs_a_folder(tmp_path: pathlib.Path) -> None:
    saved(tmp_path)
    with pytest.raises(ModelFileError, match=r"'a'.*a model given as a path"):
        load((tmp_path / "model.onnx").read_bytes())
    assert len(load(onnx.load(tmp_path / "model.onnx")).graph.constants) == 3  # onnx has read them


# -- graphs, types, functions ---------------------------------------------------------------------------------------


def test_inputs_and_outputs_are_described() -> None:
    tensor = helper.make_tensor_type_proto(TensorProto.BFLOAT16, ["N", 3, None])
    sequence = helper.make_sequence_type_proto(tensor)
    kinds = {
        "tensor": tensor,
        "sequence(tensor)": sequence,
        "optional(sequence(tensor))": helper.make_optional_type_proto(sequence),
        "map(tensor)": helper.make_map_type_proto(TensorProto.INT64, tensor),
        "sparse_tensor": helper.make_sparse_tensor_type_proto(TensorProto.BFLOAT16, ["N", 3, None]),
    }
    inputs = [helper.make_value_info(f"x{n}", kind) for n, kind in enumerate(kinds.values())]
    found = load(build.model([build.node("Relu", ["x0"], ["y"])], inputs=inputs)).graph.inputs
    assert [info.kind for info in found] == list(kinds)
    assert {info.dtype.name for info in found} == {"bfloat16"}
    assert {info.shape for info in found} == {("N", 3, None)}


def test_subgraphs_say_what_they_need() -> None:
    before = [build.node("Neg", ["x"], ["h"], "outer")]
    then = build.graph([build.node("Add", ["h", "x"], ["t"], "n")], (), ("t",))
    found = load(build.if_model(then, before=before)).graph
    branches = found.nodes[1].attributes
    assert branches["then_branch"].needed == {"h", "x"}
    assert branches["else_branch"].needed == {"x"}
    assert found.needed == frozenset()


def test_functions_keep_references_and_defaults() -> None:
    made = build.in_function(build.referring("k"), attributes=("k",))
    function = load(made).functions["local", "f0", ""]
    assert function.nodes[0].attributes == {"alpha": Reference("k")}
    assert function.attributes == {}
    made.functions[0].ClearField("attribute")
    made.functions[0].attribute_proto.append(build.attribute("k", type=1, f=0.5))
    assert load(made).functions["local", "f0", ""].attributes == {"k": 0.5}


def test_versions_and_metadata() -> None:
    made = build.relu(imports=[("ai.onnx", 13), ("ai.onnx.ml", 3)])
    made.metadata_props.add(key="author", value="ä")
    found = load(made)
    assert found.opsets == {"": 13, "ai.onnx.ml": 3}
    assert found.metadata == {"author": "ä"}


def test_attributes_are_python_values() -> None:
    node = build.node("Relu", ["x"], ["y"], __s="text", __i=3, __f=0.5, __l=[1, 2], __t=["a", "b"])
    node.attribute.append(build.attribute("__b", type=3, s=b"\xff"))
    found = load(build.model([node])).graph.nodes[0].attributes
    assert found == {"__s": "text", "__i": 3, "__f": 0.5, "__l": [1, 2], "__t": ["a", "b"], "__b": b"\xff"}


# -- the door -------------------------------------------------------------------------------------------------------


def test_paths_bytes_and_protos(tmp_path: pathlib.Path) -> None:
    made = build.good()
    path = tmp_path / "model.onnx"
    path.write_bytes(made.SerializeToString())
    for source in (path, str(path), path.read_bytes(), bytearray(path.read_bytes()), made):
        assert [node.op_type for node in load(source).graph.nodes] == ["MatMul", "Relu"]
    with pytest.raises(ArgumentError, match="Received: int"):
        load(3)
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nothing.onnx")


def test_errors_have_parts(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "bad.onnx"
    path.write_bytes(build.model([build.node("Relu", ["nobody"], ["y"])]).SerializeToString())
    with pytest.raises(ModelFileError) as caught:
        load(path)
    error = caught.value
    assert (error.file, error.part, error.field) == (str(path), "node 'culprit' (Relu)", "input 'nobody'")
    assert str(error).startswith(f"{path}: node 'culprit' (Relu): input 'nobody': expected ")


def test_the_importer_says_what_is_supported() -> None:
    asked = []

    def supported(domain: str, op_type: str, opset: int) -> bool:
        asked.append((domain, op_type, opset))
        return op_type != "MatMul"

    with pytest.raises(ModelFileError, match=r"1 that are not: MatMul \(opset 21\)"):
        load(build.good(), is_supported=supported)
    assert asked == [("", "MatMul", 21), ("", "Relu", 21)]
    own = build.model([helper.make_node("Gelu", ["x"], ["y"], domain="com.microsoft")], imports=[("com.microsoft", 1)])
    assert load(own, is_supported=lambda *_: True).graph.nodes[0].domain == "com.microsoft"


@pytest.mark.parametrize(
    ("limits", "name"),
    [
        (Limits(file_bytes=10), "file_bytes"),
        (Limits(tensor_bytes=15), "tensor_bytes"),
        (Limits(tensor_elements=3), "tensor_elements"),
        (Limits(rank=1), "rank"),
        (Limits(fields=9), "fields"),
        (Limits(list_elements=1), "list_elements"),
        (Limits(nodes=1), "nodes"),
        (Limits(expanded_nodes=1), "expanded_nodes"),
        (Limits(nesting=0), "nesting"),
        (Limits(name_bytes=4), "name_bytes"),
    ],
)
def test_limits_are_settings(limits: Limits, name: str) -> None:
    with pytest.raises(ModelFileError, match=rf"Limits\.{name}"):
        load(build.good(), limits)


@settings(deadline=None, max_examples=300)
@given(st.data())
def test_damaged_models_are_refused_or_mean_what_protobuf_reads(data: st.DataObject) -> None:
    whole = bytearray(
        build.if_model(build.branch("t"), before=[build.node("Neg", ["x"], ["h"], "n")]).SerializeToString()
    )
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = load(bytes(whole))
    except ModelFileError:
        return
    proto = onnx.ModelProto.FromString(bytes(whole))
    assert not list(differences(found.graph, proto.graph))
