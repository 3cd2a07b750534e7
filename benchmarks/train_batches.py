"""Fifty steps of a small model: one program for all against fifty calls.

Prints the ratio of the times per step, of medians of interleaved rounds. Run: python benchmarks/train_batches.py
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import jax
import numpy as np

import singax as sx

STEPS, ROUNDS = 50, 15


class MLP(sx.Module):
    """64 → 32 → 10, cross entropy, SGD with momentum."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = sx.layer.Linear(32), sx.layer.Linear(10)
        self.loss_of, self.optimizer = sx.layer.SoftMaxCrossEntropy(), sx.opt.SGD(lr=0.05, momentum=0.9)

    def forward(self, x: Any) -> Any:
        return self.last(jax.nn.relu(self.first(x)))

    def train_one_batch(self, x: Any, y: Any) -> Any:
        out = self.forward(x)
        loss = self.loss_of(out, y)
        self.optimizer(loss)
        return out, loss


class CNN(MLP):
    """A convolution in front."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = sx.layer.Conv2d(8, 3, padding=1)

    def forward(self, x: Any) -> Any:
        return super().forward(jax.nn.relu(self.conv(x)).reshape(len(x), -1))


def compare(model: sx.Module, x: np.ndarray, y: np.ndarray) -> float:
    """Time of `train_batches` over the time of as many calls."""
    model.compile([sx.Placeholder(x.shape[1:])])
    times: dict[str, list[float]] = {"calls": [], "one": []}
    for _ in range(ROUNDS + 2):
        start = time.perf_counter()
        for k in range(STEPS):
            _, loss = model(x[k], y[k])
        jax.block_until_ready(loss.data)
        middle = time.perf_counter()
        jax.block_until_ready(model.train_batches(x, y)[1].data)
        times["calls"].append(middle - start)
        times["one"].append(time.perf_counter() - middle)
    return statistics.median(times["one"][2:]) / statistics.median(times["calls"][2:])


def main() -> None:
    """Print the ratios."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 10, (STEPS, 32)).astype(np.int32)
    flat = rng.standard_normal((STEPS, 32, 64), np.float32)
    print(f"{STEPS} steps in one program, as a ratio of {STEPS} calls (medians of {ROUNDS} rounds)")
    print(f"  MLP  {compare(MLP(), flat, y):.2f}")
    print(f"  CNN  {compare(CNN(), flat.reshape(STEPS, 32, 1, 8, 8), y):.2f}")


if __name__ == "__main__":
    main()
