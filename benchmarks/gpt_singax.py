"""The small GPT of the benchmark, written with singax."""

from __future__ import annotations

import jax

import singax as sx
from singax.layer import Embedding, Linear, PositionalEmbedding, TransformerEncoder

VOCABULARY, WIDTH, LENGTH, LAYERS, HEADS = 64, 128, 64, 4, 4
WEIGHT_DECAY = 0.01


class GPT(sx.Module):
    """Ids (N, T) → scores of the next character (N · T, V)."""

    def __init__(self, lr: float) -> None:
        super().__init__()
        self.tokens, self.positions = Embedding(VOCABULARY, WIDTH), PositionalEmbedding(LENGTH)
        self.blocks = TransformerEncoder(LAYERS, HEADS, 4 * WIDTH, "gelu", dropout=0, norm_first=True, causal=True)
        self.head, self.loss = Linear(VOCABULARY), sx.layer.SoftMaxCrossEntropy()
        self.optimizer = sx.opt.AdamW(lr, weight_decay=WEIGHT_DECAY)

    def forward(self, ids: jax.Array) -> jax.Array:
        return self.head(self.blocks(self.positions(self.tokens(ids)))).reshape(-1, VOCABULARY)

    def train_one_batch(self, x: sx.Tensor, y: sx.Tensor) -> tuple[sx.Tensor, sx.Tensor]:
        out = self.forward(x)
        loss = self.loss(out, y)
        self.optimizer(loss)
        return out, loss
