"""Recurrent layers: RNN, LSTM and GRU."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from singax import ops
from singax.errors import ArgumentError
from singax.layer.recurrent_base import RNN_Base, columns
from singax.ops.explain import described
from singax.recipes import Normal, Uniform
from singax.tensor import Tensor

Array = jax.Array


class RNN(RNN_Base):
    """Elman's network: h_t = f(x_t · Wx + h_{t−1} · Wh + b), f being tanh or relu.

    **Shapes** x: a list of T arrays (B, in) → (list of T arrays (B, D · H), last h (B, H)); or one array (T, B, in) →
    ((T, B, D · H), last h); with `batch_first` (B, T, in) → ((B, T, D · H), last h). h0 is like the last h, zeros when
    it is not given; with L layers and D directions, L · D > 1, both are (L · D, B, H).
    `seq_lengths` (B,), integers: a sequence that is shorter than T puts out zeros after its end, its last h is the one
    at its end, and the backward direction starts there. A length above T counts as T.
    `Wx` (in, H), `Wh` (H, H), drawn from N(0, 1); `b` (H,), zeros. Further directions and layers: `reverse.Wx`,
    `l1.Wx` (D · H, H), `l1.reverse.Wx`, …

    **Args**
      input_size: in; None to infer it from the first input.
      hidden_size: H.
      num_layers: L (default 1); each layer reads the outputs of the one before.
      nonlinearity: "tanh" (default) or "relu".
      bias: whether there is a `b` (default True).
      batch_first: whether an array is (B, T, in) (default False); lists are not affected.
      dropout: the part of a layer's outputs that is dropped on the way to the next layer while training (default 0).
      bidirectional: whether a second direction reads the sequence from its end (default False).

    **Raises** `ArgumentError` for other options, `ShapeError` for inputs, states or lengths that do not fit,
    `DTypeError` for lengths that are not integers.

    *Differences from SINGA*: arrays as well as lists; h0 is optional; the options are honoured, SINGA ignores them. One
    `lax.scan` for each layer and direction: the compiled program does not grow with T. ONNX: RNN.

    >>> RNN(3, 5).infer_shape((7, None, 3))
    ((7, None, 5), (None, 5))
    """

    operation = ops.rnn

    def __init__(
        self,
        input_size: int | None,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0,
        bidirectional: bool = False,
    ) -> None:
        super().__init__(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional)
        if nonlinearity not in ("tanh", "relu"):
            raise ArgumentError(f"nonlinearity must be 'tanh' or 'relu'. Received: {nonlinearity!r}")
        self.nonlinearity = nonlinearity

    def forward(self, x: Any, h0: Array | None = None, seq_lengths: Any = None) -> tuple[Any, Array]:
        every, (last,) = self._run(x, (h0,), seq_lengths, nonlinearity=self.nonlinearity)
        return every, last

    def _make_parameters(self, inputs: int, dtype: Any) -> dict[str, Tensor]:
        H = self.hidden_size
        made = {name: self.param((rows, H), Normal(0.0, 1.0), dtype) for name, rows in (("Wx", inputs), ("Wh", H))}
        return made | ({"b": self.param((H,), "zeros", dtype)} if self.bias else {})

    def _onnx_parameters(self, named: Mapping[str, Tensor]) -> tuple[Array, Array, Array | None]:
        b = named["b"].data if self.bias else None
        B = None if b is None else ops.cat([b, jnp.zeros_like(b)], axis=0)
        return columns([named["Wx"]]), columns([named["Wh"]]), B


class _Gated(RNN_Base):
    """A recurrent layer with four parameters for each of its gates: `Wx_*`, `Wh_*`, `Bx_*` and `Bh_*`."""

    gates: str
    onnx_gates: str

    def _matrix_recipe(self) -> Any:
        raise NotImplementedError

    def _bias_recipe(self) -> Any:
        raise NotImplementedError

    def _make_parameters(self, inputs: int, dtype: Any) -> dict[str, Tensor]:
        H, matrix, bias = self.hidden_size, self._matrix_recipe(), self._bias_recipe()
        made = {f"Wx_{gate}": self.param((inputs, H), matrix, dtype) for gate in self.gates}
        made |= {f"Wh_{gate}": self.param((H, H), matrix, dtype) for gate in self.gates}
        kinds = ("Bx", "Bh") if self.bias else ()
        return made | {f"{kind}_{gate}": self.param((H,), bias, dtype) for kind in kinds for gate in self.gates}

    def _onnx_parameters(self, named: Mapping[str, Tensor]) -> tuple[Array, Array, Array | None]:
        W, R = (columns([named[f"{kind}_{gate}"] for gate in self.onnx_gates]) for kind in ("Wx", "Wh"))
        biases = [named[f"{kind}_{gate}"].data for kind in ("Bx", "Bh") for gate in self.onnx_gates if self.bias]
        return W, R, ops.cat(biases, axis=0) if biases else None


class LSTM(_Gated):
    """Long short-term memory (Hochreiter and Schmidhuber 1997).

    With k_t = x_t · Wx_k + Bx_k + h_{t−1} · Wh_k + Bh_k for the gates k = i, f, o, g:
    c_t = σ(f_t) · c_{t−1} + σ(i_t) · tanh(g_t) and h_t = σ(o_t) · tanh(c_t).

    **Shapes** x: a list of T arrays (B, in) → (list of T arrays (B, D · H), last h (B, H), last c (B, H)); or one array
    (T, B, in) → ((T, B, D · H), h, c); with `batch_first` (B, T, in) → ((B, T, D · H), h, c). The second argument is a
    pair (h0, c0) like the last h and c, zeros when it is not given; with L layers and D directions, L · D > 1, each is
    (L · D, B, H). `seq_lengths` (B,) is that of RNN.
    `Wx_i Wx_f Wx_o Wx_g` (in, H) and `Wh_*` (H, H), drawn from N(0, 0.01²); `Bx_*` and `Bh_*` (H,), zeros. Further
    directions and layers: `reverse.Wx_i`, `l1.Wx_i` (D · H, H), `l1.reverse.Wx_i`, …

    **Args**
      input_size: in; None to infer it from the first input.
      hidden_size: H.
      nonlinearity: only "tanh".
      num_layers: L (default 1); each layer reads the outputs of the one before.
      bias: whether there are `Bx_*` and `Bh_*` (default True).
      batch_first: whether an array is (B, T, in) (default False); lists are not affected.
      dropout: the part of a layer's outputs that is dropped on the way to the next layer while training (default 0).
      bidirectional: whether a second direction reads the sequence from its end (default False).

    **Raises** `ArgumentError` for other options, `ShapeError` for inputs, states or lengths that do not fit,
    `DTypeError` for lengths that are not integers.

    *Differences from SINGA*: arrays as well as lists; the states are optional; the options are honoured, SINGA ignores
    them. The order of the arguments differs from RNN's, as in SINGA. The parameters are joined once per call and one
    `lax.scan` for each layer and direction runs the steps: the compiled program does not grow with T. ONNX: LSTM.

    >>> LSTM(3, 5).infer_shape((7, None, 3))
    ((7, None, 5), (None, 5), (None, 5))
    """

    operation, gates, onnx_gates = ops.lstm, "ifog", "iofg"

    def __init__(
        self,
        input_size: int | None,
        hidden_size: int,
        nonlinearity: str = "tanh",
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0,
        bidirectional: bool = False,
    ) -> None:
        super().__init__(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional)
        if nonlinearity != "tanh":
            raise ArgumentError(f"the nonlinearity of an LSTM is 'tanh'. Received: {nonlinearity!r}")
        self.nonlinearity = nonlinearity

    def forward(
        self, x: Any, states: Sequence[Array | None] | None = None, seq_lengths: Any = None
    ) -> tuple[Any, Array, Array]:
        every, (h, c) = self._run(x, _pair(states), seq_lengths)
        return every, h, c

    def _matrix_recipe(self) -> Any:
        return Normal(0.0, 0.01)

    def _bias_recipe(self) -> Any:
        return "zeros"


class GRU(_Gated):
    """Gated recurrent unit (Cho et al. 2014).

    With k_t = x_t · Wx_k + Bx_k + h_{t−1} · Wh_k + Bh_k for the gates k = r, z:
    n_t = tanh(x_t · Wx_n + Bx_n + σ(r_t) · (h_{t−1} · Wh_n + Bh_n)) and h_t = (1 − σ(z_t)) · n_t + σ(z_t) · h_{t−1}.
    Without `linear_before_reset` n_t = tanh(x_t · Wx_n + Bx_n + (σ(r_t) · h_{t−1}) · Wh_n + Bh_n).

    **Shapes** x, h0, `seq_lengths` and the results are those of RNN.
    `Wx_r Wx_z Wx_n` (in, H), `Wh_*` (H, H), `Bx_*` and `Bh_*` (H,), all drawn from U(−1/√H, 1/√H). Further directions
    and layers: `reverse.Wx_r`, `l1.Wx_r` (D · H, H), `l1.reverse.Wx_r`, …

    **Args**
      input_size: in; None to infer it from the first input.
      hidden_size: H.
      num_layers: L (default 1); each layer reads the outputs of the one before.
      bias: whether there are `Bx_*` and `Bh_*` (default True).
      batch_first: whether an array is (B, T, in) (default False); lists are not affected.
      dropout: the part of a layer's outputs that is dropped on the way to the next layer while training (default 0).
      bidirectional: whether a second direction reads the sequence from its end (default False).
      linear_before_reset: True (default) for the form of cuDNN and PyTorch, False for that of the paper.

    **Raises** `ArgumentError` for other options, `ShapeError` for inputs, states or lengths that do not fit,
    `DTypeError` for lengths that are not integers.

    *Differences from SINGA*: SINGA has a GRU in CudnnRNN only. ONNX: GRU.

    >>> GRU(3, 5, bidirectional=True).infer_shape((7, None, 3))
    ((7, None, 10), (2, None, 5))
    """

    operation, gates, onnx_gates = ops.gru, "rzn", "zrn"

    def __init__(
        self,
        input_size: int | None,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0,
        bidirectional: bool = False,
        linear_before_reset: bool = True,
    ) -> None:
        super().__init__(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional)
        self.linear_before_reset = bool(linear_before_reset)

    def forward(self, x: Any, h0: Array | None = None, seq_lengths: Any = None) -> tuple[Any, Array]:
        every, (last,) = self._run(x, (h0,), seq_lengths, linear_before_reset=self.linear_before_reset)
        return every, last

    def _matrix_recipe(self) -> Any:
        bound = 1 / math.sqrt(self.hidden_size)
        return Uniform(-bound, bound)

    _bias_recipe = _matrix_recipe


def _pair(states: Any) -> tuple[Any, Any]:
    if states is None:
        return None, None
    if not isinstance(states, list | tuple) or len(states) != 2:
        received = described(states)
        raise ArgumentError(f"the initial states of an LSTM are one argument, the pair (h0, c0). Received: {received}")
    return states[0], states[1]
