"""Recurrent layers: RNN and LSTM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from singax import ops
from singax.errors import ArgumentError, ShapeError
from singax.layer.base import Layer
from singax.recipes import Normal
from singax.tensor import Tensor

Array = jax.Array


class RNN_Base(Layer):
    """What RNN and LSTM share: checks of the options, and the two forms of a sequence.

    A sequence is a list of T arrays (B, in), or one array (T, B, in); with `batch_first` the array is (B, T, in).
    """

    def __init__(self, input_size: int | None, hidden_size: int, bias: bool, batch_first: bool) -> None:
        super().__init__()
        for name, size in (("input_size", input_size), ("hidden_size", hidden_size)):
            inferred = size is None and name == "input_size"
            if not inferred and (isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 1):
                raise ArgumentError(f"{name} must be an integer from 1 up. Received: {size!r}")
        self.input_size, self.hidden_size = input_size, hidden_size
        self.bias, self.batch_first = bias, batch_first

    def _first_step(self, x: Any) -> Array:
        """One step (B, in) of the sequence, whose shape the parameters depend on."""
        x = self._stacked(x)
        if self.input_size is not None and x.shape[-1] != self.input_size:
            raise ShapeError(f"expected steps (B, {self.input_size}). Received steps {x.shape[1:]}")
        return x[0]

    def _stacked(self, x: Any) -> Array:
        """The sequence as one array (T, B, in)."""
        if isinstance(x, list | tuple):
            shapes = [step.shape for step in x]
            if not shapes or len(shapes[0]) != 2 or len(set(shapes)) != 1:
                raise ShapeError(f"expected a list of at least one array, all of one shape (B, in). Received: {shapes}")
            return ops.reshape(ops.cat(x, axis=0), shape=(len(x), *shapes[0]))
        if x.ndim != 3 or 0 in x.shape[:2]:
            form = "(B, T, in)" if self.batch_first else "(T, B, in)"
            raise ShapeError(f"expected a list of arrays (B, in) or an array {form}. Received shape {x.shape}")
        return ops.transpose(x, perm=(1, 0, 2)) if self.batch_first else x

    def _as_given(self, every: Array, x: Any) -> Any:
        """The outputs (T, B, H) in the form in which the sequence `x` was given."""
        if isinstance(x, list | tuple):
            rows = every.reshape(-1, every.shape[-1])
            return list(lax.split(rows, [every.shape[1]] * every.shape[0], axis=0))
        return ops.transpose(every, perm=(1, 0, 2)) if self.batch_first else every

    def _state(self, given: Any, like: Array, name: str) -> Array:
        """An initial state (B, H): the one given, or zeros."""
        shape = (like.shape[1], self.hidden_size)
        if given is None:
            return jnp.zeros(shape, like.dtype)
        if given.shape != shape:
            raise ShapeError(f"expected {name} with shape {shape}. Received shape {given.shape}")
        return given

    def _check_width(self, x: Array, W: Tensor) -> None:
        if x.shape[-1] != W.shape[0]:
            raise ShapeError(f"expected steps (B, {W.shape[0]}). Received steps {x.shape[1:]}")


class RNN(RNN_Base):
    """Elman's network: h_t = f(x_t · Wx + h_{t−1} · Wh + b), f being tanh or relu.

    **Shapes** x: a list of T arrays (B, in) → (list of T arrays (B, H), last h (B, H)); or one array (T, B, in) →
    ((T, B, H), last h); with `batch_first` (B, T, in) → ((B, T, H), last h). h0 (B, H), zeros when it is not given.
    `Wx` (in, H), `Wh` (H, H), drawn from N(0, 1); `b` (H,), zeros.

    **Args**
      input_size: in; None to infer it from the first input.
      hidden_size: H.
      nonlinearity: "tanh" (default) or "relu".
      bias: whether there is a `b` (default True).
      batch_first: whether an array is (B, T, in) (default False); lists are not affected.
      num_layers, dropout, bidirectional: only 1, 0 and False so far.

    **Raises** `ArgumentError` for other options, `ShapeError` for inputs or states that do not fit.

    *Differences from SINGA*: arrays as well as lists; h0 is optional; options are honoured or refused, SINGA ignores
    them. One `lax.scan`: the compiled program does not grow with T. ONNX: RNN.

    >>> RNN(3, 5).infer_shape((7, None, 3))
    ((7, None, 5), (None, 5))
    """

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
        super().__init__(input_size, hidden_size, bias, batch_first)
        _refuse_unsupported(num_layers, dropout, bidirectional)
        if nonlinearity not in ("tanh", "relu"):
            raise ArgumentError(f"nonlinearity must be 'tanh' or 'relu'. Received: {nonlinearity!r}")
        self.nonlinearity = nonlinearity

    def initialize(self, x: Any) -> None:
        step = self._first_step(x)
        self.Wx = self.param((step.shape[-1], self.hidden_size), Normal(0.0, 1.0), step.dtype)
        self.Wh = self.param((self.hidden_size, self.hidden_size), Normal(0.0, 1.0), step.dtype)
        if self.bias:
            self.b = self.param((self.hidden_size,), "zeros", step.dtype)

    def forward(self, x: Any, h0: Array | None = None) -> tuple[Any, Array]:
        steps = self._stacked(x)
        self._check_width(steps, self.Wx)
        h = self._state(h0, steps, "h0")
        b = self.b.data if self.bias else None
        every, last = ops.rnn(steps, h, self.Wx.data, self.Wh.data, b, nonlinearity=self.nonlinearity)
        return self._as_given(every, x), last


class LSTM(RNN_Base):
    """Long short-term memory (Hochreiter and Schmidhuber 1997).

    With k_t = x_t · Wx_k + Bx_k + h_{t−1} · Wh_k + Bh_k for the gates k = i, f, o, g:
    c_t = σ(f_t) · c_{t−1} + σ(i_t) · tanh(g_t) and h_t = σ(o_t) · tanh(c_t).

    **Shapes** x: a list of T arrays (B, in) → (list of T arrays (B, H), last h (B, H), last c (B, H)); or one array
    (T, B, in) → ((T, B, H), h, c); with `batch_first` (B, T, in) → ((B, T, H), h, c). The second argument is a pair
    (h0, c0) of arrays (B, H), zeros when it is not given.
    `Wx_i Wx_f Wx_o Wx_g` (in, H) and `Wh_*` (H, H), drawn from N(0, 0.01²); `Bx_*` and `Bh_*` (H,), zeros.

    **Args**
      input_size: in; None to infer it from the first input.
      hidden_size: H.
      nonlinearity: only "tanh".
      bias: whether there are `Bx_*` and `Bh_*` (default True).
      batch_first: whether an array is (B, T, in) (default False); lists are not affected.
      num_layers, dropout, bidirectional: only 1, 0 and False so far.

    **Raises** `ArgumentError` for other options, `ShapeError` for inputs or states that do not fit.

    *Differences from SINGA*: arrays as well as lists; the states are optional; options are honoured or refused, SINGA
    ignores them. The order of the arguments differs from RNN's, as in SINGA. The sixteen parameters are joined once per
    call and one `lax.scan` runs the steps: the compiled program does not grow with T. ONNX: LSTM.

    >>> LSTM(3, 5).infer_shape((7, None, 3))
    ((7, None, 5), (None, 5), (None, 5))
    """

    Wx_i: Tensor

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
        super().__init__(input_size, hidden_size, bias, batch_first)
        _refuse_unsupported(num_layers, dropout, bidirectional)
        if nonlinearity != "tanh":
            raise ArgumentError(f"the nonlinearity of an LSTM is 'tanh'. Received: {nonlinearity!r}")
        self.nonlinearity = nonlinearity

    def initialize(self, x: Any) -> None:
        step = self._first_step(x)
        for kind, rows in (("Wx", step.shape[-1]), ("Wh", self.hidden_size)):
            for gate in "ifog":
                setattr(self, f"{kind}_{gate}", self.param((rows, self.hidden_size), Normal(0.0, 0.01), step.dtype))
        for kind in ("Bx", "Bh") if self.bias else ():
            for gate in "ifog":
                setattr(self, f"{kind}_{gate}", self.param((self.hidden_size,), "zeros", step.dtype))

    def forward(self, x: Any, states: Sequence[Array | None] | None = None) -> tuple[Any, Array, Array]:
        steps = self._stacked(x)
        self._check_width(steps, self.Wx_i)
        h0, c0 = _pair(states)
        h, c = self._state(h0, steps, "h0"), self._state(c0, steps, "c0")
        b = self._joined("Bx") + self._joined("Bh") if self.bias else None
        every, h, c = ops.lstm(steps, h, c, self._joined("Wx"), self._joined("Wh"), b)
        return self._as_given(every, x), h, c

    def _joined(self, kind: str) -> Array:
        """The four parameters of a kind side by side, in the order of `ops.lstm`."""
        return jnp.concatenate([getattr(self, f"{kind}_{gate}").data for gate in "iofg"], axis=-1)


def _pair(states: Any) -> tuple[Any, Any]:
    if states is None:
        return None, None
    if not isinstance(states, list | tuple) or len(states) != 2:
        raise ArgumentError("the initial states of an LSTM are one argument, the pair (h0, c0)")
    return states[0], states[1]


def _refuse_unsupported(num_layers: int, dropout: float, bidirectional: bool) -> None:
    if num_layers != 1:
        raise ArgumentError(f"num_layers must be 1: call several layers in turn instead. Received: {num_layers!r}")
    if dropout:
        raise ArgumentError(f"dropout must be 0: put Dropout layers between layers instead. Received: {dropout!r}")
    if bidirectional:
        raise ArgumentError("bidirectional is not available yet: run a second layer on the reversed sequence")
