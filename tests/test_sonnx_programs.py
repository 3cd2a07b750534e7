"""Compiled pieces of a graph: listings, what is computed of weights once, shared and packed programs, layout."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any
from weakref import WeakValueDictionary

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hostile_models import function, node
from hostile_runs import built, declared, ones
from jax import lax

from singax import ops
from singax.errors import ModelFileError
from singax.sonnx import Limits, prepare
from singax.sonnx.importer.budget import DEFAULT_BYTES, Allowance
from singax.sonnx.importer.layout import ChannelsLast, convolves
from singax.sonnx.importer.listing import computed, listed, needed, read_by, structure
from singax.sonnx.importer.prelude import Derived, split
from singax.sonnx.importer.program import MOST_ARRAYS, Program, packed
from singax.sonnx.operators.integer_products import integer_matmul, stretch, stretch_for

Array = Any
RNG = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def names_of(equations: Any) -> list[str]:
    return [equation.primitive.name for equation in equations]


# -- listings -------------------------------------------------------------------------------------------------------


def test_inner_calls_are_written_out() -> None:
    inner = jax.jit(lambda x: jax.checkpoint(jnp.sin)(x) + jax.nn.relu(x))
    listing = listed(jax.make_jaxpr(lambda x: (inner(x) * 2, x, 3.0))(ones(3)))
    assert not {"jit", "pjit", "checkpoint", "remat2", "custom_jvp_call"} & set(names_of(listing.equations))
    x = normal(3)
    values = computed(listing.equations, {**listing.constants, listing.inputs[0]: x})
    np.testing.assert_allclose(values[listing.outputs[0]], (np.sin(x) + np.maximum(x, 0)) * 2, rtol=1e-6)
    assert listing.outputs[1] == listing.inputs[0]
    assert listing.outputs[2].val == 3.0


def test_what_nobody_reads_is_left_out() -> None:
    listing = listed(jax.make_jaxpr(lambda x: (jnp.sin(x), jnp.cos(jnp.exp(x)))[0])(ones(3)))
    assert names_of(needed(listing.equations, listing.outputs)) == ["sin"]
    assert read_by(needed(listing.equations, listing.outputs)) == set(listing.inputs)


def key_of(function: Callable[..., Any], *shapes: Array) -> Any:
    listing = listed(jax.make_jaxpr(function)(*shapes))
    return structure(listing, listing.equations, listing.inputs)


def test_equal_programs_have_equal_keys() -> None:
    key = key_of(lambda x, y: jnp.sin(x) + 2 * y, ones(3), ones(3))
    assert key == key_of(lambda a, b: jnp.sin(a) + 2 * b, ones(3), ones(3))
    others = [
        key_of(lambda x, y: jnp.sin(y) + 2 * x, ones(3), ones(3)),
        key_of(lambda x, y: jnp.cos(x) + 2 * y, ones(3), ones(3)),
        key_of(lambda x, y: jnp.sin(x) + 3 * y, ones(3), ones(3)),
        key_of(lambda x, y: jnp.sin(x) + 2 * y, ones(4), ones(4)),
        key_of(lambda x, y: (jnp.sin(x) + 2 * y, x), ones(3), ones(3)),
    ]
    assert all(key != other for other in others)


def test_programs_with_bodies_equal_no_other() -> None:
    def loop(x: Array) -> Array:
        return lax.fori_loop(0, 3, lambda _, y: y * 2, x)

    assert key_of(loop, ones(3)) != key_of(loop, ones(3))


# -- the prelude ----------------------------------------------------------------------------------------------------


def test_what_depends_on_weights_alone_comes_first() -> None:
    listing = listed(jax.make_jaxpr(lambda x, w: x @ jnp.exp(w.T))(ones(2, 3), ones(4, 3)))
    parts = split(listing, {listing.inputs[1]})
    assert {"transpose", "exp"} <= set(names_of(parts.before))
    assert names_of(parts.rest) == ["dot_general"]
    assert len(parts.wanted) == 1


def test_what_grows_much_is_computed_in_the_program() -> None:
    listing = listed(jax.make_jaxpr(lambda x, w: x + jnp.exp(jnp.tile(w, 1 << 12)))(ones(1 << 18), ones(64)))
    parts = split(listing, {listing.inputs[1]})
    assert "exp" in names_of(parts.rest)
    assert parts.wanted == [listing.inputs[1]]


def allowing(most: int = DEFAULT_BYTES) -> Allowance:
    return Allowance("here", most, lambda *arguments: None)


def program(
    function: Any, given: list[Array], weights: Derived, names: list[str], shared: Any = None, most: int = DEFAULT_BYTES
) -> Program:
    others = WeakValueDictionary() if shared is None else shared
    return Program(function, given, jax.random.key(0), weights, names, others, allowing(most))


def no_key() -> Any:
    raise AssertionError("no key is wanted")


def test_a_result_of_weights_is_computed_once_and_lives_with_its_programs() -> None:
    weights, w = Derived({"w": normal(4, 3)}), "w"
    made = [
        program(lambda given, key, held, s=scale: given[0] @ jnp.exp(held[w].T) * s, [ones(2, 3)], weights, [w])
        for scale in (1.0, 2.0)
    ]
    assert made[0]._constants[0] is made[1]._constants[0]
    assert len(weights._arrays) == 1
    one, two = (np.asarray(p([ones(2, 4)[:, :3]], no_key)) for p in made)
    np.testing.assert_allclose(two, 2 * one, rtol=1e-6)
    del made
    assert not weights._arrays


def test_programs_of_one_structure_are_shared() -> None:
    weights, shared = Derived({"a": normal(3), "b": normal(3)}), WeakValueDictionary[Any, Any]()
    made = [
        program(lambda given, key, held, n=name: jnp.sin(given[0]) + held[n], [ones(3)], weights, [name], shared)
        for name in ("a", "b")
    ]
    assert [p.is_new for p in made] == [True, False]
    assert len(shared) == 1
    for p, name in zip(made, ("a", "b"), strict=True):
        np.testing.assert_allclose(p([ones(3)], no_key), np.sin(1.0) + weights.weight(name), rtol=1e-6)


def test_a_program_that_draws_gets_its_key() -> None:
    made = program(lambda given, key, held: given[0] + jax.random.uniform(key, (3,)), [ones(3)], Derived({}), [])
    keys = [jax.random.key(n) for n in (1, 2, 1)]
    a, b, c = (np.asarray(made([ones(3)], lambda k=key: k)) for key in keys)
    assert made.draws
    assert (a == c).all()
    assert (a != b).all()


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda given, key, held: jnp.outer(given[0], given[0]).sum(), "for one value"),
        (lambda given, key, held: [given[0] * n for n in range(2, 9)], "for its results"),
        (lambda given, key, held: given[0] + sum(jnp.exp(held["w"] * n) for n in range(2, 9)), ""),
    ],
)
def test_a_program_above_its_allowance_is_refused(function: Any, text: str) -> None:
    shared, weights = WeakValueDictionary[Any, Any](), Derived({"w": normal(100)})
    if not text:
        assert program(function, [ones(100)], weights, ["w"], shared, 2000).is_new
        return
    with pytest.raises(ModelFileError, match=rf"here.*1000 bytes.*{text}"):
        program(function, [ones(100)], weights, ["w"], shared, 1000)
    assert not shared


def test_a_prelude_above_its_allowance_is_refused() -> None:
    def function(given: list[Array], key: Any, held: dict[str, Array]) -> Array:
        return sum((jnp.sort(given[0] * jnp.exp(held["w"] * n)) for n in range(2, 9)), start=jnp.zeros(100))

    with pytest.raises(ModelFileError, match=r"here.*1000 bytes.*for its results"):
        program(function, [ones(100)], Derived({"w": normal(100)}), ["w"], None, 1000)


# -- packing --------------------------------------------------------------------------------------------------------


def test_few_arrays_stay_apart() -> None:
    arrays = [normal(2), normal(3)]
    kept, unpack = packed(arrays)
    assert kept is arrays
    assert unpack(kept) is arrays


def test_many_small_arrays_are_joined_by_dtype() -> None:
    arrays = [*(normal(n % 3, 2) for n in range(MOST_ARRAYS)), normal(100, 100)]
    arrays += [np.arange(3, dtype=np.int32), np.array(5, np.int32), normal(1)]
    kept, unpack = packed(arrays)
    assert [array.shape for array in kept[2:]] == [(100, 100)]
    for array, found in zip(arrays, jax.jit(unpack)(kept), strict=True):
        assert found.dtype == array.dtype
        np.testing.assert_array_equal(found, array)


def test_a_long_chain_of_weights() -> None:
    count = 2 * MOST_ARRAYS
    names = ["x", *(f"y{n}" for n in range(count - 1)), "y"]
    nodes = [node("Add" if n % 2 else "Mul", [names[n], f"w{n}"], [names[n + 1]]) for n in range(count)]
    weights = {f"w{n}": 1 + normal(64) / 100 for n in range(count)}
    rep = prepare(built(nodes, weights, {"x": ones(64)}))
    expected = ones(64)
    for n in range(count):
        expected = expected + weights[f"w{n}"] if n % 2 else expected * weights[f"w{n}"]
    np.testing.assert_allclose(rep.run([ones(64)])[0], expected, rtol=1e-4)
    assert rep.executor.compiled == 1


def test_equal_parts_of_a_graph_share_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("singax.sonnx.importer.pieces.MOST_NODES", 3)
    monkeypatch.setattr("singax.sonnx.importer.pieces.NODES_OF_A_PART", 2)
    names = ["x", "a", "b", "c", "d", "e", "y"]
    nodes = [node("Sin" if n % 2 else "Mul", [names[n]] if n % 2 else [names[n], f"w{n}"], [names[n + 1]])
             for n in range(6)]  # fmt: skip
    weights = {f"w{n}": normal(64) for n in range(0, 6, 2)}
    rep, x = prepare(built(nodes, weights, {"x": ones(64)})), normal(64)
    expected = functools.reduce(lambda y, w: np.sin(y * w), weights.values(), x)
    np.testing.assert_allclose(rep.run([x])[0], expected, rtol=1e-5)
    assert len(rep.executor.pieces()) == 3
    assert rep.executor.compiled == 1


# -- layout ---------------------------------------------------------------------------------------------------------


def images(x: Array, W: Array, v: Array) -> Array:
    """Convolutions and what stands between them: all that keeps its channels last, and what does not."""
    y = lax.conv_general_dilated(x, W, (1, 1), "SAME") * v.reshape(1, -1, 1, 1) + 1
    y = jnp.maximum(y, 0)[:, :, 1:, ::2]
    y = lax.reduce_window(y, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 1), "SAME")
    y = jnp.pad(jnp.concatenate([y, -y], 1), ((0, 0), (1, 0), (0, 2), (1, 1)))[:, 1:]
    y = lax.conv_general_dilated(y[:, : W.shape[1]], W, (1, 1), "SAME") + y[:, :1]
    return y.sum((2, 3)), y.reshape(y.shape[0], -1), jnp.where(y > 0, y, 0), y.max(1)


def test_images_with_their_channels_last_are_the_same() -> None:
    inputs = [normal(2, 3, 6, 8), normal(3, 3, 3, 3), normal(3)]
    listing = listed(jax.make_jaxpr(images)(*inputs))
    assert convolves(listing)
    lying = ChannelsLast(listing, {**listing.constants, **dict(zip(listing.inputs, inputs, strict=True))})
    lying.run(listing.equations)
    for atom, expected in zip(listing.outputs, images(*inputs), strict=True):
        np.testing.assert_allclose(lying.plain(atom), expected, rtol=1e-4, atol=1e-5)


def test_a_program_that_convolves_and_draws() -> None:
    def function(given: list[Array], key: Any, held: dict[str, Array]) -> Array:
        x = given[0] + jax.random.uniform(key, given[0].shape)
        return lax.conv_general_dilated(x, held["W"], (1, 1), "SAME")

    x, W, key = normal(2, 3, 4, 4), normal(3, 3, 3, 3), jax.random.key(5)
    made = program(function, [x], Derived({"W": W}), ["W"])
    np.testing.assert_allclose(made([x], lambda: key), function([x], key, {"W": W}), rtol=1e-4, atol=1e-5)


def test_a_program_without_convolution_stays_as_it_is() -> None:
    assert not convolves(listed(jax.make_jaxpr(lambda x: x @ x)(ones(3, 3))))


def test_two_convolutions_move_the_channels_twice() -> None:
    def net(x: Array, W: Array) -> Array:
        for _ in range(2):
            x = ops.relu(ops.conv(x, W, padding=[(1, 1), (1, 1)]))
        return x

    def moved(x: Array, W: Array) -> Array:
        lying = ChannelsLast(listing, dict(zip(listing.inputs, (x, W), strict=True)))
        lying.run(listing.equations)
        return lying.plain(listing.outputs[0])

    inputs = normal(1, 4, 5, 5), normal(4, 4, 3, 3)
    listing = listed(jax.make_jaxpr(net)(*inputs))
    found = names_of(listed(jax.make_jaxpr(moved)(*inputs)).equations)
    assert found.count("transpose") == 4  # the image there and back, and each kernel


# -- conditions, strings, known weights -----------------------------------------------------------------------------


def test_indices_are_watched_beside_packed_weights() -> None:
    weights = {f"w{n}": normal(64) for n in range(MOST_ARRAYS + 2)}
    nodes = [node("Sum", list(weights), ["s"]), node("Gather", ["s", "i"], ["y"], name="culprit")]
    rep = prepare(built(nodes, weights, {"i": np.array([1, 2])}))
    total = np.sum(list(weights.values()), axis=0)
    np.testing.assert_allclose(rep.run([np.array([3, -1])])[0], total[[3, -1]], rtol=1e-4, atol=1e-5)
    with pytest.raises(ModelFileError, match=r"culprit"):
        rep.run([np.array([3, 64])])


def test_equal_parts_name_their_own_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("singax.sonnx.importer.pieces.MOST_NODES", 1)
    monkeypatch.setattr("singax.sonnx.importer.pieces.NODES_OF_A_PART", 1)
    v, w = np.arange(5000), np.arange(5000) * 2
    v[7] = 5001
    nodes = [node("Gather", ["v", "i"], ["j"], name="first"), node("Gather", ["w", "j"], ["y"], name="second")]
    rep = prepare(built(nodes, {"v": v, "w": w}, {"i": np.array([1])}))
    assert rep.run([np.array([3])])[0].tolist() == [6]
    assert rep.executor.compiled == 1
    with pytest.raises(ModelFileError, match=r"'second'.*5001"):
        rep.run([np.array([7])])
    with pytest.raises(ModelFileError, match=r"'first'.*9999"):
        rep.run([np.array([9999])])


def test_the_limit_holds_before_a_program_is_compiled() -> None:
    made = built(
        [node("MatMul", ["x", "w"], ["y"], name="culprit")], {"w": normal(1, 1 << 12)}, {"x": ones(1 << 10, 1)}
    )
    with pytest.raises(ModelFileError, match=r"culprit.*Limits.run_bytes"):
        prepare(made, limits=Limits(run_bytes=1 << 20)).run([ones(1 << 10, 1)])


def test_a_weight_that_is_fed_counts_as_it_is_fed() -> None:
    """Where an input with a default is given, no operator may use the default's numbers."""
    default = np.full((64, 64), 1, np.int8)
    made = built([node("MatMulInteger", ["a", "b"], ["y"])], {"b": default}, {"a": np.ones((2, 64), np.int8)})
    made.graph.input.append(declared("b", default))
    rep, fed = prepare(made), np.full((64, 64), -128, np.int8)
    a = np.full((2, 64), -128, np.int8)
    assert (rep.run([a])[0] == -128 * 64).all()
    assert (rep.run({"a": a, "b": fed})[0] == 128 * 128 * 64).all()


@pytest.mark.parametrize("name", ["b", "inner"])
def test_a_function_knows_its_own_inputs(name: str) -> None:
    """`b` is also the name of a weight of the graph, with other numbers."""
    product = function("product", [node("MatMulInteger", ["a", name], ["y"])], ["a", name], ["y"])
    weights = {"b": np.ones((64, 64), np.int8), "large": np.full((64, 4096), -128, np.int8)}
    nodes = [node("MatMulInteger", ["x", "b"], ["z"]), node("product", ["x", "large"], ["y"], domain="local")]
    x = np.full((2, 64), -128, np.int8)
    imports = [("", 21), ("local", 1)]
    made = built(nodes, weights, {"x": x}, outputs=["y", "z"], functions=[product], imports=imports)
    y, z = prepare(made).run([x])
    assert (y == 64 << 14).all()
    assert (z == -128 * 64).all()


def test_strings_select_no_program() -> None:
    nodes = [node("StringConcat", ["s", "s"], ["t"]), node("Shape", ["t"], ["n"]), node("Mul", ["x", "w"], ["y"])]
    given = {"s": np.array(["a", "b"], object), "x": ones(64)}
    rep = prepare(built(nodes, {"w": normal(64)}, given, outputs=["t", "n", "y"]))
    for text in ("a", "b", "c"):
        found = rep.run([np.array([text, "z"], object), ones(64)])
        assert found[0].tolist() == [text * 2, "zz"]
        assert found[1].tolist() == [2]
    count = len(rep.executor.pieces())
    rep.run([np.array(["other", "z"], object), ones(64)])
    assert len(rep.executor.pieces()) == count


# -- integer products -----------------------------------------------------------------------------------------------


def test_small_weights_allow_long_stretches() -> None:
    small, large = np.full((2048, 2), 3, np.int8), np.full((2048, 2), -128, np.int8)
    assert stretch_for(255, small, None) == 2048
    assert stretch_for(255, large, None) == 512 >= stretch(255, 128) // 2
    assert stretch_for(255, small, np.array(3, np.int8)) == 2048
    assert stretch_for(1 << 24, small, None) is None
    assert stretch_for(255, None, None) is None
    assert stretch_for(255, small[0], None) is None


@pytest.mark.parametrize("zero", [None, np.array(-128, np.int8), np.array([5, -128], np.int8)])
def test_products_in_such_stretches_are_exact(zero: Any) -> None:
    a = RNG.integers(0, 256, (3, 1500)).astype(np.uint8)
    b = np.where(RNG.random((1500, 2)) < 0.5, 127, 126).astype(np.int8)
    b[::7] = -128
    expected = a.astype(np.int64) @ (b.astype(np.int64) - (0 if zero is None else zero.astype(np.int64)))
    most = stretch_for(255, b, zero)
    assert most is not None
    np.testing.assert_array_equal(integer_matmul(jnp.asarray(a), jnp.asarray(b), None, zero, most), expected)
