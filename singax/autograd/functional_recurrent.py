"""What SINGA's operator class of recurrent networks computes: it goes by a handle and has no functional name."""

from __future__ import annotations

from typing import Any

from singax import dispatch, mode, ops
from singax.autograd.derived import operator_class
from singax.autograd.functional_elementwise import constant
from singax.errors import ArgumentError

__all__: list[str] = []


@operator_class("_RNN", "x hx cx w")
def _RNN(
    handle: Any,
    x: Any,
    hx: Any,
    cx: Any,
    w: Any,
    return_sequences: bool = False,
    use_mask: bool = False,
    seq_lengths: Any = None,
) -> Any:
    """A recurrent network of several layers and directions with all weights in one array, as in cuDNN.

    **Shapes** x (T, B, F), hx and cx (L · D, B, H), w (weights_size,) → (T, B, D · H) with `return_sequences`, else the
    outputs of the last step (B, D · H). cx counts for an LSTM only. See `layer.CudnnRNN`.

    **Args**
      handle: a `singa_wrap.CudnnRNNHandle`: the mode, the sizes, and the dropout between layers while training.
      use_mask: whether `seq_lengths` must be given.
      seq_lengths: (B,) integers; a sequence puts out zeros after its end, and its last step is its own.

    *Differences from SINGA*: runs on every device.
    """
    if use_mask and seq_lengths is None:
        raise ArgumentError("_RNN expected seq_lengths with use_mask. Received: None")
    lengths = None if seq_lengths is None else constant(seq_lengths)
    key = dispatch.next_key() if handle.dropout and mode.training else None
    geometry = {
        "hidden_size": handle.hidden_size,
        "rnn_mode": handle.rnn_mode,
        "num_layers": handle.num_layers,
        "bidirectional": handle.bidirectional,
        "bias": handle.bias,
        "dropout": handle.dropout,
        "return_sequences": bool(return_sequences),
    }
    return dispatch.apply(ops.cudnn_rnn, x, hx, cx, w, lengths, key, **geometry)
