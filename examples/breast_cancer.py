"""A tabular medical model: benign or malignant, from 30 measurements of cell nuclei.

    python examples/breast_cancer.py

The data are the 569 samples of the Breast Cancer Wisconsin (Diagnostic) data set that ships inside scikit-learn. The
measurements are standardised with the training set's mean and spread. In medicine the two kinds of error weigh
differently, so sensitivity (malignant ones that are found) and specificity are printed besides accuracy.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np
from data import batches, stratified

import singax as sx


class Samples(NamedTuple):
    """Measurements float32 (N, 30) and labels int32 (N,), 1 for malignant; for training and held out."""

    train_x: np.ndarray
    train_y: np.ndarray
    test_x: np.ndarray
    test_y: np.ndarray


class Diagnosis(sx.Module):
    """Measurements (N, 30) → logits (N, 2)."""

    def __init__(self, hidden: int = 32, lr: float = 3e-3) -> None:
        super().__init__()
        self.fc1, self.fc2 = sx.layer.Linear(hidden), sx.layer.Linear(2)
        self.dropout = sx.layer.Dropout(0.3)
        self.loss = sx.layer.SoftMaxCrossEntropy()
        self.optimizer = sx.opt.AdamW(lr=lr, weight_decay=0.01)

    def forward(self, x: jax.Array) -> jax.Array:
        return self.fc2(self.dropout(jax.nn.relu(self.fc1(x))))

    def train_one_batch(self, x: sx.Tensor, y: sx.Tensor) -> sx.Tensor:
        loss = self.loss(self.forward(x), y)
        self.optimizer(loss)
        return loss


def samples(seed: int = 0) -> Samples:
    """A fifth of each class is held out; the training set's mean and spread standardise both parts."""
    from sklearn.datasets import load_breast_cancer

    found = load_breast_cancer()
    x, y = found.data.astype(np.float32), (found.target == 0).astype(np.int32)
    train, test = stratified(y, 0.2, np.random.default_rng(seed))
    mean, spread = x[train].mean(0), x[train].std(0)
    return Samples((x[train] - mean) / spread, y[train], (x[test] - mean) / spread, y[test])


def report(model: sx.Module, x: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Accuracy, sensitivity and specificity."""
    model.eval()
    found = model(x).to_numpy().argmax(1)
    rates = {"sensitivity": found[y == 1] == 1, "specificity": found[y == 0] == 0}
    return {"accuracy": float((found == y).mean()), **{name: float(right.mean()) for name, right in rates.items()}}


def main(argv: Sequence[str] | None = None) -> dict[str, float]:
    """Train, print and return the figures for the held-out samples."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(argv)

    data, rng = samples(args.seed), np.random.default_rng(args.seed)
    sx.device.get_default_device().SetRandSeed(args.seed)
    model = Diagnosis()
    model.compile([sx.Placeholder((args.batch, 30))])
    for _ in range(args.epochs):
        model.train()
        for x, y in batches((data.train_x, data.train_y), args.batch, rng):
            loss = model(x, y)
    figures = report(model, data.test_x, data.test_y)
    print(f"last training loss {float(loss):.3f}")
    print(", ".join(f"{name} {value:.3f}" for name, value in figures.items()))
    return figures


if __name__ == "__main__":
    main()
