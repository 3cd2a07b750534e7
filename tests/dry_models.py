"""Models whose dry runs are compared with hand counts and with XLA."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from models import Trained

import singax as sx
from singax import layer


class Perceptron(Trained):
    """(N, D) → (N, 10) by two hidden layers."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.head = layer.Linear(512), layer.Linear(256), layer.Linear(10)

    def forward(self, x: jax.Array) -> jax.Array:
        return self.head(jax.nn.relu(self.second(jax.nn.relu(self.first(x)))))


class Convolutional(Trained):
    """(N, C, H, W) → (N, 10) by two convolutions with BatchNorm and pooling."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = layer.Conv2d(32, 3, padding=1), layer.Conv2d(64, 3, padding=1)
        self.norm1, self.norm2 = layer.BatchNorm2d(), layer.BatchNorm2d()
        self.pool1, self.pool2, self.head = layer.MaxPool2d(2, 2), layer.MaxPool2d(2, 2), layer.Linear(10)

    def forward(self, x: jax.Array) -> jax.Array:
        x = self.pool1(jax.nn.relu(self.norm1(self.conv1(x))))
        x = self.pool2(jax.nn.relu(self.norm2(self.conv2(x))))
        return self.head(x.reshape(len(x), -1))


def conv(planes: int, kernel: int, stride: int = 1) -> layer.Conv2d:
    """A convolution without bias that keeps the size, at stride 1."""
    return layer.Conv2d(planes, kernel, stride=stride, padding=kernel // 2, bias=False)


class Basic(layer.Layer):
    """Two 3×3 convolutions beside a shortcut."""

    def __init__(self, planes: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1, self.conv2 = conv(planes, 3, stride), conv(planes, 3)
        self.norm1, self.norm2 = layer.BatchNorm2d(), layer.BatchNorm2d()
        self.shortcut = conv(planes, 1, stride) if stride > 1 else None

    def forward(self, x: jax.Array) -> jax.Array:
        y = self.norm2(self.conv2(jax.nn.relu(self.norm1(self.conv1(x)))))
        return jax.nn.relu(y + (x if self.shortcut is None else self.shortcut(x)))


class Residual(Trained):
    """(N, 1, H, W) → (N, 10): three stages of two blocks, 16, 32 and 64 channels wide."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = conv(16, 3), layer.BatchNorm2d()
        self.blocks = [Basic(16), Basic(16), Basic(32, 2), Basic(32), Basic(64, 2), Basic(64)]
        self.pool, self.head = layer.GlobalAvgPool2d(), layer.Linear(10)

    def forward(self, x: jax.Array) -> jax.Array:
        x = jax.nn.relu(self.norm(self.conv(x)))
        for block in self.blocks:
            x = block(x)
        return self.head(self.pool(x).reshape(len(x), -1))


class Bottleneck(layer.Layer):
    """1×1, 3×3 and 1×1 convolutions beside a shortcut (He et al. 2016)."""

    def __init__(self, planes: int, stride: int, project: bool) -> None:
        super().__init__()
        self.conv1, self.conv2, self.conv3 = conv(planes, 1), conv(planes, 3, stride), conv(4 * planes, 1)
        self.norm1, self.norm2, self.norm3 = (layer.BatchNorm2d() for _ in range(3))
        self.shortcut = conv(4 * planes, 1, stride) if project else None
        self.norm = layer.BatchNorm2d() if project else None

    def forward(self, x: jax.Array) -> jax.Array:
        y = jax.nn.relu(self.norm1(self.conv1(x)))
        y = self.norm3(self.conv3(jax.nn.relu(self.norm2(self.conv2(y)))))
        return jax.nn.relu(y + (x if self.shortcut is None or self.norm is None else self.norm(self.shortcut(x))))


class ResNet50(Trained):
    """(N, 3, 224, 224) → (N, 1000)."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.pool = conv(64, 7, 2), layer.BatchNorm2d(), layer.MaxPool2d(3, 2, padding=1)
        self.blocks = [
            Bottleneck(64 << stage, 2 if stage and not place else 1, not place)
            for stage, count in enumerate((3, 4, 6, 3))
            for place in range(count)
        ]
        self.mean, self.head = layer.GlobalAvgPool2d(), layer.Linear(1000)

    def forward(self, x: jax.Array) -> jax.Array:
        x = self.pool(jax.nn.relu(self.norm(self.conv(x))))
        for block in self.blocks:
            x = block(x)
        return self.head(self.mean(x).reshape(len(x), -1))


class GPT(Trained):
    """Token ids (N, T) → logits (N · T, vocabulary); `repeat` puts the blocks into one `Repeat`."""

    def __init__(self, layers: int, width: int, heads: int, vocabulary: int, length: int, repeat: bool = False) -> None:
        super().__init__(sx.opt.AdamW(1e-4))
        self.vocabulary = vocabulary
        self.tokens, self.positions = layer.Embedding(vocabulary, width), layer.PositionalEmbedding(length)

        def block() -> layer.Layer:
            options: dict[str, Any] = {"dropout": 0, "norm_first": True, "causal": True}
            return layer.TransformerEncoderLayer(heads, 4 * width, "gelu", **options)

        self.blocks: Any = layer.Repeat(block, layers) if repeat else [block() for _ in range(layers)]
        self.norm, self.head = layer.LayerNorm(), layer.Linear(vocabulary, bias=False)

    def forward(self, ids: jax.Array) -> jax.Array:
        x = self.positions(self.tokens(ids))
        for block in [self.blocks] if isinstance(self.blocks, layer.Layer) else self.blocks:
            x = block(x)
        return self.head(self.norm(x)).reshape(-1, self.vocabulary)


class Recurrent(Trained):
    """Token ids (N, T) → (N, 10) by an LSTM."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.lstm = layer.Embedding(1000, 64), layer.LSTM(64, 128, batch_first=True)
        self.head = layer.Linear(10)

    def forward(self, ids: jax.Array) -> jax.Array:
        return self.head(self.lstm(self.tokens(ids))[0][:, -1])


def floats(*shape: int | None) -> sx.Tensor:
    """A placeholder."""
    return sx.Placeholder(shape)


def integers(*shape: int | None) -> sx.Tensor:
    """A placeholder of integers."""
    return sx.Placeholder(shape, dtype=sx.int32)


def small_gpt() -> GPT:
    """Two blocks of width 128, 128 tokens."""
    return GPT(2, 128, 4, 1000, 128)


FIVE: dict[str, tuple[Callable[[], sx.Module], list[Any]]] = {
    "MLP": (Perceptron, [floats(64, 784), integers(64)]),
    "CNN": (Convolutional, [floats(32, 3, 32, 32), integers(32)]),
    "ResNet": (Residual, [floats(32, 1, 28, 28), integers(32)]),
    "GPT": (small_gpt, [integers(4, 128), integers(512)]),
    "LSTM": (Recurrent, [integers(32, 40), integers(32)]),
}
