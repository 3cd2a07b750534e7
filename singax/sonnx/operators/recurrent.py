"""RNN, LSTM and GRU: through our own operations where the activations are the usual ones, else step by step."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from singax import ops
from singax.errors import ArgumentError, ShapeError
from singax.ops.checks import one_of
from singax.ops.recurrent import in_directions
from singax.ops.recurrent_scan import scan_steps
from singax.sonnx.operators.indices import within
from singax.sonnx.registry import Call, onnx_operator

Array = Any
Function = Callable[[Array], Array]

_DIRECTIONS = {"forward": 1, "reverse": 1, "bidirectional": 2}
_PLAIN: dict[str, Function] = {
    "relu": jax.nn.relu,
    "tanh": jnp.tanh,
    "sigmoid": jax.nn.sigmoid,
    "softsign": jax.nn.soft_sign,
    "softplus": jax.nn.softplus,
}
_WITH_ALPHA: dict[str, tuple[float, Callable[..., Array]]] = {
    "leakyrelu": (0.01, lambda x, a: jnp.where(x >= 0, x, a * x)),
    "thresholdedrelu": (1.0, lambda x, a: jnp.where(x >= a, x, jnp.zeros_like(x))),
    "elu": (1.0, lambda x, a: jnp.where(x >= 0, x, a * jnp.expm1(jnp.minimum(x, 0)))),
}
_WITH_BOTH: dict[str, tuple[float, float, Callable[..., Array]]] = {
    "affine": (1.0, 0.0, lambda x, a, b: a * x + b),
    "scaledtanh": (1.0, 1.0, lambda x, a, b: a * jnp.tanh(b * x)),
    "hardsigmoid": (0.2, 0.5, lambda x, a, b: jnp.clip(a * x + b, 0, 1)),
}


@onnx_operator("RNN")
def rnn(call: Call, x: Array, W: Array, R: Array, b: Array = None, lengths: Array = None, h: Array = None) -> Any:
    """Elman's network."""
    names = _names(call, ["tanh"])
    same = len(set(names)) == 1 and names[0] in ("tanh", "relu") and _plain(call)

    def run(arrays: Any, states: Any, direction: str) -> Any:
        if same:
            return ops.rnn(*arrays, *states, nonlinearity=names[0], direction=direction)
        return in_directions("rnn", _runs(call, names, 1, _rnn_step), arrays, states, 1, direction, None)

    return _laid_out(call, run, (x, W, R, b, lengths), (h,))


@onnx_operator("LSTM")
def lstm(
    call: Call,
    x: Array,
    W: Array,
    R: Array,
    b: Array = None,
    lengths: Array = None,
    h: Array = None,
    c: Array = None,
    peepholes: Array = None,
) -> Any:
    """Long short-term memory, with peepholes (D, 3 · H) for the gates i, o and f."""
    names = _names(call, ["sigmoid", "tanh", "tanh"])
    usual = names[:3] == ["sigmoid", "tanh", "tanh"] and len({*names}) == 2 and names[3:] in ([], names[:3])

    def run(arrays: Any, states: Any, direction: str) -> Any:
        if usual and _plain(call) and peepholes is None and not call.attribute("input_forget", 0):
            return ops.lstm(*arrays, *states, direction=direction)
        step = functools.partial(_lstm_step, bool(call.attribute("input_forget", 0)))
        extra = () if peepholes is None else (jnp.asarray(peepholes),)
        _check_peepholes(peepholes, arrays[2])
        return in_directions("lstm", _runs(call, names, 3, step, 2), arrays, (*states, *extra), 4, direction, None)

    return _laid_out(call, run, (x, W, R, b, lengths), (h, c))


@onnx_operator("GRU")
def gru(call: Call, x: Array, W: Array, R: Array, b: Array = None, lengths: Array = None, h: Array = None) -> Any:
    """Gated recurrent unit; the reset gate acts before or after the state's matrix product."""
    names = _names(call, ["sigmoid", "tanh"])
    after = bool(call.attribute("linear_before_reset", 0))
    usual = names[:2] == ["sigmoid", "tanh"] and names[2:] in ([], names[:2]) and _plain(call)

    def run(arrays: Any, states: Any, direction: str) -> Any:
        if usual:
            return ops.gru(*arrays, *states, linear_before_reset=after, direction=direction)
        step = functools.partial(_gru_step, after)
        return in_directions("gru", _runs(call, names, 2, step), arrays, states, 3, direction, None)

    return _laid_out(call, run, (x, W, R, b, lengths), (h,))


def _check_peepholes(peepholes: Array, R: Array) -> None:
    if peepholes is not None and peepholes.shape != (R.shape[0], 3 * R.shape[-1]):
        raise ShapeError(f"expected peepholes {(R.shape[0], 3 * R.shape[-1])}. Received shape {peepholes.shape}")


def _laid_out(call: Call, run: Callable[..., Any], given: Any, states: Any) -> Any:
    """Run with time first; with `layout` 1 the batch stands first outside."""
    direction = str(call.attribute("direction", "forward"))
    one_of(call.node.op_type, "direction", direction, tuple(_DIRECTIONS))
    arrays: list[Any] = [None if a is None else jnp.asarray(a) for a in given]
    x, *weights = arrays
    within(call, given[-1], 0, x.shape[1 if call.attribute("layout", 0) else 0], "sequence_lens")
    states = [None if s is None else jnp.asarray(s) for s in states]
    size = call.attribute("hidden_size")
    if size is not None and weights[1].shape[-1] != size:
        raise ShapeError(f"expected R for hidden_size {size}. Received shape {weights[1].shape}")
    if not call.attribute("layout", 0):
        return tuple(run((x, *weights), states, direction))
    states = [None if s is None else jnp.swapaxes(s, 0, 1) for s in states]
    every, *last = run((jnp.swapaxes(x, 0, 1), *weights), states, direction)
    return (jnp.transpose(every, (2, 0, 1, 3)), *(jnp.swapaxes(s, 0, 1) for s in last))


def _plain(call: Call) -> bool:
    return not call.attribute("clip", 0.0)


def _names(call: Call, usual: list[str]) -> list[str]:
    """The names of the activations, of all directions."""
    count = len(usual) * _DIRECTIONS.get(str(call.attribute("direction", "forward")), 1)
    given = [str(name).lower() for name in call.attribute("activations") or []]
    names = (given or usual * count)[:count]
    unknown = [name for name in names if name not in {*_PLAIN, *_WITH_ALPHA, *_WITH_BOTH}]
    if unknown or len(names) != count:
        raise ArgumentError(f"expected {count} activations that ONNX has. Received: {given}")
    return names


def _functions(call: Call, names: list[str]) -> list[Function]:
    """The activations; each takes what it needs of `activation_alpha` and `activation_beta`, in their order."""
    alphas, betas = (iter(call.attribute(f"activation_{name}") or []) for name in ("alpha", "beta"))
    found: list[Function] = []
    for name in names:
        if name in _PLAIN:
            found.append(_PLAIN[name])
        elif name in _WITH_ALPHA:
            default, function = _WITH_ALPHA[name]
            found.append(functools.partial(function, a=next(alphas, default)))
        else:
            first, second, of_both = _WITH_BOTH[name]
            found.append(functools.partial(of_both, a=next(alphas, first), b=next(betas, second)))
    return found


def _runs(call: Call, names: list[str], each: int, step: Callable[..., Any], states: int = 1) -> Callable[..., Any]:
    """What runs one direction, for `in_directions`: the first directions' activations come first.

    A state beyond the first `states` does not change. `clip` is for the gates, not for what leaves an LSTM's cell.
    """
    functions, limit = _functions(call, names), call.attribute("clip", 0.0)
    clipped = [functools.partial(_clipped, f, limit) if limit and k % each < 2 else f for k, f in enumerate(functions)]

    def run(reverse: bool, x: Array, W: Array, R: Array, b: Array, state: Any, running: Array) -> Any:
        second = reverse and len(names) > each
        own = clipped[each:] if second else clipped[:each]
        fixed = state[states:]

        def one(state: Any, x: Array) -> Any:
            return step(own, x, W, R, b, *state, *fixed), None

        every, last, _ = scan_steps(one, state[:states], x, running, reverse)
        return every, last

    return run


def _clipped(function: Function, limit: float, x: Array) -> Array:
    return function(jnp.clip(x, -limit, limit))


def _rnn_step(own: list[Function], x: Array, W: Array, R: Array, b: Array, h: Array) -> tuple[Array]:
    of_input, of_state = jnp.split(b, 2)
    return (own[0](x @ W.T + h @ R.T + of_input + of_state),)


def _lstm_step(
    coupled: bool, own: list[Function], x: Array, W: Array, R: Array, b: Array, h: Array, c: Array, P: Array = None
) -> tuple[Array, Array]:
    of_input, of_state = jnp.split(b, 2)
    i, o, f, g = jnp.split(x @ W.T + h @ R.T + of_input + of_state, 4, axis=-1)
    p_i, p_o, p_f = (0, 0, 0) if P is None else jnp.split(P, 3)
    i = own[0](i + p_i * c)
    f = 1 - i if coupled else own[0](f + p_f * c)
    c = f * c + i * own[1](g)
    return own[0](o + p_o * c) * own[2](c), c


def _gru_step(after: bool, own: list[Function], x: Array, W: Array, R: Array, b: Array, h: Array) -> tuple[Array]:
    (w_zr, w_n), (r_zr, r_n) = (jnp.split(M, [2 * R.shape[1]]) for M in (W, R))
    of_input, of_state = jnp.split(b, 2)
    (b_zr, b_n), (c_zr, c_n) = (jnp.split(v, [2 * R.shape[1]]) for v in (of_input, of_state))
    z, r = jnp.split(own[0](x @ w_zr.T + h @ r_zr.T + b_zr + c_zr), 2, axis=-1)
    from_state = r * (h @ r_n.T + c_n) if after else (r * h) @ r_n.T + c_n
    n = own[1](x @ w_n.T + b_n + from_state)
    return ((1 - z) * n + z * h,)
