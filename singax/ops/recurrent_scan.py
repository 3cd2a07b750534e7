"""One direction of a recurrent layer as one `lax.scan`: the graph has the same size for every number of steps.

What a step needs of its input, x_t · Wᵀ + b, is one matrix product for all steps before the scan; inside it a step
multiplies the state with the recurrent matrix, one product for all gates. A sequence that has ended keeps its state and
puts out zeros; backwards, where the padding comes first, this lets it start from the initial state at its own end.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax

Array = jax.Array
State = tuple[Array, ...]
Step = Callable[[State, Array], State]


def scan_steps(
    step: Step, state: State, inputs: Array, seq_lengths: Array | None, reverse: bool
) -> tuple[Array, State]:
    """Run `step(state, inputs[t])` → state over time: all outputs state[0], (T, B, H), and the last state."""
    if seq_lengths is None:

        def free(state: State, x: Array) -> tuple[State, Array]:
            state = step(state, x)
            return state, state[0]

        last, every = lax.scan(free, state, inputs, reverse=reverse)
        return every, last

    def masked(state: State, x: tuple[Array, Array]) -> tuple[State, Array]:
        running = x[1]
        state = tuple(jnp.where(running, new, old) for new, old in zip(step(state, x[0]), state, strict=True))
        return state, jnp.where(running, state[0], 0)

    running = (jnp.arange(inputs.shape[0])[:, None] < seq_lengths)[..., None]
    last, every = lax.scan(masked, state, (inputs, running), reverse=reverse)
    return every, last


def projected(x: Array, W: Array, *biases: Array) -> Array:
    """x (T, B, in) · Wᵀ (in, G) + b for all steps in one matrix product: (T, B, G)."""
    rows = x.reshape(-1, x.shape[-1]) @ W.T + sum(biases)
    return rows.reshape(*x.shape[:2], W.shape[0])
