"""The feed-forward network of a transformer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from singax import ops
from singax.checked import integer
from singax.errors import ArgumentError
from singax.layer.base import Layer
from singax.layer.dropout import Dropout
from singax.layer.linear import Linear

Array = jax.Array
Activation = str | Callable[[Array], Array]

_ACTIVATIONS: dict[str, Callable[[Array], Array]] = {"relu": ops.relu, "gelu": ops.gelu, "tanh": ops.tanh}


class FeedForward(Layer):
    """Two Linear layers, applied to each position alone: W₂ · f(W₁ · x + b₁) + b₂ (Vaswani et al. 2017).

    **Shapes** x (…, D) → the same; `inner.W` (D, F), `outer.W` (F, D), and `inner.b` (F,), `outer.b` (D,).

    **Args**
      hidden_features: F (default 4 · D).
      activation: f: "relu" (default), "gelu", "tanh", or a function of an array.
      dropout: the part of f's results that is dropped in training (default 0).
      bias: whether there are biases (default True).
      kernel_init, bias_init: as for Linear.

    **Raises** `ArgumentError` for other arguments, `ShapeError` for an input with other features.

    *Differences from SINGA*: SINGA has no such layer.

    >>> FeedForward(64, "gelu").infer_shape((None, 10, 16))
    (None, 10, 16)
    """

    def __init__(
        self,
        hidden_features: int | None = None,
        activation: Activation = "relu",
        dropout: float = 0.0,
        bias: bool = True,
        kernel_init: Any = None,
        bias_init: Any = "zeros",
    ) -> None:
        super().__init__()
        self.hidden_features = None if hidden_features is None else integer("hidden_features", hidden_features, 1)
        self.activation, self.dropout = activation, Dropout(dropout)
        _function(activation)
        self.linear_options = {"bias": bool(bias), "kernel_init": kernel_init, "bias_init": bias_init}

    def initialize(self, x: Array) -> None:
        self.inner = Linear(self.hidden_features or 4 * x.shape[-1], **self.linear_options)
        self.outer = Linear(x.shape[-1], **self.linear_options)

    def forward(self, x: Array) -> Array:
        return self.outer(self.dropout(_function(self.activation)(self.inner(x))))


def _function(activation: Any) -> Callable[[Array], Array]:
    if callable(activation):
        return activation
    if activation not in _ACTIVATIONS:
        names = ", ".join(map(repr, _ACTIVATIONS))
        raise ArgumentError(f"activation must be {names} or a function of an array. Received: {activation!r}")
    return _ACTIVATIONS[activation]
