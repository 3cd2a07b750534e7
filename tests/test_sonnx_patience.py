"""Ctrl-C during a compiled Loop whose end nobody knows."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hostile_models import node
from hostile_runs import body, built

from singax.sonnx import prepare

Data = dict[str, np.ndarray]


def floats(x: float, step: float, most: float) -> Data:
    """Where the loop starts, what it adds, and what it stays below."""
    return {"x": np.array(x, np.float32), "step": np.array(step, np.float32), "most": np.array(most, np.float32)}


def counting() -> Any:
    """y = x + step + step … as long as it stays below `most`."""
    steps = [node("Add", ["v", "step"], ["v2"]), node("Less", ["v2", "most"], ["go2"])]
    return node("Loop", ["", "c", "x"], ["y"], body=body(steps, ["i", "go", "v"], ["go2", "v2"]))


def alone() -> list[Any]:
    """The loop itself."""
    return [counting()]


def in_a_loop() -> list[Any]:
    """A loop of many trips around it."""
    inner = body([counting(), node("Identity", ["c"], ["c2"])], ["i", "go", "w"], ["c2", "y"])
    return [node("Loop", ["n", "", "x"], ["z"], body=inner)]


def in_an_if() -> list[Any]:
    """In one of two branches."""
    then, other = body([counting()], [], ["y"]), body([node("Neg", ["x"], ["y"])], [], ["y"])
    return [node("Less", ["x", "most"], ["p"]), node("If", ["p"], ["z"], then_branch=then, else_branch=other)]


@contextmanager
def ctrl_c(after: float) -> Iterator[None]:
    """A SIGINT so many seconds later."""
    timer = threading.Timer(after, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("nodes", [alone, in_a_loop, in_an_if])
def test_it_ends_an_endless_loop(nodes: Any) -> None:
    still = floats(1, 0, 10)
    known = {"c": np.array(True), "n": np.array(100)}
    rep = prepare(built(nodes(), known, still, outputs=[nodes()[-1].output[0]]))
    before = rep.run(list(floats(9, 1, 10).values()))[0]
    with ctrl_c(1.0), pytest.raises(KeyboardInterrupt):
        rep.run(list(still.values()))
    assert rep.run(list(floats(9, 1, 10).values()))[0] == before


def test_a_handler_that_goes_on_lets_the_loop_go_on() -> None:
    seen: list[int] = []
    most = 1 << 23
    data = {name: np.array(value, np.int64) for name, value in (("x", 0), ("step", 1), ("most", most))}
    rep = prepare(built(alone(), {"c": np.array(True)}, data))
    rep.run([np.array(n, np.int64) for n in (0, 1, 3)])
    before = signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
    try:
        with ctrl_c(0.01):
            assert rep.run(list(data.values()))[0] == most
            time.sleep(0.05)
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen == [signal.SIGINT]


def test_a_loop_that_may_not_be_long_calls_nobody() -> None:
    data = floats(0, 1, 10)
    limited = prepare(built(alone(), {"c": np.array(True)}, data), most_trips=100)
    assert limited.run(list(data.values()))[0] == 10
