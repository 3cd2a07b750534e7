"""Words as numbers, for the examples that read text: a vocabulary, and sentences as padded arrays with lengths."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

PADDING, UNKNOWN, START, END = 0, 1, 2, 3
_SPECIAL = ["<padding>", "<unknown>", "<start>", "<end>"]


def words_of(text: str) -> list[str]:
    """The words of a text in lower case; marks and tags like `<br />` are dropped."""
    return re.findall(r"[a-zäöüß0-9']+", re.sub(r"<[^>]*>", " ", text.lower()))


class Vocabulary:
    """The `most` most frequent words of some sentences, numbered from 4 on."""

    def __init__(self, sentences: Iterable[Sequence[str]], most: int = 20000) -> None:
        counts = Counter(word for sentence in sentences for word in sentence)
        self.words = _SPECIAL + [word for word, _ in counts.most_common(most)]
        self.number = {word: index for index, word in enumerate(self.words)}

    def __len__(self) -> int:
        return len(self.words)

    def encode(self, sentences: Sequence[Sequence[str]], longest: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Ids int32 (N, T), filled up with padding, and lengths int32 (N,).

        T is `longest`, what is longer is cut off; or else the length of the longest sentence.
        """
        width = longest or max(len(sentence) for sentence in sentences)
        lengths = np.array([min(len(sentence), width) for sentence in sentences], np.int32)
        ids = np.full((len(sentences), width), PADDING, np.int32)
        for row, sentence in zip(ids, sentences, strict=True):
            known = [self.number.get(word, UNKNOWN) for word in sentence[:width]]
            row[: len(known)] = known
        return ids, lengths

    def decode(self, ids: Iterable[int]) -> list[str]:
        """The words of one sentence, up to its end."""
        found = []
        for index in ids:
            if index in (PADDING, END):
                break
            found.append(self.words[index])
        return found
