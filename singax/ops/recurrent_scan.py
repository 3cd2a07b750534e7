"""One direction of a recurrent network as one `lax.scan`: the graph has the same size for every number of steps.

A sequence that has ended keeps its state and puts out zeros; backwards, where the padding comes first, this lets it
start from the initial state at its own end.

`run_cell` says itself how its results change with its arguments: changes of the input, the weights and the biases move
the gates of all steps by a few matrix products outside of any scan, and what remains is a scan that is linear, with
factors that the forward scan has left. JAX transposes this for reverse mode, so that the gradient of each weight is one
product over all steps, where the derivative that JAX makes of the forward scan adds to a matrix of the weight's size
in every step. All of JAX's transformations go through it, forward mode and higher derivatives included.

Measured: the gradient of an LSTM (T 50, B 32, in 128, H 256), processor time on two busy cores as ratios to
x_t · W + h · R + b in a scan that JAX differentiates (in brackets: on one core). This file 0.74 (0.80), two thirds
being the matrix products themselves, in which XLA reaches 95 GFLOP/s; `custom_vjp` instead, which has no forward mode,
0.77; one matrix for [x, h] with JAX's derivative 0.9 (0.95); x · W for all steps before the scan, which is written and
read again, 1.2; `unroll` 2 and 5 slower still; gates of shape (4H, B) (1.08); slopes in one array, which every step
cuts, 1.0. Of a GRU (0.85), of an RNN (0.88).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_derivatives import SymbolicZero

from singax.ops.recurrent_cells import Arrays, Cell

Array = jax.Array
_FEW_ROWS = 4
"""Up to this batch a step of a forward pass waits for its weights: those of the input are then read only once."""
Step = Callable[[Arrays, Any], tuple[Arrays, Any]]


def scan_steps(
    step: Step, state: Arrays, inputs: Any, running: Array | None, reverse: bool
) -> tuple[Array, Arrays, Any]:
    """Run `step(state, inputs[t])` → state, extra over time: all outputs state[0], the last state, all extras.

    `running` (T, B, 1) says which sequences have not ended; None: none has.
    """

    def masked(old: Arrays, given: tuple[Any, Array | None]) -> tuple[Arrays, Any]:
        new, extra = step(old, given[0])
        if given[1] is None:
            return new, (new[0], extra)
        kept = tuple(jnp.where(given[1], a, b) for a, b in zip(new, old, strict=True))
        return kept, (jnp.where(given[1], new[0], 0), extra)

    last, (every, extras) = lax.scan(masked, state, (inputs, running), reverse=reverse)
    return every, last, extras


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def run_cell(
    cell: Cell, reverse: bool, x: Array, W: Array, R: Array, b: Array, state: Arrays, running: Array | None
) -> tuple[Array, Arrays]:
    """All outputs (T, B, H) and the last state, for x (T, B, in), W (G, in), R (G, H) and b (2 · G,)."""
    if x.shape[1] <= _FEW_ROWS:
        x, gates = _product(x, W) + jnp.split(b, 2)[0], _gates_after(cell, R, b)
    else:
        gates = _gates(cell, W, R, b)

    def step(state: Arrays, x: Array) -> tuple[Arrays, None]:
        return cell.step(gates(x, state[0]), state)[0], None

    every, last, _ = scan_steps(step, state, x, running, reverse)
    return every, last


@functools.partial(run_cell.defjvp, symbolic_zeros=True)
def _run_cell_jvp(cell: Cell, reverse: bool, primals: Any, tangents: Any) -> Any:
    x, W, R, b, state, running = primals
    gates = _gates(cell, W, R, b)

    def step(state: Arrays, x: Array) -> tuple[Arrays, Arrays]:
        return cell.step(gates(x, state[0]), state)

    def tangent(dstate: Arrays, given: tuple[list[Array], Arrays]) -> tuple[Arrays, None]:
        (*first, last), slopes = given
        return cell.tangent((*first, last + _by_rows(dstate[0], R)), dstate, slopes), None

    every, last, slopes = scan_steps(step, state, x, running, reverse)
    moved = _moved(cell, x, _before(every, state[0], running, reverse), W, tangents[:4])
    devery, dlast, _ = scan_steps(tangent, _arrays(tangents[4]), (moved, slopes), running, reverse)
    return (every, last), (devery, dlast)


def _gates(cell: Cell, W: Array, R: Array, b: Array) -> Callable[[Array, Array], Arrays]:
    """What makes the gates of a step of its input (B, in) and state (B, H)."""
    of_input, of_state = jnp.split(b, 2)
    if cell.joined:
        both, bias = jnp.concatenate([W, R], axis=1).T, of_input + of_state
        return lambda x, h: (jnp.concatenate([x, h], axis=1) @ both + bias,)
    W, R = W.T, R.T
    return lambda x, h: (x @ W + of_input, h @ R + of_state)


def _gates_after(cell: Cell, R: Array, b: Array) -> Callable[[Array, Array], Arrays]:
    """What makes the gates of a step of its state and what the input gives, which has been computed for all steps."""
    R, of_state = R.T, jnp.split(b, 2)[1]
    if cell.joined:
        return lambda gates, h: (gates + (h @ R + of_state),)
    return lambda gates, h: (gates, h @ R + of_state)


def _moved(cell: Cell, x: Array, before: Array, W: Array, tangents: Any) -> list[Array]:
    """By how much the tangents of x, W, R and b move the gates of all steps, if the states `before` them stay."""
    dx, dW, dR, db = tangents
    of_input, of_state = (db, db) if isinstance(db, SymbolicZero) else jnp.split(db, 2)
    from_input, from_state = [_product(dx, W), _product(x, dW), of_input], [_product(before, dR), of_state]
    parts = [[*from_input, *from_state]] if cell.joined else [from_input, from_state]
    return [_sum(part, (*x.shape[:2], W.shape[0]), x.dtype) for part in parts]


def _by_rows(h: Array, R: Array) -> Array:
    """h (B, H) · Rᵀ (H, G) with R as it lies: transposed, this is a product of two matrices as they lie.

    On CPU the gradient of an LSTM took 0.95 of what it takes with a transposed R.
    """
    return lax.dot_general(h, R, (((1,), (1,)), ((), ())))


def _product(x: Any, W: Any) -> Any:
    """x (T, B, n) · Wᵀ (n, G) for all steps."""
    if isinstance(x, SymbolicZero) or isinstance(W, SymbolicZero):
        return x if isinstance(x, SymbolicZero) else W
    return (x.reshape(-1, x.shape[-1]) @ W.T).reshape(*x.shape[:2], W.shape[0])


def _sum(terms: list[Any], shape: tuple[int, ...], dtype: Any) -> Array:
    arrays = [term for term in terms if not isinstance(term, SymbolicZero)]
    return jnp.broadcast_to(functools.reduce(jnp.add, arrays), shape) if arrays else jnp.zeros(shape, dtype)


def _before(every: Array, first: Array, running: Array | None, reverse: bool) -> Array:
    """The states before each step that is running, from the outputs and the initial state."""
    if not reverse:
        return jnp.concatenate([first[None], every[:-1]])
    later = jnp.concatenate([every[1:], first[None]])
    if running is None:
        return later
    return jnp.where(jnp.concatenate([running[1:], jnp.zeros_like(running[:1])]), later, first)


def _arrays(tangents: Any) -> Any:
    return tuple(jnp.zeros(t.shape, t.dtype) if isinstance(t, SymbolicZero) else t for t in tangents)
