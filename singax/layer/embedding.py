"""Embedding: a table of vectors, looked up by id."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from singax import ops
from singax.checked import integer
from singax.errors import ArgumentError, ShapeError
from singax.layer.base import Layer
from singax.tensor import Placeholder


class Embedding(Layer):
    """The rows of a table: y = W[id].

    **Shapes** ids (…) → (…, D); `W` (V, D).

    **Args**
      input_dim: V, the number of ids.
      output_dim: D, the size of a vector.
      initializer: "gaussian" (default) is N(0, 1), "uniform" is U(−1, 1); any other initializer name or function.
      padding_idx: an id whose vector is always 0 and gets no gradient; None (default): there is none.

    Ids are integers, or floats that hold integers (their fraction is cut off), of any rank. −V … −1 count from the end,
    as in ONNX. An id outside −V … V − 1 cannot raise in a compiled program: its vector is nan, and it gets no gradient.

    **Raises** `ArgumentError` for sizes below 1, `ShapeError` from `from_pretrained`.

    *Differences from SINGA*: ids of any rank; no gradient flows to float ids. ONNX: Gather.

    >>> Embedding(100, 8).infer_shape((None, 5))
    (None, 5, 8)
    """

    input_dtype = np.int32

    def __init__(
        self, input_dim: int, output_dim: int, initializer: Any = "gaussian", padding_idx: int | None = None
    ) -> None:
        super().__init__()
        self.input_dim, self.output_dim = integer("input_dim", input_dim, 1), integer("output_dim", output_dim, 1)
        self.initializer, self.padding_idx = initializer, None
        if padding_idx is not None:
            self.padding_idx = integer("padding_idx", padding_idx)
            if not -self.input_dim <= self.padding_idx < self.input_dim:
                raise ArgumentError(f"padding_idx must be an id below {self.input_dim}. Received: {padding_idx!r}")
            self.padding_idx %= self.input_dim

    def initialize(self, ids: Any) -> None:
        self.W = self.param((self.input_dim, self.output_dim), self.initializer)

    def from_pretrained(self, W: Any, freeze: bool = True) -> None:
        """Copy a table (Tensor or array) into `W`; with `freeze`, training leaves it as it is.

        May be called before or after the layer has seen an input. Raises `ShapeError` unless W is (V, D).

        *Differences from SINGA*: a frozen table gets no gradient (SINGA's optimizers update it anyway).
        """
        if np.shape(W) != (self.input_dim, self.output_dim):
            raise ShapeError(f"expected a table {(self.input_dim, self.output_dim)}. Received shape {np.shape(W)}")
        if not self._initialized:
            self.initialize(Placeholder((1,), dtype=self.input_dtype))
        self.W.copy_from(W)
        self.W.requires_grad = not freeze

    def forward(self, ids: jax.Array) -> jax.Array:
        y = ops.embedding(ids, self.W.data)
        if self.padding_idx is None:
            return y
        ids = ids.astype(jnp.int32)
        padding = (ids == self.padding_idx) | (ids == self.padding_idx - self.input_dim)
        return jnp.where(padding[..., None], 0, y)
