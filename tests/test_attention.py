"""Attention, its caches and its masks; values and gradients over many shapes stand in the catalogue."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rows.attention import attended, multi_head, turned
from twins import normal, onnx_of

import singax as sx
from singax import ops
from singax.layer import MultiHeadAttention, PositionalEmbedding, PositionalEncoding

Q, K, V = normal(2, 4, 3, 6), normal(2, 2, 5, 6, seed=1), normal(2, 2, 5, 3, seed=2)
X = normal(2, 5, 8)


def called(layer: Any, *inputs: Any, **keywords: Any) -> Any:
    """The layer's arrays for arrays."""
    given = jax.tree.map(lambda v: sx.Tensor(data=v), (inputs, keywords))
    out = layer(*given[0], **given[1])
    return jax.tree.map(lambda v: v.data, out, is_leaf=lambda v: isinstance(v, sx.Tensor))


# -- the operations ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("extra", "attributes"),
    [
        ([], {}),
        ([], {"is_causal": 1, "scale": 0.7}),
        ([normal(3, 5) > 0], {"softcap": 1.5}),
        ([normal(2, 1, 3, 5, seed=4)], {"is_causal": 1}),
        (
            [np.zeros((3, 7), np.float32), normal(2, 2, 2, 6, seed=5), normal(2, 2, 2, 3, seed=6)],
            {"is_causal": 1},
        ),
    ],
)
def test_attention_is_its_onnx_twin(extra: list[Any], attributes: dict[str, Any]) -> None:
    inputs = [Q, K, V, *extra]
    outputs = 3 if len(extra) == 3 else 1
    y = jax.jit(functools.partial(ops.attention, **attributes))(*inputs)
    expected = onnx_of(ops.attention, inputs, outputs, 23, **attributes)
    np.testing.assert_allclose(y[0] if outputs == 3 else y, expected, atol=1e-5)


def test_flat_attention_is_its_onnx_twin() -> None:
    inputs = [normal(2, 3, 12), normal(2, 5, 6, seed=1), normal(2, 5, 4, seed=2)]
    attributes = {"q_num_heads": 4, "kv_num_heads": 2}
    y = ops.attention(*inputs, **attributes)
    np.testing.assert_allclose(y, onnx_of(ops.attention, inputs, 1, 23, **attributes), atol=1e-5)
    assert ops.attention.twin.convert({**attributes, "is_causal": True}) == {**attributes, "is_causal": 1}


@pytest.mark.parametrize("attributes", [{}, {"interleaved": 1}, {"rotary_embedding_dim": 4}])
def test_rotary_embedding_is_its_onnx_twin(attributes: dict[str, Any]) -> None:
    size = attributes.get("rotary_embedding_dim", 6) // 2
    cos, sin, ids = normal(9, size, seed=1), normal(9, size, seed=2), np.array([[0, 3, 8], [1, 1, 2]])
    y = ops.rotary_embedding(Q, cos, sin, ids, **attributes)
    np.testing.assert_allclose(y, onnx_of(ops.rotary_embedding, [Q, cos, sin, ids], 1, 23, **attributes), atol=1e-5)
    np.testing.assert_allclose(y, ops.rotary_embedding(Q, cos[ids], sin[ids], **attributes), atol=1e-6)


EMPTY = np.array([[True, False, True, False, False], [False] * 5, [False, False, False, False, True]])


@pytest.mark.parametrize("mask", [EMPTY, np.where(EMPTY, 0.5, -np.inf).astype(np.float32)])
def test_a_query_without_keys_gives_zeros_and_no_nan(mask: Any) -> None:
    """Query 1 may see no key; with `causal` query 2 may not either, as its only key lies in the future."""
    for causal, empty in ((0, [1]), (1, [1, 2])):
        attend = functools.partial(ops.attention, is_causal=causal)
        y = attend(Q, K, V, mask)
        np.testing.assert_allclose(y, attended(Q, K, V, mask, is_causal=causal), atol=1e-5)
        assert not np.any(np.asarray(y)[:, :, empty])
        grads = jax.grad(lambda *a, f=attend: jnp.sum(jnp.sin(f(*a, mask))), (0, 1, 2))(Q, K, V)
        assert all(np.isfinite(g).all() for g in grads)
        assert not np.any(np.asarray(grads[0])[:, :, empty])


def test_no_gradient_through_an_excluded_key() -> None:
    mask = jnp.asarray([0.0, -jnp.inf, 1.0, 2.0, -jnp.inf])
    _, dk, dv, dmask = jax.grad(lambda *a: jnp.sum(jnp.sin(ops.attention(*a))), (0, 1, 2, 3))(Q, K, V, mask)
    for gradient in (dk, dv):
        assert not np.any(np.asarray(gradient)[:, :, [1, 4]])
    assert np.isfinite(dmask).all()
    assert not np.any(np.asarray(dmask)[[1, 4]])


def test_large_scores_do_not_overflow() -> None:
    y = ops.attention(Q * 1e4, K * 1e4, V)
    assert np.isfinite(y).all()
    best = np.einsum("nhtd,nhsd->nhts", Q, np.repeat(K, 2, 1)).argmax(-1)
    np.testing.assert_allclose(y, np.take_along_axis(np.repeat(V, 2, 1), best[..., None], 2), atol=1e-5)


def test_float64_is_not_narrowed() -> None:
    with jax.enable_x64(True):
        wide = [np.asarray(v, np.float64) for v in (Q, K, V)]
        np.testing.assert_allclose(ops.attention(*wide, is_causal=1), attended(*wide, is_causal=1), rtol=1e-12)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision(dtype: str) -> None:
    half = [jnp.asarray(v, dtype) for v in (Q, K, V)]
    bias = jnp.asarray(normal(4, 3, 5), dtype)
    y, pull = jax.vjp(ops.attention, *half, bias)
    exact = attended(*(np.asarray(v, np.float64) for v in (*half, bias)))
    assert y.dtype == jnp.dtype(dtype)
    np.testing.assert_allclose(np.asarray(y, np.float64), exact, atol=0.02)
    wide = jax.vjp(ops.attention, *(v.astype(jnp.float32) for v in (*half, bias)))[1](jnp.ones(y.shape))
    for ours, theirs in zip(pull(jnp.ones_like(y)), wide, strict=True):
        assert ours.dtype == y.dtype
        np.testing.assert_allclose(np.asarray(ours, np.float32), theirs, atol=0.02 * float(jnp.abs(theirs).max() + 1))


def test_dropout_of_weights() -> None:
    """With one value per key that is one-hot, the outputs are the weights: 0 or twice what they are."""
    V = jnp.broadcast_to(jnp.eye(5)[None, None], (2, 2, 5, 5))
    weights = np.asarray(ops.attention(Q, K, V))
    keys = jax.random.split(jax.random.key(0), 400)
    dropped = jax.jit(jax.vmap(lambda key: ops.attention_with_dropout(Q, K, V, key, ratio=0.5)))(keys)
    ratios = np.asarray(dropped) / weights
    assert np.all(np.isclose(ratios, 0) | np.isclose(ratios, 2, rtol=1e-4))
    np.testing.assert_allclose(ratios.mean(0), 1, atol=0.25)
    assert len({row.tobytes() for row in (ratios[0].reshape(8, -1) > 1)}) == 8  # heads and samples have their own masks


def test_refused_arguments_of_operations() -> None:
    with pytest.raises(sx.errors.ArgumentError, match=r"past_key and past_value together.* Received: one"):
        ops.attention(Q, K, V, None, K)
    with pytest.raises(sx.errors.ArgumentError, match=r"ratio must be .* Received: 1"):
        ops.attention_with_dropout(Q, K, V, jax.random.key(0), ratio=1)
    with pytest.raises(
        sx.errors.ShapeError, match=r"mask that broadcasts .*\(2, 4, 3, 5\). Received shape \(2, 3, 5\)"
    ):
        ops.attention(Q, K, V, jnp.ones((2, 3, 5), bool))
    with pytest.raises(sx.errors.ShapeError, match=r"even number .*6.* Received: 8"):
        ops.rotary_embedding(Q, Q, Q, rotary_embedding_dim=8)


# -- the layer --------------------------------------------------------------------------------------------------


def test_parameters() -> None:
    layer = MultiHeadAttention(4, 3, 2, out_features=5)
    called(layer, X, normal(2, 6, 7), normal(2, 6, 9))
    assert {name: t.shape for name, t in layer.get_params().items()} == {
        "query.W": (8, 12), "query.b": (12,), "key.W": (7, 6), "key.b": (6,),
        "value.W": (9, 6), "value.b": (6,), "out.W": (12, 5), "out.b": (5,),
    }  # fmt: skip
    layer = MultiHeadAttention(2, bias=False, kernel_init="ones")
    called(layer, X)
    assert [name for name in layer.get_params() if "b" in name.split(".")[1]] == []
    np.testing.assert_array_equal(layer.out.W.to_numpy(), np.ones((8, 8)))


def test_one_argument_is_self_attention() -> None:
    layer = MultiHeadAttention(2)
    y = called(layer, X)
    np.testing.assert_array_equal(y, called(layer, X, X))
    np.testing.assert_array_equal(y, called(layer, X, X, X))
    assert np.any(np.asarray(y != called(layer, X, X, 2 * X)))


@pytest.mark.parametrize("options", [{}, {"num_kv_heads": 1}, {"rotary": True, "head_dim": 6}])
def test_causal_attention_does_not_see_the_future(options: dict[str, Any]) -> None:
    layer = MultiHeadAttention(2, causal=True, **options)
    y = called(layer, X)
    for t in range(4):
        changed = called(layer, X.at[:, t + 1 :].add(1.0))
        np.testing.assert_array_equal(changed[:, : t + 1], y[:, : t + 1])
        assert np.all(np.any(np.asarray(changed[:, t + 1 :] != y[:, t + 1 :]), axis=-1))


def test_rotary_scores_depend_on_distances_alone() -> None:
    """Attention to a sequence that is padded on the left by masked positions is the same."""
    layer = MultiHeadAttention(2, 4, causal=True, rotary=True)
    later = jnp.concatenate([jnp.ones((2, 3, 8)), X], axis=1)
    mask = jnp.arange(8)[None, :] >= 3
    y = called(layer, later, key_mask=jnp.broadcast_to(mask, (2, 8)))
    np.testing.assert_allclose(y[:, 3:], called(layer, X), atol=1e-5)
    assert np.any(np.abs(np.asarray(turned(Q, np.arange(3), 6) - Q)) > 0.1)


@pytest.mark.parametrize(
    "masks",
    [
        {"key_lengths": np.array([5, 2], np.int32)},
        {"key_lengths": np.array([0, 5], np.int32)},
        {"key_mask": np.asarray(normal(2, 5) > 0)},
        {"mask": np.asarray(normal(2, 5, 5)), "key_lengths": np.array([3, 5], np.int32)},
        {"mask": np.asarray(normal(2, 1, 1, 5) > 0), "key_mask": np.asarray(normal(2, 5) < 0)},
    ],
)
def test_masks_are_combined(masks: dict[str, Any]) -> None:
    layer = MultiHeadAttention(2, causal=True, bias_init="normal")
    y = called(layer, X, **masks)
    states = {name: t.to_numpy() for name, t in layer.get_states().items()}
    np.testing.assert_allclose(y, multi_head(states, np.asarray(X), heads=2, causal=True, **masks), atol=1e-5)


def test_a_sample_of_padding_alone_trains_without_nan() -> None:
    sx.autograd.training = True
    layer = MultiHeadAttention(2)
    x = sx.Tensor(data=X, requires_grad=True)
    y = layer(x, key_lengths=sx.Tensor(data=np.zeros(2, np.int32)))
    np.testing.assert_array_equal(y.to_numpy(), np.zeros((2, 5, 8)))
    loss = sx.layer.MeanSquareError()(y, sx.Tensor(data=normal(2, 5, 8, seed=1)))
    assert all(np.isfinite(gradient.to_numpy()).all() for _, gradient in sx.autograd.backward(loss))


def test_new_masks_every_step() -> None:
    layer = MultiHeadAttention(2, dropout=0.5)
    quiet = called(layer, X)
    np.testing.assert_array_equal(quiet, called(layer, X))
    sx.autograd.training = True
    first, second = called(layer, X), called(layer, X)
    assert np.any(np.asarray(first != second))
    assert np.any(np.asarray(first != quiet))


def test_rematerialised_dropout_draws_the_same_mask() -> None:
    class Both(sx.layer.Layer):
        def __init__(self, remat: bool) -> None:
            super().__init__()
            self.attention, self.remat = MultiHeadAttention(2, dropout=0.5), remat

        def forward(self, x: jax.Array) -> jax.Array:
            call = jax.checkpoint(self.attention) if self.remat else self.attention
            return jnp.sum(jnp.sin(call(x)), keepdims=True)[0, 0]

    results = []
    for remat in (False, True):
        sx.device.set_seed(0)
        sx.autograd.training = False
        layer, x = Both(remat), sx.Tensor(data=X, requires_grad=True)
        layer(x)
        layer.set_params({name: np.asarray(normal(*t.shape)) for name, t in layer.get_params().items()})
        sx.autograd.training = True
        sx.device.set_seed(1)
        out = layer(x)
        results.append((out.to_numpy(), out.creator.backward(jnp.ones(out.shape))[0]))
    np.testing.assert_allclose(*(value for value, _ in results), rtol=1e-5)
    np.testing.assert_allclose(*(gradient for _, gradient in results), atol=1e-5)


# -- caches -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"num_kv_heads": 1, "rotary": 0.5}])
def test_step_by_step_with_a_cache(options: dict[str, Any]) -> None:
    """Chunks of 2, 1 and 2 positions give what the whole sequence gives; then the cache is full."""
    layer = MultiHeadAttention(2, causal=True, **options)
    whole = called(layer, X)
    cache = layer.empty_cache(2, 5)
    assert cache[0].shape == (2, 5, 8 // (2 // layer.num_kv_heads))
    for first, last in ((0, 2), (2, 3), (3, 5)):
        y, cache = called(layer, X[:, first:last], cache=cache)
        np.testing.assert_allclose(y, whole[:, first:last], atol=1e-5)
    assert int(cache[2]) == 5
    y, cache = called(layer, X[:, :1], cache=cache)
    assert np.isnan(y).all()


def test_cache_without_causality_and_with_masks() -> None:
    layer = MultiHeadAttention(2)
    whole = called(layer, X, key_lengths=jnp.asarray([5, 4]))
    _, cache = called(layer, X[:, :3], cache=layer.empty_cache(2, 9))
    y, _ = called(layer, X[:, 3:], cache=cache, key_lengths=jnp.asarray([5, 4]))
    np.testing.assert_allclose(y, whole[:, 3:], atol=1e-5)


def test_decoding_in_one_program() -> None:
    """The cache has one shape, so that a loop over positions can be compiled."""
    layer = MultiHeadAttention(2, causal=True, rotary=True)
    whole = called(layer, X)

    class Decoder(sx.layer.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.attention = layer

        def forward(self, x: jax.Array) -> jax.Array:
            def step(cache: Any, x: jax.Array) -> Any:
                y, cache = self.attention(x[:, None], cache=cache)
                return cache, y[:, 0]

            _, ys = jax.lax.scan(step, self.attention.empty_cache(2, 5), x.swapaxes(0, 1))
            return ys.swapaxes(0, 1)

    np.testing.assert_allclose(called(Decoder(), X), whole, atol=1e-5)


def test_refused_caches() -> None:
    layer = MultiHeadAttention(2)
    with pytest.raises(sx.errors.UninitializedError, match="give head_dim"):
        layer.empty_cache(2, 5)
    keys, values, length = MultiHeadAttention(2, 4).empty_cache(2, 5, jnp.bfloat16)
    assert (keys.shape, values.dtype) == ((2, 5, 8), jnp.bfloat16)
    for cache, message in (
        ((keys[:1], values[:1], length), r"\(2, size, 8\). Received shapes \(1, 5, 8\)"),
        ((keys[:, :4], values[:, :4], length), "at least 5 positions. Received one of 4"),
        ((keys, values, jnp.zeros(2, jnp.int32)), r"one integer. Received: int32\(2,\)"),
        ((keys, values), "a cache of keys, values and a length. Received: 2"),
    ):
        with pytest.raises(sx.errors.SingaxError, match=message):
            called(layer, X, cache=cache)


# -- bad arguments, dtypes, positions ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_heads": 0}, "num_heads must be an integer from 1 up. Received: 0"),
        ({"num_heads": 4, "num_kv_heads": 3}, "num_kv_heads must divide num_heads, 4. Received: 3"),
        ({"num_heads": 2, "head_dim": 2.5}, "head_dim must be an integer from 1 up. Received: 2.5"),
        ({"num_heads": 2, "dropout": 1}, "ratio must be .* Received: 1"),
        ({"num_heads": 2, "head_dim": 3, "rotary": True}, "rotary must select an even number.* Received: 1.0 of 3"),
        ({"num_heads": 2, "rotary": 2}, "rotary must be a bool, or a part from 0 to 1. Received: 2"),
        ({"num_heads": 2, "rotary_base": 0}, "rotary_base must be a number above 0. Received: 0"),
    ],
)
def test_refused_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(sx.errors.ArgumentError, match=message):
        MultiHeadAttention(**arguments)


def test_refused_inputs_leave_the_layer_as_it_was() -> None:
    layer = MultiHeadAttention(3)
    with pytest.raises(sx.errors.ShapeError, match=r"features that the 3 heads divide, or a head_dim. Received: 8"):
        called(layer, X)
    np.testing.assert_array_equal(called(layer, normal(2, 4, 6)).shape, (2, 4, 6))
    with pytest.raises(sx.errors.ShapeError, match=r"query \(Linear\): expected an input \(…, 6\)"):
        called(layer, X)
    with pytest.raises(sx.errors.ArgumentError, match=r"MultiHeadAttention: .*even number"):
        called(MultiHeadAttention(8, rotary=True), X)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_no_implicit_promotion(dtype: str) -> None:
    x = sx.Tensor(data=jnp.asarray(X, dtype))
    masks = {
        "mask": sx.Tensor(data=normal(2, 5, 5)),
        "key_mask": sx.Tensor(data=np.ones((2, 5), bool)),
        "key_lengths": sx.Tensor(data=np.full(2, 4, np.int32)),
    }
    with jax.numpy_dtype_promotion("strict"):
        for training in (False, True):
            sx.autograd.training = training
            layer = MultiHeadAttention(2, causal=True, rotary=True, dropout=0.1)
            assert layer(x, **masks).dtype == x.dtype
            assert layer.query.W.dtype == x.dtype
            assert PositionalEmbedding(8)(PositionalEncoding(0.1)(x)).dtype == x.dtype


def test_positions_that_start_later() -> None:
    zeros = jnp.zeros((2, 6, 5))
    encoding, embedding = PositionalEncoding(base=100.0), PositionalEmbedding(6)
    for layer in (encoding, embedding):
        whole = called(layer, zeros)
        for start in (2, jnp.asarray(2)):
            np.testing.assert_allclose(layer(sx.Tensor(data=zeros[:, :3]), start).to_numpy(), whole[:, 2:5], atol=1e-6)
        with pytest.raises(sx.errors.ShapeError, match=r"start that is one integer. Received: float32"):
            layer(sx.Tensor(data=zeros[:, :3]), sx.Tensor(data=np.ones(2, np.float32)))
    np.testing.assert_allclose(whole[0], embedding.W.to_numpy())
    beyond = embedding(sx.Tensor(data=zeros[:, :3]), sx.Tensor(data=np.int32(4))).to_numpy()
    assert np.isnan(beyond[:, 2]).all()
    assert np.isfinite(beyond[:, :2]).all()
    with pytest.raises(sx.errors.ArgumentError, match=r"max_length must be an integer from 1 up. Received: 0"):
        PositionalEmbedding(0)


def test_positions_are_trained_where_they_are_used() -> None:
    sx.autograd.training = True
    layer = PositionalEmbedding(6)
    y = layer(sx.Tensor(data=jnp.zeros((2, 3, 5))))
    ((parameter, gradient),) = sx.autograd.backward(sx.layer.MeanSquareError()(y, sx.Tensor(data=jnp.ones((2, 3, 5)))))
    assert parameter is layer.W
    assert not np.any(gradient.to_numpy()[3:])
    assert np.all(gradient.to_numpy()[:3])
