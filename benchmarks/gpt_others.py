"""The small GPT of the benchmark in other libraries: Flax Linen, and PyTorch eager where it is installed."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from gpt_plain import optimizer
from gpt_singax import HEADS, LAYERS, LENGTH, VOCABULARY, WEIGHT_DECAY, WIDTH

Data = list[tuple[np.ndarray, np.ndarray]]
Loop = Callable[[int], Any]


def linen_loop(lr: float, data: Data) -> Loop:
    """Steps of `nn.MultiHeadDotProductAttention`, `nn.LayerNorm` and `nn.Dense`."""
    from flax import linen as nn

    class Block(nn.Module):
        @nn.compact
        def __call__(self, x: jax.Array, mask: jax.Array) -> jax.Array:
            y = nn.LayerNorm(epsilon=1e-5)(x)
            x = x + nn.MultiHeadDotProductAttention(HEADS)(y, mask=mask)
            y = nn.gelu(nn.Dense(4 * WIDTH)(nn.LayerNorm(epsilon=1e-5)(x)), approximate=False)
            return x + nn.Dense(WIDTH)(y)

    class GPT(nn.Module):
        @nn.compact
        def __call__(self, ids: jax.Array) -> jax.Array:
            x = nn.Embed(VOCABULARY, WIDTH)(ids) + nn.Embed(LENGTH, WIDTH)(jnp.arange(LENGTH))
            mask = nn.make_causal_mask(ids)
            for _ in range(LAYERS):
                x = Block()(x, mask)
            return nn.Dense(VOCABULARY)(nn.LayerNorm(epsilon=1e-5)(x)).reshape(-1, VOCABULARY)

    model, transform = GPT(), optimizer(lr)

    def objective(variables: Any, x: jax.Array, y: jax.Array) -> jax.Array:
        return optax.softmax_cross_entropy_with_integer_labels(model.apply(variables, x), y).mean()

    def step(state: Any, x: jax.Array, y: jax.Array) -> Any:
        variables, slots = state
        loss, grads = jax.value_and_grad(objective)(variables, x, y)
        updates, slots = transform.update(grads, slots, variables)
        return (optax.apply_updates(variables, updates), slots), loss

    step = jax.jit(step, donate_argnums=0)
    variables = jax.jit(model.init)(jax.random.key(0), data[0][0])
    state = (variables, transform.init(variables))

    def loop(steps: int) -> Any:
        nonlocal state
        for index in range(steps):
            state, loss = step(state, *data[index % len(data)])
        return loss

    return loop


def torch_loop(lr: float, data: Data) -> Loop:
    """Steps of `torch.nn.TransformerEncoder`, eager."""
    import torch

    class GPT(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens = torch.nn.Embedding(VOCABULARY, WIDTH)
            self.positions = torch.nn.Parameter(0.02 * torch.randn(LENGTH, WIDTH))
            block = torch.nn.TransformerEncoderLayer(
                WIDTH, HEADS, 4 * WIDTH, 0.0, "gelu", batch_first=True, norm_first=True
            )
            self.blocks = torch.nn.TransformerEncoder(block, LAYERS, torch.nn.LayerNorm(WIDTH), False)
            self.head = torch.nn.Linear(WIDTH, VOCABULARY)
            self.register_buffer("mask", torch.nn.Transformer.generate_square_subsequent_mask(LENGTH))

        def forward(self, ids: Any) -> Any:
            x = self.blocks(self.tokens(ids) + self.positions, self.mask, is_causal=True)
            return self.head(x).reshape(-1, VOCABULARY)

    model = GPT()
    optimizer = torch.optim.AdamW(model.parameters(), lr, weight_decay=WEIGHT_DECAY)
    batches = [(torch.from_numpy(x).long(), torch.from_numpy(y).long()) for x, y in data]

    def loop(steps: int) -> Any:
        for index in range(steps):
            x, y = batches[index % len(batches)]
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
        return loss.item()

    return loop


OTHERS = {
    name: loop
    for name, package, loop in (("linen", "flax", linen_loop), ("pytorch", "torch", torch_loop))
    if importlib.util.find_spec(package)
}
