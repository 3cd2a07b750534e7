"""Ctrl-C for compiled loops whose end nobody knows.

Python handles signals when its main thread runs Python code, and a compiled loop runs none. So such a loop calls Python
now and then, about every twentieth of a second: XLA's CPU programs make that call in the thread that waits for them,
where a signal that has arrived is handled at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import io_callback

FIRST = 64
"""The trip before which no loop calls Python."""
SECONDS = 0.05
GROWTH = 4
"""How many times longer each stretch without a call is at most."""

State = tuple[Any, ...]


def patient_while(goes_on: Callable[[State], Any], advance: Callable[[State], State], state: State) -> State:
    """`lax.while_loop`, in stretches. The state begins with the number of trips, int64, which starts at 0."""
    pace = Pace()
    trip = jax.ShapeDtypeStruct((), np.int64)

    def stretch(both: tuple[Any, State]) -> tuple[Any, State]:
        due, state = both
        state = lax.while_loop(lambda s: goes_on(s) & (s[0] < due), advance, state)
        return lax.cond(goes_on(state), lambda: io_callback(pace, trip, state[0]), lambda: due), state

    return lax.while_loop(lambda both: goes_on(both[1]), stretch, (jnp.asarray(FIRST, np.int64), state))[1]


class Pace:
    """Says at which trip a loop shall call next."""

    def __init__(self) -> None:
        self._trip, self._time = 0, 0.0

    def __call__(self, trip: Any) -> np.ndarray:
        now, trip = time.monotonic(), int(trip)
        trips, seconds = trip - self._trip, now - self._time
        self._trip, self._time = trip, now
        if trip <= FIRST or trips <= 0 or seconds <= 0:  # the first call of a run
            return np.asarray(trip + FIRST, np.int64)
        return np.asarray(trip + min(int(SECONDS * trips / seconds) + 1, GROWTH * trips), np.int64)


@contextmanager
def interruptible() -> Iterator[None]:
    """What a signal's handler raised in the middle of a program, JAX wraps: here Ctrl-C is itself again."""
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        if "KeyboardInterrupt" not in str(error):
            raise
        raise KeyboardInterrupt from error
