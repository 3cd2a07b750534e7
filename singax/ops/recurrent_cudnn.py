"""cuDNN's form of recurrent networks: all layers at once, all weights in one flat array."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from singax.ops.checks import one_of
from singax.ops.operation import Operation
from singax.ops.recurrent import gru, lstm, rnn
from singax.ops.recurrent_checks import check_lengths, check_sequence, check_states, expect_shape
from singax.ops.recurrent_layers import Weights, run_layers

Array = jax.Array


class Mode(NamedTuple):
    """One of cuDNN's modes: our operation, its attributes, and where ONNX's gates stand among cuDNN's."""

    operation: Operation
    attributes: dict[str, Any]
    order: tuple[int, ...]


CUDNN_MODES = {
    "vanilla": Mode(rnn, {"nonlinearity": "tanh"}, (0,)),
    "tanh": Mode(rnn, {"nonlinearity": "tanh"}, (0,)),
    "relu": Mode(rnn, {"nonlinearity": "relu"}, (0,)),
    "lstm": Mode(lstm, {}, (0, 3, 1, 2)),  # ONNX i o f g, cuDNN i f g o
    "gru": Mode(gru, {}, (1, 0, 2)),  # ONNX z r n, cuDNN r z n
}


@dataclass(frozen=True)
class CudnnLayout:
    """Where cuDNN keeps which weight.

    First all matrices: layer by layer, the forward direction before the backward one, the input matrix (G · H, in) of
    all gates each, then the recurrent one (G · H, H). Then, in the same order of layers and directions, all biases:
    those of the input (G · H,), then those of the state. The gates are i, f, g, o of an LSTM and r, z, n of a GRU; a
    layer but the first reads D · H inputs. Without `bias` the second part is absent.

    >>> CudnnLayout(input_size=3, hidden_size=5).size
    200
    """

    input_size: int
    hidden_size: int
    rnn_mode: str = "lstm"
    num_layers: int = 1
    bidirectional: bool = False
    bias: bool = True

    @property
    def directions(self) -> int:
        """D: 1 or 2."""
        return 1 + self.bidirectional

    @property
    def size(self) -> int:
        """How many weights there are."""
        return sum(math.prod(shape) for _, _, shape in self._pieces())

    def weights(self, w: Array) -> list[Weights]:
        """ONNX's (W, R, b) of each layer, cut out of the flat `w`."""
        parts: list[dict[str, list[Array]]] = [{"W": [], "R": [], "b": []} for _ in range(self.num_layers)]
        start = 0
        for layer, kind, shape in self._pieces():
            end = start + math.prod(shape)
            parts[layer][kind].append(self._in_order_of_onnx(w[start:end].reshape(shape), kind))
            start = end
        return [(jnp.stack(p["W"]), jnp.stack(p["R"]), jnp.stack(p["b"]) if self.bias else None) for p in parts]

    def _in_order_of_onnx(self, piece: Array, kind: str) -> Array:
        """(G, H, columns) → (G · H, columns), or two biases (2, G, H) → (2 · G · H,)."""
        order = CUDNN_MODES[self.rnn_mode].order
        if kind == "b":
            return jnp.concatenate([piece[half, gate] for half in range(2) for gate in order])
        return jnp.concatenate([piece[gate] for gate in order])

    def _pieces(self) -> Iterator[tuple[int, str, tuple[int, ...]]]:
        """The layer, the kind and the shape of what stands in the flat weights, in their order."""
        D, H, G = self.directions, self.hidden_size, len(CUDNN_MODES[self.rnn_mode].order)
        for layer in range(self.num_layers):
            for _ in range(D):
                yield layer, "W", (G, H, D * H if layer else self.input_size)
                yield layer, "R", (G, H, H)
        for layer in range(self.num_layers if self.bias else 0):
            for _ in range(D):
                yield layer, "b", (2, G, H)


def cudnn_rnn(
    x: Array,
    hx: Array | None,
    cx: Array | None,
    w: Array,
    seq_lengths: Array | None = None,
    key: Array | None = None,
    *,
    hidden_size: int,
    rnn_mode: str = "lstm",
    num_layers: int = 1,
    bidirectional: bool = False,
    bias: bool = True,
    dropout: float = 0.0,
    return_sequences: bool = True,
) -> Array:
    """cuDNN's recurrent networks on every device: a pure function made of operations that ONNX has.

    x (T, B, in), hx and cx (L · D, B, H) or None for zeros (cx counts for an LSTM only), the flat w as `CudnnLayout`
    says → (T, B, D · H). Without `return_sequences` only the outputs of the last step, with `seq_lengths` (B,) those of
    each sequence's own last step: (B, D · H). `rnn_mode` is "vanilla" or "tanh", "relu", "lstm" or "gru". `dropout`
    falls between layers if there is a random `key`.
    """
    one_of("cudnn_rnn", "rnn_mode", rnn_mode, tuple(CUDNN_MODES))
    check_sequence("cudnn_rnn", x)
    layout = CudnnLayout(x.shape[2], hidden_size, rnn_mode, num_layers, bidirectional, bias)
    states = (hx, cx) if rnn_mode == "lstm" else (hx,)
    expect_shape("cudnn_rnn", "weights", w, (layout.size,))
    check_states("cudnn_rnn", states, (num_layers * layout.directions, x.shape[1], hidden_size))
    check_lengths("cudnn_rnn", seq_lengths, x.shape[1])
    operation, attributes, _ = CUDNN_MODES[rnn_mode]
    every, _ = run_layers(
        operation,
        x,
        layout.weights(w),
        states,
        seq_lengths,
        key,
        dropout=dropout,
        direction="bidirectional" if bidirectional else "forward",
        hidden_size=hidden_size,
        **attributes,
    )
    return every if return_sequences else last_outputs(every, seq_lengths)


def last_outputs(every: Array, seq_lengths: Array | None) -> Array:
    """The outputs (B, D · H) of each sequence's last step."""
    if seq_lengths is None:
        return every[-1]
    ends = jnp.clip(seq_lengths - 1, 0, every.shape[0] - 1)
    return jnp.take_along_axis(every, ends[None, :, None], axis=0)[0]
