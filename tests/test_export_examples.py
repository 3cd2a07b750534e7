"""The models of the examples, with small settings, as ONNX files: at batch 1 and 7 the same as in singax.

Each at opset 17 or 23; with the environment variable SINGAX_ALL_OPSETS at both.
"""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Callable
from dataclasses import dataclass

import jax
import numpy as np
import pytest
from export_cases import assert_same, check, opsets_of, run

import singax as sx

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "examples"))

from answer_matching import Matching
from breast_cancer import Diagnosis
from char_rnn import CharRNN
from gan_mnist import GAN, Discriminator
from lsgan_mnist import Critic
from mnist_cnn import CNN
from mnist_mlp import MLP
from mnist_resnet import ResNet
from mnist_xception import Xception
from rbm_mnist import PIXELS, RBM
from sentiment_lstm import Sentiment
from translation import Translator

Draw = Callable[[int], list[np.ndarray]]


@dataclass(frozen=True)
class Example:
    """A model and what it is called with; `functions` are names of layers that the file keeps as functions."""

    make: Callable[[], sx.layer.Layer]
    draw: Draw
    functions: tuple[str, ...] = ()
    tolerance: float = 1e-5


def _normal(*shape: int) -> Draw:
    return lambda batch: [np.random.default_rng(0).normal(size=(batch, *shape)).astype(np.float32)]


def _ids(batch: int, length: int, words: int = 11, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(1, words, (batch, length)).astype(np.int32)


def _sentences(batch: int) -> list[np.ndarray]:
    """Ids (N, 6) and lengths from 1 to 6."""
    return [_ids(batch, 6), (np.arange(batch) % 6 + 1).astype(np.int32)]


IMAGE = _normal(1, 28, 28)
EXAMPLES: dict[str, Example] = {
    "mnist_mlp": Example(lambda: MLP(16), IMAGE),
    "mnist_cnn": Example(CNN, IMAGE),
    "mnist_resnet": Example(lambda: ResNet(width=2), _normal(1, 8, 8), ("Block",), 2e-5),
    "mnist_xception": Example(
        lambda: Xception(width=2, middle=1), _normal(1, 8, 8), ("EntryBlock", "MiddleBlock"), 2e-5
    ),
    "char_rnn": Example(lambda: CharRNN(11, 4, 8, 0.1), lambda batch: [_ids(batch, 5)], ("LSTM",)),
    "sentiment_lstm": Example(lambda: Sentiment(11, 8, 0.1), _sentences, ("LSTM",)),
    "answer_matching": Example(lambda: Matching(11, 8, 0.1, 0.2), _sentences, ("LSTM",)),
    "translation": Example(
        lambda: Translator(11, 13, 8, 1, 0.1),
        lambda batch: [*_sentences(batch), _ids(batch, 4, 13, 1)],
        ("TransformerEncoder", "TransformerDecoder"),
        2e-5,
    ),
    "gan_mnist-generator": Example(lambda: GAN(0.1), _normal(64), ("Generator",)),
    "gan_mnist-discriminator": Example(Discriminator, _normal(784)),
    "lsgan_mnist-critic": Example(Critic, _normal(784)),
    "breast_cancer": Example(lambda: Diagnosis(8), _normal(30)),
}  # fmt: skip


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples(name: str) -> None:
    example = EXAMPLES[name]
    model = example.make()
    inputs = [sx.Placeholder(x.shape, dtype=x.dtype) for x in example.draw(4)]
    if isinstance(model, sx.Module):
        model.compile(inputs, is_train=False)
    for made in check(model, example.draw, opsets_of(name), tolerance=example.tolerance):
        assert {function.name for function in made.functions} >= set(example.functions)


def test_the_boltzmann_machine() -> None:
    """It is no layer: a function of its Tensors is exported, whose weights are constants."""
    machine = RBM(8, 0.1)
    x = np.random.default_rng(0).uniform(size=(3, PIXELS)).astype(np.float32)

    def seen_again(visible: jax.Array) -> sx.Tensor:
        return machine.visible_given(machine.hidden_given(sx.Tensor(data=visible)))

    made = sx.sonnx.to_onnx(seen_again, [x])
    assert_same([seen_again(x).to_numpy()], run(made, [x]))
