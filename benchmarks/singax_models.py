"""The benchmark's models, written with singax."""

from __future__ import annotations

import jax

import singax as sx
from singax.layer import BatchNorm2d, Conv2d, Flatten, Layer, Linear, MaxPool2d, ReLU

MOMENTUM, WEIGHT_DECAY = 0.9, 1e-5


class Trained(sx.Module):
    """What the models share: cross entropy, and SGD with momentum and weight decay."""

    def __init__(self, lr: float) -> None:
        super().__init__()
        self.loss = sx.layer.SoftMaxCrossEntropy()
        self.optimizer = sx.opt.SGD(lr, momentum=MOMENTUM, weight_decay=WEIGHT_DECAY)

    def train_one_batch(self, x: sx.Tensor, y: sx.Tensor) -> tuple[sx.Tensor, sx.Tensor]:
        out = self.forward(x)
        loss = self.loss(out, y)
        self.optimizer(loss)
        return out, loss


class MLP(Trained):
    """64 → 128 → 10."""

    def __init__(self, lr: float) -> None:
        super().__init__(lr)
        self.fc1, self.fc2 = Linear(128), Linear(10)

    def forward(self, x: jax.Array) -> jax.Array:
        return self.fc2(jax.nn.relu(self.fc1(x)))


class CNN(Trained):
    """The network of `examples/mnist_cnn.py`."""

    def __init__(self, lr: float) -> None:
        super().__init__(lr)
        self.conv1, self.pool1 = Conv2d(20, 5, activation="RELU"), MaxPool2d(2, 2)
        self.conv2, self.pool2 = Conv2d(50, 5, activation="RELU"), MaxPool2d(2, 2)
        self.flatten, self.relu = Flatten(), ReLU()
        self.fc1, self.fc2 = Linear(500), Linear(10)

    def forward(self, x: jax.Array) -> jax.Array:
        x = self.pool1(self.conv1(x))
        x = self.pool2(self.conv2(x))
        return self.fc2(self.relu(self.fc1(self.flatten(x))))


class Block(Layer):
    """Two 3×3 convolutions with BatchNorm and a shortcut (He et al. 2016)."""

    def __init__(self, planes: int, stride: int, project: bool) -> None:
        super().__init__()
        self.conv1 = Conv2d(planes, 3, stride=stride, padding=1, bias=False)
        self.bn1 = BatchNorm2d()
        self.conv2 = Conv2d(planes, 3, padding=1, bias=False)
        self.bn2 = BatchNorm2d()
        self.shortcut = Conv2d(planes, 1, stride=stride, bias=False) if project else None
        self.bn3 = BatchNorm2d() if project else None

    def forward(self, x: jax.Array) -> jax.Array:
        y = jax.nn.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        same = self.bn3(self.shortcut(x)) if self.shortcut else x
        return jax.nn.relu(y + same)


class ResNet18(Trained):
    """ResNet-18 for 32×32 images: a 3×3 stem, no max pooling."""

    def __init__(self, lr: float) -> None:
        super().__init__(lr)
        self.stem, self.bn = Conv2d(64, 3, padding=1, bias=False), BatchNorm2d()
        self.blocks = [
            Block(64 * 2**stage, 2 if stage and not index else 1, bool(stage and not index))
            for stage in range(4)
            for index in range(2)
        ]
        self.head = Linear(10)

    def forward(self, x: jax.Array) -> jax.Array:
        x = jax.nn.relu(self.bn(self.stem(x)))
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean((2, 3)))
