"""Ctrl-C inside a training loop leaves a usable model."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any

import numpy as np
import pytest
from models import MLP, assert_no_tracers, blobs, states

import singax as sx
from singax.interrupt import deferred_interrupts

pytestmark = pytest.mark.usefixtures("interruptible")


def test_keyboard_interrupt_inside_a_step() -> None:
    class Interrupted(MLP):
        hit = False

        def train_one_batch(self, x: Any, y: Any, stop: bool = False) -> Any:
            out = super().train_one_batch(x, y)
            if stop:
                raise KeyboardInterrupt
            return out

    x, y = blobs()
    net = Interrupted()
    net.compile([x])
    net(x, y)
    before = states(net)
    with pytest.raises(KeyboardInterrupt):
        net(x, y, True)
    assert_no_tracers(net)
    for path, value in states(net).items():
        np.testing.assert_array_equal(value, before[path])
    net(x, y)


def test_interrupt_between_dispatch_and_write_back() -> None:
    """The program runs and donates the old state; the interrupt arrives before `advance` goes on."""
    x, y = blobs()
    net = MLP()
    net.compile([x])
    net(x, y)
    bank = net._bank

    class Torn(list):
        def __getitem__(self, index: Any) -> Any:
            raise KeyboardInterrupt

    step = int(net.optimizer.step_counter)
    bank.pending = Torn()
    original = type(bank).commit

    def commit(self: Any) -> None:
        if isinstance(self.pending, Torn):
            self.pending = list.copy(self.pending)
        original(self)

    type(bank).commit = commit
    try:
        with pytest.raises(KeyboardInterrupt):
            net(x, y)
    finally:
        type(bank).commit = original
    assert int(net.optimizer.step_counter) == step + 1  # the step counts: nothing of it is lost
    assert all(np.isfinite(v).all() for v in states(net).values())
    net(x, y)


def test_interrupt_at_the_write_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C reaches Python when `commit` is entered: the state is stored all the same."""
    x, y = blobs()
    net = MLP()
    net.compile([x])
    net(x, y)
    original, calls = type(net._bank).commit, []

    def commit(self: Any) -> None:
        calls.append(None)
        if len(calls) == 1:
            raise KeyboardInterrupt
        original(self)

    step = int(net.optimizer.step_counter)
    monkeypatch.setattr(type(net._bank), "commit", commit)
    with pytest.raises(KeyboardInterrupt):
        net(x, y)
    assert int(net.optimizer.step_counter) == step + 1
    assert np.isfinite(float(net(x, y)[1]))


@pytest.mark.skipif(
    threading.current_thread() is not threading.main_thread(), reason="signals reach the main thread only"
)
def test_sixty_interrupts_during_a_training_loop() -> None:
    x, y = blobs()
    net = MLP()
    net.compile([x])
    net(x, y)
    caught = 0
    rng = np.random.default_rng(0)
    for _ in range(60):
        timer = threading.Timer(float(rng.uniform(0.0005, 0.01)), os.kill, (os.getpid(), signal.SIGINT))
        try:
            timer.start()
            deadline = time.monotonic() + 5
            while time.monotonic() < deadline:
                net(x, y)
        except KeyboardInterrupt:
            caught += 1
        timer.join()
        assert_no_tracers(net)
        loss = float(net(x, y)[1])
        assert np.isfinite(loss)
    assert caught == 60
    assert all(np.isfinite(v).all() for v in states(net).values())


def test_deferred_interrupts_deliver_at_the_end() -> None:
    reached = False

    def block() -> None:
        nonlocal reached
        with deferred_interrupts():
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.01)
            reached = True

    with pytest.raises(KeyboardInterrupt):
        block()
    assert reached
    assert sx.mode.local.step is None


def test_interrupts_during_the_first_calls() -> None:
    """JAX dispatches the first calls for each kind of argument through Python, where Ctrl-C could lose the result."""
    x, y = blobs()
    rng = np.random.default_rng(1)
    for round_ in range(25):
        net = MLP()
        net.compile([x])
        net(x, y)
        timer = threading.Timer(float(rng.uniform(0.0, 0.002)), os.kill, (os.getpid(), signal.SIGINT))
        try:
            timer.start()
            deadline = time.monotonic() + 5
            while time.monotonic() < deadline:
                net.fc1.b.set_value(0.1)  # a value from outside: a new kind of argument for JAX
                if round_ % 2:
                    net(sx.from_numpy(x).data, y)
                net(x, y)
        except KeyboardInterrupt:
            pass
        timer.join()
        assert np.isfinite(float(net(x, y)[1]))
