"""The pure side: plain dicts of arrays under jit, grad, vmap and scan."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from models import MLP, assert_no_tracers, blobs, states

import singax as sx
from singax import layer


class Dropped(MLP):
    def __init__(self) -> None:
        super().__init__()
        self.drop = layer.Dropout(0.5)

    def forward(self, x: jax.Array) -> jax.Array:
        return self.fc2(self.drop(jnp.tanh(self.fc1(x))))


def test_init_with_an_integer_is_what_compile_draws() -> None:
    x, _ = blobs()
    init_fn, apply_fn = MLP().functional()
    net = MLP()
    net.compile([x])
    variables = init_fn(0, x)
    assert all(type(v) is not sx.Tensor for v in variables.values())
    for path, value in net.get_params().items():
        np.testing.assert_array_equal(variables[path], value.to_numpy())
    net.eval()
    np.testing.assert_allclose(apply_fn(variables, x), net(x).to_numpy(), rtol=1e-6)


def test_init_with_a_key_under_jit_and_vmap() -> None:
    x, _ = blobs()
    net = MLP()
    init_fn, apply_fn = net.functional()
    keys = jax.random.split(jax.random.key(1), 3)
    many = jax.jit(jax.vmap(lambda key: init_fn(key, x)))(keys)
    one = init_fn(keys[1], x)
    for path, value in one.items():
        np.testing.assert_allclose(many[path][1], value, rtol=1e-6)
    assert not np.array_equal(many["fc1.W"][0], many["fc1.W"][1])
    outs = jax.vmap(lambda v: apply_fn(v, x))(many)
    assert outs.shape == (3, 16, 3)
    assert_no_tracers(net)


def test_grad_and_jit_of_apply() -> None:
    x, y = blobs()
    init_fn, apply_fn = MLP().functional()
    variables = init_fn(0, x)
    grads = jax.jit(jax.grad(lambda v: sx.ops.softmax_cross_entropy(apply_fn(v, x), y)[0]))(variables)
    assert set(grads) == set(variables)
    assert all(np.abs(g).max() > 0 for g in grads.values())


def test_apply_checks_names() -> None:
    x, _ = blobs()
    init_fn, apply_fn = MLP().functional()
    variables = init_fn(0, x)
    variables["fc3.W"] = variables.pop("fc1.W")
    with pytest.raises(sx.errors.NameMismatchError, match=r"missing: fc1.W; unknown: fc3.W"):
        apply_fn(variables, x)


def test_dropout_needs_a_key_and_obeys_it() -> None:
    x, _ = blobs()
    init_fn, apply_fn = Dropped().functional()
    variables = init_fn(0, x)
    with pytest.raises(sx.errors.SingaxError, match="pass key="):
        apply_fn(variables, x, train=True)
    outs = [apply_fn(variables, x, train=True, key=jax.random.key(s))[0] for s in (0, 0, 1)]
    np.testing.assert_array_equal(outs[0], outs[1])
    assert not np.array_equal(outs[0], outs[2])


def test_a_step_under_scan_equals_the_loop() -> None:
    x, y = blobs()
    net = MLP()
    step = net.functional_step("train_one_batch")
    state = step.init(0, x, y)
    assert "optimizer.momentum.fc1.W" in state
    final, losses = jax.lax.scan(lambda s, _: (lambda r: (r[0], r[1][1]))(step(s, x, y)), state, None, length=5)
    loop = MLP()
    loop.compile([x])
    expected = [float(loop(x, y)[1]) for _ in range(5)]
    np.testing.assert_allclose(losses[:, 0], expected, rtol=1e-5)
    found = states(loop)
    for path in loop.get_params():
        np.testing.assert_allclose(final[path], found[path], rtol=1e-4, atol=1e-6)
    assert_no_tracers(net)


def test_step_init_is_fresh_after_training() -> None:
    x, y = blobs()
    net = MLP()
    net.compile([x])
    for _ in range(3):
        net(x, y)
    init, step = net.functional_step()
    state = init(0, x, y)
    assert np.abs(state["optimizer.momentum.fc1.W"]).max() == 0
    assert int(state["optimizer.step"][0]) == 0
    other = MLP()
    other.compile([x])
    np.testing.assert_array_equal(state["fc1.W"], other.fc1.W.to_numpy())
    before = states(net)
    jax.jit(step)(state, x, y)
    np.testing.assert_array_equal(states(net)["fc1.W"], before["fc1.W"])


def test_vmap_over_models() -> None:
    x, y = blobs()
    step = MLP().functional_step()
    keys = jax.random.split(jax.random.key(0), 2)
    many = jax.vmap(lambda key: step.init(key, x, y))(keys)
    new, (_, loss) = jax.vmap(lambda s: step(s, x, y))(many)
    assert loss.shape == (2, 1)
    single, _ = step(step.init(keys[1], x, y), x, y)
    np.testing.assert_allclose(new["fc1.W"][1], single["fc1.W"], rtol=1e-4, atol=1e-6)


def test_unknown_step() -> None:
    with pytest.raises(sx.errors.NameMismatchError, match="its steps: train_one_batch"):
        MLP().functional_step("fit")
