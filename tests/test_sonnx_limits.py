"""What a running model may take and touch: memory foretold, indices and divisors watched, nesting, narrowing."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hostile_models import graph, info, model, node
from hostile_runs import body, built, ints, ones
from onnx import TensorProto

import singax as sx
from singax.errors import DTypeError, ModelFileError
from singax.sonnx import Limits, SONNXModel, prepare
from singax.sonnx.importer import before
from singax.sonnx.importer.budget import Budget, Growth, largest
from singax.sonnx.importer.checks import Checks, Condition
from singax.sonnx.importer.graph import Node

SMALL = Limits(run_bytes=1 << 20)
HUGE = 1 << 40


def a_node(op: str, **attributes: Any) -> Node:
    return Node(op, "", "culprit", ("a",), ("y",), attributes)


# -- before a node is computed --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("op", "inputs", "attributes", "count"),
    [
        ("Expand", [ones(3, 1), ints(2, 1, 4)], {}, 24),
        ("Expand", [ones(1), ints(1 << 62, 1 << 62)], {}, 1 << 124),
        ("Tile", [ones(2, 3), ints(2, 5)], {}, 60),
        ("Range", [np.array(0), np.array(7), np.array(2)], {}, 4),
        ("Range", [np.array(7), np.array(0), np.array(-2)], {}, 4),
        ("Range", [np.array(3), np.array(0), np.array(1)], {}, 0),
        ("Range", [np.array(0.0), np.array(1.0), np.array(0.3)], {}, 4),
        ("ConstantOfShape", [ints(HUGE, 2)], {}, 2 * HUGE),
        ("ConstantOfShape", [ints()], {}, 1),
        ("OneHot", [ones(2, 2), np.array(5), ones(2)], {}, 20),
        ("Pad", [ones(2, 3), ints(1, 0, 1, 2)], {}, 20),
        ("Pad", [ones(2, 3), ints(0, 2), None, ints(1)], {}, 10),
        ("Gather", [ones(2, 5), ints(0, 1, 0)], {"axis": 1}, 6),
        ("GatherND", [ones(2, 5), ints(0, 1).reshape(2, 1)], {}, 10),
        ("MatMul", [ones(7, 2, 3), ones(3, 4)], {}, 56),
        ("MatMul", [ones(3), ones(3)], {}, 1),
        ("Gemm", [ones(3, 2), ones(3, 4)], {"transA": 1}, 8),
        ("Add", [ones(5, 1), ones(1, 6)], {}, 30),
        ("Concat", [ones(5), ones(6)], {}, 11),
        ("NonZero", [ones(3, 4)], {}, 24),
        ("StringSplit", [np.array(["a,b,c", "d"], object)], {"delimiter": ","}, 54),
    ],
)
def test_elements_are_foretold(op: str, inputs: list[Any], attributes: dict[str, Any], count: int) -> None:
    assert before.elements(a_node(op, **attributes), inputs) == count


@pytest.mark.parametrize(
    ("op", "inputs"),
    [("ConstantOfShape", [ints(-1)]), ("Range", [ones(2), ones(1), ones(1)]), ("Pad", [ones(2), ints(1, 1, 1, 1)])],
)
def test_inputs_that_give_no_shape(op: str, inputs: list[Any]) -> None:
    with pytest.raises(ModelFileError, match=r"culprit"):
        before.elements(a_node(op), inputs)


# -- the budget -----------------------------------------------------------------------------------------------------


def test_known_values_count_together() -> None:
    budget, value = Budget(1000), np.zeros(50)
    budget.check(a_node("Neg"), [], [value])
    budget.check(a_node("Identity"), [value], [value])
    budget.check(a_node("Squeeze"), [value], [value.reshape(5, 10)])
    assert budget.held == 400
    budget.check(a_node("Neg"), [], [np.zeros(50)])
    with pytest.raises(ModelFileError, match=r"culprit.*at most 1000 bytes .Limits.run_bytes"):
        budget.check(a_node("Neg"), [], [np.zeros(50)])


def test_growth_is_measured_in_time() -> None:
    growth, values = Growth(a_node("Loop"), 4000), []

    def advance() -> None:
        for trip in range(1000):
            values.append(np.zeros(10))
            growth.check(trip, [values])

    with pytest.raises(ModelFileError, match=r"culprit.*trips"):
        advance()
    assert 50 <= len(values) <= 60


def test_the_largest_value_of_a_program_may_be_inside() -> None:
    def inner(x: Any) -> Any:
        return jax.lax.cond(x[0] > 0, lambda: jnp.sum(jnp.outer(x, x)), lambda: x[0])

    assert largest(jax.make_jaxpr(inner)(ones(100))) == 40_000


def test_a_limit_is_a_setting() -> None:
    made = built([node("Expand", ["x", "n"], ["y"])], {"n": ints(1 << 19)}, {"x": ones(1)})
    assert prepare(made).run([ones(1)])[0].shape == (1 << 19,)
    with pytest.raises(ModelFileError, match=r"culprit.*Limits.run_bytes"):
        prepare(made, limits=SMALL).run([ones(1)])
    with pytest.raises(ModelFileError, match=r"culprit.*Limits.run_bytes"):
        SONNXModel(made, limits=SMALL).forward(ones(1))
    assert SONNXModel(made).forward(ones(1))[0].shape == (1 << 19,)


def test_a_program_is_refused_for_all_that_it_holds() -> None:
    names = [f"v{k}" for k in range(8)]
    nodes = [node("Mul", ["x", f"c{k}"], [name], name) for k, name in enumerate(names)]
    made = built(nodes, {f"c{k}": np.array(k, np.float32) for k in range(8)}, {"x": ones(1)}, names)
    with pytest.raises(ModelFileError, match=r"the program from node 'v0'.*to node 'v7'.*its results"):
        prepare(made, limits=SMALL).run([ones(1 << 16)])


def test_a_value_on_the_way_is_found() -> None:
    q = ones(1, 1, 1000, 1)
    made = built([node("Attention", ["q", "k", "v"], ["y"])], {}, dict.fromkeys("qkv", q), opset=23)
    with pytest.raises(ModelFileError, match=r"culprit.*4000000 for a value on the way"):
        prepare(made, limits=SMALL).run([q, q, q])


# -- what data does -------------------------------------------------------------------------------------------------


def gathering(**parts: Any) -> Any:
    return built([node("Gather", ["x", "i"], ["y"])], {}, {"x": ones(3), "i": ints(0)}, **parts)


@jax.enable_x64(True)
def test_the_first_condition_that_fails_is_told() -> None:
    checks = Checks()
    for place, failed in enumerate([False, True, True]):
        checks.add(Condition(f"node {place}", "indices", "fewer"), jnp.asarray(failed), jnp.asarray(10 + place))
    with checks.apart() as first:
        assert not checks.watching
        assert first().tolist() == [0, 0]
    assert checks.watching
    with pytest.raises(ModelFileError, match=r"node 1: indices: expected fewer\. Received: 11"):
        checks.judge(checks.first())


def test_a_run_that_failed_harms_no_later_one() -> None:
    rep = prepare(gathering())
    with pytest.raises(ModelFileError, match=r"culprit.*from -3 to 2\. Received: 5"):
        rep.run([ones(3), ints(1, 5)])
    assert rep.run([ones(3), ints(1, -3)])[0].tolist() == [1, 1]
    assert rep.executor.compiled == 1


def test_unwatched_indices_give_no_number() -> None:
    for rows in (ones(3), np.ones(3, np.int32)):
        made = built([node("Gather", ["x", "i"], ["y"])], {}, {"x": rows, "i": ints(0)})
        got = prepare(made, check_indices=False).run([rows, ints(1, 7, -4, -3)])[0]
        nowhere = np.nan if rows.dtype == np.float32 else np.iinfo(np.int32).min
        np.testing.assert_array_equal(got, np.array([1, nowhere, nowhere, 1], rows.dtype))


def test_a_model_that_trains_sees_nan() -> None:
    net = SONNXModel(gathering())
    assert np.isnan(net.forward(ones(3), ints(7))[0].to_numpy()).all()
    assert net.forward(ones(3), ints(-1))[0].to_numpy().tolist() == [1]


def test_a_known_divisor_costs_no_condition() -> None:
    x = ints(7, 8)
    made = built([node("Div", ["x", "n"], ["y"])], {"n": ints(2)}, {"x": x})
    rep = prepare(made)
    assert rep.run([x])[0].tolist() == [3, 4]
    assert [piece.checks.conditions for piece in rep.executor.pieces()] == [[]]


def test_most_trips_holds_in_a_compiled_loop() -> None:
    steps = [node("Add", ["v", "x"], ["v2"], "sum"), node("Less", ["v2", "most"], ["go2"], "less")]
    inner = body(steps, ["i", "go", "v"], ["go2", "v2"])
    loop = node("Loop", ["", "c", "x"], ["y"], body=inner)
    data = {"x": np.array(1.0, np.float32), "most": np.array(10.0, np.float32)}
    made = built([loop], {"c": np.array(True)}, data)
    assert prepare(made, most_trips=20).run(list(data.values()))[0] == 10
    with pytest.raises(ModelFileError, match=r"culprit.*at most 5 .most_trips"):
        prepare(made, most_trips=5).run(list(data.values()))


# -- bodies ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["If", "Loop", "function"])
def test_what_a_body_needs_to_know_is_traced_to_the_inputs(place: str) -> None:
    from hostile_models import function, helper

    inside = [node("Neg", ["n"], ["m"], "m"), node("Neg", ["m"], ["k"], "k"), node("Expand", ["x", "k"], ["t"])]
    data = {"x": ones(1), "n": ints(4), "c": np.array(True)}
    if place == "If":
        then = body(inside, [], ["t"])
        other = body([node("Expand", ["x", "n"], ["e"], "other")], [], ["e"])
        made = built([node("If", ["c"], ["y"], then_branch=then, else_branch=other)], {}, data)
    elif place == "Loop":
        total = [*inside, node("ReduceSum", ["t"], ["s"], "s", keepdims=0), node("Add", ["v", "s"], ["w"], "w")]
        inner = body([*total, node("Identity", ["go"], ["go2"], "again")], ["i", "go", "v"], ["go2", "w"])
        made = built([node("Loop", ["twice", "c", "zero"], ["y"], body=inner)],
                     {"twice": np.array(2), "zero": np.array(0, np.float32)}, data)  # fmt: skip
    else:
        local = function("f0", inside, ["x", "n"], ["t"])
        called = helper.make_node("f0", ["x", "n"], ["y"], "call", domain="local")
        made = built([called], {}, data, functions=[local], imports=[("", 21), ("local", 1)])
    rep = prepare(made)
    got = rep.run(data)[0]
    assert got.tolist() == (8.0 if place == "Loop" else [1.0] * 4)
    assert "known inputs: n" in rep.report()
    assert "on the host" not in rep.report()


def test_bodies_are_traced_once() -> None:
    from hostile_runs import nested

    data = {"x": ones(2), "c": np.array(True)}
    rep = prepare(nested(12))
    assert rep.run(data)[0].tolist() == [1, 1]
    assert "on the host" not in rep.report()
    deep = prepare(nested(20))
    assert deep.run(data)[0].tolist() == [1, 1]
    assert "known inputs: c" in deep.report()
    with pytest.raises(ModelFileError, match="nested more than 16 deep"):
        SONNXModel(nested(20)).forward(ones(2), np.array(True))


# -- narrowing ------------------------------------------------------------------------------------------------------


class Learner(SONNXModel):
    def train_one_batch(self, x: Any) -> Any:
        return self.forward(x)


@pytest.mark.parametrize("way", ["call", "forward", "train_one_batch", "list", "keyword"])
def test_integers_beyond_32_bits_are_never_narrowed(way: str) -> None:
    made = model(graph([node("Abs", ["x"], ["y"])], [info("x", [2], TensorProto.INT64)], [info("y", [2], 7)]))
    net, wide, right = Learner(made), ints(1, HUGE), ints(1, -2)
    ways: dict[str, Any] = {
        "call": net,
        "forward": net.forward,
        "train_one_batch": net.train_one_batch,
        "list": lambda x: net.forward(*[x]),
        "keyword": lambda x: net.train_one_batch(x=x),
    }
    with pytest.raises(DTypeError, match=r"32 bits.*int64 from 1 to 1099511627776"):
        ways[way](wide)
    assert ways[way](right)[0].to_numpy().tolist() == [1, 2]


def test_tensors_are_of_32_bits_already() -> None:
    made = model(graph([node("Abs", ["x"], ["y"])], [info("x", [2], TensorProto.INT64)], [info("y", [2], 7)]))
    assert Learner(made)(sx.Tensor(data=np.array([1, -2], np.int32)))[0].to_numpy().tolist() == [1, 2]
