"""Models that load and do harm when they run: sizes, indices, divisors, nesting.

`add_runs` adds them to the cases of `hostile_models`; each is run for the inputs that it brings.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from hostile_models import function, graph, info, model, node, run_case
from onnx import TensorProto, helper, numpy_helper

I64, F32, BOOL = np.int64, np.float32, TensorProto.BOOL
HUGE, LARGE = 1 << 40, 40_000
LEAST = np.iinfo(np.int64).min
Arrays = Mapping[str, Any]
NONE: Arrays = {}


def ints(*values: int) -> np.ndarray:
    return np.array(values, I64)


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, F32)


def declared(name: str, value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return info(name, [None] * value.ndim, helper.np_dtype_to_tensor_dtype(value.dtype))
    return onnx.ValueInfoProto(name=name)


def built(
    nodes: Any, known: Arrays = NONE, data: Arrays = NONE, outputs: Any = ("y",), opset: int = 21, **parts: Any
) -> Any:
    """A model of nodes with known tensors and inputs; the outputs are of any type."""
    tensors = [numpy_helper.from_array(np.asarray(value), name) for name, value in known.items()]
    inputs = [declared(name, value) for name, value in data.items()]
    made = graph(nodes, inputs, [declared(name, None) for name in outputs], tensors)
    return model(made, opset=opset, **parts)


def one(
    name: str,
    culprit: str | None,
    op: str,
    known: Arrays = NONE,
    data: Arrays = NONE,
    want: Any = None,
    opset: int = 21,
    order: Any = None,
    outputs: int = 1,
    **attributes: Any,
) -> None:
    """A case of one node, whose inputs are the known tensors and then the data, unless `order` says otherwise."""
    names = [f"y{k}" for k in range(outputs)]
    made = node(op, order or [*known, *data], names, **attributes)
    run_case(name, culprit, built([made], known, data, names, opset), data, None if want is None else [want])


# -- memory ---------------------------------------------------------------------------------------------------------

MEMORY = "culprit.*(memory|elements|shape|too large)"


def add_shapes() -> None:
    x = ones(1)
    for shape in ((HUGE,), (1 << 32, 1 << 32), (1 << 62, 4), (LARGE, LARGE), (1 << 29,)):
        one(f"memory/Expand known {shape}", MEMORY, "Expand", {"x": x, "shape": ints(*shape)})
        one(f"memory/Expand {shape}", MEMORY, "Expand", {"shape": ints(*shape)}, {"x": x}, order=["x", "shape"])
        one(f"memory/ConstantOfShape {shape}", MEMORY, "ConstantOfShape", {"shape": ints(*shape)})
    one("memory/ConstantOfShape -1", "culprit", "ConstantOfShape", {"shape": ints(-1)})
    one("memory/ConstantOfShape from data", MEMORY, "ConstantOfShape", {}, {"shape": ints(HUGE)})
    one("memory/Expand from data", MEMORY, "Expand", {}, {"x": x, "shape": ints(HUGE)})
    for repeats in ((HUGE,), (1 << 62,), (-3,), (1 << 30,)):
        bad = "culprit" if repeats[0] < 0 else MEMORY
        one(f"memory/Tile {repeats}", bad, "Tile", {"n": ints(*repeats)}, {"x": x}, order=["x", "n"])
        one(f"memory/Tile known {repeats}", bad, "Tile", {"x": x, "n": ints(*repeats)})
    for bounds in ((0, HUGE, 1), (LEAST, -LEAST - 1, 1), (0, -HUGE, -1), (0, HUGE, HUGE >> 30), (0, 5, 0)):
        values = dict(zip("abc", map(np.array, bounds), strict=True))
        one(f"memory/Range {bounds}", "culprit", "Range", values)
        one(f"memory/Range from data {bounds}", "culprit", "Range", {}, values)
    for bounds in ((0.0, 1e15, 1.0), (0.0, np.inf, 1.0), (0.0, np.nan, 1.0), (0.0, 1.0, 1e-30)):
        values = {k: np.array(v, F32) for k, v in zip("abc", bounds, strict=True)}
        one(f"memory/Range {bounds}", "culprit", "Range", values)
    one("memory/OneHot", MEMORY, "OneHot", {"i": ints(1, 2), "n": ints(HUGE), "v": ones(2)})
    one(
        "memory/OneHot of data",
        MEMORY,
        "OneHot",
        {"n": ints(HUGE), "v": ones(2)},
        {"i": ints(1)},
        order=["i", "n", "v"],
    )
    one(
        "memory/OneHot all off",
        None,
        "OneHot",
        {"n": ints(2), "v": np.array([0, 1], F32)},
        {"i": ints(7, -9, 1)},
        np.array([[0, 0], [0, 0], [0, 1]], F32),
        order=["i", "n", "v"],
    )
    for mode in ("constant", "edge", "reflect", "wrap"):
        for pads in ((HUGE, 0), (0, 1 << 62), (1 << 31, 1 << 31)):
            one(
                f"memory/Pad {mode} {pads}",
                MEMORY,
                "Pad",
                {"p": ints(*pads)},
                {"x": ones(3)},
                order=["x", "p"],
                mode=mode,
            )
        one(f"memory/Pad known {mode}", MEMORY, "Pad", {"x": ones(3), "p": ints(HUGE, 0)}, mode=mode)
    one("memory/Pad old", MEMORY, "Pad", {}, {"x": ones(3)}, opset=10, pads=[HUGE, 0])
    one("memory/Pad -2^40", "culprit", "Pad", {"p": ints(-HUGE, 0)}, {"x": ones(3)}, order=["x", "p"])
    one("memory/CenterCropPad", MEMORY, "CenterCropPad", {"n": ints(HUGE)}, {"x": ones(3)}, order=["x", "n"])
    one("memory/CenterCropPad known", MEMORY, "CenterCropPad", {"x": ones(3), "n": ints(HUGE)})
    one("memory/Split into 2^40", "culprit", "Split", {}, {"x": ones(3)}, num_outputs=HUGE)
    one("memory/Split known into 2^40", "culprit", "Split", {"x": ones(3)}, num_outputs=HUGE)
    one(
        "memory/SplitToSequence by 0",
        "culprit",
        "SplitToSequence",
        {"n": np.array(0)},
        {"x": ones(3)},
        order=["x", "n"],
    )
    one("memory/TopK 2^40", "culprit", "TopK", {"k": ints(HUGE)}, {"x": ones(3)}, order=["x", "k"], outputs=2)
    one("memory/Reshape to 2^40", "culprit", "Reshape", {"n": ints(HUGE)}, {"x": ones(3)}, order=["x", "n"])
    one("memory/SpaceToDepth 2^40", "culprit", "SpaceToDepth", {}, {"x": ones(1, 1, 2, 2)}, blocksize=HUGE)
    one("memory/DepthToSpace 0", "culprit", "DepthToSpace", {}, {"x": ones(1, 4, 2, 2)}, blocksize=0)
    one("memory/Trilu 2^62", "", "Trilu", {"k": np.array(1 << 62)}, {"x": ones(2, 2)}, order=["x", "k"])
    one("memory/EyeLike 2^62", "", "EyeLike", {}, {"x": ones(2, 2)}, k=1 << 62)


def add_products() -> None:
    a, b = ones(LARGE, 1), ones(1, LARGE)
    for op in ("Add", "Sub", "Mul", "Div", "Pow", "Max", "Sum", "Less", "Equal", "MatMul", "Gemm"):
        one(f"memory/{op}", MEMORY, op, {}, {"a": a, "b": b})
    for op in ("Add", "Less", "Mod", "BitwiseAnd"):
        made = {"a": np.ones((30_000, 1), I64), "b": np.ones((1, 30_000), I64)}
        one(f"memory/{op} known", MEMORY, op, made)
    one("memory/Where", MEMORY, "Where", {}, {"c": np.ones((3000, 1, 1), bool), "a": ones(3000, 1), "b": ones(3000)})
    one("memory/Where known", MEMORY, "Where", {"c": np.ones((3000, 1, 1), bool), "a": ones(3000, 1), "b": ones(3000)})
    one("memory/Einsum", MEMORY, "Einsum", {}, {"a": ones(LARGE), "b": ones(LARGE)}, equation="i,j->ij")
    one("memory/Einsum of three", MEMORY, "Einsum", {}, {k: ones(3000) for k in "abc"}, equation="i,j,k->ijk")
    one("memory/Gather", MEMORY, "Gather", {}, {"x": ones(1, LARGE), "i": np.zeros(LARGE, I64)})
    one("memory/Gather known", MEMORY, "Gather", {"x": ones(1, 30_000), "i": np.zeros(30_000, I64)})
    one("memory/GatherND", MEMORY, "GatherND", {}, {"x": ones(1, LARGE), "i": np.zeros((LARGE, 1), I64)})
    one("memory/GatherND known", MEMORY, "GatherND", {"x": ones(1, 30_000), "i": np.zeros((30_000, 1), I64)})
    doubled = [node("Concat", [f"v{k}"] * 2, [f"v{k + 1}"], f"culprit{k}", axis=0) for k in range(60)]
    run_case("memory/Concat doubles", MEMORY, built(doubled, {}, {"v0": ones(2)}, ["v60"]), {"v0": ones(2)})
    run_case("memory/Concat doubles known", MEMORY, built(doubled, {"v0": ones(2)}, {}, ["v60"]), {})
    run_case(
        "memory/Concat of one name",
        MEMORY,
        built([node("Concat", ["x"] * 300, ["y"], axis=0)], {}, {"x": ones(1 << 20)}),
        {"x": ones(1 << 20)},
    )
    many = [node("ConstantOfShape", ["n"], [f"v{k}"], f"culprit{k}") for k in range(300)]
    many.append(node("Sum", [f"v{k}" for k in range(300)], ["y"]))
    run_case("memory/many of 4 MiB", MEMORY, built(many, {"n": ints(1 << 20)}), {})
    held = [node("Mul", ["x", f"n{k}"], [f"v{k}"], f"culprit{k}") for k in range(40)]
    apart = {f"n{k}": np.array(k, F32) for k in range(40)}
    run_case(
        "memory/many results",
        "culprit.*memory",
        built(held, apart, {"x": ones(1 << 22)}, [f"v{k}" for k in range(40)]),
        {"x": ones(1 << 22)},
    )
    q = {k: ones(1, 1, LARGE, 1) for k in "qkv"}
    one("memory/Attention", MEMORY, "Attention", {}, q, opset=23)


def add_generators() -> None:
    for op in ("RandomNormal", "RandomUniform"):
        for shape in ([HUGE], [1 << 32, 1 << 32], [1 << 29]):
            one(f"memory/{op} {shape}", MEMORY, op, shape=shape)
        one(f"memory/{op} -1", "culprit", op, shape=[-1])
    one("memory/Multinomial", MEMORY, "Multinomial", {}, {"x": ones(1, 2)}, sample_size=HUGE)
    for op in ("HannWindow", "HammingWindow", "BlackmanWindow"):
        one(f"memory/{op}", MEMORY, op, {"n": np.array(HUGE)})
        one(f"memory/{op} from data", MEMORY, op, {}, {"n": np.array(HUGE)})
    one("memory/DFT", MEMORY, "DFT", {"n": np.array(HUGE)}, {"x": ones(1, 4, 1)}, order=["x", "n"])
    one("memory/DFT known", MEMORY, "DFT", {"x": ones(1, 4, 1), "n": np.array(HUGE)})
    one(
        "memory/STFT",
        "culprit",
        "STFT",
        {"step": np.array(1), "w": ones(2), "n": np.array(HUGE)},
        {"x": ones(1, 8, 1)},
        order=["x", "step", "w", "n"],
    )
    mel = [HUGE, HUGE, 16000, 0.0, 8000.0]
    one(
        "memory/MelWeightMatrix",
        MEMORY,
        "MelWeightMatrix",
        {k: np.array(v, F32 if isinstance(v, float) else I64) for k, v in zip("abcde", mel, strict=True)},
    )
    counted: dict[str, Any] = {"max_gram_length": 1, "max_skip_count": 0, "min_gram_length": 1, "mode": "TF"}
    counted |= {"ngram_counts": [0], "ngram_indexes": [HUGE], "pool_int64s": [1]}
    one(
        "memory/TfIdfVectorizer",
        MEMORY,
        "TfIdfVectorizer",
        {"x": ints(1, 2)},
        **counted,
    )
    one(
        "memory/TfIdfVectorizer of data",
        MEMORY,
        "TfIdfVectorizer",
        {},
        {"x": ints(1, 2)},
        **counted,
    )
    text = np.array(["abcdefgh" * 8], object)
    doubled = [node("StringConcat", [f"v{k}"] * 2, [f"v{k + 1}"], f"culprit{k}") for k in range(60)]
    run_case("memory/StringConcat doubles known", MEMORY, built(doubled, {"v0": text}, {}, ["v60"]), {})
    run_case("memory/StringConcat doubles", MEMORY, built(doubled, {}, {"v0": text}, ["v60"]), {"v0": text})
    broad = {"a": np.full((9000, 1), "a", object), "b": np.full((1, 9000), "b", object)}
    one("memory/StringConcat", MEMORY, "StringConcat", {}, broad)
    split = np.array(["a"] * 9000 + ["a," * 9000], object)
    one("memory/StringSplit", MEMORY, "StringSplit", {"x": split}, outputs=2, delimiter=",")


def add_spatial() -> None:
    x = ones(1, 1, 4, 4)
    for mode in ("nearest", "linear", "cubic"):
        one(
            f"memory/Resize {mode}",
            MEMORY,
            "Resize",
            {"n": ints(1, 1, HUGE, 4)},
            {"x": x},
            order=["x", "", "", "n"],
            mode=mode,
        )
        one(
            f"memory/Resize known {mode}",
            MEMORY,
            "Resize",
            {"x": x, "n": ints(1, 1, HUGE, 4)},
            order=["x", "", "", "n"],
            mode=mode,
        )
    scales = np.array([1, 1, 1e9, 1e9], F32)
    one("memory/Resize by scales", MEMORY, "Resize", {"s": scales}, {"x": x}, order=["x", "", "s"])
    one("memory/Upsample", MEMORY, "Upsample", {"s": scales}, {"x": x}, order=["x", "s"], opset=9)
    pads = [HUGE, 0, HUGE, 0]
    for known, label in ((True, " known"), (False, "")):
        given = {"known": {"x": x}, "data": {}} if known else {"known": {}, "data": {"x": x}}
        one(f"memory/MaxPool{label}", "culprit", "MaxPool", **given, kernel_shape=[2, 2], pads=pads)
        one(f"memory/AveragePool{label}", "culprit", "AveragePool", **given, kernel_shape=[2, 2], pads=pads)
        one(f"memory/LpPool{label}", "culprit", "LpPool", **given, kernel_shape=[2, 2], pads=pads)
    w = {"w": ones(1, 1, 2, 2)}
    one("memory/Conv", "culprit", "Conv", w, {"x": x}, order=["x", "w"], pads=pads)
    one("memory/Conv known", "culprit", "Conv", {"x": x, **w}, pads=pads)
    one("memory/ConvTranspose", "culprit", "ConvTranspose", w, {"x": x}, order=["x", "w"], strides=[HUGE, 1])
    one(
        "memory/ConvTranspose to a shape",
        "culprit",
        "ConvTranspose",
        w,
        {"x": x},
        order=["x", "w"],
        output_shape=[HUGE, 4],
    )
    one(
        "memory/MaxUnpool",
        "culprit",
        "MaxUnpool",
        {"i": ints(0).reshape(1, 1, 1, 1), "n": ints(1, 1, HUGE, HUGE)},
        {"x": ones(1, 1, 1, 1)},
        order=["x", "i", "n"],
        kernel_shape=[2, 2],
    )
    one(
        "memory/MaxUnpool known",
        "culprit",
        "MaxUnpool",
        {"x": ones(1, 1, 1, 1), "i": ints(0).reshape(1, 1, 1, 1), "n": ints(1, 1, HUGE, HUGE)},
        kernel_shape=[2, 2],
    )
    one(
        "memory/Col2Im",
        "culprit",
        "Col2Im",
        {"n": ints(HUGE, 2), "k": ints(1, 1)},
        {"x": ones(1, 1, 4)},
        order=["x", "n", "k"],
    )
    one(
        "memory/AffineGrid", "culprit", "AffineGrid", {"n": ints(1, 1, HUGE, 2)}, {"t": ones(1, 2, 3)}, order=["t", "n"]
    )
    one(
        "memory/RoiAlign",
        "culprit",
        "RoiAlign",
        {"r": ones(1, 4), "b": ints(0)},
        {"x": x},
        order=["x", "r", "b"],
        output_height=HUGE,
    )


# -- loops and nesting ----------------------------------------------------------------------------------------------


def body(nodes: Any, inputs: Any, outputs: Any, tensors: Arrays = NONE) -> Any:
    made = [numpy_helper.from_array(np.asarray(value), name) for name, value in tensors.items()]
    infos = [declared(name, None) for name in inputs]
    return helper.make_graph(nodes, "body", infos, [declared(name, None) for name in outputs], made)


def looping(inner: Any, outputs: int, states: Any = ("x",), trips: str = "n") -> Any:
    return node("Loop", [trips, "", *states], [f"y{k}" for k in range(outputs)], "culprit", body=inner)


def add_loops() -> None:
    again = node("Identity", ["go"], ["go2"], "again")
    grow = body([again, node("Concat", ["v", "v"], ["v2"], "inner", axis=0)], ["i", "go", "v"], ["go2", "v2"])
    stack = body([again, node("Neg", ["v"], ["v2"], "inner")], ["i", "go", "v"], ["go2", "v2", "v"])
    still = body([again, node("Neg", ["v"], ["v2"], "inner")], ["i", "go", "v"], ["go2", "v2"])
    either = "(culprit|inner).*(memory|elements|trips)"
    for label, known in (("", False), (" known", True)):
        for name, inner, outputs, trips, x in (
            ("Concat in a Loop", grow, 1, 60, ones(2)),
            ("Loop that stacks", stack, 2, HUGE, ones(2)),
            ("Loop that stacks much", stack, 2, 900, ones(1 << 20)),
            ("endless Loop", still, 1, 1 << 62, ones(2)),
        ):
            given, count = {"x": x}, {"n": np.array(trips)}
            made = built(
                [looping(inner, outputs)],
                {**count, **(given if known else {})},
                {} if known else given,
                [f"y{k}" for k in range(outputs)],
            )
            run_case(f"loop/{name}{label}", either, made, {} if known else given)
    insert = [again, node("ConstantOfShape", ["size"], ["c"], "c"), node("SequenceInsert", ["v", "c"], ["v2"], "inner")]
    sequence = body(insert, ["i", "go", "v"], ["go2", "v2"])
    nodes = [node("SequenceEmpty", [], ["x"], "empty"), looping(sequence, 1)]
    known = {"n": np.array(10_000), "size": ints(1 << 18)}
    run_case("loop/SequenceInsert in a Loop", either, built(nodes, known, {}, ["y0"]), {})
    slices = body([node("Expand", ["v", "size"], ["w"], "inner")], ["v"], ["w"])
    scan = node("Scan", ["x"], ["y"], body=slices, num_scan_inputs=1)
    run_case(
        "loop/Scan that stacks", either, built([scan], {"size": ints(1 << 20)}, {"x": ones(2000)}), {"x": ones(2000)}
    )
    for trips in (0, -5):
        run_case(
            f"loop/{trips} trips",
            None,
            built([looping(still, 1)], {"n": np.array(trips)}, {"x": ones(2)}, ["y0"]),
            {"x": ones(2)},
            [ones(2)],
        )


def add_nesting() -> None:
    data = {"x": ones(2), "c": np.array(True)}
    for depth in (8, 16, 17, 30):
        run_case(f"nesting/If {depth} deep", None, nested(depth), data, [ones(2)])
    run_case("nesting/If in functions 20 deep", None, nested_calls(20), data, [ones(2)])
    run_case("nesting/Loop 12 deep", None, nested_loops(12), {"x": ones(2)}, [ones(2)])


def nested(depth: int) -> Any:
    made = body([node("Identity", ["x"], [f"v{depth}"], "deepest")], [], [f"v{depth}"])
    for level in range(depth - 1, -1, -1):
        other = body([node("Neg", ["x"], [f"e{level}"], f"else{level}")], [], [f"e{level}"])
        inner = node("If", ["c"], [f"v{level}"], f"if{level}", then_branch=made, else_branch=other)
        made = body([inner], [], [f"v{level}"])
    made.input.extend([info("x"), info("c", (), BOOL)])
    return model(made)


def nested_calls(depth: int) -> Any:
    """Functions, each of which calls the next one in a branch."""
    functions = [function(f"f{depth}", [node("Identity", ["a"], ["b"], "deepest")], ["c", "a"], ["b"])]
    for level in range(depth):
        inner = helper.make_node(f"f{level + 1}", ["c", "a"], ["t"], f"call{level}", domain="local")
        other = body([node("Neg", ["a"], ["e"], "else")], [], ["e"])
        chosen = node("If", ["c"], ["b"], f"if{level}", then_branch=body([inner], [], ["t"]), else_branch=other)
        functions.append(function(f"f{level}", [chosen], ["c", "a"], ["b"]))
    first = helper.make_node("f0", ["c", "x"], ["y"], "call", domain="local")
    data = {"x": ones(2), "c": np.array(True)}
    return built([first], {}, data, functions=functions, imports=[("", 21), ("local", 1)])


def nested_loops(depth: int) -> Any:
    nodes = [node("Neg", ["w"], ["m"], "a"), node("Neg", ["m"], ["v0"], "b")]
    inner = body([*nodes, node("Identity", ["g"], ["h"], "again")], ["i", "g", "w"], ["h", "v0"])
    for level in range(1, depth):
        loop = node("Loop", ["n", "", f"w{level}"], [f"v{level}"], f"loop{level}", body=inner)
        again = node("Identity", [f"g{level}"], [f"h{level}"], f"again{level}")
        inner = body([loop, again], [f"i{level}", f"g{level}", f"w{level}"], [f"h{level}", f"v{level}"])
    return built([looping(inner, 1)], {"n": np.array(1)}, {"x": ones(2)}, ["y0"])


# -- integers that have no quotient, indices that are nowhere -------------------------------------------------------


def add_divisions() -> None:
    for dtype in (np.int8, np.int32, np.int64, np.uint8, np.uint64):
        name, a, zero = np.dtype(dtype).name, np.array([7, 6], dtype), np.array([0, 3], dtype)
        for op in ("Div", "Mod"):
            bad = "culprit.*(divisor|division)"
            one(f"division/{op} {name} known", bad, op, {"a": a, "b": zero})
            one(f"division/{op} {name} by a known 0", bad, op, {"b": zero}, {"a": a}, order=["a", "b"])
            one(f"division/{op} {name}", bad, op, {}, {"a": a, "b": zero})
            right = np.array([2, 2] if op == "Div" else [1, 0], dtype)
            one(f"division/{op} {name} by 3", None, op, {}, {"a": a, "b": np.array([3, 3], dtype)}, right)
        one(f"division/fmod {name}", "culprit.*divisor", "Mod", {}, {"a": a, "b": zero}, fmod=1)
    for dtype in (np.int8, np.int32, np.int64):
        least, minus = np.array([np.iinfo(dtype).min], dtype), np.array([-1], dtype)
        name = np.dtype(dtype).name
        one(f"division/least {name} known", "culprit.*quotient", "Div", {"a": least, "b": minus})
        one(
            f"division/least {name} by a known -1",
            "culprit.*divisor",
            "Div",
            {"b": minus},
            {"a": least},
            order=["a", "b"],
        )
        one(f"division/least {name}", "culprit.*divisor", "Div", {}, {"a": least, "b": minus})
        one(f"division/least {name} modulo -1", None, "Mod", {}, {"a": least, "b": minus}, np.array([0], dtype))
        one(f"division/{name} by -1", None, "Div", {}, {"a": -minus, "b": minus}, minus)
    one("division/of floats by 0", None, "Div", {}, {"a": ones(2), "b": 0 * ones(2)}, np.array([np.inf] * 2, F32))


def add_indices() -> None:
    x = np.arange(6, dtype=F32).reshape(2, 3)
    for wrong in (2, -3, HUGE, LEAST):
        for op, i, more, attributes in (
            ("Gather", ints(0, wrong), {}, {}),
            ("GatherElements", ints(0, wrong, 1).reshape(1, 3), {}, {}),
            ("GatherND", ints(0, wrong).reshape(2, 1), {}, {}),
            ("ScatterElements", ints(0, wrong, 1).reshape(1, 3), {"u": ones(1, 3)}, {}),
            ("ScatterND", ints(1, wrong).reshape(2, 1), {"u": ones(2, 3)}, {}),
        ):
            bad = rf"culprit.*{wrong}|culprit.*out of bounds|culprit.*indices"
            one(f"index/{op} {wrong}", rf"culprit.*indices.*{wrong}", op, {}, {"x": x, "i": i, **more}, **attributes)
            one(f"index/{op} known {wrong}", bad, op, {"x": x, "i": i, **more}, **attributes)
            one(f"index/{op} known index {wrong}", bad, op, {"i": i}, {"x": x, **more}, order=["x", "i", *more])
    one("index/Gather from the end", None, "Gather", {}, {"x": x, "i": ints(-1, -2)}, x[::-1])
    one("index/Gather of nothing", None, "Gather", {}, {"x": x, "i": ints()}, x[:0])
    for lengths in ((9, 1), (-1, 1)):
        one(
            f"index/ReverseSequence {lengths}",
            "culprit.*sequence_lens",
            "ReverseSequence",
            {},
            {"x": x.T.copy(), "n": ints(*lengths)},
        )
    labels = {"x": np.log(ones(2, 3) / 3), "t": ints(0, 3)}
    for op in ("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"):
        one(f"index/{op}", "culprit.*class ids", op, {}, labels)
        one(f"index/{op} ignored", None, op, {}, labels, np.array(np.log(3), F32), ignore_index=3)
    pooled, places = ones(1, 1, 1, 2), ints(0, 99).reshape(1, 1, 1, 2)
    one("index/MaxUnpool", "culprit.*indices", "MaxUnpool", {}, {"x": pooled, "i": places}, kernel_shape=[2, 2])
    region = {"x": ones(1, 1, 4, 4), "r": ones(1, 4), "b": ints(7)}
    one("index/RoiAlign", "culprit.*batch_indices", "RoiAlign", {}, region)
    rnn = {"x": ones(3, 1, 2), "w": ones(1, 2, 2), "r": ones(1, 2, 2), "n": np.array([9], np.int32)}
    one("index/RNN", "culprit.*sequence_lens", "RNN", {}, rnn, order=["x", "w", "r", "", "n"], hidden_size=2)
    sequence = [node("SequenceConstruct", ["x"], ["s"], "s"), node("SequenceAt", ["s", "i"], ["y"])]
    for wrong in (1, -2, HUGE):
        where = {"i": np.array(wrong)}
        run_case(f"index/SequenceAt {wrong}", "culprit", built(sequence, where, {"x": x}), {"x": x})
        run_case(
            f"index/SequenceAt from data {wrong}", "culprit", built(sequence, {}, {"x": x, **where}), {"x": x, **where}
        )
    extract = helper.make_node("ArrayFeatureExtractor", ["x", "i"], ["y"], "culprit", domain="ai.onnx.ml")
    made = built([extract], {}, {"x": x, "i": ints(3)}, imports=[("", 21), ("ai.onnx.ml", 3)])
    run_case("index/ArrayFeatureExtractor", "culprit.*columns", made, {"x": x, "i": ints(3)})
    add_embedding()
    add_bodies(x)


def add_embedding() -> None:
    data = {"i": np.array([[0, 5]], np.int32), "k": np.array([[0, 1]], np.int32)}
    known = {"words": ones(5, 4), "places": ones(2, 4), "kinds": ones(2, 4), "g": ones(4), "b": ones(4)}
    inner = helper.make_node(
        "EmbedLayerNormalization", [*data, *known], ["y", "m"], "culprit", domain="com.microsoft", epsilon=1e-5
    )
    made = built([inner], known, data, imports=[("", 21), ("com.microsoft", 1)])
    run_case("index/EmbedLayerNormalization", "culprit.*input_ids.*5", made, data)


def add_bodies(x: np.ndarray) -> None:
    """The index of a node inside a branch, a loop, a scan and a function."""
    gather = node("Gather", ["x", "i"], ["t"])
    data = {"x": x, "i": np.array(7), "c": np.array(True)}
    right = {**data, "i": np.array(1)}
    zero = body([node("ReduceSum", ["x", "axes"], ["z"], "other", keepdims=0)], [], ["z"])
    chosen = node("If", ["c"], ["y"], "choice", then_branch=body([gather], [], ["t"]), else_branch=zero)
    made = built([chosen], {"axes": ints(0)}, data)
    run_case("index/in a branch", "culprit.*indices.*7", made, data)
    run_case("index/in the branch not taken", None, made, {**data, "c": np.array(False)}, [x.sum(0)])
    run_case("index/in a branch, right", None, made, right, [x[1]])
    steps = [node("Identity", ["go"], ["go2"], "again"), node("Add", ["j", "i"], ["k"], "sum")]
    steps += [node("Gather", ["x", "k"], ["t"]), node("Add", ["v", "t"], ["v2"], "total")]
    loop = node("Loop", ["n", "", "start"], ["y"], "loop", body=body(steps, ["j", "go", "v"], ["go2", "v2"]))
    for trips in (2, 20):
        given = {"x": ones(12, 3), "i": np.array(3), "n": np.array(trips), "start": 0 * ones(3)}
        made = built([loop], {}, given)
        bad = "culprit.*indices.*12" if trips > 9 else None
        run_case(f"index/in a Loop of {trips}", bad, made, given, None if bad else [2 * ones(3)])
    picked = body([node("Gather", ["table", "i"], ["t"])], ["i"], ["t"])
    scan = node("Scan", ["ids"], ["y"], "scan", body=picked, num_scan_inputs=1)
    for ids in (ints(0, 1, 9, 1), ints(0, 1, 1, 0)):
        given = {"table": x, "ids": ids}
        bad = "culprit.*indices.*9" if ids.max() > 1 else None
        run_case(f"index/in a Scan {ids.max()}", bad, built([scan], {}, given), given, None if bad else [x[ids]])
    local = function("f0", [node("Gather", ["a", "b"], ["t"])], ["a", "b"], ["t"])
    called = helper.make_node("f0", ["x", "i"], ["y"], "call", domain="local")
    made = built([called], {}, data, functions=[local], imports=[("", 21), ("local", 1)])
    run_case("index/in a function", "culprit.*indices.*7", made, data)


def add_runs() -> None:
    """Add all cases."""
    for add in (
        add_shapes,
        add_products,
        add_generators,
        add_spatial,
        add_loops,
        add_nesting,
        add_divisions,
        add_indices,
    ):
        add()
