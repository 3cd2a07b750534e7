"""Which answer belongs to a question? Two sentences go through the same LSTM, and their vectors are compared.

    python examples/answer_matching.py    # half a minute

A question and its right answer should point into one direction, a question and a wrong answer should not: the ranking
loss asks that the cosine of the right pair is larger by a margin (Feng et al. 2015, as in SINGA's question-answering
example). The questions are about 76 facts. Of each fact, one wording of the question is never trained on; for it the
model ranks the answers to all facts. Printed is how often the right one comes first, about 0.96, beside what chance
would reach, 0.01.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import jax
import numpy as np
from data import batches
from facts import Facts, Question, questions_and_answers
from tqdm.auto import tqdm
from words import PADDING, Vocabulary

import singax as sx
from singax import autograd

Sentences = tuple[np.ndarray, np.ndarray]  # ids (N, T) and lengths (N,)


class Matching(sx.Module):
    """A sentence, ids (N, T) and lengths (N,), → a vector (N, 2 · hidden). Questions and answers share all weights."""

    def __init__(self, words: int, hidden: int, lr: float, margin: float) -> None:
        super().__init__()
        self.embedding = sx.layer.Embedding(words, hidden, padding_idx=PADDING)
        self.lstm = sx.layer.LSTM(None, hidden, batch_first=True, bidirectional=True)
        self.loss = sx.layer.RankingLoss(M=margin)
        self.optimizer = sx.opt.Adam(lr=lr)

    def forward(self, ids: jax.Array, lengths: jax.Array) -> jax.Array:
        _, h, _ = self.lstm(self.embedding(ids), seq_lengths=lengths)
        return jax.numpy.concatenate([h[0], h[1]], axis=1)

    def train_one_batch(self, question: Sentences, right: Sentences, wrong: Sentences) -> sx.Tensor:
        asked = self.forward(*question)
        near = autograd.cossim(asked, self.forward(*right))
        far = autograd.cossim(asked, self.forward(*wrong))
        loss = self.loss(near, far)
        self.optimizer(loss)
        return loss


class Reader:
    """The corpus as numbers."""

    def __init__(self, facts: Facts) -> None:
        sentences = [answer for answers in facts.answers for answer in answers]
        self.vocabulary = Vocabulary(sentences + [question.words for question in facts.train])
        self.wordings = len(facts.answers[0])
        self.answers = self.vocabulary.encode(sentences)  # the wordings of a fact's answer follow each other

    def questions(self, found: list[Question]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """ids (N, T), lengths (N,) and the facts (N,)."""
        ids, lengths = self.vocabulary.encode([question.words for question in found])
        return ids, lengths, np.array([question.fact for question in found])

    def answer(self, facts: np.ndarray, rng: np.random.Generator) -> Sentences:
        """An answer to each question, in a random wording."""
        rows = facts * self.wordings + rng.integers(0, self.wordings, len(facts))
        return self.answers[0][rows], self.answers[1][rows]


def train_epoch(
    model: Matching, reader: Reader, train: Sequence[np.ndarray], batch: int, rng: np.random.Generator
) -> float:
    """One pass over the questions, each with a right and a wrong answer; returns the mean loss."""
    model.train()
    count = len(reader.answers[0]) // reader.wordings
    losses = []
    for ids, lengths, facts in batches(train, batch, rng):
        others = (facts + rng.integers(1, count, len(facts))) % count
        losses.append(model((ids, lengths), reader.answer(facts, rng), reader.answer(others, rng)))
    return float(np.mean([loss.item() for loss in losses]))


def unit_vectors(model: Matching, sentences: Sentences) -> np.ndarray:
    """The directions of the sentences."""
    vectors = model(*sentences).to_numpy()
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def best_answers(model: Matching, reader: Reader, questions: Sequence[np.ndarray]) -> np.ndarray:
    """For each question the row of the answer, among all of them, that fits best."""
    model.eval()
    ids, lengths, _ = questions
    return (unit_vectors(model, (ids, lengths)) @ unit_vectors(model, reader.answers).T).argmax(1)


def share_right(reader: Reader, best: np.ndarray, questions: Sequence[np.ndarray]) -> float:
    """How often the best answer is one to the question."""
    return float((best // reader.wordings == questions[2]).mean())


def show(reader: Reader, best: np.ndarray, found: list[Question]) -> None:
    """Five of the questions with the answers that are ranked first."""
    for index in range(0, len(found), len(found) // 5):
        answer = reader.vocabulary.decode(reader.answers[0][best[index]])
        print(f"{' '.join(found[index].words)}? {' '.join(answer)}.")


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--margin", type=float, default=0.5)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> dict[str, float]:
    """Train, print some answers and how often the right one comes first, return that."""
    args = arguments(argv)
    rng = np.random.default_rng(args.seed)
    facts = questions_and_answers(rng)
    reader = Reader(facts)
    train, test = reader.questions(facts.train), reader.questions(facts.test)

    sx.device.get_default_device().SetRandSeed(args.seed)
    model = Matching(len(reader.vocabulary), args.hidden, args.lr, args.margin)
    model.compile([sx.Placeholder((None, None), dtype=sx.int32), sx.Placeholder((None,), dtype=sx.int32)])
    for epoch in tqdm(range(1, args.epochs + 1), unit="epoch", leave=False):
        loss = train_epoch(model, reader, train, args.batch, rng)
        if epoch % 50 == 0 or epoch == args.epochs:
            best = best_answers(model, reader, test)
            tqdm.write(f"epoch {epoch}: loss {loss:.3f}, first {share_right(reader, best, test):.3f}")
    show(reader, best, facts.test)
    figures = {"first": share_right(reader, best, test), "chance": 1 / len(facts.answers)}
    print(f"the right answer comes first: {figures['first']:.3f}, by chance {figures['chance']:.3f}")
    return figures


if __name__ == "__main__":
    main()
