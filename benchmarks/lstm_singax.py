"""The character LSTM of the benchmark, written with singax."""

from __future__ import annotations

import jax

import singax as sx
from singax.layer import LSTM, Embedding, Linear

VOCABULARY, EMBEDDING, HIDDEN = 64, 128, 256


class CharLSTM(sx.Module):
    """Ids (B, T) → scores of the next character (B · T, V)."""

    def __init__(self, lr: float) -> None:
        super().__init__()
        self.embed, self.head = Embedding(VOCABULARY, EMBEDDING), Linear(VOCABULARY)
        self.lstm = LSTM(EMBEDDING, HIDDEN, batch_first=True)
        self.loss, self.optimizer = sx.layer.SoftMaxCrossEntropy(), sx.opt.Adam(lr)

    def forward(self, ids: jax.Array) -> jax.Array:
        every, _, _ = self.lstm(self.embed(ids))
        return self.head(every.reshape(-1, HIDDEN))

    def train_one_batch(self, x: sx.Tensor, y: sx.Tensor) -> tuple[sx.Tensor, sx.Tensor]:
        out = self.forward(x)
        loss = self.loss(out, y)
        self.optimizer(loss)
        return out, loss
