"""Transformer layers and stacks; values and gradients stand in the catalogue."""

from __future__ import annotations

import copy
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from twins import normal

import singax as sx
from singax.layer import (
    Embedding,
    FeedForward,
    Linear,
    PositionalEncoding,
    TransformerDecoder,
    TransformerDecoderLayer,
    TransformerEncoder,
    TransformerEncoderLayer,
)

X, MEMORY = normal(2, 5, 8), normal(2, 4, 6, seed=1)


def tensor(x: Any) -> sx.Tensor:
    """A Tensor of an array."""
    return sx.Tensor(data=x)


def names(layer: Any) -> set[str]:
    """What the layer's direct members with parameters are called."""
    return {name.split(".")[0] for name in layer.get_params()}


def test_parameters() -> None:
    encoder, decoder = TransformerEncoderLayer(2, 16, bias=False, num_kv_heads=1), TransformerDecoderLayer(2)
    encoder(tensor(X))
    decoder(tensor(X), tensor(MEMORY))
    assert names(encoder) == {"attention", "feed_forward", "norm1", "norm2"}
    assert names(decoder) == {*names(encoder), "cross_attention", "norm3"}
    shapes = {name: t.shape for name, t in encoder.get_params().items()}
    assert shapes["attention.key.W"] == (8, 4)
    assert shapes["feed_forward.inner.W"] == (8, 16)
    assert [name for name in shapes if name.endswith(".b")] == []
    assert decoder.cross_attention.key.W.shape == (6, 8)
    assert decoder.feed_forward.inner.W.shape == (8, 32)


def test_stacks() -> None:
    plain, normed = TransformerEncoder(2, num_heads=2), TransformerEncoder(2, num_heads=2, norm_first=True)
    for stack in (plain, normed):
        stack(tensor(X))
    assert names(plain) == {"layers"}
    assert names(normed) == {"layers", "norm"}
    assert len(plain.get_params()) == 2 * len(plain.layers[0].get_params())
    chosen = TransformerDecoder(1, 2, eps=1e-3, final_norm=True)
    assert (chosen.norm.eps, chosen.layers[0].norm3.eps) == (1e-3, 1e-3)
    with pytest.raises(sx.errors.ArgumentError, match=r"num_layers must be .* Received: 0"):
        TransformerEncoder(0, 2)


@pytest.mark.parametrize("first", [False, True])
def test_residual_streams(first: bool) -> None:
    """With zeros for the outer matrices nothing is added to x."""
    layer = TransformerEncoderLayer(2, norm_first=first)
    layer(tensor(X))
    for inner in (layer.attention.out, layer.feed_forward.outer):
        inner.W.set_value(0.0)
    y = layer(tensor(X)).to_numpy()
    expected = X if first else layer.norm2(layer.norm1(tensor(X))).to_numpy()
    np.testing.assert_allclose(y, expected, atol=1e-6)


@pytest.mark.parametrize(
    ("activation", "function"),
    [
        ("gelu", jax.nn.gelu),
        (jnp.sin, jnp.sin),
        (sx.layer.Sigmoid(), jax.nn.sigmoid),
        (lambda x: x * 2, lambda x: x * 2),
    ],
)
def test_activations(activation: Any, function: Any) -> None:
    layer = FeedForward(5, activation)
    y = layer(tensor(X)).to_numpy()
    expected = function(X @ layer.inner.W.data) @ layer.outer.W.data
    np.testing.assert_allclose(y, expected, atol=3e-3)  # "gelu" is exact, jax.nn.gelu by default is not
    twin = copy.deepcopy(layer)
    np.testing.assert_array_equal(twin(tensor(X)).to_numpy(), y)


@pytest.mark.parametrize("make", [TransformerEncoderLayer, TransformerDecoderLayer, FeedForward])
def test_dropout_is_for_training(make: Any) -> None:
    layer = make(2, dropout=0.5)
    inputs = [tensor(X), tensor(MEMORY)][: 2 if make is TransformerDecoderLayer else 1]
    quiet = layer(*inputs).to_numpy()
    np.testing.assert_array_equal(layer(*inputs).to_numpy(), quiet)
    sx.autograd.training = True
    first, second = layer(*inputs).to_numpy(), layer(*inputs).to_numpy()
    assert np.any(first != second)


def test_decoder_does_not_see_the_future_but_all_of_the_memory() -> None:
    layer = TransformerDecoderLayer(2, dropout=0, norm_first=True, rotary=True)
    y = layer(tensor(X), tensor(MEMORY)).to_numpy()
    later = layer(tensor(X.at[:, 3:].add(1.0)), tensor(MEMORY)).to_numpy()
    np.testing.assert_array_equal(later[:, :3], y[:, :3])
    assert np.any(later[:, 3:] != y[:, 3:])
    other = layer(tensor(X), tensor(MEMORY.at[:, 3].add(1.0))).to_numpy()
    assert np.all(np.any(other != y, axis=-1))
    lengths = tensor(np.full(2, 3, np.int32))
    masked = [
        layer(tensor(X), tensor(m), memory_lengths=lengths).to_numpy() for m in (MEMORY, MEMORY.at[:, 3].add(1.0))
    ]
    np.testing.assert_array_equal(*masked)
    seen = tensor(np.arange(4)[None].repeat(2, 0) < 3)
    np.testing.assert_allclose(layer(tensor(X), tensor(MEMORY), memory_key_mask=seen).to_numpy(), masked[0], atol=1e-6)


@pytest.mark.parametrize("make", [TransformerEncoder, TransformerDecoder])
def test_decoding_with_caches(make: Any) -> None:
    stack = make(2, 2, causal=True, norm_first=True, rotary=True)
    memory = [] if make is TransformerEncoder else [tensor(MEMORY)]
    whole = stack(tensor(X), *memory).to_numpy()
    caches = stack.empty_cache(2, 5)
    for first, last in ((0, 3), (3, 4), (4, 5)):
        y, caches = stack(tensor(X[:, first:last]), *memory, caches=caches)
        np.testing.assert_allclose(y.to_numpy(), whole[:, first:last], atol=1e-5)
    with pytest.raises(sx.errors.ArgumentError, match=r"a cache for each of 2 layers. Received: 1"):
        stack(tensor(X), *memory, caches=caches[:1])


class Echo(sx.Module):
    """A small GPT that learns to repeat the token before the last."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.positions = Embedding(7, 16), PositionalEncoding(dropout=0.1)
        self.blocks = TransformerEncoder(2, 2, 32, "gelu", dropout=0.1, norm_first=True, causal=True)
        self.head, self.loss = Linear(7), sx.layer.SoftMaxCrossEntropy()
        self.optimizer = sx.opt.Adam(lr=0.01)

    def forward(self, ids: jax.Array) -> jax.Array:
        return self.head(self.blocks(self.positions(self.tokens(ids)))).reshape(-1, 7)

    def train_one_batch(self, ids: sx.Tensor, targets: sx.Tensor) -> tuple[sx.Tensor, sx.Tensor]:
        out = self.forward(ids)
        loss = self.loss(out, targets)
        self.optimizer(loss)
        return out, loss


def test_a_small_gpt_learns_to_look_back() -> None:
    net, rng = Echo(), np.random.default_rng(0)
    net.compile([sx.Placeholder((16, 6), dtype=sx.int32)], is_train=True, use_graph=True)
    for _ in range(200):
        loss = net(*batch(rng))[1]
    assert float(loss.to_numpy()[0]) < 1.0
    net.eval()
    ids, targets = batch(rng)
    assert np.mean(net(ids).to_numpy().argmax(-1) == targets) > 0.95


def batch(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Random tokens, and the same one later."""
    ids = rng.integers(0, 7, (16, 6)).astype(np.int32)
    return ids, np.concatenate([ids[:, :1], ids[:, :-1]], axis=1).reshape(-1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TransformerEncoderLayer(2, 0), r"hidden_features must be an integer from 1 up. Received: 0"),
        (lambda: TransformerEncoderLayer(2, activation="swoosh"), r"activation must be 'relu'.* Received: 'swoosh'"),
        (lambda: TransformerEncoderLayer(2, activation=3), r"activation must be 'relu'.* Received: 3"),
        (lambda: TransformerDecoderLayer(2, out_features=3), r"keywords among head_dim.* Received: out_features"),
        (lambda: TransformerEncoderLayer(2, dropout=2), r"ratio must be .* Received: 2"),
        (lambda: TransformerEncoderLayer(2, eps=-1), r"eps must be .* Received: -1"),
    ],
)
def test_refused_arguments(make: Any, message: str) -> None:
    with pytest.raises(sx.errors.ArgumentError, match=message):
        make()


def test_errors_say_where() -> None:
    stack = TransformerEncoder(2, 2)
    stack(tensor(X))
    with pytest.raises(sx.errors.ShapeError, match=r"layers.0.attention \(MultiHeadAttention\): expected a mask"):
        stack(tensor(X), tensor(np.ones((3, 3), bool)))
    with pytest.raises(sx.errors.ShapeError, match=r"query \(N, T, D\). Received shape \(2, 8\)"):
        TransformerDecoderLayer(2)(tensor(X[:, 0]), tensor(MEMORY))
