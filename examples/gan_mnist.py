"""A generative adversarial network that learns to write digits (Goodfellow et al. 2014), in SINGA's two-step style.

    python examples/gan_mnist.py            # about two minutes; samples go to gan_mnist.png
    python examples/gan_mnist.py --quick    # a few seconds, to see that it runs

Two training steps share one model: each computes gradients through both networks and updates only one of them,
chosen by the names of the parameters.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import jax
import numpy as np
from data import batches, mnist
from tqdm.auto import tqdm

import singax as sx
from singax import autograd

NOISE = 64

Digits = tuple[np.ndarray, np.ndarray]  # images (N, 784) in [0, 1] and labels (N,)


class Generator(sx.layer.Layer):
    """Noise to images. **Shapes** (N, D) → (N, 784), values in (0, 1)."""

    def __init__(self, hidden: int = 128) -> None:
        super().__init__()
        self.fc1, self.fc2 = sx.layer.Linear(hidden), sx.layer.Linear(2 * hidden)
        self.norm1, self.norm2 = sx.layer.BatchNorm2d(momentum=0.1), sx.layer.BatchNorm2d(momentum=0.1)
        self.out = sx.layer.Linear(28 * 28)

    def forward(self, noise: jax.Array) -> jax.Array:
        hidden = jax.nn.leaky_relu(self.norm1(self.fc1(noise)), 0.2)
        hidden = jax.nn.leaky_relu(self.norm2(self.fc2(hidden)), 0.2)
        return jax.nn.sigmoid(self.out(hidden))


class Discriminator(sx.layer.Layer):
    """The probability that an image is real. **Shapes** (N, 784) → (N, 1)."""

    def __init__(self, hidden: int = 128) -> None:
        super().__init__()
        self.fc1, self.fc2 = sx.layer.Linear(2 * hidden), sx.layer.Linear(hidden)
        self.dropout1, self.dropout2 = sx.layer.Dropout(0.3), sx.layer.Dropout(0.3)
        self.out = sx.layer.Linear(1)

    def forward(self, images: jax.Array) -> jax.Array:
        return jax.nn.sigmoid(self.scores(images))

    def scores(self, images: jax.Array) -> jax.Array:
        """Any numbers, the larger the more real."""
        hidden = self.dropout1(jax.nn.leaky_relu(self.fc1(2 * images - 1), 0.2))
        hidden = self.dropout2(jax.nn.leaky_relu(self.fc2(hidden), 0.2))
        return self.out(hidden)


class GAN(sx.Module):
    """Both networks. In evaluation mode it maps noise to images."""

    def __init__(self, lr: float, dis_net: Discriminator | None = None, loss: sx.layer.Layer | None = None) -> None:
        super().__init__()
        self.gen_net, self.dis_net = Generator(), dis_net or Discriminator()
        self.loss = loss or sx.layer.BinaryCrossEntropy()
        self.gen_optimizer = sx.opt.Adam(lr, beta_1=0.5)
        self.dis_optimizer = sx.opt.Adam(lr, beta_1=0.5)

    def forward(self, noise: jax.Array) -> jax.Array:
        return self.gen_net(noise)

    def train_one_batch(self, noise: sx.Tensor, real: sx.Tensor) -> sx.Tensor:
        """The generator learns: its images should be called `real` (ones)."""
        loss = self.loss(self.dis_net(self.gen_net(noise)), real)
        self._update("gen_net", self.gen_optimizer, loss)
        return loss

    def train_one_batch_dis(self, images: sx.Tensor, real: sx.Tensor, noise: sx.Tensor, fake: sx.Tensor) -> sx.Tensor:
        """The discriminator learns: `images` should be called `real` (ones), generated ones `fake` (zeros)."""
        loss = self.loss(self.dis_net(images), real) + self.loss(self.dis_net(self.gen_net(noise)), fake)
        self._update("dis_net", self.dis_optimizer, loss)
        return loss

    def _update(self, part: str, optimizer: sx.opt.Optimizer, loss: sx.Tensor) -> None:
        for p, g in autograd.backward(loss):
            if part in p.name:
                optimizer.apply(p.name, p, g)
        optimizer.step()


def train_epoch(model: GAN, data: Digits, batch: int, rng: np.random.Generator) -> tuple[float, float]:
    """One pass over the images; returns the last losses of generator and discriminator."""
    model.train()
    real, fake = np.full((batch, 1), 0.9, np.float32), np.zeros((batch, 1), np.float32)  # one-sided label smoothing
    ones = np.ones((batch, 1), np.float32)
    for images, _ in batches(data, batch, rng):
        dis_loss = model.train_one_batch_dis(images, real, noise_for(batch, rng), fake)
        gen_loss = model.train_one_batch(noise_for(batch, rng), ones)
    return float(gen_loss), float(dis_loss)


def noise_for(count: int, rng: np.random.Generator) -> np.ndarray:
    """Standard normal noise (count, NOISE)."""
    return rng.standard_normal((count, NOISE), np.float32)


def save_samples(model: GAN, path: Path, rng: np.random.Generator, side: int = 8) -> None:
    """Draw side × side generated digits into a PNG file."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    model.eval()
    digits = model(noise_for(side * side, rng)).to_numpy().reshape(side, side, 28, 28)
    picture = digits.transpose(0, 2, 1, 3).reshape(side * 28, side * 28)
    pyplot.imsave(path, picture, cmap="gray", vmin=0, vmax=1)


def arguments(argv: Sequence[str] | None, title: str | None, out: str, lr: float) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=title, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", metavar="DIR", help="folder with the four IDX files of MNIST")
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--lr", type=float, default=lr)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path(out), help="where the samples go")
    parser.add_argument("--quick", action="store_true", help="two epochs on 512 digits")
    return parser.parse_args(argv)


def run(
    make: Callable[[float], GAN], argv: Sequence[str] | None, title: str | None, out: str, lr: float = 5e-4
) -> dict[str, float]:
    """Train, write the samples, return the last losses."""
    args = arguments(argv, title, out, lr)
    epochs, limit = (2, 512) if args.quick else (args.epochs, None)
    data = mnist(args.data)
    digits = data.train_x.reshape(-1, 28 * 28)[:limit], data.train_y[:limit]
    rng = np.random.default_rng(args.seed)
    sx.device.get_default_device().SetRandSeed(args.seed)

    model = make(args.lr)
    model.compile([sx.Placeholder((args.batch, NOISE))])

    start = time.perf_counter()
    progress = tqdm(range(epochs), unit="epoch")
    for _ in progress:
        gen_loss, dis_loss = train_epoch(model, digits, args.batch, rng)
        progress.set_postfix(generator=f"{gen_loss:.3f}", discriminator=f"{dis_loss:.3f}")
    save_samples(model, args.out, rng)
    print(f"generator loss {gen_loss:.3f}, discriminator loss {dis_loss:.3f}, {time.perf_counter() - start:.0f} s")
    print(f"samples: {args.out}")
    return {"generator": gen_loss, "discriminator": dis_loss}


def main(argv: Sequence[str] | None = None) -> dict[str, float]:
    """Train, write the samples, return the last losses."""
    return run(GAN, argv, __doc__, "gan_mnist.png")


if __name__ == "__main__":
    main()
