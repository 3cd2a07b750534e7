"""How the time to compile a training step of the character LSTM depends on the number of steps of its sequences.

    python benchmarks/lstm_compile_time.py

Compilations for T = 20 and T = 200 in turn, in one process without the persistent cache: medians of the processor
seconds from nothing to the first loss, and of their ratio.
"""

from __future__ import annotations

import os
import statistics
import time

os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "false"

import numpy as np
from lstm_plain import batch
from lstm_singax import CharLSTM

import singax as sx

SHORT, LONG, REPETITIONS = 20, 200, 7


def seconds(steps: int) -> float:
    """Processor seconds until a new model for sequences of so many steps has trained once."""
    x, y = batch(np.random.default_rng(0), (4, steps))
    start = time.process_time()
    net = CharLSTM(0.01)
    net.compile([sx.Placeholder(x.shape, dtype=sx.int32)], is_train=True, use_graph=True)
    net(x, y)[1].item()
    return time.process_time() - start


def main() -> None:
    """Measure and print."""
    seconds(3)
    pairs = [(seconds(SHORT), seconds(LONG)) for _ in range(REPETITIONS)]
    short, long = (statistics.median(values) for values in zip(*pairs, strict=True))
    ratio = statistics.median(b / a for a, b in pairs)
    print(f"T = {SHORT}: {short:.2f} s, T = {LONG}: {long:.2f} s, ratio {ratio:.2f}")


if __name__ == "__main__":
    main()
