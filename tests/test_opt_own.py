"""Optimizers that users write in SINGA's style: `apply` overridden, slots in dicts of their own."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from models import MLP, assert_equal_states, assert_no_tracers, blobs, states

import singax as sx
from singax import opt
from singax.tensor import Tensor, zeros_like


class Momentum(opt.Optimizer):
    """SINGA's SGD as SINGA's users copy it: a dict of moments, in-place operators, a scheduled momentum."""

    def __init__(self, lr: Any, momentum: Any, **options: Any) -> None:
        super().__init__(lr, **options)
        self.momentum = momentum if isinstance(momentum, opt.DecayScheduler) else opt.Constant(momentum)
        self.mom_value = self.momentum(self.step_counter)
        self.moments: dict[str, Tensor] = {}

    def apply(self, param_name: str, param_value: Tensor, param_grad: Tensor) -> None:
        self.device_check(param_value, self.step_counter, self.lr_value, self.mom_value)
        if param_name not in self.moments:
            self.moments[param_name] = zeros_like(param_value)
        moment = self.moments[param_name]
        moment *= self.mom_value
        moment += param_grad
        param_value -= self.lr_value * moment

    def step(self) -> None:
        super().step()
        self.mom_value.copy_from(self.momentum(self.step_counter))


class Functional(Momentum):
    """The same, but each step puts new Tensors into the dict."""

    def apply(self, param_name: str, param_value: Tensor, param_grad: Tensor) -> None:
        moment = self.moments.setdefault(param_name, zeros_like(param_value))
        self.moments[param_name] = moment * self.mom_value + param_grad
        param_value -= self.lr_value * self.moments[param_name]


class Around(opt.SGD):
    """Changes the gradient, then lets the base class work."""

    def apply(self, param_name: str, param_value: Tensor, param_grad: Tensor) -> None:
        super().apply(param_name, param_value, param_grad * 2.0)


def trained(optimizer: opt.Optimizer, use_graph: bool = True, steps: int = 4) -> tuple[MLP, dict[str, Any]]:
    x, y = blobs()
    sx.device.set_seed(0)
    net = MLP(optimizer)
    net.compile([x], use_graph=use_graph)
    for _ in range(steps):
        net(x, y)
    assert_no_tracers(net)
    assert len(net.compilations) == use_graph
    return net, states(net)


OPTIONS: dict[str, dict[str, Any]] = {
    "none": {},
    "clip": {"clip_norm": 0.5},
    "accumulate": {"accumulate": 2},
    "average": {"average": 0.5},
    "freeze": {"freeze": "fc1.*"},
}


@pytest.mark.parametrize("use_graph", [True, False])
@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("cls", [Momentum, Functional])
def test_equals_the_built_in_one(cls: type[Momentum], option: str, use_graph: bool) -> None:
    options = OPTIONS[option]
    _, expected = trained(opt.SGD(0.1, momentum=0.9, **options))
    _, found = trained(cls(0.1, 0.9, **options), use_graph)
    for path, value in expected.items():
        path = path.replace(".momentum.", ".moments.")
        np.testing.assert_allclose(found[path], value, rtol=1e-4, atol=1e-6, err_msg=path)
    assert set(found) == {path.replace(".momentum.", ".moments.") for path in expected} | {"optimizer.mom_value"}


def test_a_scheduled_value_of_its_own() -> None:
    schedule = opt.ExponentialDecay(0.9, 1, 0.5)
    _, expected = trained(opt.SGD(0.1, momentum=opt.ExponentialDecay(0.9, 1, 0.5)))
    _, found = trained(Momentum(0.1, schedule))
    np.testing.assert_allclose(found["fc1.W"], expected["fc1.W"], rtol=1e-4)
    np.testing.assert_allclose(found["optimizer.mom_value"], [0.9 * 0.5**4], rtol=1e-5)


@pytest.mark.parametrize("use_graph", [True, False])
def test_super_apply(use_graph: bool) -> None:
    _, expected = trained(opt.SGD(0.2, momentum=0.9))
    _, found = trained(Around(0.1, momentum=0.9), use_graph)
    np.testing.assert_allclose(found["fc2.W"], expected["fc2.W"], rtol=1e-4, atol=1e-6)


def test_slots_born_with_other_values_than_zero() -> None:
    class Anchored(opt.Optimizer):
        def __init__(self) -> None:
            super().__init__(0.5)
            self.start: dict[str, Tensor] = {}

        def apply(self, param_name: str, param_value: Tensor, param_grad: Tensor) -> None:
            if param_name not in self.start:
                self.start[param_name] = param_value.clone()
            param_value -= self.lr_value * (param_grad + (param_value - self.start[param_name]))

    _, found = trained(Anchored())
    x, _ = blobs()
    sx.device.set_seed(0)
    fresh = MLP()
    fresh.compile([x])
    for path, value in states(fresh).items():
        if f"optimizer.start.{path}" in found:
            np.testing.assert_array_equal(found[f"optimizer.start.{path}"], value)


def test_states_go_out_and_in() -> None:
    x, y = blobs()
    net, _ = trained(Momentum(0.1, 0.9))
    held = net.optimizer.get_states()
    assert set(held) == {"step_counter", "moments", "mom_value"}
    assert set(held["moments"]) == {"fc1.W", "fc1.b", "fc2.W", "fc2.b"}
    other = MLP(Momentum(0.1, 0.9))
    other.compile([x])
    other.set_params(net.get_params())
    other.optimizer.set_states(held)
    net(x, y), other(x, y)
    for path, value in states(net).items():
        if path != "rng":
            np.testing.assert_array_equal(states(other)[path], value, err_msg=path)


def test_singas_way_of_overriding_get_states_and_set_states() -> None:
    class Classic(Momentum):
        def get_states(self) -> dict[str, Any]:
            states = super().get_states()
            states["mine"] = self.moments
            return states

        def set_states(self, states: Any) -> None:
            super().set_states(states)
            self.moments = states["mine"]

    w = Tensor(data=[1.0], stores_grad=True)
    a, b = Classic(0.1, 0.9), Classic(0.1, 0.9)
    a.apply("w", w, Tensor(data=[2.0]))
    b.set_states(a.get_states())
    assert b.moments["w"].to_numpy() == 2.0


def test_functional_step_and_fresh_state() -> None:
    x, y = blobs()
    net, trained_states = trained(Momentum(0.1, 0.9))
    init, step = net.functional_step()
    state = init(0, x, y)
    assert np.abs(state["optimizer.moments.fc1.W"]).max() == 0
    final, _ = jax.lax.scan(lambda s, _: (step(s, x, y)[0], None), state, None, length=4)
    np.testing.assert_allclose(final["optimizer.moments.fc1.W"], trained_states["optimizer.moments.fc1.W"], rtol=1e-4)
    assert_equal_states(states(net), trained_states)


def test_equal_names_have_slots_of_their_own() -> None:
    optimizer = Momentum(0.1, 0.9)
    a, b = (Tensor(data=[1.0], stores_grad=True, name="W") for _ in range(2))
    optimizer.apply_gradients([(a, Tensor(data=[1.0])), (b, Tensor(data=[3.0]))])
    assert [float(t) for t in optimizer.moments.values()] == [1.0, 3.0]


def test_what_is_refused() -> None:
    class Hidden(opt.Optimizer):
        def __init__(self) -> None:
            super().__init__(0.1)
            self.slots: list[Tensor] = []

        def apply(self, param_name: str, param_value: Tensor, param_grad: Tensor) -> None:
            self.slots.append(zeros_like(param_value))

    w = Tensor(data=[1.0], stores_grad=True)
    with pytest.raises(sx.errors.StateError, match=r"slots where they cannot be followed: slots\.0"):
        Hidden().apply("w", w, Tensor(data=[2.0]))
    with pytest.raises(sx.errors.ArgumentError, match="has no option 'lr'"):
        Momentum(0.1, 0.9, groups={"*": {"lr": 1.0}})
    with pytest.raises(NotImplementedError, match="neither transform nor apply"):
        opt.Optimizer(0.1).apply("w", w, Tensor(data=[2.0]))
