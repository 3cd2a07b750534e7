"""Fifty steps of a small model: one program for all against fifty calls.

Prints the ratio of the times per step, of medians of interleaved rounds. Run: python benchmarks/train_batches.py
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import jax
import numpy as np
from singax_models import MLP

import singax as sx

STEPS, ROUNDS = 50, 15


class CNN(MLP):
    """A convolution in front."""

    def __init__(self, lr: float) -> None:
        super().__init__(lr)
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
    print(f"  MLP  {compare(MLP(0.05), flat, y):.2f}")
    print(f"  CNN  {compare(CNN(0.05), flat.reshape(STEPS, 32, 1, 8, 8), y):.2f}")


if __name__ == "__main__":
    main()
