"""RNN_Base: what the recurrent layers share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from singax import dispatch, mode, ops
from singax.checked import integer
from singax.errors import ArgumentError, ShapeError
from singax.layer.base import Layer
from singax.ops.recurrent_checks import check_states
from singax.ops.recurrent_layers import Weights, run_layers
from singax.tensor import Tensor

Array = jax.Array


class RNN_Base(Layer):
    """Base of RNN, LSTM and GRU: their options, their parameters, the forms of a sequence and of a state.

    A sequence is a list of T arrays (B, in), or one array (T, B, in); with `batch_first` the array is (B, T, in). The
    outputs come in the same form, with D · H features: D is 2 if `bidirectional`, else 1, and the forward direction is
    the first half.

    The parameters of the first layer have the plain names that the subclass gives them (`Wx`, …), those of its backward
    direction stand under `reverse` (`reverse.Wx`), those of layer k = 1 … under `lk` (`l1.Wx`, `l1.reverse.Wx`).

    A state has shape (B, H); with several layers or directions (L · D, B, H), the directions of a layer side by side.

    *Differences from SINGA*: num_layers, bidirectional, dropout and batch_first are honoured, SINGA ignores them.
    """

    operation: ops.Operation

    def __init__(
        self,
        input_size: int | None,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0,
        bidirectional: bool = False,
    ) -> None:
        super().__init__()
        if input_size is not None:
            integer("input_size", input_size, 1)
        self.input_size, self.hidden_size = input_size, integer("hidden_size", hidden_size, 1)
        self.num_layers, self.dropout = integer("num_layers", num_layers, 1), check_dropout(dropout)
        self.bias, self.batch_first, self.bidirectional = bias, batch_first, bidirectional

    def step_forward(
        self,
        x: Any = None,
        h: Any = None,
        c: Any = None,
        Wx: Any = None,
        Wh: Any = None,
        Bx: Any = None,
        Bh: Any = None,
        b: Any = None,
    ) -> Any:
        """One step with the given weights; subclasses define it."""
        raise NotImplementedError(f"{type(self).__name__} does not define step_forward")

    # -- parameters ---------------------------------------------------------------------------------------------

    def _make_parameters(self, inputs: int, dtype: Any) -> dict[str, Tensor]:
        """The parameters of one layer and direction which reads so many inputs, by name."""
        raise NotImplementedError

    def _onnx_parameters(self, named: Mapping[str, Tensor]) -> tuple[Array, Array, Array | None]:
        """ONNX's W (G · H, in), R (G · H, H) and B (2 · G · H,) of one layer and direction."""
        raise NotImplementedError

    def initialize(self, x: Any, *others: Any) -> None:
        step = self._stacked(x)
        if self.input_size is not None and step.shape[-1] != self.input_size:
            raise ShapeError(f"expected steps (B, {self.input_size}). Received steps {step.shape[1:]}")
        for layer in range(self.num_layers):
            inputs = self._directions * self.hidden_size if layer else step.shape[-1]
            made: dict[str, Any] = self._make_parameters(inputs, step.dtype)
            if self.bidirectional:
                made["reverse"] = self._make_parameters(inputs, step.dtype)
            for name, value in made.items() if layer == 0 else [(f"l{layer}", made)]:
                setattr(self, name, value)

    @property
    def _directions(self) -> int:
        return 2 if self.bidirectional else 1

    def onnx_weights(self, layer: int = 0) -> Weights:
        """ONNX's inputs W (D, G · H, in), R (D, G · H, H) and B (D, 2 · G · H; None without bias) of one layer."""
        named = self.__dict__ if layer == 0 else self.__dict__[f"l{layer}"]
        found = [self._onnx_parameters(p) for p in ([named, named["reverse"]] if self.bidirectional else [named])]
        W, R, B = (None if kind[0] is None else _stacked_rows(kind) for kind in zip(*found, strict=True))
        return W, R, B  # type: ignore[return-value]

    # -- the forward pass ---------------------------------------------------------------------------------------

    def _run(self, x: Any, states: Sequence[Any], seq_lengths: Any, **attributes: Any) -> tuple[Any, list[Array]]:
        """The outputs in the form of `x`, and the last states."""
        steps = self._stacked(x)
        weights = [self.onnx_weights(layer) for layer in range(self.num_layers)]
        width = weights[0][0].shape[-1]
        if steps.shape[-1] != width:
            raise ShapeError(f"expected steps (B, {width}). Received steps {steps.shape[1:]}")
        plain = self.num_layers * self._directions == 1
        every, last = run_layers(
            self.operation,
            steps,
            weights,
            self._first_states(states, steps.shape[1], plain),
            None if seq_lengths is None else jnp.asarray(seq_lengths),
            dropout_key(self.dropout, self.num_layers),
            dropout=self.dropout,
            direction="bidirectional" if self.bidirectional else "forward",
            hidden_size=self.hidden_size,
            **attributes,
        )
        return self._as_given(every, x), [ops.squeeze(state, axes=(0,)) for state in last] if plain else last

    def _first_states(self, states: Sequence[Any], batch: int, plain: bool) -> list[Any]:
        """The given states as ONNX has them: (L · D, B, H)."""
        lead = () if plain else (self.num_layers * self._directions,)
        check_states(type(self).__name__, states, (*lead, batch, self.hidden_size))
        return [s if s is None or not plain else ops.unsqueeze(s, axes=(0,)) for s in states]

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
        """The outputs (T, B, D · H) in the form in which the sequence `x` was given."""
        if isinstance(x, list | tuple):
            rows = every.reshape(-1, every.shape[-1])
            return list(lax.split(rows, [every.shape[1]] * every.shape[0], axis=0))
        return ops.transpose(every, perm=(1, 0, 2)) if self.batch_first else every


def _stacked_rows(kind: Sequence[Array]) -> Array:
    """One array for each direction, stacked."""
    return ops.cat([ops.unsqueeze(one, axes=(0,)) for one in kind], axis=0)


def columns(parameters: Sequence[Tensor]) -> Array:
    """Matrices (in, H) of several gates as ONNX has them: (G · H, in)."""
    return ops.transpose(ops.cat([p.data for p in parameters], axis=1), perm=(1, 0))


def dropout_key(ratio: float, num_layers: int) -> Array | None:
    """A random key if there is something to drop between layers."""
    return dispatch.next_key() if mode.training and ratio and num_layers > 1 else None


def check_dropout(ratio: Any) -> float:
    """`ratio` if it lies from 0 to below 1."""
    if isinstance(ratio, bool) or not isinstance(ratio, int | float) or not 0 <= ratio < 1:
        raise ArgumentError(f"dropout must be a number from 0 to below 1. Received: {ratio!r}")
    return ratio
