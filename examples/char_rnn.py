"""A character-level language model: an LSTM whose state is carried from batch to batch.

    python examples/char_rnn.py                      # on the help texts that ship with Python
    python examples/char_rnn.py --text shakespeare.txt --epochs 10 --hidden 256
    python examples/char_rnn.py --quick              # a few seconds

The text is cut into `--batch` streams that are read side by side, `--seq` characters at a time. Where a batch ends the
next one goes on, so the LSTM keeps its state: `self.hx` and `self.cx` are Tensors of the model, which a compiled step
carries along. Printed are bits per character, next to the entropy of single characters: what a model that knows
nothing but the frequency of each character could reach.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np

import singax as sx

try:
    from tqdm.auto import tqdm
except ImportError:

    def tqdm(iterable: Any, **options: Any) -> Any:
        return iterable


class CharRNN(sx.Module):
    """ids (B, T) → logits (B · T, V) and the state of the LSTM after the last character."""

    def __init__(self, characters: int, batch: int, hidden: int, lr: float) -> None:
        super().__init__()
        self.embedding = sx.layer.Embedding(characters, min(characters, hidden))
        self.lstm = sx.layer.LSTM(None, hidden, batch_first=True)
        self.head = sx.layer.Linear(characters)
        self.loss = sx.layer.SoftMaxCrossEntropy()
        self.optimizer = sx.opt.Adam(lr=lr)
        self.hx = sx.Tensor((batch, hidden), requires_grad=False)
        self.cx = sx.Tensor((batch, hidden), requires_grad=False)
        self.forget()

    def forget(self) -> None:
        """Start again at the beginning of the text."""
        self.hx.set_value(0.0)
        self.cx.set_value(0.0)

    def forward(self, ids: jax.Array, states: Any = None) -> Any:
        outputs, h, c = self.lstm(self.embedding(ids), states)
        return self.head(outputs.reshape(-1, outputs.shape[-1])), h, c

    def train_one_batch(self, ids: sx.Tensor, following: sx.Tensor) -> sx.Tensor:
        logits, self.hx, self.cx = self.forward(ids, (self.hx, self.cx))
        loss = self.loss(logits, following)
        self.optimizer(loss)
        return loss


class Text:
    """A text as numbers, cut into batches of consecutive pieces."""

    def __init__(self, text: str, batch: int, seq: int) -> None:
        self.characters = sorted(set(text))
        self.number = {character: index for index, character in enumerate(self.characters)}
        ids = np.array([self.number[character] for character in text], np.int32)
        length = (len(ids) - 1) // (batch * seq) * seq
        if length == 0:
            raise SystemExit(f"the text has {len(ids)} characters; --batch and --seq need more than {batch * seq}")
        self.ids, self.following = (part[: batch * length].reshape(batch, length) for part in (ids[:-1], ids[1:]))
        self.seq, self.steps = seq, length // seq

    def batches(self, steps: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """(ids, following ids) of the next `seq` characters of every stream; both (B · seq) numbers."""
        for start in range(0, min(steps, self.steps) * self.seq, self.seq):
            piece = slice(start, start + self.seq)
            yield self.ids[:, piece], self.following[:, piece].reshape(-1)

    def entropy(self) -> float:
        """Bits per character if only the frequency of each character is known."""
        share = np.unique(self.ids, return_counts=True)[1] / self.ids.size
        return float(-(share * np.log2(share)).sum())


def default_text() -> str:
    """The help topics that Python itself brings along."""
    from pydoc_data.topics import topics

    return "\n\n".join(topics[name] for name in sorted(topics))


def train(model: CharRNN, text: Text, epochs: int, steps: int) -> list[float]:
    """Bits per character of each epoch."""
    history = []
    for epoch in range(1, epochs + 1):
        model.train()
        model.forget()
        total = min(steps, text.steps)
        losses = [model(*batch) for batch in tqdm(text.batches(steps), total=total, desc=f"epoch {epoch}", leave=False)]
        history.append(float(np.mean([loss.item() for loss in losses])) / math.log(2))
        print(f"epoch {epoch}: {history[-1]:.3f} bits per character")
    return history


def sample(model: CharRNN, text: Text, start: str, length: int, temperature: float = 0.7, seed: int = 0) -> str:
    """`start` continued by `length` characters drawn from the model."""
    model.eval()
    random = np.random.default_rng(seed)
    known = [text.number[character] for character in start if character in text.number] or [0]
    zeros = np.zeros((1, model.lstm.hidden_size), np.float32)
    states: Any = (zeros, zeros)
    written = list(known)
    for index in range(len(known) + length - 1):
        logits, *states = model(np.array([[written[index]]], np.int32), tuple(states))
        if index + 1 >= len(known):
            scores = logits.to_numpy()[0].astype(np.float64) / temperature
            chances = np.exp(scores - scores.max())
            written.append(int(random.choice(len(chances), p=chances / chances.sum())))
    return "".join(text.characters[index] for index in written)


def arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text", type=Path, help="a text file (default: the help texts that ship with Python)")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--steps", type=int, default=10**9, help="at most so many batches per epoch")
    parser.add_argument("--hidden", type=int, default=128, help="size of the LSTM's state")
    parser.add_argument("--seq", type=int, default=50, help="characters per batch and stream")
    parser.add_argument("--batch", type=int, default=32, help="streams read side by side")
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--sample", type=int, default=300, help="characters to write at the end")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="a tiny setting: a few seconds")
    options = parser.parse_args(argv)
    if options.quick:
        vars(options).update(epochs=2, steps=100, hidden=48, seq=24, batch=24, lr=1e-2, sample=80)
    return options


def main(argv: list[str] | None = None) -> dict[str, Any]:
    options = arguments(argv)
    sx.device.get_default_device().SetRandSeed(options.seed)
    content = options.text.read_text(encoding="utf-8") if options.text else default_text()
    text = Text(content, options.batch, options.seq)
    model = CharRNN(len(text.characters), options.batch, options.hidden, options.lr)
    model.compile([sx.Placeholder((options.batch, options.seq), dtype=sx.int32)])
    entropy = text.entropy()
    print(f"{len(content)} characters, {len(text.characters)} different; single characters: {entropy:.3f} bits each")
    history = train(model, text, options.epochs, options.steps)
    written = sample(model, text, "The ", options.sample, seed=options.seed)
    print(f"\n{written}")
    return {"entropy": entropy, "bits": history, "sample": written}


if __name__ == "__main__":
    main()
