"""CudnnRNN: the interface of cuDNN's recurrent networks, on every device."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp

from singax import ops
from singax.checked import integer
from singax.errors import ArgumentError, ShapeError
from singax.layer.base import Layer
from singax.layer.recurrent_base import check_dropout, dropout_key
from singax.ops.recurrent_cudnn import CUDNN_MODES, CudnnLayout
from singax.recipes import Uniform

Array = jax.Array


class CudnnRNN(Layer):
    """A recurrent network of several layers and directions whose weights are one flat array, as in cuDNN.

    The formulas are those of RNN, LSTM and GRU (with `linear_before_reset`).

    **Shapes** x (B, S, F), with `batch_first=False` (S, B, F) → all outputs (B, S, D · H) or (S, B, D · H); without
    `return_sequences` (B, D · H). hx and cx (L · D, B, H), zeros when they are not given; cx counts for an LSTM only.
    `seq_lengths` (B,), integers: a sequence that is shorter than S puts out zeros after its end, and the backward
    direction starts at its end; without `return_sequences` the outputs are those of its own last step.
    `W` (size,), drawn from U(−1/√H, 1/√H): first the matrices of all layers and directions (the input matrix of all
    gates (G · H, F), then the recurrent one (G · H, H)), then the biases of all layers and directions (those of the
    input (G · H,), then those of the state). The gates are i, f, g, o of an LSTM and r, z, n of a GRU. `onnx_weights`
    takes them apart.

    **Args**
      hidden_size: H.
      activation: "tanh" (default); "relu" goes with the modes "relu" and "vanilla", which it turns into "relu".
      num_layers: L (default 1).
      bias: whether there are biases (default True).
      batch_first: whether x and the outputs begin with the batch (default True).
      dropout: the part of a layer's outputs that is dropped on the way to the next layer while training (default 0).
      bidirectional: whether there is a second direction, D = 2 (default False).
      rnn_mode: "lstm" (default), "gru", "relu", and "tanh" or "vanilla".
      use_mask: whether `seq_lengths` must be given; they count whenever they are.
      return_sequences: whether the outputs of all steps are returned (default True), or those of the last one.

    **Raises** `ArgumentError` for other options, or if `use_mask` goes without lengths; `ShapeError` for inputs, states
    or lengths that do not fit; `DTypeError` for lengths that are not integers.

    *Differences from SINGA*: runs on every device; without `return_sequences` the last step is each sequence's own
    (SINGA takes step S − 1, which is padding); lengths count without `use_mask` too; without `bias` W has no biases;
    set_params works. ONNX: RNN, LSTM or GRU for each layer.

    >>> CudnnRNN(5, bidirectional=True).infer_shape((None, 7, 3))
    (None, 7, 10)
    """

    def __init__(
        self,
        hidden_size: int,
        activation: str = "tanh",
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = True,
        dropout: float = 0,
        bidirectional: bool = False,
        rnn_mode: str = "lstm",
        use_mask: bool = False,
        return_sequences: bool = True,
    ) -> None:
        super().__init__()
        self.hidden_size, self.num_layers = (
            integer("hidden_size", hidden_size, 1),
            integer("num_layers", num_layers, 1),
        )
        self.rnn_mode, self.activation = _mode(rnn_mode, activation), activation
        self.dropout, self.bias, self.bidirectional = check_dropout(dropout), bool(bias), bool(bidirectional)
        self.batch_first, self.use_mask, self.return_sequences = batch_first, use_mask, return_sequences

    def initialize(self, x: Array, *others: Any) -> None:
        if x.ndim != 3:
            raise ShapeError(f"expected an input (B, S, F) or (S, B, F). Received shape {x.shape}")
        self.input_size, bound = x.shape[-1], 1 / math.sqrt(self.hidden_size)
        self.W = self.param((self._layout().size,), Uniform(-bound, bound), x.dtype)

    def forward(self, x: Array, hx: Array | None = None, cx: Array | None = None, seq_lengths: Any = None) -> Array:
        if x.ndim != 3 or 0 in x.shape[:2] or x.shape[-1] != self.input_size:
            form = "(B, S, F)" if self.batch_first else "(S, B, F)"
            raise ShapeError(f"expected an input {form} with F = {self.input_size}. Received shape {x.shape}")
        if self.use_mask and seq_lengths is None:
            raise ArgumentError("use_mask goes with seq_lengths (B,). Received: None")
        y = ops.cudnn_rnn(
            ops.transpose(x, perm=(1, 0, 2)) if self.batch_first else x,
            hx,
            cx,
            self.W.data,
            None if seq_lengths is None else jnp.asarray(seq_lengths),
            dropout_key(self.dropout, self.num_layers),
            hidden_size=self.hidden_size,
            rnn_mode=self.rnn_mode,
            num_layers=self.num_layers,
            bidirectional=self.bidirectional,
            bias=self.bias,
            dropout=self.dropout,
            return_sequences=self.return_sequences,
        )
        return ops.transpose(y, perm=(1, 0, 2)) if self.return_sequences and self.batch_first else y

    def onnx_weights(self, layer: int = 0) -> tuple[Array, Array, Array | None]:
        """ONNX's inputs W (D, G · H, in), R (D, G · H, H) and B (D, 2 · G · H; None without bias) of one layer."""
        return self._layout().weights(self.W.data)[layer]

    def _layout(self) -> CudnnLayout:
        return CudnnLayout(
            self.input_size, self.hidden_size, self.rnn_mode, self.num_layers, self.bidirectional, self.bias
        )


def _mode(rnn_mode: Any, activation: Any) -> str:
    if rnn_mode not in CUDNN_MODES:
        raise ArgumentError(f"rnn_mode must be one of {', '.join(map(repr, CUDNN_MODES))}. Received: {rnn_mode!r}")
    if activation not in ("tanh", "relu") or (activation == "relu" and rnn_mode not in ("relu", "vanilla")):
        raise ArgumentError(
            f"activation must be 'tanh', or 'relu' with the modes 'relu' and 'vanilla'. Received: {activation!r} with "
            f"{rnn_mode!r}"
        )
    return "relu" if activation == "relu" else rnn_mode
