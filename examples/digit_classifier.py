"""What the examples that classify handwritten digits share: the training step, the loop, the command line."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence

import numpy as np
import optax
from data import Split, batches, mnist, padded_batches, shifted
from tqdm.auto import tqdm

import singax as sx

EVALUATION_BATCH = 250


class Classifier(sx.Module):
    """Images (N, 1, 28, 28) → logits (N, 10). A subclass defines the layers and `forward`."""

    optimizer: sx.opt.Optimizer

    def __init__(self) -> None:
        super().__init__()
        self.loss = sx.layer.SoftMaxCrossEntropy()

    def train_one_batch(self, x: sx.Tensor, y: sx.Tensor) -> tuple[sx.Tensor, sx.Tensor]:
        out = self.forward(x)
        loss = self.loss(out, y)
        self.optimizer(loss)
        return out, loss


def train_epoch(
    model: Classifier, x: np.ndarray, y: np.ndarray, batch: int, rng: np.random.Generator, title: str
) -> float:
    """One pass over the training data; returns the accuracy on the batches as they were seen.

    The outputs are collected and read at the end: reading one waits for its step.
    """
    model.train()
    seen = []
    for bx, by in tqdm(batches((x, y), batch, rng), title, len(x) // batch, unit="step", leave=False):
        out, _ = model(shifted(bx, 2, rng), by)
        seen.append((out, by))
    right = sum(int((out.to_numpy().argmax(1) == by).sum()) for out, by in seen)
    return right / (len(seen) * batch)


def accuracy(model: Classifier, x: np.ndarray, y: np.ndarray) -> float:
    """The share of right answers in evaluation mode."""
    model.eval()
    right = sx.metric.Accuracy()
    for bx, by, counts in padded_batches((x, y), EVALUATION_BATCH):
        right.update(model(bx), by, weight=counts)
    return float(right)


def limited(data: Split, limit: int | None) -> Split:
    """At most `limit` samples to train on and to test with."""
    return Split(*(values[:limit] for values in data))


def arguments(argv: Sequence[str] | None, title: str | None, epochs: int, lr: float) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=title, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", metavar="DIR", help="folder with the four IDX files of MNIST")
    parser.add_argument("--epochs", type=int, default=epochs)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--lr", type=float, default=lr, help="learning rate at the start; falls along a cosine to 0")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=int, help="use only so many samples")
    parser.add_argument("--precision", default="float32", help="float32, bfloat16 or float16")
    parser.add_argument("--eager", action="store_true", help="run each step call by call instead of as one program")
    return parser.parse_args(argv)


def run(
    make: Callable[[], Classifier], argv: Sequence[str] | None, title: str | None, epochs: int = 20, lr: float = 0.05
) -> float:
    """Train, print accuracies, return the one on the held-out digits."""
    args = arguments(argv, title, epochs, lr)
    data = limited(mnist(args.data), args.limit)
    sx.device.get_default_device().SetRandSeed(args.seed)
    rng = np.random.default_rng(args.seed)
    batch = min(args.batch, len(data.train_x))
    steps = args.epochs * (len(data.train_x) // batch)

    model = make()
    model.optimizer = sx.opt.SGD(optax.cosine_decay_schedule(args.lr, steps), momentum=0.9, weight_decay=1e-5)
    model.compile([sx.Placeholder((batch, 1, 28, 28))], use_graph=not args.eager, precision=args.precision)

    start = time.perf_counter()
    for epoch in range(args.epochs):
        seen = train_epoch(model, data.train_x, data.train_y, batch, rng, f"epoch {epoch + 1}/{args.epochs}")
        test = accuracy(model, data.test_x, data.test_y)
        spent = time.perf_counter() - start
        print(f"epoch {epoch + 1:2}: train accuracy {seen:.4f}, test accuracy {test:.4f}, {spent:.0f} s")
    print(f"test accuracy: {test:.4f}")
    return test
