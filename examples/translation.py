"""A Transformer translates: English number words into German ones (Vaswani et al. 2017).

    python examples/translation.py    # about a minute

"forty two" becomes "zwei und vierzig": the units come first, a one is "eins" at the end and "ein" elsewhere. The model
sees 1,000 of the numbers from 0 to 9999; printed is how many of 1,000 others it translates without any mistake, 0.996.

In training the decoder reads the right translation up to each word and says the next one (teacher forcing). To
translate, it reads what it has said so far, always taking the most probable word (greedy decoding).
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from data import batches
from numbers_german import english, german
from tqdm.auto import tqdm
from words import END, PADDING, START, Vocabulary

import singax as sx


class Translator(sx.Module):
    """Source ids (N, S), their lengths (N,) and the translation so far (N, T) → logits of the next words (N, T, V)."""

    def __init__(self, source_words: int, target_words: int, features: int, layers: int, lr: Any) -> None:
        super().__init__()
        self.source_embedding = sx.layer.Embedding(source_words, features)
        self.target_embedding = sx.layer.Embedding(target_words, features)
        self.position = sx.layer.PositionalEncoding(dropout=0.1)
        self.encoder = sx.layer.TransformerEncoder(layers, num_heads=4, norm_first=True)
        self.decoder = sx.layer.TransformerDecoder(layers, num_heads=4, norm_first=True)
        self.head = sx.layer.Linear(target_words)
        self.loss = sx.layer.SoftMaxCrossEntropy(label_smoothing=0.1, ignore_index=PADDING)
        self.optimizer = sx.opt.Adam(lr=lr, beta_2=0.98, clip_norm=1.0)

    def forward(self, source: jax.Array, lengths: jax.Array, written: jax.Array) -> jax.Array:
        memory = self.encoder(self.position(self.source_embedding(source)), key_lengths=lengths)
        # The decoder is causal: no word attends to the padding, which comes after it.
        out = self.decoder(self.position(self.target_embedding(written)), memory, memory_lengths=lengths)
        return self.head(out)

    def train_one_batch(
        self, source: sx.Tensor, lengths: sx.Tensor, written: sx.Tensor, following: sx.Tensor
    ) -> sx.Tensor:
        loss = self.loss(self.forward(source, lengths, written), following)
        self.optimizer(loss)
        return loss


class Corpus:
    """Numbers in both languages, as ids."""

    def __init__(self, numbers: np.ndarray) -> None:
        self.english = [english(number) for number in numbers]
        self.german = [german(number) for number in numbers]
        self.source_vocabulary, self.target_vocabulary = Vocabulary(self.english), Vocabulary(self.german)
        self.source, self.lengths = self.source_vocabulary.encode(self.english)
        ids, ends = self.target_vocabulary.encode(self.german)
        self.written = np.pad(ids, ((0, 0), (1, 0)), constant_values=START)
        self.following = np.pad(ids, ((0, 0), (0, 1)), constant_values=PADDING)
        self.following[np.arange(len(ids)), ends] = END

    def rows(self, chosen: slice) -> tuple[np.ndarray, ...]:
        """What a training step takes, of some of the numbers."""
        return self.source[chosen], self.lengths[chosen], self.written[chosen], self.following[chosen]


def train_epoch(model: Translator, data: Sequence[np.ndarray], batch: int, rng: np.random.Generator) -> float:
    """One pass over the numbers; returns the mean loss."""
    model.train()
    losses = [model(*arrays) for arrays in batches(data, batch, rng)]
    return float(np.mean([loss.item() for loss in losses]))


def translate(model: Translator, source: np.ndarray, lengths: np.ndarray, longest: int) -> np.ndarray:
    """Greedy decoding: ids (N, longest)."""
    model.eval()
    written = np.full((len(source), longest + 1), PADDING, np.int32)
    written[:, 0] = START
    for place in range(longest):
        logits = model(source, lengths, written).to_numpy()
        written[:, place + 1] = logits[:, place].argmax(1)
    return written[:, 1:]


def exact(model: Translator, corpus: Corpus, chosen: slice, shown: int = 0) -> float:
    """The share of the numbers whose translation is right to the last word; some are printed."""
    found = translate(model, corpus.source[chosen], corpus.lengths[chosen], corpus.following.shape[1])
    said = [corpus.target_vocabulary.decode(ids) for ids in found]
    for words, translation in list(zip(corpus.english[chosen], said, strict=True))[:shown]:
        print(f"{' '.join(words)}: {''.join(translation)}")
    return float(np.mean([a == b for a, b in zip(said, corpus.german[chosen], strict=True)]))


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", type=int, default=1000, help="how many numbers to train on")
    parser.add_argument("--test", type=int, default=1000, help="how many other numbers to translate")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--features", type=int, default=64)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--lr", type=float, default=2e-3, help="the learning rate after the warm-up")
    parser.add_argument("--precision", default="float32", help="float32, or bfloat16 for mixed precision")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> dict[str, float]:
    """Train, print some translations and the share of right ones, return it."""
    args = arguments(argv)
    rng = np.random.default_rng(args.seed)
    corpus = Corpus(rng.permutation(10000))
    known, new = slice(0, args.train), slice(args.train, args.train + args.test)
    data, batch = corpus.rows(known), min(args.batch, args.train)
    warm_up = 2 * (args.train // batch)
    schedule = sx.opt.WarmUp(sx.opt.InverseSquareRoot(args.lr, 5 * warm_up), warm_up)

    sx.device.get_default_device().SetRandSeed(args.seed)
    vocabularies = len(corpus.source_vocabulary), len(corpus.target_vocabulary)
    model = Translator(*vocabularies, args.features, args.layers, schedule)
    model.compile([sx.Placeholder(rows[:batch].shape, dtype=sx.int32) for rows in data[:3]], precision=args.precision)
    for epoch in tqdm(range(1, args.epochs + 1), unit="epoch", leave=False):
        loss = train_epoch(model, data, batch, rng)
        if epoch % 10 == 0:
            tqdm.write(f"epoch {epoch}: loss {loss:.3f}, without mistake {exact(model, corpus, new):.3f}")
    figures = {"exact": exact(model, corpus, new, shown=5)}
    print(f"translated without mistake: {figures['exact']:.3f} of the new numbers")
    return figures


if __name__ == "__main__":
    main()
