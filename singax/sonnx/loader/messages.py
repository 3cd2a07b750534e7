"""The messages of onnx.proto that the loader reads; what is not here (training, documentation) is skipped."""

from __future__ import annotations

from singax.sonnx.loader.wire import (
    BLOB,
    CHUNKS,
    FLOAT,
    FLOATS,
    INT,
    INTS,
    MESSAGE,
    SPAN,
    STRING,
    Field,
    Format,
)


def _text(slot: str) -> Field:
    return Field(slot, STRING)


def _texts(slot: str) -> Field:
    return Field(slot, STRING, repeated=True)


def _one(slot: str, message: str) -> Field:
    return Field(slot, MESSAGE, message=message)


def _many(slot: str, message: str) -> Field:
    return Field(slot, MESSAGE, repeated=True, message=message)


def _ints(slot: str) -> Field:
    return Field(slot, INTS, repeated=True)


def _chunks(slot: str) -> Field:
    return Field(slot, CHUNKS, repeated=True)


_FIELDS: dict[str, dict[int, Field]] = {
    "Model": {
        1: Field("ir_version", INT),
        8: _many("opset_import", "Opset"),
        7: _one("graph", "Graph"),
        14: _many("metadata", "Entry"),
        25: _many("functions", "Function"),
    },
    "Opset": {1: _text("domain"), 2: Field("version", INT)},
    "Entry": {1: Field("key", BLOB), 2: Field("value", BLOB)},
    "Graph": {
        1: _many("node", "Node"),
        2: _text("name"),
        5: _many("initializer", "Tensor"),
        15: _many("sparse_initializer", "Sparse"),
        11: _many("input", "ValueInfo"),
        12: _many("output", "ValueInfo"),
    },
    "Node": {
        1: _texts("input"),
        2: _texts("output"),
        3: _text("name"),
        4: _text("op_type"),
        7: _text("domain"),
        8: _text("overload"),
        5: _many("attribute", "Attribute"),
    },
    "Attribute": {
        1: _text("name"),
        21: _text("ref_attr_name"),
        20: Field("type", INT),
        2: Field("f", FLOAT),
        3: Field("i", INT),
        4: Field("s", BLOB),
        5: _one("t", "Tensor"),
        6: _one("g", "Graph"),
        22: _one("sparse_tensor", "Sparse"),
        14: Field("tp", SPAN),
        7: Field("floats", FLOATS, repeated=True),
        8: _ints("ints"),
        9: Field("strings", BLOB, repeated=True),
        10: _many("tensors", "Tensor"),
        11: _many("graphs", "Graph"),
        23: _many("sparse_tensors", "Sparse"),
        15: Field("type_protos", SPAN, repeated=True),
    },
    "Tensor": {
        1: _ints("dims"),
        2: Field("data_type", INT),
        3: Field("segment", SPAN),
        4: _chunks("float_data"),
        5: _chunks("int32_data"),
        6: Field("string_data", SPAN, repeated=True),
        7: _chunks("int64_data"),
        8: _text("name"),
        9: Field("raw_data", SPAN),
        13: _many("external_data", "Entry"),
        14: Field("data_location", INT),
        10: _chunks("double_data"),
        11: _chunks("uint64_data"),
    },
    "Sparse": {1: _one("values", "Tensor"), 2: _one("indices", "Tensor"), 3: _ints("dims")},
    "ValueInfo": {1: _text("name"), 2: _one("type", "Type")},
    "Type": {
        1: _one("tensor", "TensorType"),
        4: _one("sequence", "ElementType"),
        5: _one("map", "MapType"),
        9: _one("optional", "ElementType"),
        8: _one("sparse_tensor", "TensorType"),
        7: Field("opaque", SPAN),
    },
    "TensorType": {1: Field("elem_type", INT), 2: _one("shape", "Shape")},
    "ElementType": {1: _one("elem_type", "Type")},
    "MapType": {1: Field("key_type", INT), 2: _one("value_type", "Type")},
    "Shape": {1: _many("dim", "Dimension")},
    "Dimension": {1: Field("dim_value", INT), 2: _text("dim_param")},
    "Function": {
        1: _text("name"),
        10: _text("domain"),
        13: _text("overload"),
        4: _texts("input"),
        5: _texts("output"),
        6: _texts("attribute"),
        11: _many("attribute_proto", "Attribute"),
        7: _many("node", "Node"),
        9: _many("opset_import", "Opset"),
    },
}

FORMATS = {name: Format(name, fields) for name, fields in _FIELDS.items()}
