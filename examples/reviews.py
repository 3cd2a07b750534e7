"""Reviews of films for `sentiment_lstm.py`: made from a small grammar, or read from a folder in the layout of IMDB."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from words import words_of

THINGS = ["film", "movie", "plot", "story", "acting", "music", "ending", "script", "cast", "dialogue"]
GOOD = ["good", "great", "wonderful", "funny", "clever", "moving", "brilliant", "charming", "gripping", "fresh"]
BAD = ["bad", "awful", "boring", "stupid", "dull", "silly", "weak", "tedious", "predictable", "lazy"]

# What says what it seems to say, what says the opposite, and what says first one thing and then another.
PLAIN = [
    "the {thing} was {word}",
    "what a {word} {thing}",
    "i found the {thing} really {word}",
    "this {thing} is not just {word} but very {word}",
    "nobody can say that the {thing} was not {word}",
]
NEGATED = [
    "the {thing} was not {word} at all",
    "this is not a {word} {thing}",
    "i never found the {thing} {word}",
    "nobody can call this {thing} {word}",
    "the {thing} is anything but {word}",
]
TURNED = [
    "although many call the {thing} {other} it was {word}",
    "the {thing} was {word} and not {other}",
    "i expected the {thing} to be {other} but it was {word}",
    "it is not the {other} {thing} that i expected but a {word} one",
]


class Review(NamedTuple):
    """The words of a review, and 1 for a good one, 0 for a bad one."""

    words: list[str]
    label: int


class Corpus(NamedTuple):
    train: list[Review]
    test: list[Review]


def grammar(count: int, rng: np.random.Generator) -> Corpus:
    """Reviews of one to three sentences, `count` to train on and a fifth as many held out.

    Every sentence of the grammar is on one side only: no sentence of a held-out review was ever trained on.
    """
    sentences = [every_sentence(label) for label in (0, 1)]
    parts = [np.split(rng.permutation(found), [len(found) * 4 // 5]) for found in sentences]
    train, test = ([parts[label][side] for label in (0, 1)] for side in (0, 1))
    return Corpus(composed(train, count, rng), composed(test, count // 5, rng))


def every_sentence(label: int) -> list[str]:
    """All sentences of the grammar that praise (1) or blame (0)."""
    same, opposite = (GOOD, BAD) if label else (BAD, GOOD)
    found = []
    for thing in THINGS:
        found += [form.format(thing=thing, word=word) for form in PLAIN for word in same]
        found += [form.format(thing=thing, word=word) for form in NEGATED for word in opposite]
        found += [form.format(thing=thing, word=w, other=o) for form in TURNED for w in same for o in opposite[:3]]
    return found


def composed(sentences: list[np.ndarray], count: int, rng: np.random.Generator) -> list[Review]:
    """`count` reviews, half of them good; all sentences of a review are of one mind."""
    reviews = []
    for index in range(count):
        chosen = rng.choice(sentences[index % 2], rng.integers(1, 4))
        reviews.append(Review(" ".join(chosen).split(), index % 2))
    return reviews


def folder(path: Path, rng: np.random.Generator) -> Corpus:
    """Text files in `train/pos`, `train/neg`, `test/pos` and `test/neg`; or in `pos` and `neg`, a fifth held out."""
    if (path / "train").is_dir():
        return Corpus(read(path / "train"), read(path / "test"))
    reviews = read(path)
    order = rng.permutation(len(reviews))
    cut = len(order) // 5
    return Corpus([reviews[i] for i in order[cut:]], [reviews[i] for i in order[:cut]])


def read(path: Path) -> list[Review]:
    """The reviews in `pos` and `neg`."""
    found = [
        Review(words_of(file.read_text(encoding="utf-8")), label)
        for label, name in enumerate(("neg", "pos"))
        for file in sorted((path / name).glob("*.txt"))
    ]
    if not found:
        raise SystemExit(f"there are no text files in {path / 'neg'} and {path / 'pos'}")
    return found


def bag_of_words_accuracy(corpus: Corpus) -> float:
    """What counting words can reach: each word votes, with the weight of naive Bayes (log odds of the two classes)."""
    counts: dict[str, list[float]] = {}
    for words, label in corpus.train:
        for word in words:
            counts.setdefault(word, [1.0, 1.0])[label] += 1
    total = np.sum(list(counts.values()), axis=0)
    votes = {word: np.log(good / total[1]) - np.log(bad / total[0]) for word, (bad, good) in counts.items()}
    right = [(sum(votes.get(word, 0.0) for word in words) > 0) == label for words, label in corpus.test]
    return float(np.mean(right))
