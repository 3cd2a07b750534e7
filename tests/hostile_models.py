"""A generator of malicious, broken and merely unusual model files, with what the loader must say to each.

Every case writes `model.onnx` (and what belongs to it) into a folder of its own, beside which lies a file that nobody
may read. `CASES` maps a name, "family/what", to a `Hostile`.
"""

from __future__ import annotations

import hashlib
import os
import pathlib
import random
import re
import socket
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SECRET = "secret.bin"
FLOAT = TensorProto.FLOAT

Make = Callable[[pathlib.Path], Any]


@dataclass(frozen=True)
class Hostile:
    """`culprit` is what the error must mention (a regular expression); None: the file loads; "": either is right.

    With `feeds` the model is loaded and run, and gives `wanted` where that is said.
    """

    make: Make
    culprit: str | None
    feeds: Mapping[str, np.ndarray] | None = None
    wanted: Sequence[np.ndarray] | None = None

    def write(self, folder: pathlib.Path) -> None:
        """Write the files of the case."""
        made = self.make(folder)
        if made is not None:
            data = made if isinstance(made, bytes) else made.SerializeToString()
            (folder / "model.onnx").write_bytes(data)
        if self.feeds is not None:
            wanted = {f"out {k}": value for k, value in enumerate(self.wanted or ())}
            feeds = {f"in {name}": v.astype(str) if v.dtype == object else v for name, v in self.feeds.items()}
            np.savez(folder / "run.npz", **feeds, **wanted)  # type: ignore[arg-type]

    def judge(self, outcome: str, message: str) -> bool:
        """Whether the outcome ("loads", "refused" or anything else) is the right one."""
        if self.culprit is None:
            return outcome == "loads"
        if self.culprit == "":
            return outcome in ("loads", "refused")
        return outcome == "refused" and re.search(self.culprit, message) is not None


CASES: dict[str, Hostile] = {}


def case(name: str, culprit: str | None, made: Any) -> None:
    """Add a case: a model, bytes, or a function of the folder."""
    assert name not in CASES, name
    CASES[name] = Hostile(made if callable(made) else lambda _: made, culprit)


def run_case(name: str, culprit: str | None, made: Any, feeds: Mapping[str, Any], wanted: Any = None) -> None:
    """Add a case that is run: its outputs, or what the error must mention."""
    assert name not in CASES, name
    CASES[name] = Hostile(lambda _: made, culprit, {key: np.asarray(value) for key, value in feeds.items()}, wanted)


# -- building blocks ------------------------------------------------------------------------------------------------


def info(name: str, shape: Any = (2,), dtype: int = FLOAT) -> Any:
    return helper.make_tensor_value_info(name, dtype, shape)


def node(op: str, inputs: Sequence[str], outputs: Sequence[str], name: str = "culprit", **attributes: Any) -> Any:
    return helper.make_node(op, inputs, outputs, name=name, **attributes)


def graph(nodes: Sequence[Any], inputs: Any = ("x",), outputs: Any = ("y",), tensors: Any = (), name: str = "g") -> Any:
    def infos(values: Any) -> list[Any]:
        return [info(value) if isinstance(value, str) else value for value in values]

    return helper.make_graph(list(nodes), name, infos(inputs), infos(outputs), list(tensors))


def model(nodes: Any, *, opset: int = 21, ir: int = 10, functions: Any = (), imports: Any = None, **parts: Any) -> Any:
    made = nodes if isinstance(nodes, onnx.GraphProto) else graph(nodes, **parts)
    imports = imports or [("", opset)]
    opsets = [helper.make_opsetid(domain, version) for domain, version in imports]
    return helper.make_model(made, opset_imports=opsets, ir_version=ir, functions=list(functions))


def good() -> Any:
    weight = numpy_helper.from_array(np.ones((2, 2), np.float32), "weight")
    nodes = [node("MatMul", ["x", "weight"], ["h"], "first"), node("Relu", ["h"], ["y"], "second")]
    return model(nodes, tensors=[weight])


def tensor(name: str = "culprit", dims: Any = (2,), dtype: int = FLOAT, **fields: Any) -> Any:
    made = TensorProto(name=name, data_type=dtype, dims=dims)
    for field, value in fields.items():
        if isinstance(value, list):
            getattr(made, field).extend(value)
        else:
            setattr(made, field, value)
    return made


def with_tensor(made: Any) -> Any:
    """A model in which a tensor is an initializer."""
    return model([node("Identity", [made.name], ["y"], "user")], tensors=[made], outputs=[info("y", None)])


def constant(made: Any) -> Any:
    """A model in which a tensor is the attribute of a Constant node."""
    return model([node("Constant", [], ["y"], value=made)], outputs=[info("y", None)])


def varint(number: int) -> bytes:
    found = b""
    while number > 0x7F:
        found, number = found + bytes([number & 0x7F | 0x80]), number >> 7
    return found + bytes([number])


def field(number: int, payload: bytes) -> bytes:
    """A field of bytes in protobuf's wire format."""
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def wire_model(graph_bytes: bytes) -> bytes:
    """A model around the bytes of a graph."""
    return b"\x08\x0a" + field(8, b"\x10\x15") + field(7, graph_bytes)


def one_attribute(attribute_bytes: bytes) -> bytes:
    """A model with a node that has an attribute of these bytes."""
    return wire_model(field(1, field(5, attribute_bytes)))


def nested_if(depth: int) -> Any:
    made = graph([node("Identity", ["x"], [f"v{depth}"], "deepest")], (), (f"v{depth}",))
    for level in range(depth - 1, -1, -1):
        inner = node("If", ["c"], [f"v{level}"], f"if{level}", then_branch=made, else_branch=made_identity(level))
        made = graph([inner], (), (f"v{level}",))
    made.input.extend([info("x"), info("c", (), TensorProto.BOOL)])
    made.output[0].name = "v0"
    return model(made)


def made_identity(level: int) -> Any:
    return graph([node("Identity", ["x"], [f"e{level}"], f"else{level}")], (), (f"e{level}",))


# -- bytes that are no model ----------------------------------------------------------------------------------------


def add_bytes() -> None:
    case("bytes/empty", "ir_version", b"")
    case("bytes/zeros", "protobuf", bytes(64))
    case("bytes/text", "protobuf", b"this is no model at all, it is a sentence\n")
    case("bytes/zip", "protobuf", b"PK\x03\x04" + bytes(range(200)))
    case("bytes/png", "protobuf", b"\x89PNG\r\n\x1a\n" + bytes(range(100)))
    case("bytes/pickle", "protobuf", b"\x80\x04\x95\x0b\x00\x00\x00\x00\x00\x00\x00\x8c\x07builtin\x94.")
    case("bytes/json", "protobuf", b'{"ir_version": 8, "graph": {}}')
    whole = good().SerializeToString()
    for position in range(1, len(whole), max(1, len(whole) // 24)):
        case(f"bytes/truncated at {position}", "protobuf|graph|ir_version|opset_import", whole[:position])
    case("bytes/group", r"field 1 with wire type 3|wire type 3", b"\x0b\x0c")
    case("bytes/field zero", "field 0", b"\x00\x01")
    case("bytes/wire type 7", "wire type 7", whole + b"\x0f")
    case("bytes/long number", "ir_version", b"\x08" + b"\xff" * 11 + b"\x01")
    case("bytes/number of 65 bits", "ir_version", b"\x08" + b"\xff" * 9 + b"\x02")
    case("bytes/endless number", "ir_version", b"\x08\xff\xff")
    case("bytes/announced too much", "graph", b"\x08\x0a" + b"\x3a\xff\xff\xff\xff\x0f")
    case("bytes/announced 2^63", "graph", b"\x08\x0a" + b"\x3a" + b"\xff" * 9 + b"\x01")
    case("bytes/wrong wire type", r"graph: .*|graph", b"\x08\x0a\x38\x01")
    case("bytes/two graphs", "graph.*|twice", whole + field(7, b""))
    case("bytes/two versions", "ir_version", whole + b"\x08\x0a")
    case("bytes/no UTF-8 in a name", r"node\[0\].*", wire_model(field(1, field(4, b"\xff\xfe"))))
    case("bytes/half a surrogate", r"node\[0\].*", wire_model(field(1, field(4, b"\xed\xa0\x80"))))
    case("bytes/unknown fields", None, whole + field(999, b"from the future") + b"\xf8\x3f\x05")
    case("bytes/overlong tag", None, whole + b"\xf2\x80\x00\x00")
    case("bytes/many nodes", "Limits.nodes", lambda _: wire_model(b"\x0a\x00" * 2_000_000))
    case("bytes/many tensors", "Limits.fields", lambda _: wire_model(b"\x2a\x00" * 4_000_000))
    case("bytes/many inputs of a node", "Limits.fields", lambda _: wire_model(field(1, b"\x0a\x00" * 4_000_000)))
    case("bytes/many unknown fields", "Limits.fields", lambda _: b"\x08\x0a" + b"\xf8\x3f\x05" * 4_000_000)
    case("bytes/many numbers", "Limits.list_elements", lambda _: one_attribute(b"\x40\x7f" * 20_000_000))
    case("bytes/many packed numbers", "Limits.list_elements", lambda _: one_attribute(field(8, bytes(1 << 25))))
    case(
        "bytes/many attributes",
        "Limits.attributes",
        model([node("Relu", ["x"], ["y"], **dict.fromkeys(map("a{}".format, range(300)), 1))]),
    )
    case("bytes/long name", "Limits.name_bytes", model([node("Relu", ["x" * 100_000], ["y"])]))
    case("bytes/long operator", "Limits.name_bytes", model([node("R" * 100_000, ["x"], ["y"])]))
    add_nested_bytes()
    rng = random.Random(4)
    for number in range(60):
        case(f"bytes/mutated {number}", "", mutated(rng, whole))
    for number in range(12):
        case(f"bytes/random {number}", "", rng.randbytes(rng.choice([1, 7, 64, 4096])))


def add_nested_bytes() -> None:
    types = b""
    for _ in range(3000):
        types = field(4, field(1, types))
    case("bytes/deep types", "nesting", wire_model(field(11, field(1, b"x") + field(2, types))))
    graphs = b""
    for _ in range(2000):
        graphs = field(1, field(5, field(6, graphs)))
    case("bytes/deep graphs", "nesting", wire_model(graphs))
    case("bytes/If 100 deep", "nesting", lambda _: deep_ifs(100))
    case("bytes/If 20 deep", None, lambda _: nested_if(20))


def deep_ifs(depth: int) -> bytes:
    """Nested Ifs, deeper than protobuf's own writer would read again."""
    inner = field(1, field(2, b"v") + field(4, b"Identity")) + field(12, field(1, b"v"))
    for _ in range(depth):
        branch = field(5, field(1, b"then_branch") + b"\xa0\x01\x05" + field(6, inner))
        inner = field(1, field(2, b"v") + field(3, b"culprit") + field(4, b"If") + branch) + field(12, field(1, b"v"))
    return wire_model(inner)


def mutated(rng: random.Random, whole: bytes) -> bytes:
    data = bytearray(whole)
    for _ in range(rng.choice([1, 1, 2, 5, 20])):
        kind = rng.randrange(3)
        at = rng.randrange(len(data))
        if kind == 0:
            data[at] = rng.randrange(256)
        elif kind == 1:
            del data[at : at + rng.randrange(1, 5)]
        else:
            data[at:at] = rng.randbytes(rng.randrange(1, 5))
    return bytes(data)


# -- versions, domains, the whole -----------------------------------------------------------------------------------


def relu(**parts: Any) -> Any:
    return model([node("Relu", ["x"], ["y"])], **parts)


def changed(change: Callable[[Any], Any], made: Any = None) -> Any:
    made = made if made is not None else relu()
    change(made)
    return made


def add_versions() -> None:
    case("version/format 0", "ir_version", relu(ir=0))
    case("version/format missing", "ir_version", changed(lambda m: m.ClearField("ir_version")))
    case("version/format 99", "ir_version", relu(ir=99))
    case("version/format negative", "ir_version", relu(ir=-3))
    case("version/format huge", "ir_version", relu(ir=2**62))
    case("version/format 3", None, relu(ir=3, opset=8))
    case("version/no opset", "opset_import", changed(lambda m: m.ClearField("opset_import")))
    case("version/no opset in format 2", None, changed(lambda m: m.ClearField("opset_import"), with_old_relu()))
    case("version/opset 0", "opset_import", relu(imports=[("", 0)]))
    case("version/opset negative", "opset_import", relu(imports=[("", -1)]))
    case("version/opset 999", "opset_import.*999", relu(imports=[("", 999)]))
    case("version/opset 2^62", "opset_import", relu(imports=[("", 2**62)]))
    case("version/ml 99", "ai.onnx.ml", relu(imports=[("", 21), ("ai.onnx.ml", 99)]))
    case("version/two opsets", "opset_import.*13 and 14", relu(imports=[("", 13), ("", 14)]))
    case("version/two spellings", "opset_import.*13 and 14", relu(imports=[("", 13), ("ai.onnx", 14)]))
    case("version/the same twice", None, relu(imports=[("", 13), ("ai.onnx", 13)]))
    case("version/unknown domain unused", None, relu(imports=[("", 13), ("org.unknown", 7)]))
    case("version/unknown domain version 0", "org.unknown", relu(imports=[("", 13), ("org.unknown", 0)]))
    case(
        "version/domain not imported",
        "culprit.*domain",
        model([helper.make_node("Scaler", ["x"], ["y"], "culprit", domain="ai.onnx.ml")]),
    )
    case("version/standard domain not imported", "culprit.*domain", relu(imports=[("ai.onnx.ml", 3)]))
    case("model/no graph", "graph", changed(lambda m: m.ClearField("graph")))
    case("model/empty graph", "graph", model(onnx.GraphProto(name="g")))
    case("model/no outputs", "graph", changed(lambda m: m.graph.ClearField("output")))
    case("model/no nodes", None, model([], outputs=["x"]))
    case("model/training", None, changed(lambda m: m.training_info.add().algorithm.node.add(op_type="Nonsense")))
    case("model/documentation", None, changed(lambda m: setattr(m, "doc_string", "long " * 100_000)))
    case("model/metadata", None, changed(lambda m: m.metadata_props.add(key="author", value="ä" * 1000)))
    case(
        "model/metadata twice",
        "metadata 'author'",
        changed(lambda m: [m.metadata_props.add(key="author") for _ in "ab"]),
    )
    case(
        "model/much metadata",
        "Limits.metadata_entries",
        changed(lambda m: [m.metadata_props.add(key=str(n)) for n in range(20_000)]),
    )
    case("model/value_info of nothing", None, changed(lambda m: m.graph.value_info.add(name="nobody")))
    case(
        "model/nonsense annotations", None, changed(lambda m: m.graph.quantization_annotation.add(tensor_name="nobody"))
    )


def with_old_relu() -> Any:
    return model([node("Relu", ["x"], ["y"])], ir=2, opset=1)


# -- names ----------------------------------------------------------------------------------------------------------


def add_names() -> None:
    one = numpy_helper.from_array(np.ones(2, np.float32), "one")
    add = node("Add", ["x", "one"], ["y"], "sum")
    case("names/output twice", "culprit.*'y'", model([node("Relu", ["x"], ["y"], "a"), node("Abs", ["x"], ["y"])]))
    case("names/output twice in a node", "culprit.*'y'", model([node("Dropout", ["x"], ["y", "y"])]))
    case("names/output is an initializer", "culprit.*'one'", model([node("Relu", ["x"], ["one"]), add], tensors=[one]))
    case("names/output is an input", "culprit.*'x'", model([node("Relu", ["x"], ["x"])], outputs=["x"]))
    case("names/input twice", "inputs.*'x'", relu(inputs=["x", "x"]))
    case("names/initializer twice", "'one'.*another initializer", model([add], tensors=[one, one]))
    case("names/initializer without name", "tensor ''", model([add], tensors=[one, tensor("", (0,))]))
    case("names/input without name", "input.*name", relu(inputs=["x", ""]))
    case("names/output without name", "output.*name", relu(outputs=["y", ""]))
    case("names/undefined", "culprit.*'nobody'.*nothing defines", model([node("Add", ["x", "nobody"], ["y"])]))
    case("names/unsorted", "culprit.*'h'.*later", model([node("Relu", ["h"], ["y"]), node("Abs", ["x"], ["h"], "b")]))
    case("names/reads itself", "culprit.*'y'", model([node("Add", ["x", "y"], ["y"])]))
    loop = [node("Add", ["x", "b"], ["a"]), node("Relu", ["a"], ["b"], "back")]
    case("names/cycle", "culprit.*'b'", model(loop, outputs=["a"]))
    case("names/output that nobody computes", "output 'culprit'", relu(outputs=["y", "culprit"]))
    case("names/only an output that nobody computes", "output 'y'", model([], outputs=["y"]))
    case("names/branch output undefined", "output 'culprit'", if_model(graph([], (), ("culprit",))))
    case("names/branch reads a later name", "inner.*'late'", late_reader())
    shadow = graph([node("Abs", ["x"], ["h"]), node("Neg", ["h"], ["t"], "n")], (), ("t",))
    case("names/branch shadows", "culprit.*'h'", if_model(shadow, before=[node("Relu", ["x"], ["h"], "outer")]))
    case(
        "names/branch redefines an outer input",
        "culprit.*'x'",
        if_model(graph([node("Abs", ["x"], ["x"])], (), ("x",))),
    )
    case("names/branch output read outside", "culprit.*'t'", if_model(branch("t"), after=[node("Abs", ["t"], ["z"])]))
    case("names/both branches use a name", None, if_model(branch("t"), branch("t")))
    case("names/branch returns an outer value", None, if_model(graph([], (), ("x",))))
    case(
        "names/unicode",
        None,
        model([node("Relu", ["größe/ä.1"], ["出力"], "узел ∞")], inputs=["größe/ä.1"], outputs=["出力"]),
    )
    case(
        "names/emoji and direction marks",
        None,
        model([node("Relu", ["🦜"], ["\u202ey"])], inputs=["🦜"], outputs=["\u202ey"]),
    )
    case(
        "names/paths and dots",
        None,
        model([node("Relu", ["../../etc/x:0"], ["a.b/c"])], inputs=["../../etc/x:0"], outputs=["a.b/c"]),
    )
    case("names/spaces and newlines", None, model([node("Relu", ["a b"], ["c\nd"])], inputs=["a b"], outputs=["c\nd"]))
    case("names/zero bytes", None, model([node("Relu", ["a\0b"], ["c"])], inputs=["a\0b"], outputs=["c"]))
    case(
        "names/format directives",
        None,
        model([node("Relu", ["%s%n{0}"], ["{x}"])], inputs=["%s%n{0}"], outputs=["{x}"]),
    )
    case("names/nodes without names", None, model([node("Relu", ["x"], ["h"], ""), node("Abs", ["h"], ["y"], "")]))
    case("names/nodes of one name", None, model([node("Relu", ["x"], ["h"], "n"), node("Abs", ["h"], ["y"], "n")]))
    case("names/error in a node without name", "Abs node that computes 'y'", model([node("Abs", ["q"], ["y"], "")]))
    case(
        "names/absent optional inputs",
        None,
        model([node("Clip", ["x", "", "high"], ["y"])], inputs=["x", info("high", ())]),
    )
    case(
        "names/absent optional output",
        None,
        model([node("LSTM", ["x", "w", "r"], ["", "h"], hidden_size=2)], inputs=["x", "w", "r"], outputs=["h"]),
    )
    case("names/absent input that is needed", "culprit.*input 1", model([node("Add", ["x", ""], ["y"])]))
    case("names/output listed twice", None, relu(outputs=["y", "y"]))
    case("names/input is output", None, relu(outputs=["y", "x"]))
    case("names/initializer is output", None, model([], outputs=["one"], tensors=[one]))
    case("names/initializer is input", None, model([add], inputs=["x", "one"], tensors=[one]))
    case("names/unused input", None, relu(inputs=["x", "unused"]))
    case(
        "names/20,000 nodes",
        None,
        model([node("Relu", [f"v{n}"], [f"v{n + 1}"], "") for n in range(20_000)], inputs=["v0"], outputs=["v20000"]),
    )


def branch(name: str) -> Any:
    return graph([node("Neg", ["x"], [name], f"gives {name}")], (), (name,))


def if_model(then: Any, other: Any = None, before: Any = (), after: Any = (), outputs: Any = ("y",)) -> Any:
    inner = node("If", ["c"], outputs, "choice", then_branch=then, else_branch=other or branch("e"))
    return model([*before, inner, *after], inputs=["x", info("c", (), TensorProto.BOOL)])


def late_reader() -> Any:
    then = graph([node("Abs", ["late"], ["t"], "inner")], (), ("t",))
    return if_model(then, after=[node("Abs", ["x"], ["late"], "after")])


# -- operators and their attributes ---------------------------------------------------------------------------------


def attribute(name: str, **fields: Any) -> Any:
    made = onnx.AttributeProto(name=name)
    for key, value in fields.items():
        if isinstance(value, list):
            getattr(made, key).extend(value)
        elif isinstance(value, int | float | str | bytes):
            setattr(made, key, value)
        else:
            getattr(made, key).CopyFrom(value)
    return made


def with_attributes(*attributes: Any, op: str = "LeakyRelu") -> Any:
    made = node(op, ["x"], ["y"])
    made.attribute.extend(attributes)
    return model([made])


def add_operators() -> None:
    for op, inputs in (
        ("Relu", 0),
        ("Relu", 2),
        ("Add", 1),
        ("Add", 3),
        ("Conv", 4),
        ("Conv", 1),
        ("Where", 2),
        ("Gemm", 9),
    ):
        case(f"operator/{op} of {inputs}", "culprit.*inputs", model([node(op, ["x"] * inputs, ["y"])]))
    case("operator/no outputs", "culprit.*outputs", model([node("Relu", ["x"], []), node("Abs", ["x"], ["y"], "b")]))
    case("operator/two outputs", "culprit.*outputs", model([node("Relu", ["x"], ["y", "z"])]))
    case("operator/unnamed output", "Relu.*outputs", model([node("Relu", ["x"], [""]), node("Abs", ["x"], ["y"], "b")]))
    case("operator/none", "culprit.*op_type", model([node("", ["x"], ["y"])]))
    case("operator/unknown", "culprit.*Nonsense", model([node("Nonsense", ["x"], ["y"])]))
    case("operator/several unknown", "3 that are not: Bad.*, Nonsense.*, org.x.Own", several_unknown())
    case("operator/unicode", "culprit.*Рельу", model([node("Рельу", ["x"], ["y"])]))
    case("operator/zero byte", "culprit.*Relu", model([node("Relu\0", ["x"], ["y"])]))
    case("operator/case", "culprit.*relu", model([node("relu", ["x"], ["y"])]))
    case("operator/deprecated", "culprit.*Upsample", model([node("Upsample", ["x", "x"], ["y"])]))
    case("operator/newer than the opset", "culprit.*Gelu", model([node("Gelu", ["x"], ["y"])], opset=13))
    case(
        "operator/overload of a standard one",
        "culprit.*Relu",
        changed(lambda m: setattr(m.graph.node[0], "overload", "mine")),
    )
    case(
        "operator/standard domain by its long name",
        None,
        changed(lambda m: setattr(m.graph.node[0], "domain", "ai.onnx")),
    )
    case("attribute/unknown", "culprit.*'colour'", model([node("Relu", ["x"], ["y"], colour=3)]))
    case("attribute/private", None, model([node("Relu", ["x"], ["y"], __colour=3)]))
    case("attribute/of another version", "culprit.*'ratio'", model([node("Dropout", ["x"], ["y"], ratio=0.5)]))
    case("attribute/of this version", None, model([node("Dropout", ["x"], ["y"], ratio=0.5)], opset=10))
    case("attribute/axes of Squeeze 13", "culprit.*'axes'", model([node("Squeeze", ["x"], ["y"], axes=[0])]))
    case("attribute/axes of Squeeze 11", None, model([node("Squeeze", ["x"], ["y"], axes=[0])], opset=11))
    case("attribute/wrong type", "culprit.*'alpha'", model([node("LeakyRelu", ["x"], ["y"], alpha="much")]))
    case("attribute/integer for a float", "culprit.*'alpha'", model([node("LeakyRelu", ["x"], ["y"], alpha=1)]))
    case("attribute/missing", "culprit.*'to'", model([node("Cast", ["x"], ["y"])]))
    case("attribute/twice", "culprit.*'alpha'", with_attributes(*[attribute("alpha", type=1, f=1.0)] * 2))
    case("attribute/without name", "culprit.*attribute", with_attributes(attribute("", type=1, f=1.0)))
    case("attribute/type 99", r"node\[0\]|culprit.*type 99", wire_attribute(b"\xa0\x01\x63"))
    case("attribute/type -1", "culprit.*type -1", wire_attribute(b"\xa0\x01" + b"\xff" * 9 + b"\x01"))
    case("attribute/no type", None, with_attributes(attribute("alpha", f=1.0)))
    case("attribute/nothing", "culprit.*'alpha'", with_attributes(attribute("alpha")))
    case("attribute/two values and no type", "culprit.*'alpha'", with_attributes(attribute("alpha", f=1.0, i=1)))
    case("attribute/value of another type", "culprit.*'alpha'", with_attributes(attribute("alpha", type=1, i=1)))
    case("attribute/two values", "culprit.*'alpha'", with_attributes(attribute("alpha", type=1, f=1.0, i=1)))
    case("attribute/default left out", None, with_attributes(attribute("alpha", type=1)))
    case("attribute/no tensor", "culprit.*'value'", with_attributes(attribute("value", type=4), op="Constant"))
    case("attribute/no graph", "culprit.*'then_branch'", with_attributes(attribute("then_branch", type=5), op="If"))
    case(
        "attribute/reference outside a function",
        "culprit.*'alpha'",
        with_attributes(attribute("alpha", type=1, ref_attr_name="a")),
    )
    case("attribute/string that is no text", None, with_attributes(attribute("__s", type=3, s=b"\xff\xfe")))
    case("attribute/list of nothing", None, with_attributes(attribute("__i", type=7)))
    case(
        "body/If without else",
        "choice.*_branch'",
        changed(lambda m: m.graph.node[0].attribute.pop(), if_model(branch("t"))),
    )
    case(
        "body/If with inputs",
        "choice.*inputs of then_branch",
        if_model(graph([node("Neg", ["q"], ["t"])], ("q",), ("t",))),
    )
    case(
        "body/If with more outputs",
        "choice.*outputs of then_branch",
        if_model(graph([node("Neg", ["x"], ["t"])], (), ("t", "t"))),
    )
    case(
        "body/If with fewer outputs",
        "choice.*outputs of then_branch",
        if_model(graph([node("Neg", ["x"], ["t"])], (), ())),
    )
    case("body/If as a value", "culprit.*_branch'", model([node("If", ["x"], ["y"], then_branch=1, else_branch=2)]))
    for inputs, outputs, wrong in ((2, 2, "inputs"), (4, 2, "inputs"), (3, 1, "outputs"), (3, 3, "outputs")):
        case(f"body/Loop {inputs} to {outputs}", f"culprit.*{wrong} of body", loop_model(inputs, outputs))
    case("body/Loop", None, loop_model(3, 2))
    for scanned in (0, -1, 2, 2**40):
        case(f"body/Scan of {scanned}", "culprit.*num_scan_inputs", scan_model(scanned))
    case("body/Scan with another input", "culprit.*inputs of body", scan_model(1, ("a", "c")))
    case("body/Scan", None, scan_model(1))
    sequence = helper.make_tensor_sequence_value_info("s", FLOAT, None)
    mapped = node("SequenceMap", ["s"], ["y"], body=graph([node("Neg", ["q"], ["t"], "i")], ("q",), ("t", "q")))
    case("body/SequenceMap", "culprit.*outputs of body", model([mapped], inputs=[sequence]))


def wire_attribute(kind: bytes) -> bytes:
    made = field(1, b"x") + field(2, b"y") + field(3, b"culprit") + field(4, b"LeakyRelu")
    made += field(5, field(1, b"alpha") + kind + b"\x15\x00\x00\x80\x3f")
    return wire_model(field(1, made) + field(11, field(1, b"x")) + field(12, field(1, b"y")))


def several_unknown() -> Any:
    own = helper.make_node("Own", ["a"], ["b"], "o", domain="org.x")
    nodes = [node("Nonsense", ["x"], ["a"]), own, node("Bad", ["b"], ["c"], "p"), node("Bad", ["c"], ["y"], "q")]
    return model(nodes, imports=[("", 21), ("org.x", 1)])


def loop_model(inputs: int, outputs: int) -> Any:
    names = ["i", "go", "state", "more"][:inputs]
    body = graph([node("Identity", ["go"], ["again"], "i")], names, ["again", "x", "x"][:outputs])
    return model([node("Loop", ["n", "c", "x"], ["y"], body=body)], inputs=["x", info("n", (), 7), info("c", (), 9)])


def scan_model(scanned: int, names: Any = ("a",)) -> Any:
    body = graph([node("Neg", ["a"], ["b"], "i")], names, ("b",))
    return model([node("Scan", ["x"], ["y"], body=body, num_scan_inputs=scanned)])


# -- tensors --------------------------------------------------------------------------------------------------------

_RAW_BITS = {
    TensorProto.FLOAT: 32, TensorProto.UINT8: 8, TensorProto.INT8: 8, TensorProto.UINT16: 16, TensorProto.INT16: 16,
    TensorProto.INT32: 32, TensorProto.INT64: 64, TensorProto.BOOL: 8, TensorProto.FLOAT16: 16, TensorProto.DOUBLE: 64,
    TensorProto.UINT32: 32, TensorProto.UINT64: 64, TensorProto.COMPLEX64: 64, TensorProto.COMPLEX128: 128,
    TensorProto.BFLOAT16: 16, TensorProto.FLOAT8E4M3FN: 8, TensorProto.FLOAT8E5M2FNUZ: 8, TensorProto.UINT4: 4,
    TensorProto.INT4: 4,
}  # fmt: skip


def add_tensors() -> None:
    for dtype, bits in _RAW_BITS.items():
        name, size = TensorProto.DataType.Name(dtype), (5 * bits + 7) // 8
        case(f"tensor/{name} raw", None, with_tensor(tensor(dims=(5,), dtype=dtype, raw_data=bytes(size))))
        case(
            f"tensor/{name} raw too short",
            "culprit.*raw_data",
            with_tensor(tensor(dims=(5,), dtype=dtype, raw_data=bytes(size - 1))),
        )
        case(
            f"tensor/{name} raw too long",
            "culprit.*raw_data",
            constant(tensor(dims=(5,), dtype=dtype, raw_data=bytes(size + 1))).SerializeToString(),
        )
    for dims in ((-1,), (2, -(2**63)), (-3, -3)):
        case(f"tensor/dims {dims}", "culprit.*dims", with_tensor(tensor(dims=dims, raw_data=bytes(8))))
    for dims in ((2**40,), (2**62, 2**62), (2**32, 2**32), (2**63 - 1,), (3, 2**62, 4)):
        case(
            f"tensor/dims {dims}", "culprit.*(tensor elements|dims)", with_tensor(tensor(dims=dims, raw_data=bytes(8)))
        )
    case(
        "tensor/dims with overflow to the right size",
        "culprit.*(elements|dims)",
        with_tensor(tensor(dims=(2**32 + 1, 2**32), raw_data=bytes(16))),
    )
    case("tensor/empty and huge", "culprit.*dims", with_tensor(tensor(dims=(0, 2**62, 2**62))))
    case("tensor/empty and large", None, with_tensor(tensor(dims=(0, 2**40))))
    case("tensor/empty with data", "culprit.*raw_data", with_tensor(tensor(dims=(0,), raw_data=b"1234")))
    case("tensor/rank 33", "culprit.*rank", with_tensor(tensor(dims=[1] * 33, raw_data=bytes(4))))
    case("tensor/rank 100,000", "culprit.*rank", with_tensor(tensor(dims=[1] * 100_000, raw_data=bytes(4))))
    case(
        "tensor/16 GiB that are not there",
        "culprit.*(raw_data|tensor.bytes)",
        with_tensor(tensor(dims=(2**32,), raw_data=b"")),
    )
    for dtype in (0, 29, 99, -1, 2**31 - 1):
        case(f"tensor/type {dtype}", "culprit.*data_type", with_tensor(tensor(dtype=dtype, raw_data=bytes(8))))
    case(
        "tensor/no type",
        "culprit.*data_type",
        changed(lambda m: m.graph.initializer[0].ClearField("data_type"), with_tensor(tensor(raw_data=bytes(8)))),
    )
    case("tensor/no data", "culprit.*(float_data|raw_data)", with_tensor(tensor()))
    case("tensor/scalar without data", "culprit.*(float_data|raw_data)", with_tensor(tensor(dims=())))
    case("tensor/two fields", "culprit.*values", with_tensor(tensor(raw_data=bytes(8), float_data=[1.0, 2.0])))
    case("tensor/two typed fields", "culprit.*values", with_tensor(tensor(int64_data=[1, 2], float_data=[1.0, 2.0])))
    case("tensor/wrong field", "culprit.*values", with_tensor(tensor(int64_data=[1, 2])))
    case("tensor/too few values", "culprit.*float_data", with_tensor(tensor(float_data=[1.0])))
    case(
        "tensor/too many values",
        "culprit.*int64_data",
        with_tensor(tensor(dtype=TensorProto.INT64, int64_data=[1, 2, 3])),
    )
    case(
        "tensor/half a complex",
        "culprit.*float_data",
        with_tensor(tensor(dtype=TensorProto.COMPLEX64, float_data=[1.0, 2.0, 3.0])),
    )
    for dtype, value in ((2, 256), (2, -1), (3, 128), (4, 65536), (5, -32769), (10, 65536), (16, -40000), (17, 256)):
        case(
            f"tensor/type {dtype} value {value}",
            "culprit.*int32_data",
            with_tensor(tensor(dtype=dtype, int32_data=[0, value])),
        )
    case(
        "tensor/uint32 of 33 bits",
        "culprit.*uint64_data",
        with_tensor(tensor(dtype=TensorProto.UINT32, uint64_data=[1, 2**32])),
    )
    case(
        "tensor/segment",
        "culprit.*segment",
        changed(lambda m: setattr(m.graph.initializer[0].segment, "begin", 0), with_tensor(tensor(raw_data=bytes(8)))),
    )
    strings = tensor(dtype=TensorProto.STRING, string_data=[b"a", b"b"])
    case("tensor/strings", None, with_tensor(strings))
    case("tensor/strings raw", "culprit.*values", with_tensor(tensor(dtype=TensorProto.STRING, raw_data=b"ab")))
    case(
        "tensor/strings too few",
        "culprit.*string_data",
        with_tensor(tensor(dtype=TensorProto.STRING, string_data=[b"a"])),
    )
    case(
        "tensor/strings that are no text",
        "culprit.*string_data",
        with_tensor(tensor(dtype=TensorProto.STRING, string_data=[b"a", b"\xff"])),
    )
    case("tensor/location 7", "culprit.*data_location", wire_tensor(b"\x70\x07" + field(9, bytes(8))))
    case("tensor/packed floats cut", "culprit.*float_data", wire_tensor(field(4, bytes(7))))
    case("tensor/packed number cut", "culprit.*int64_data", wire_tensor(field(7, b"\x01\x80"), 7))
    case(
        "tensor/packed number too long",
        "culprit.*int64_data",
        wire_tensor(field(7, b"\x01" + b"\xff" * 11 + b"\x01"), 7),
    )
    case("tensor/floats one by one", None, wire_tensor(b"\x25\x00\x00\x80\x3f" * 2))
    case("tensor/floats as numbers", "culprit.*float_data", wire_tensor(b"\x20\x01\x20\x02"))
    case("tensor/integers as floats", "culprit.*int64_data", wire_tensor(b"\x3d\x00\x00\x80\x3f" * 2, 7))
    case("tensor/in an attribute", "culprit.*raw_data", constant(tensor("t", raw_data=bytes(7))))
    case(
        "tensor/in a branch",
        "culprit.*raw_data",
        if_model(graph([node("Constant", [], ["t"], value=tensor("t", raw_data=b"1"))], (), ("t",))),
    )
    case(
        "tensor/branch initializer",
        "culprit.*raw_data",
        if_model(graph([node("Neg", ["culprit"], ["t"], "n")], (), ("t",), [tensor(raw_data=b"1")])),
    )
    case(
        "tensor/in a list of graphs",
        "culprit.*raw_data",
        with_attributes(attribute("__g", type=10, graphs=[graph([], (), (), [tensor(raw_data=b"1")])])),
    )
    case(
        "tensor/in a list of tensors",
        "culprit.*raw_data",
        with_attributes(attribute("__t", type=9, tensors=[tensor("t", raw_data=b"1")])),
    )


def wire_tensor(fields: bytes, dtype: int = 1) -> bytes:
    made = b"\x08\x02" + b"\x10" + varint(dtype) + field(8, b"culprit") + fields
    return wire_model(field(5, made) + field(12, field(1, b"culprit")))


# -- external data --------------------------------------------------------------------------------------------------


def external(name: str = "culprit", dims: Any = (2,), dtype: int = FLOAT, **entries: str) -> Any:
    made = tensor(name, dims, dtype, data_location=TensorProto.EXTERNAL)
    for key, value in entries.items():
        made.external_data.add(key=key, value=value)
    return made


def beside(prepare: Callable[[pathlib.Path], Any], **entries: str) -> Make:
    """A model whose tensor is in `location`, after the folder was prepared."""

    def make(folder: pathlib.Path) -> Any:
        prepare(folder)
        return with_tensor(external(**{"location": "data.bin", **entries}))

    return make


def weights(folder: pathlib.Path, size: int = 8) -> None:
    (folder / "data.bin").write_bytes(np.arange(size, dtype=np.uint8).tobytes())


def nothing(_: pathlib.Path) -> None:
    """Nothing to prepare."""


def linked(target: str, name: str = "data.bin") -> Callable[[pathlib.Path], None]:
    return lambda folder: os.symlink(target, folder / name)


def add_external() -> None:
    bad = "culprit.*external_data"
    for location in (
        "/etc/passwd",
        f"../{SECRET}",
        f"./../{SECRET}",
        f"a/../../{SECRET}",
        f"..\\{SECRET}",
        "C:\\boot.ini",
        "C:x",
        "\\\\server\\share",
        "/dev/zero",
        "/proc/self/environ",
        "",
        ".",
        "./",
        "..",
        "../",
        "missing.bin",
        "data.bin/",
        "a\0b",
        "file:///etc/passwd",
        "~/.profile",
        "$HOME/.profile",
        "x" * 300,
        "d/" * 3000 + "x",
        "//etc/passwd",
        "http://localhost/x",
    ):
        shown = re.sub(r"[^\w./\\:~$]", "?", location)[:40]
        case(f"external/location {shown!r} {len(location)}", bad, beside(nothing, location=location))
    case("external/no location", bad, with_tensor(external(offset="0")))
    case("external/no entries", bad, with_tensor(external()))
    case("external/link out", bad, beside(linked(f"../{SECRET}")))
    case("external/absolute link out", bad, beside(linked("/etc/passwd")))
    case(
        "external/link to a link out",
        bad,
        beside(lambda f: (os.symlink(f"../{SECRET}", f / "a"), os.symlink("a", f / "data.bin"))),
    )
    case("external/link to a device", bad, beside(linked("/dev/zero")))
    case("external/link to the process", bad, beside(linked("/proc/self/mem")))
    case("external/link to itself", bad, beside(linked("data.bin")))
    case("external/dangling link", bad, beside(linked("missing")))
    case("external/linked folder", bad, beside(linked("..", "up"), location=f"up/{SECRET}"))
    case("external/hard link", bad, beside(lambda f: os.link(f.parent / SECRET, f / "data.bin")))
    case("external/two hard links inside", bad, beside(lambda f: (weights(f), os.link(f / "data.bin", f / "other"))))
    case("external/pipe", bad, beside(lambda f: os.mkfifo(f / "data.bin")))
    case("external/folder", bad, beside(lambda f: (f / "data.bin").mkdir()))
    case("external/socket", bad, beside(with_socket))
    case("external/empty file", bad, beside(lambda f: weights(f, 0)))
    case("external/file too short", bad, beside(lambda f: weights(f, 7)))
    for offset in ("1", "8", "-1", "9" * 18, "9" * 40, "abc", "1e0", " 0", "0x0", "٠", "", "+0", "0.0"):
        case(f"external/offset {offset!r}", f"{bad}", beside(weights, offset=offset))
    for length in ("7", "9", "0", "-8", "9" * 30, "abc", "8.0", ""):
        case(f"external/length {length!r}", bad, beside(weights, length=length))
    case("external/length beyond the file", bad, beside(weights, offset="4", length="8"))
    case("external/checksum wrong", f"{bad}.checksum", beside(weights, checksum="0" * 40))
    case("external/checksum", None, beside(weights, checksum=hashlib.sha1(bytes(range(8))).hexdigest()))
    case(
        "external/entry twice",
        bad,
        changed(
            lambda m: m.graph.initializer[0].external_data.add(key="location", value="b"),
            with_tensor(external(location="a")),
        ),
    )
    case("external/no UTF-8", bad, wire_tensor(b"\x70\x01" + field(13, field(1, b"location") + field(2, b"\xff\xfe"))))
    case(
        "external/strings",
        "culprit.*data_location",
        with_tensor(external(dtype=TensorProto.STRING, location="data.bin")),
    )
    case(
        "external/also inside",
        "culprit.*values",
        after(
            weights,
            changed(
                lambda m: setattr(m.graph.initializer[0], "raw_data", bytes(8)),
                with_tensor(external(location="data.bin")),
            ),
        ),
    )
    case("external/dims negative", "culprit.*dims", with_tensor(external(dims=(-2,), location="data.bin")))
    case("external/file of 1 TiB of nothing", "culprit.*(elements|tensor bytes)", beside_dims(2**38, 2**40))
    case("external/file of 8 GiB of nothing", "culprit.*(tensor bytes|memory)", beside_dims(2**31, 2**33))
    case("external/in an attribute", bad, constant(external("t", location=f"../{SECRET}")))
    case(
        "external/in a branch",
        bad,
        if_model(graph([node("Constant", [], ["t"], value=external("t", location="/etc/passwd"))], (), ("t",))),
    )
    case(
        "external/branch initializer",
        bad,
        if_model(graph([node("Neg", ["culprit"], ["t"], "n")], (), ("t",), [external(location="/etc/passwd")])),
    )
    case(
        "external/in a function",
        "external_data",
        in_function(node("Constant", [], ["b"], value=external("t", location="/etc/passwd"))),
    )
    case(
        "external/default of a function",
        "external_data",
        lambda _: function_default(external("t", location="/etc/passwd")),
    )
    case("external/sparse values", bad, sparse_model(values=external(dims=(1,), location=f"../{SECRET}")))
    case(
        "external/sparse indices",
        bad,
        sparse_model(indices=external("i", (1,), TensorProto.INT64, location="/etc/passwd")),
    )
    case("external/unused tensor", bad, changed(lambda m: m.graph.initializer.append(external(location="/etc/passwd"))))
    case("external/here", None, beside(weights))
    case("external/with offset", None, beside(lambda f: weights(f, 30), offset="4", length="8"))
    case(
        "external/in a folder",
        None,
        beside(lambda f: ((f / "sub").mkdir(), (f / "sub" / "w").write_bytes(bytes(8))), location="sub/w"),
    )
    case(
        "external/link inside",
        None,
        beside(lambda f: ((f / "real").write_bytes(bytes(8)), os.symlink("real", f / "data.bin"))),
    )
    case("external/unknown entries", None, beside(weights, colour="blue"))
    case(
        "external/int4",
        None,
        after(lambda f: weights(f, 3), with_tensor(external(dims=(5,), dtype=TensorProto.INT4, location="data.bin"))),
    )
    case(
        "external/no elements",
        None,
        after(lambda f: weights(f, 0), with_tensor(external(dims=(0,), location="data.bin"))),
    )


def after(prepare: Callable[[pathlib.Path], Any], made: Any = None) -> Make:
    """A model, or nothing more, after the folder was prepared."""

    def make(folder: pathlib.Path) -> Any:
        prepare(folder)
        return made

    return make


def with_socket(folder: pathlib.Path) -> None:
    here = os.getcwd()
    os.chdir(folder)  # names of sockets are short
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind("data.bin")
    finally:
        os.chdir(here)


def beside_dims(elements: int, size: int) -> Make:
    def make(folder: pathlib.Path) -> Any:
        with open(folder / "data.bin", "wb") as file:
            file.truncate(size)
        return with_tensor(external(dims=(elements,), location="data.bin"))

    return make


# -- sparse tensors -------------------------------------------------------------------------------------------------


def sparse(values: Any = None, indices: Any = None, dims: Any = (4,)) -> Any:
    made = onnx.SparseTensorProto(dims=dims)
    made.values.CopyFrom(tensor(dims=(1,), float_data=[1.0]) if values is None else values)
    made.indices.CopyFrom(indexed([0]) if indices is None else indices)
    return made


def indexed(values: list[int], dims: Any = None, dtype: int = TensorProto.INT64) -> Any:
    fields = {"int64_data" if dtype == TensorProto.INT64 else "int32_data": values}
    return tensor("indices", dims or (len(values),), dtype, **fields)


def sparse_model(**parts: Any) -> Any:
    made = model([node("Identity", ["culprit"], ["y"], "user")], outputs=[info("y", None)])
    made.graph.sparse_initializer.append(sparse(**parts))
    return made


def add_sparse() -> None:
    two = tensor(dims=(2,), float_data=[1.0, 2.0])
    for indices in ([4], [-1], [2**62], [-(2**63)]):
        case(f"sparse/index {indices}", "culprit.*indices", sparse_model(indices=indexed(indices)))
    case("sparse/descending", "culprit.*indices", sparse_model(values=two, indices=indexed([2, 1])))
    case("sparse/twice", "culprit.*indices", sparse_model(values=two, indices=indexed([1, 1])))
    case(
        "sparse/pairs descending",
        "culprit.*indices",
        sparse_model(values=two, indices=indexed([1, 0, 0, 1], (2, 2)), dims=(2, 2)),
    )
    case(
        "sparse/pair outside",
        "culprit.*indices",
        sparse_model(values=two, indices=indexed([0, 0, 1, 2], (2, 2)), dims=(2, 2)),
    )
    case("sparse/int32 indices", "culprit.*indices", sparse_model(indices=indexed([0], dtype=TensorProto.INT32)))
    case("sparse/too few indices", "culprit.*indices", sparse_model(values=two))
    case(
        "sparse/indices of another rank",
        "culprit.*indices",
        sparse_model(indices=indexed([0, 0, 0], (1, 3)), dims=(2, 2)),
    )
    case("sparse/indices of rank 3", "culprit.*indices", sparse_model(indices=indexed([0], (1, 1, 1))))
    case("sparse/values of rank 2", "culprit.*values", sparse_model(values=tensor(dims=(1, 1), float_data=[1.0])))
    case("sparse/values cut", "culprit.*raw_data", sparse_model(values=tensor(dims=(1,), raw_data=b"12")))
    case("sparse/strings", "culprit.*values", sparse_model(values=tensor(dims=(1,), dtype=8, string_data=[b"a"])))
    case("sparse/no dims", "culprit.*dims", sparse_model(dims=()))
    case("sparse/negative dims", "culprit.*dims", sparse_model(dims=(-4,)))
    for dims in ((2**30,), (2**16, 2**16), (2**62,), (2**40, 2**40)):
        case(f"sparse/dense form {dims}", "culprit.*(sparse bytes|elements)", sparse_model(dims=dims))
    case("sparse/many large ones", "sparse bytes", lambda _: many_sparse())
    case("sparse/no name", "sparse tensor ''", sparse_model(values=tensor("", (1,), float_data=[1.0])))
    case(
        "sparse/name of an initializer",
        "culprit",
        changed(lambda m: m.graph.initializer.append(tensor(raw_data=bytes(8))), sparse_model()),
    )
    case(
        "sparse/no values",
        "sparse tensor",
        changed(lambda m: m.graph.sparse_initializer[0].ClearField("values"), sparse_model()),
    )
    case(
        "sparse/no indices",
        "culprit.*sparse tensor",
        changed(lambda m: m.graph.sparse_initializer[0].ClearField("indices"), sparse_model()),
    )
    value = attribute("sparse_value", type=11, sparse_tensor=sparse(indices=indexed([9])))
    case("sparse/in an attribute", "culprit.*indices", sparse_constant(value))
    case("sparse/attribute", None, sparse_constant(attribute("sparse_value", type=11, sparse_tensor=sparse())))
    case("sparse/linear", None, sparse_model(values=two, indices=indexed([1, 3])))
    case("sparse/pairs", None, sparse_model(values=two, indices=indexed([0, 1, 1, 0], (2, 2)), dims=(2, 2)))
    case("sparse/nothing", None, sparse_model(values=tensor(dims=(0,)), indices=indexed([], (0,))))


def many_sparse() -> Any:
    made = sparse_model()
    for number in range(200):
        made.graph.sparse_initializer.append(sparse(tensor(f"s{number}", (1,), float_data=[1.0]), dims=(2**20,)))
    return made


def sparse_constant(value: Any) -> Any:
    made = node("Constant", [], ["y"])
    made.attribute.append(value)
    return model([made], inputs=(), outputs=[info("y", None)])


# -- functions ------------------------------------------------------------------------------------------------------


def function(
    name: str, nodes: Any, inputs: Any = ("a",), outputs: Any = ("b",), attributes: Any = (), **more: Any
) -> Any:
    return helper.make_function(
        "local",
        name,
        inputs,
        outputs,
        list(nodes),
        [helper.make_opsetid("", 21), helper.make_opsetid("local", 1)],
        list(attributes),
        **more,
    )


def call(name: str, inputs: Any = ("x",), outputs: Any = ("y",), label: str = "call", **attributes: Any) -> Any:
    return helper.make_node(name, list(inputs), list(outputs), label, domain="local", **attributes)


def calling(*functions: Any, nodes: Any = None) -> Any:
    return model(nodes or [call("f0")], functions=functions, imports=[("", 21), ("local", 1)])


def in_function(*nodes: Any, **parts: Any) -> Any:
    return calling(function("f0", nodes, **parts))


def function_default(value: Any) -> Any:
    made = function("f0", [node("Relu", ["a"], ["b"])])
    made.attribute_proto.append(attribute("t", type=4, t=value))
    return calling(made)


def doubling(levels: int) -> Any:
    steps = [[call(f"f{n + 1}", ["a"], ["m"]), call(f"f{n + 1}", ["m"], ["b"], "again")] for n in range(levels)]
    return calling(
        *[function(f"f{n}", nodes) for n, nodes in enumerate(steps)],
        function(f"f{levels}", [node("Relu", ["a"], ["b"])]),
    )


def chain(levels: int) -> Any:
    made = [function(f"f{n}", [call(f"f{n + 1}", ["a"], ["b"])]) for n in range(levels)]
    return calling(*made, function(f"f{levels}", [node("Relu", ["a"], ["b"])]))


def add_functions() -> None:
    case("function/recursion", "f0.*recursion", in_function(call("f0", ["a"], ["b"])))
    mutual = [function("f0", [call("f1", ["a"], ["b"])]), function("f1", [call("f0", ["a"], ["b"])])]
    case("function/mutual recursion", "f[01].*recursion", calling(*mutual))
    three = [function(f"f{n}", [call(f"f{(n + 1) % 3}", ["a"], ["b"])]) for n in range(3)]
    case("function/recursion of three", "f[012].*recursion", calling(*three))
    hidden = graph([call("f0", ["a"], ["t"])], (), ("t",))
    recursing = node("If", ["a"], ["b"], then_branch=hidden, else_branch=hidden)
    case("function/recursion in a branch", "f0.*recursion", in_function(recursing))
    case(
        "function/recursion that nobody calls",
        "f9.*recursion",
        changed(lambda m: m.functions.append(function("f9", [call("f9", ["a"], ["b"])]))),
    )
    for levels in (25, 40, 64, 900):
        case(f"function/doubling {levels} times", "function 'f.*(expanded nodes|nesting)", doubling(levels))
    case("function/doubling 12 times", None, doubling(12))
    case("function/chain of 100", "function 'f.*nesting", chain(100))
    case("function/chain of 5,000", "function 'f.*nesting", lambda _: chain(5000))
    case("function/chain of 30", None, chain(30))
    body = node("Relu", ["a"], ["b"])
    case(
        "function/wide",
        "expanded nodes",
        calling(
            function("f0", [node("Relu", ["a"], [f"r{n}" if n else "b"], "") for n in range(2000)]),
            nodes=[call("f0", outputs=[f"y{n}" if n else "y"]) for n in range(2000)],
        ),
    )
    case("function/many", "Limits.functions", calling(*[function(f"f{n}", []) for n in range(10_001)]))
    case("function/twice", "f0.*two", calling(function("f0", [body]), function("f0", [body])))
    case("function/no name", "a function.*name", calling(function("f0", [body]), function("", [body])))
    case("function/undefined value", "f0.*culprit.*'nobody'", in_function(node("Relu", ["nobody"], ["b"])))
    case("function/reads the graph around", "f0.*culprit.*'x'", in_function(node("Relu", ["x"], ["b"])))
    case("function/output that nobody computes", "f0.*output 'b'", in_function(node("Relu", ["a"], ["c"])))
    case("function/input twice", "f0.*inputs.*'a'", in_function(body, inputs=("a", "a")))
    case("function/output twice", "f0.*outputs.*'b'", in_function(body, outputs=("b", "b")))
    case("function/attribute twice", "f0.*attributes.*'k'", in_function(body, attributes=("k", "k")))
    case("function/output twice computed", "f0.*culprit.*'b'", in_function(body, node("Abs", ["a"], ["b"])))
    case("function/unknown reference", "f0.*culprit.*'alpha'", in_function(referring("nobody")))
    case("function/reference", None, in_function(referring("k"), attributes=("k",)))
    case("function/too many inputs", "call.*inputs", calling(function("f0", [body]), nodes=[call("f0", ["x", "x"])]))
    case(
        "function/too many outputs",
        "call.*outputs",
        calling(function("f0", [body]), nodes=[call("f0", outputs=["y", "z"])]),
    )
    case("function/unknown attribute", "call.*'k'", calling(function("f0", [body]), nodes=[call("f0", k=1)]))
    case(
        "function/attribute",
        None,
        calling(function("f0", [referring("k")], attributes=("k",)), nodes=[call("f0", k=0.5)]),
    )
    case("function/unknown operator", "f0.*culprit.*Nonsense", in_function(node("Nonsense", ["a"], ["b"])))
    case(
        "function/broken tensor",
        "f0.*culprit.*raw_data",
        in_function(node("Constant", [], ["b"], value=tensor(raw_data=b"1"))),
    )
    case(
        "function/opset 999",
        "f0.*opset_import",
        changed(lambda m: setattr(m.functions[0].opset_import[0], "version", 999), in_function(body)),
    )
    case(
        "function/no opsets of its own",
        None,
        changed(lambda m: m.functions[0].ClearField("opset_import"), in_function(body)),
    )
    case(
        "function/unknown overload",
        "call.*local.f0",
        changed(lambda m: setattr(m.graph.node[0], "overload", "v2"), in_function(body)),
    )
    case("function/overloads", None, overloads())
    case("function/unknown function", "call.*local.f7", calling(function("f0", [body]), nodes=[call("f7")]))
    case("function/arity inside", "f0.*culprit.*inputs", in_function(node("Relu", ["a", "a"], ["b"])))
    case(
        "function/external data inside a branch",
        "external_data",
        in_function(node("If", ["a"], ["b"], then_branch=stolen(), else_branch=stolen())),
    )


def stolen() -> Any:
    return graph([node("Constant", [], ["t"], value=external("t", location=f"../{SECRET}"))], (), ("t",))


def referring(name: str) -> Any:
    made = node("LeakyRelu", ["a"], ["b"])
    made.attribute.append(attribute("alpha", type=1, ref_attr_name=name))
    return made


def overloads() -> Any:
    made = calling(function("f0", [node("Relu", ["a"], ["b"])]), function("f0", [node("Abs", ["a"], ["b"])]))
    made.functions[1].overload = "v2"
    made.graph.node[0].overload = "v2"
    return made


# -- declared types -------------------------------------------------------------------------------------------------


def typed(change: Callable[[Any], Any]) -> Any:
    made = relu()
    made.graph.input[0].name = "culprit"
    made.graph.node[0].input[0] = "culprit"
    change(made.graph.input[0].type)
    return made


def add_types() -> None:
    for number in (0, 29, 99, -1):
        case(
            f"type/element {number}",
            "culprit.*element type",
            typed(lambda t, n=number: setattr(t.tensor_type, "elem_type", n)),
        )
    case("type/negative size", "culprit.*shape", typed(lambda t: setattr(t.tensor_type.shape.dim[0], "dim_value", -7)))
    both = field(2, field(1, b"\x08\x01" + field(2, field(1, b"\x08\x03" + field(2, b"N")))))
    two = field(2, field(1, b"\x08\x01") + field(4, field(1, field(1, b"\x08\x01"))))
    relu_bytes = field(1, field(1, b"culprit") + field(2, b"y") + field(4, b"Relu")) + field(12, field(1, b"y"))
    case(
        "type/size and name",
        "culprit.*shape",
        wire_model(relu_bytes + field(11, field(1, b"culprit") + both)),
    )
    case("type/two kinds", "culprit.*type", wire_model(relu_bytes + field(11, field(1, b"culprit") + two)))
    case("type/sequence of nothing", "culprit.*type", typed(lambda t: (t.Clear(), t.sequence_type.SetInParent())))
    case("type/key of a map", "culprit.*key type", typed(lambda t: (t.Clear(), setattr(t.map_type, "key_type", 99))))
    case("type/map of nothing", "culprit.*type", typed(lambda t: (t.Clear(), setattr(t.map_type, "key_type", 7))))
    case(
        "type/output element 99",
        "output 'y'.*element type",
        changed(lambda m: setattr(m.graph.output[0].type.tensor_type, "elem_type", 99)),
    )
    case("type/none", None, typed(lambda t: t.Clear()))
    case("type/no shape", None, typed(lambda t: t.tensor_type.ClearField("shape")))
    case("type/size -1", None, typed(lambda t: setattr(t.tensor_type.shape.dim[0], "dim_value", -1)))
    case("type/huge size", None, typed(lambda t: setattr(t.tensor_type.shape.dim[0], "dim_value", 2**62)))
    nested = helper.make_optional_type_proto(helper.make_sequence_type_proto(helper.make_tensor_type_proto(1, [2])))
    case("type/optional sequence", None, typed(lambda t: t.CopyFrom(nested)))
    case(
        "type/in an attribute",
        "'__type'.*element type",
        with_attributes(attribute("__type", type=13, tp=helper.make_tensor_type_proto(99, None))),
    )


# -- the file itself ------------------------------------------------------------------------------------------------


def add_files() -> None:
    case("file/3 GiB of nothing", "Limits.file_bytes", after(three_gibibytes))
    case("file/folder", "regular file", after(lambda f: (f / "model.onnx").mkdir()))
    case("file/pipe", "regular file", after(lambda f: os.mkfifo(f / "model.onnx")))
    case("file/device", "regular file", after(linked("/dev/zero", "model.onnx")))
    case("file/link to a model", None, after(linked_model))
    case("file/good", None, good())
    case("file/numbers in a raw tensor", None, with_tensor(tensor(raw_data=struct.pack("<2f", 1.0, 2.0))))


def three_gibibytes(folder: pathlib.Path) -> None:
    with open(folder / "model.onnx", "wb") as file:
        file.truncate(3 << 30)


def linked_model(folder: pathlib.Path) -> None:
    (folder / "real.onnx").write_bytes(good().SerializeToString())
    os.symlink("real.onnx", folder / "model.onnx")


for add in (
    add_bytes,
    add_versions,
    add_names,
    add_operators,
    add_tensors,
    add_external,
    add_sparse,
    add_functions,
    add_types,
    add_files,
):
    add()
