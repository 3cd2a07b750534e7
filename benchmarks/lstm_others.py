"""The character LSTM of the benchmark in other libraries: Flax Linen, and PyTorch eager where it is installed."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import optax
from lstm_singax import EMBEDDING, HIDDEN, VOCABULARY

Data = list[tuple[np.ndarray, np.ndarray]]
Loop = Callable[[int], Any]


def linen_loop(lr: float, data: Data) -> Loop:
    """Steps of `nn.RNN(nn.OptimizedLSTMCell)`."""
    from flax import linen as nn

    class CharLSTM(nn.Module):
        @nn.compact
        def __call__(self, ids: jax.Array) -> jax.Array:
            every = nn.RNN(nn.OptimizedLSTMCell(HIDDEN))(nn.Embed(VOCABULARY, EMBEDDING)(ids))
            return nn.Dense(VOCABULARY)(every.reshape(-1, HIDDEN))

    model, transform = CharLSTM(), optax.adam(lr)

    def objective(variables: Any, x: jax.Array, y: jax.Array) -> jax.Array:
        return optax.softmax_cross_entropy_with_integer_labels(model.apply(variables, x), y).mean()

    def step(state: Any, x: jax.Array, y: jax.Array) -> Any:
        variables, slots = state
        loss, grads = jax.value_and_grad(objective)(variables, x, y)
        updates, slots = transform.update(grads, slots, variables)
        return (optax.apply_updates(variables, updates), slots), loss

    step = jax.jit(step, donate_argnums=0)
    variables = model.init(jax.random.key(0), data[0][0])
    state = (variables, transform.init(variables))

    def loop(steps: int) -> Any:
        nonlocal state
        for index in range(steps):
            state, loss = step(state, *data[index % len(data)])
        return loss

    return loop


def torch_loop(lr: float, data: Data) -> Loop:
    """Steps of `torch.nn.LSTM`, eager."""
    import torch

    embed, head = torch.nn.Embedding(VOCABULARY, EMBEDDING), torch.nn.Linear(HIDDEN, VOCABULARY)
    lstm = torch.nn.LSTM(EMBEDDING, HIDDEN, batch_first=True)
    optimizer = torch.optim.Adam([p for part in (embed, lstm, head) for p in part.parameters()], lr)
    batches = [(torch.from_numpy(x).long(), torch.from_numpy(y).long()) for x, y in data]

    def loop(steps: int) -> Any:
        for index in range(steps):
            x, y = batches[index % len(batches)]
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(head(lstm(embed(x))[0].reshape(-1, HIDDEN)), y)
            loss.backward()
            optimizer.step()
        return loss.item()

    return loop


OTHERS = {
    name: loop
    for name, package, loop in (("linen", "flax", linen_loop), ("pytorch", "torch", torch_loop))
    if importlib.util.find_spec(package)
}
