"""One table of all optimizers and schedules, and what holds for every row of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from models import MLP, assert_equal_states, assert_no_tracers, blobs, states

import singax as sx
from singax import opt
from singax.tensor import Tensor

Slots = dict[str, Any]
Rule = Callable[[np.ndarray, np.ndarray, Slots, int], np.ndarray]


# -- the rules in NumPy: w, g, slots, number of the update from 1 → the direction against which w moves -------------


def _moments(g: np.ndarray, s: Slots, b1: float = 0.9, b2: float = 0.999) -> tuple[np.ndarray, np.ndarray]:
    s["m"] = b1 * s.get("m", 0) + (1 - b1) * g
    s["v"] = b2 * s.get("v", 0) + (1 - b2) * g**2
    return s["m"], s["v"]


def sgd(w: np.ndarray, g: np.ndarray, s: Slots, t: int) -> np.ndarray:
    s["v"] = 0.9 * s.get("v", 0) + g + 0.01 * w
    return s["v"]


def rmsprop(w: np.ndarray, g: np.ndarray, s: Slots, t: int) -> np.ndarray:
    s["r"] = 0.9 * s.get("r", 0) + 0.1 * g**2
    return g / np.sqrt(s["r"] + 1e-8)


def adagrad(w: np.ndarray, g: np.ndarray, s: Slots, t: int) -> np.ndarray:
    s["h"] = s.get("h", 0) + g**2
    return g / np.sqrt(s["h"] + 1e-8)


def adam(w: np.ndarray, g: np.ndarray, s: Slots, t: int) -> np.ndarray:
    m, v = _moments(g, s)
    return m / (1 - 0.9**t) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)


def adamw(w: np.ndarray, g: np.ndarray, s: Slots, t: int) -> np.ndarray:
    return adam(w, g, s, t) + 0.1 * w


def nadam(w: np.ndarray, g: np.ndarray, s: Slots, t: int) -> np.ndarray:
    m, v = _moments(g, s)
    ahead = 0.9 * m / (1 - 0.9 ** (t + 1)) + 0.1 * g / (1 - 0.9**t)
    return ahead / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)


def radam(w: np.ndarray, g: np.ndarray, s: Slots, t: int) -> np.ndarray:
    m, v = _moments(g, s, b2=0.9)
    limit = 2 / (1 - 0.9) - 1
    rho = limit - 2 * t * 0.9**t / (1 - 0.9**t)
    if rho < 5:
        return m / (1 - 0.9**t)
    r = math.sqrt((rho - 4) * (rho - 2) * limit / ((limit - 4) * (limit - 2) * rho))
    return r * m / (1 - 0.9**t) / (np.sqrt(v / (1 - 0.9**t)) + 1e-8)


def adamax(w: np.ndarray, g: np.ndarray, s: Slots, t: int) -> np.ndarray:
    s["m"] = 0.9 * s.get("m", 0) + 0.1 * g
    s["v"] = np.maximum(0.999 * s.get("v", 0), np.abs(g) + 1e-8)
    return s["m"] / (1 - 0.9**t) / s["v"]


def amsgrad(w: np.ndarray, g: np.ndarray, s: Slots, t: int) -> np.ndarray:
    m, v = _moments(g, s)
    s["most"] = np.maximum(s.get("most", 0), v / (1 - 0.999**t))
    return m / (1 - 0.9**t) / (np.sqrt(s["most"]) + 1e-8)


def adabelief(w: np.ndarray, g: np.ndarray, s: Slots, t: int) -> np.ndarray:
    s["m"] = 0.9 * s.get("m", 0) + 0.1 * g
    s["v"] = 0.999 * s.get("v", 0) + 0.001 * (g - s["m"]) ** 2 + 1e-6
    return s["m"] / (1 - 0.9**t) / (np.sqrt(s["v"] / (1 - 0.999**t)) + 1e-3)


def yogi(w: np.ndarray, g: np.ndarray, s: Slots, t: int) -> np.ndarray:
    s["m"] = 0.9 * s.get("m", 1e-6) + 0.1 * g
    v = s.get("v", np.full_like(w, 1e-6))
    s["v"] = v - 0.001 * np.sign(v - g**2) * g**2
    return s["m"] / (1 - 0.9**t) / (np.sqrt(s["v"] / (1 - 0.999**t)) + 1e-3)


def adadelta(w: np.ndarray, g: np.ndarray, s: Slots, t: int) -> np.ndarray:
    s["a"] = 0.9 * s.get("a", 0) + 0.1 * g**2
    u = g * np.sqrt(s.get("b", 0) + 1e-6) / np.sqrt(s["a"] + 1e-6)
    s["b"] = 0.9 * s.get("b", 0) + 0.1 * u**2
    return u


def lion(w: np.ndarray, g: np.ndarray, s: Slots, t: int) -> np.ndarray:
    m = s.get("m", 0)
    s["m"] = 0.99 * m + 0.01 * g
    return np.sign(0.9 * m + 0.1 * g) + 0.1 * w


def lamb(w: np.ndarray, g: np.ndarray, s: Slots, t: int) -> np.ndarray:
    m, v = _moments(g, s)
    u = m / (1 - 0.9**t) / (np.sqrt(v / (1 - 0.999**t)) + 1e-6) + 0.1 * w
    return u * np.linalg.norm(w) / np.linalg.norm(u)


def lars(w: np.ndarray, g: np.ndarray, s: Slots, t: int) -> np.ndarray:
    u = g + 0.1 * w
    s["v"] = 0.9 * s.get("v", 0) + 0.1 * np.linalg.norm(w) / np.linalg.norm(u) * u
    return s["v"]


def adafactor(w: np.ndarray, g: np.ndarray, s: Slots, t: int) -> np.ndarray:
    beta = 1 - t**-0.8
    squares = g**2 + 1e-30
    if w.ndim == 2:
        s["row"] = beta * s.get("row", 0) + (1 - beta) * squares.mean(1)
        s["col"] = beta * s.get("col", 0) + (1 - beta) * squares.mean(0)
        v = np.outer(s["row"], s["col"]) / s["row"].mean()
    else:
        s["v"] = v = beta * s.get("v", 0) + (1 - beta) * squares
    u = g / np.sqrt(v)
    u = u / max(1, math.sqrt((u**2).mean()))
    return u * max(math.sqrt((w**2).mean()), 1e-3) + 0.1 * w


def muon(w: np.ndarray, g: np.ndarray, s: Slots, t: int) -> np.ndarray:
    if w.ndim != 2:
        return nadam(w, g, s, t)
    s["m"] = 0.95 * s.get("m", 0) + 0.05 * g
    x = 0.95 * s["m"] / (1 - 0.95 ** (t + 1)) + 0.05 * g / (1 - 0.95**t)
    x = x.T if (tall := x.shape[0] > x.shape[1]) else x
    x = x / (np.linalg.norm(x) + 1e-8)
    for _ in range(5):
        a = x @ x.T
        x = 3.4445 * x + (-4.775 * a + 2.0315 * a @ a) @ x
    return (x.T if tall else x) * math.sqrt(max(1, w.shape[1] / w.shape[0]))


@dataclass(frozen=True)
class Row:
    """An optimizer: how it is made for a rate, its rule, its slots in get_states, the tolerance of its comparison."""

    make: Callable[..., opt.Optimizer]
    rule: Rule
    slots: frozenset[str]
    tolerance: float = 3e-4


def row(make: Callable[..., opt.Optimizer], rule: Rule, *slots: str, tolerance: float = 3e-4) -> Row:
    return Row(make, rule, frozenset(slots), tolerance)


TABLE: dict[str, Row] = {
    "SGD": row(lambda lr, **o: opt.SGD(lr, 0.9, weight_decay=0.01, **o), sgd, "moments"),
    "RMSProp": row(lambda lr, **o: opt.RMSProp(lr, **o), rmsprop, "running_average"),
    "AdaGrad": row(lambda lr, **o: opt.AdaGrad(lr, **o), adagrad, "history"),
    "Adam": row(lambda lr, **o: opt.Adam(lr, **o), adam, "m", "v"),
    "AdamW": row(lambda lr, **o: opt.AdamW(lr, weight_decay=0.1, **o), adamw, "m", "v"),
    "NAdam": row(lambda lr, **o: opt.NAdam(lr, **o), nadam, "m", "v"),
    "RAdam": row(lambda lr, **o: opt.RAdam(lr, beta_2=0.9, **o), radam, "m", "v"),
    "AdaMax": row(lambda lr, **o: opt.AdaMax(lr, **o), adamax, "m", "v"),
    "AMSGrad": row(lambda lr, **o: opt.AMSGrad(lr, **o), amsgrad, "m", "v", "v_max"),
    "AdaBelief": row(lambda lr, **o: opt.AdaBelief(lr, epsilon=1e-3, **o), adabelief, "m", "v"),
    "Yogi": row(lambda lr, **o: opt.Yogi(lr, **o), yogi, "m", "v"),
    "AdaDelta": row(lambda lr, **o: opt.AdaDelta(lr, **o), adadelta, "squares", "updates"),
    "Lion": row(lambda lr, **o: opt.Lion(lr, weight_decay=0.1, **o), lion, "m"),
    "LAMB": row(lambda lr, **o: opt.LAMB(lr, weight_decay=0.1, **o), lamb, "m", "v"),
    "LARS": row(lambda lr, **o: opt.LARS(lr, 0.9, 0.1, trust_coefficient=0.1, **o), lars, "moments"),
    "Adafactor": row(
        lambda lr, **o: opt.Adafactor(lr, weight_decay=0.1, smallest_factored=3, **o), adafactor, "v_row", "v_col", "v"
    ),
    "Muon": row(lambda lr, **o: opt.Muon(lr, **o), muon, "m", "v", tolerance=2e-3),
}
every = pytest.mark.parametrize("name", TABLE)


def net_of(optimizer: Any, use_graph: bool = True) -> MLP:
    sx.device.set_seed(0)
    net = MLP(optimizer, hidden=4)
    net.compile([blobs()[0]], use_graph=use_graph)
    return net


def test_every_public_optimizer_and_schedule_has_a_row() -> None:
    classes = {name for name in opt.__all__ if issubclass(getattr(opt, name), opt.Optimizer)}
    assert classes - {"Optimizer", "Optax"} == set(TABLE)
    schedules = {name for name in opt.__all__ if issubclass(getattr(opt, name), opt.DecayScheduler)}
    assert schedules - {"DecayScheduler"} == {name.split("/")[0] for name in SCHEDULES}


@every
def test_twenty_updates_equal_the_rule(name: str) -> None:
    """For a matrix and a vector, with gradients of changing size and sign."""
    entry, lr = TABLE[name], 0.05
    optimizer = entry.make(lr)
    held = {"W": np.linspace(-1, 1, 12).reshape(3, 4), "b": np.linspace(0.5, 1.5, 5)}
    tensors = {k: Tensor(data=w, dtype=sx.float32, stores_grad=True, name=k) for k, w in held.items()}
    slots: dict[str, Slots] = {"W": {}, "b": {}}
    for t in range(1, 21):
        grads = {k: np.sin(3 * w + t) + 0.1 * w for k, w in held.items()}
        held = {k: w - lr * entry.rule(w, grads[k], slots[k], t) for k, w in held.items()}
        optimizer.apply_gradients([(tensors[k], Tensor(data=g, dtype=sx.float32)) for k, g in grads.items()])
        optimizer.step()
        for k, tensor in tensors.items():
            np.testing.assert_allclose(tensor.to_numpy(), held[k], rtol=entry.tolerance, atol=entry.tolerance / 10)
            held[k] = tensor.to_numpy().astype(np.float64)  # the next gradient is that of the same point
    found = optimizer.get_states()
    assert set(found) == entry.slots | {"step_counter"}
    assert found["step_counter"] == 20
    assert isinstance(found["step_counter"], np.float32)


@every
def test_eager_equals_compiled_equals_functional(name: str) -> None:
    """One program; the same structure after every step; no tracer left behind."""
    x, y = blobs()
    found, structure = [], []
    for use_graph in (True, False):
        net = net_of(TABLE[name].make(0.02), use_graph)
        for _ in range(3):
            net(x, y)
            structure.append({path: (v.shape, v.dtype) for path, v in net.state_dict().items()})
        assert len(net.compilations) == use_graph
        assert_no_tracers(net)
        found.append(states(net))
    assert all(shapes == structure[0] for shapes in structure)
    step = net_of(TABLE[name].make(0.02)).functional_step()
    state = step.init(0, x, y)
    final, _ = jax.lax.scan(lambda s, _: (step(s, x, y)[0], None), state, None, length=3)
    for path, value in found[0].items():
        if path != "rng":
            np.testing.assert_allclose(found[1][path], value, rtol=1e-3, atol=1e-5, err_msg=path)
            np.testing.assert_allclose(final[path], value, rtol=1e-3, atol=1e-5, err_msg=path)


@every
def test_a_new_rate_takes_effect_without_compiling(name: str) -> None:
    x, y = blobs()
    net = net_of(TABLE[name].make(0.02))
    net(x, y)
    net.optimizer.lr = 0.0
    before = states(net)
    net(x, y)
    for path in net.get_params():
        np.testing.assert_array_equal(states(net)[path], before[path])
    net.optimizer.lr = 0.1
    net(x, y)
    assert not np.array_equal(states(net)["fc1.W"], before["fc1.W"])
    assert len(net.compilations) == 1


@every
def test_states_round_trip_and_training_goes_on_bit_for_bit(name: str) -> None:
    x, y = blobs()
    net = net_of(TABLE[name].make(0.02))
    for _ in range(2):
        net(x, y)
    other = net_of(TABLE[name].make(0.02))
    other.set_params(net.get_params())
    other.optimizer.set_states(net.optimizer.get_states())
    for _ in range(2):
        net(x, y), other(x, y)
    expected = states(net)
    assert_equal_states(states(other), {**expected, "rng": states(other)["rng"]})
    assert len(other.compilations) == 1


@every
def test_a_frozen_parameter_has_no_slot_and_slots_have_its_dtype(name: str) -> None:
    optimizer = TABLE[name].make(0.5, freeze="a*")
    a, b, c = (
        Tensor(data=np.ones((2, 3), dtype), stores_grad=True, name=name)
        for name, dtype in (("a.W", np.float32), ("b.W", np.float32), ("c.W", jnp.bfloat16))
    )
    for _ in range(2):
        optimizer.apply_gradients([(t, Tensor(data=np.full((2, 3), 0.5, t.dtype))) for t in (a, b, c)])
        optimizer.step()
    np.testing.assert_array_equal(a.to_numpy(), 1)
    held = [slot for slot in optimizer.get_states().values() if isinstance(slot, dict)]
    assert not [key for slot in held for key in slot if key == "a.W"]
    assert {t.dtype for slot in held for key, t in slot.items() if key == "b.W"} == {np.dtype(np.float32)}
    assert {t.dtype for slot in held for key, t in slot.items() if key == "c.W"} == {np.dtype(jnp.bfloat16)}
    assert b.dtype == np.float32
    assert c.dtype == jnp.bfloat16
    assert np.isfinite(c.to_numpy().astype(np.float32)).all()
    assert np.abs(b.to_numpy() - 1).max() > 0


@every
def test_options_and_groups_work_with_every_rule(name: str) -> None:
    """All options at once: one program, and a group's rate of 0 stands still."""
    x, y = blobs()
    options: dict[str, Any] = {
        "clip_norm": 1.0,
        "clip_value": 0.5,
        "accumulate": 2,
        "average": 0.9,
        "loss_scale": opt.LossScale(64.0),
        "groups": {"fc1.W": {"lr": 0.0}, "*.b": {"lr_scale": 0.5}},
        "freeze": "fc2.b",
    }
    net = net_of(TABLE[name].make(0.02, **options))
    start = states(net)
    for _ in range(4):
        net(x, y)
    moved = {path for path in net.get_params() if not np.array_equal(states(net)[path], start[path])}
    assert moved == {"fc1.b", "fc2.W"}
    assert net.optimizer.get_states()["step_counter"] == 2
    assert len(net.compilations) == 1


@pytest.mark.parametrize(
    "tx",
    [
        lambda: optax.adam(0.05),
        lambda: optax.chain(optax.clip(0.1), optax.sgd(0.05, 0.9)),
        lambda: optax.adamw(optax.cosine_decay_schedule(0.05, 9)),
        lambda: optax.contrib.muon(0.05),
    ],
)
def test_optax_states_round_trip(tx: Callable[[], Any]) -> None:
    x, y = blobs()
    net, other = net_of(opt.Optax(tx())), net_of(opt.Optax(tx()))
    for _ in range(2):
        net(x, y)
    other.set_params(net.get_params())
    other.optimizer.set_states(net.optimizer.get_states())
    net(x, y), other(x, y)
    expected = states(net)
    assert_equal_states(states(other), {**expected, "rng": states(other)["rng"]})
    with pytest.raises(sx.errors.NameMismatchError, match="wings"):
        other.optimizer.set_states({"wings": {}})


# -- schedules: what is made, and its value at a step ---------------------------------------------------------------

SCHEDULES: dict[str, tuple[Callable[[], Any], Callable[[float], float]]] = {
    "Constant": (lambda: opt.Constant(0.3), lambda t: 0.3),
    "ExponentialDecay": (lambda: opt.ExponentialDecay(0.4, 3, 0.5), lambda t: 0.4 * 0.5 ** (t / 3)),
    "ExponentialDecay/stairs": (lambda: opt.ExponentialDecay(0.4, 3, 0.5, True), lambda t: 0.4 * 0.5 ** (t // 3)),
    "PolynomialDecay": (lambda: opt.PolynomialDecay(0.4, 5, 0.1, 2), lambda t: 0.1 + 0.3 * max(0, 1 - t / 5) ** 2),
    "LinearDecay": (lambda: opt.LinearDecay(0.4, 5, 0.1), lambda t: 0.1 + 0.3 * max(0, 1 - t / 5)),
    "LinearDecay/up": (lambda: opt.LinearDecay(0.0, 5, 0.5), lambda t: 0.1 * min(t, 5)),
    "CosineDecay": (
        lambda: opt.CosineDecay(0.4, 6, 0.1),
        lambda t: 0.1 + 0.15 * (1 + math.cos(math.pi * min(t, 6) / 6)),
    ),
    "InverseSquareRoot": (lambda: opt.InverseSquareRoot(0.4, 3), lambda t: 0.4 * math.sqrt(3 / max(t, 3))),
    "PiecewiseConstant": (
        lambda: opt.PiecewiseConstant([2, 5], [0.4, 0.2, 0.1]),
        lambda t: 0.4 if t < 2 else 0.2 if t < 5 else 0.1,
    ),
    "WarmUp": (
        lambda: opt.WarmUp(opt.ExponentialDecay(0.4, 2, 0.5), 3, 0.1),
        lambda t: 0.1 + 0.1 * t if t < 3 else 0.4 * 0.5 ** ((t - 3) / 2),
    ),
    "WarmUp/optax": (lambda: opt.WarmUp(optax.linear_schedule(0.6, 0, 3), 3), lambda t: 0.2 * max(0, min(t, 6 - t))),
    "WarmUp/number": (lambda: opt.WarmUp(0.3, 3), lambda t: 0.1 * min(t, 3)),
    "WarmUpCosine": (
        lambda: opt.WarmUpCosine(0.4, 2, 6, 0.1),
        lambda t: 0.2 * t if t < 2 else 0.1 + 0.15 * (1 + math.cos(math.pi * min(t - 2, 4) / 4)),
    ),
}
scheduled = pytest.mark.parametrize("name", SCHEDULES)


@scheduled
def test_a_schedule_equals_its_formula(name: str) -> None:
    make, formula = SCHEDULES[name]
    schedule = make()
    for t in range(9):
        found = schedule(Tensor(data=[float(t)]))
        assert found.shape == (1,)
        np.testing.assert_allclose(float(found), formula(t), rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(
            float(schedule(Tensor(data=np.array([t], np.int32)))), formula(t), rtol=1e-5, atol=1e-7
        )


@scheduled
def test_a_schedule_drives_the_rate_in_one_program(name: str) -> None:
    x, y = blobs()
    make, formula = SCHEDULES[name]
    rates = []
    net = net_of(opt.SGD(make()))
    for _ in range(5):
        rates.append(float(net.optimizer.lr_value))
        net(x, y)
    np.testing.assert_allclose(rates, [formula(t) for t in range(5)], rtol=1e-5, atol=1e-7)
    assert len(net.compilations) == 1
    net.optimizer.set_states({"step_counter": 2})
    np.testing.assert_allclose(float(net.optimizer.lr_value), formula(2), rtol=1e-5, atol=1e-7)


def test_a_users_schedule_counts_from_the_first_step() -> None:
    """`init_value` is what the user makes of it: the value at step 0 is what `call` says."""

    class Rising(opt.DecayScheduler):
        def call(self, step: Tensor) -> Tensor:
            return self.init_value * (step + 1.0)

    optimizer = opt.SGD(Rising(0.1), momentum=Rising(0.0))
    assert float(optimizer.lr_value) == pytest.approx(0.1)
    optimizer.step()
    assert float(optimizer.lr_value) == pytest.approx(0.2)


def test_bad_schedules() -> None:
    for make, words in (
        (lambda: opt.LinearDecay(0.1, 0), "decay_steps must be above 0"),
        (lambda: opt.PolynomialDecay(0.1, 3, power=-1), "power must be above 0"),
        (lambda: opt.PiecewiseConstant([3, 2], [1, 2, 3]), "growing boundaries"),
        (lambda: opt.PiecewiseConstant([3], [1]), "one value more"),
        (lambda: opt.WarmUp("fast", 3), "after is a number"),
        (lambda: opt.WarmUpCosine(0.1, 5, 5), "between 0 and total_steps"),
    ):
        with pytest.raises(sx.errors.ArgumentError, match=words):
            make()
