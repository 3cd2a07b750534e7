"""Build, trace and compile times of 2 and 24 transformer blocks: `Repeat` against separate blocks.

    python benchmarks/repeat_compile.py
    python benchmarks/repeat_compile.py --blocks 2 12 --rounds 5

Each figure is the median over the rounds, every one with fresh models; the persistent compilation cache is off. The
dry build is `infer_shape`, which runs `forward` on shapes alone, in processor time of its thread, which a busy machine
disturbs less; trace and compile are those of the training step, by the clock. The last column is the loss after the
first step, which must not depend on the way.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable

os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "false"

import jax
import jax.numpy as jnp
import numpy as np

import singax as sx

T, D = 16, 32


class Block(sx.layer.Layer):
    """A transformer block with one attention head."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = sx.layer.LayerNorm(), sx.layer.LayerNorm()
        self.qkv, self.out = sx.layer.Linear(3 * D), sx.layer.Linear(D)
        self.up, self.down = sx.layer.Linear(4 * D), sx.layer.Linear(D)

    def forward(self, x: jax.Array) -> jax.Array:
        q, k, v = jnp.split(self.qkv(self.norm1(x)), 3, axis=-1)
        weights = jax.nn.softmax(q @ jnp.swapaxes(k, -1, -2) / D**0.5)
        x = x + self.out(weights @ v)
        return x + self.down(jax.nn.gelu(self.up(self.norm2(x))))


class Separate(sx.layer.Layer):
    """A list of blocks."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self.register_layers({str(i): Block() for i in range(n)})

    def forward(self, x: jax.Array) -> jax.Array:
        for block in self._registered.values():
            x = block.forward(x)  # type: ignore[attr-defined]
        return x


class Model(sx.Module):
    """Blocks and a head, trained by momentum SGD."""

    def __init__(self, blocks: sx.layer.Layer) -> None:
        super().__init__()
        self.blocks, self.head = blocks, sx.layer.Linear(10)
        self.loss, self.optimizer = sx.layer.SoftMaxCrossEntropy(), sx.opt.SGD(0.05, momentum=0.9)

    def forward(self, x: jax.Array) -> jax.Array:
        return self.head(self.blocks(x).mean(1))

    def train_one_batch(self, x: sx.Tensor, y: sx.Tensor) -> tuple[sx.Tensor, sx.Tensor]:
        out = self.forward(x)
        loss = self.loss(out, y)
        self.optimizer(loss)
        return out, loss


WAYS: dict[str, Callable[[int], sx.layer.Layer]] = {
    "separate": Separate,
    "Repeat": lambda n: sx.layer.Repeat(Block, n),
    "Repeat remat": lambda n: sx.layer.Repeat(Block, n, remat=True),
}


def measured(make: Callable[[int], sx.layer.Layer], n: int) -> tuple[float, float, float, float]:
    """Seconds of the dry build, the trace and the compilation, and the loss after one step."""
    sx.device.set_seed(0)
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((8, T, D), np.float32), rng.integers(0, 10, 8).astype(np.int32)
    model = Model(make(n))
    start = time.thread_time()
    model.infer_shape(x)
    dry = time.thread_time() - start
    model.compile([x])
    model(x, y)
    note = model.compilations[-1]
    return dry, note.trace_seconds, note.compile_seconds, float(model(x, y)[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blocks", type=int, nargs=2, default=[2, 24])
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    few, many = options.blocks
    measured(WAYS["separate"], 1)  # JAX starts
    print(f"{'':14}{'blocks':>7}{'dry build':>12}{'trace':>9}{'compile':>10}{'loss':>12}")
    for name, make in WAYS.items():
        found = {n: [statistics.median(column) for column in zip(*[measured(make, n) for _ in range(options.rounds)],
                                                                  strict=True)] for n in (few, many)}  # fmt: skip
        for n, (dry, trace, compiled, loss) in found.items():
            print(f"{name:14}{n:>7}{dry:>10.3f} s{trace:>7.2f} s{compiled:>8.2f} s{loss:>12.6f}")
        ratios = [b / a for a, b in zip(found[few][:3], found[many][:3], strict=True)]
        print(f"{'':14}{'ratio':>7}{ratios[0]:>12.2f}{ratios[1]:>9.2f}{ratios[2]:>10.2f}")


if __name__ == "__main__":
    main()
