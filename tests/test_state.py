"""State: one owner, donation, host copies, order of calls, names, initial values."""

from __future__ import annotations

import copy
import gc
import resource
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from models import MLP, Trained, assert_equal_states, blobs, states

import singax as sx
from singax import layer


class Tied(Trained):
    """One matrix, used forwards and backwards."""

    def __init__(self) -> None:
        super().__init__(sx.opt.SGD(lr=0.1, momentum=0.9))
        self.encode = layer.Linear(5)
        self.decode = layer.Linear(3)

    def forward(self, x: jax.Array) -> jax.Array:
        return self.decode(self.encode(x) @ self.encode.W.data.T)


def test_tied_weights_train_with_donation() -> None:
    x, y = blobs()
    net = Tied()
    net.compile([x])
    net.alias = net.encode.W  # the same handle under a second name
    assert sorted(net.get_params()) == ["decode.W", "decode.b", "encode.W", "encode.b"]
    losses = [float(net(x, y)[1]) for _ in range(10)]
    assert losses[-1] < losses[0]
    assert net.alias is net.encode.W


def test_a_zeros_array_shared_by_two_states_trains_with_donation() -> None:
    class Shared(MLP):
        def __init__(self) -> None:
            super().__init__()
            zeros = jnp.zeros((1,))
            self.a = sx.Tensor(data=zeros, requires_grad=False)
            self.b = sx.Tensor(data=zeros, requires_grad=False)

        def train_one_batch(self, x: Any, y: Any) -> Any:
            self.a = self.a + 1.0
            return super().train_one_batch(x, y)

    x, y = blobs()
    net = Shared()
    net.compile([x])
    for _ in range(3):
        net(x, y)
    assert float(net.a) == 3.0
    assert float(net.b) == 0.0


def test_arrays_that_the_user_holds_survive_donation() -> None:
    x, y = blobs()
    net = MLP()
    net.compile([x])
    mine = jnp.full((5, 8), 0.25)
    net.set_params({"fc1.W": mine})
    seen = net.fc1.W.data
    net(x, y)
    np.testing.assert_array_equal(mine, 0.25)
    np.testing.assert_array_equal(seen, 0.25)
    assert not np.array_equal(net.fc1.W.to_numpy(), mine)


def test_host_buffer_may_be_overwritten_right_after_copy_from_numpy() -> None:
    for _ in range(3):
        buffer = np.ones((4096, 4096), np.float32)
        t = sx.Tensor(buffer.shape)
        t.copy_from_numpy(buffer)
        buffer[:] = 5
        assert float(t.data.max()) == 1.0
        assert t.to_numpy().max() == 1.0


def test_host_buffer_may_be_overwritten_right_after_a_step() -> None:
    class Sum(sx.Module):
        def forward(self, x: jax.Array) -> jax.Array:
            return (x * 2).sum()

    net = Sum()
    buffer = np.ones((2048, 2048), np.float32)
    net.compile([buffer], is_train=False)
    for _ in range(5):
        buffer[:] = 1
        out = net(buffer)
        buffer[:] = 5
        assert float(out) == 2.0 * buffer.size


def _compile_then_train() -> sx.Module:
    net = MLP()
    net.compile([sx.Placeholder((16, 5))])
    return net


def _compile_twice() -> sx.Module:
    net = _compile_then_train()
    net.compile([sx.Placeholder((4, 5))], is_train=False)
    net.compile([sx.Placeholder((None, 5))], is_train=True)
    return net


def _never_compile() -> sx.Module:
    return MLP()


def _predict_first() -> sx.Module:
    net = MLP()
    net.eval()
    net(blobs()[0])
    net.train()
    return net


def _forward_first() -> sx.Module:
    net = MLP()
    net.forward(sx.from_numpy(blobs()[0]))
    return net


def _eager_first() -> sx.Module:
    net = MLP()
    net.graph(False)
    net.eval()
    net(blobs()[0])
    net.train()
    net.graph(True)
    return net


def _compile_then_load() -> sx.Module:
    source, net = _compile_then_train(), MLP()
    sx.device.set_seed(99)
    net.compile([sx.Placeholder((16, 5))])
    net.set_params({path: p.to_numpy() for path, p in source.get_params().items()})
    return net


@pytest.mark.parametrize(
    "prepare",
    [_compile_twice, _never_compile, _predict_first, _forward_first, _eager_first, _compile_then_load],
)
def test_any_order_of_calls_gives_the_same_parameters(prepare: Any) -> None:
    x, y = blobs()
    reference = _compile_then_train()
    wanted = [states(reference)] + [(reference(x, y), states(reference))[1] for _ in range(2)]
    sx.device.set_seed(0)
    net = prepare()
    for expected in wanted[1:]:
        net(x, y)
        found = states(net)
        for path in net.get_params():
            np.testing.assert_array_equal(found[path], expected[path], err_msg=path)


def test_compile_again_keeps_values() -> None:
    x, y = blobs()
    net = MLP()
    net.compile([x])
    net(x, y)
    before = states(net)
    net.compile([sx.Placeholder((3, 5))])
    assert_equal_states(states(net), before)


def test_one_more_layer_changes_no_other_initial_value() -> None:
    class Longer(MLP):
        def __init__(self) -> None:
            self.first = layer.Linear(5)
            super().__init__()

        def forward(self, x: jax.Array) -> jax.Array:
            return super().forward(self.first(x))

    a, b = MLP(), Longer()
    a.compile([sx.Placeholder((2, 5))])
    b.compile([sx.Placeholder((2, 5))])
    for path, value in a.get_params().items():
        np.testing.assert_array_equal(value.to_numpy(), b.get_params()[path].to_numpy())


def test_the_seed_and_the_path_decide_initial_values() -> None:
    found = []
    for seed in (1, 1, 2):
        sx.device.get_default_device().SetRandSeed(seed)
        net = MLP(hidden=5)
        net.compile([sx.Placeholder((2, 5))])
        found.append(net.fc1.W.to_numpy())
    np.testing.assert_array_equal(found[0], found[1])
    assert not np.array_equal(found[0], found[2])
    a, b = layer.Linear(4), layer.Linear(4)
    a(sx.from_numpy(np.ones((2, 4), np.float32)))
    b(sx.from_numpy(np.ones((2, 4), np.float32)))
    assert not np.array_equal(a.W.to_numpy(), b.W.to_numpy())  # layers without a model do not start alike


def test_fills_after_compile() -> None:
    x, y = blobs()
    net = MLP()
    net.compile([x])
    for _, p in net.get_params().items():
        p.uniform(-1, 1)
    assert all(np.abs(p.to_numpy()).max() <= 1 for p in net.get_params().values())
    assert np.abs(net.fc1.b.to_numpy()).min() > 0
    losses = [float(net(x, y)[1]) for _ in range(5)]
    assert losses[-1] < losses[0]
    assert len(net.compilations) == 1


def test_compile_runs_no_flops_and_allocates_little() -> None:
    class Huge(sx.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = layer.Linear(1000)

        def forward(self, x: jax.Array) -> jax.Array:
            wide = self.fc(x)  # (2^20, 250, 1000) float32: 1 TB
            return (wide * 2).sum((0, 1))

    gc.collect()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    net = Huge()
    net.compile([sx.Placeholder((2**20, 250, 1000))])
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert net.fc.W.shape == (1000, 1000)
    assert (after - before) * 1024 < 10 * net.fc.W.memsize() + 2**25


def test_layers_in_lists_tuples_dicts_and_register_layers() -> None:
    class Block(layer.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.fc = layer.Linear(4)

        def forward(self, x: jax.Array) -> jax.Array:
            return self.fc(x)

    class Net(sx.Module):
        def __init__(self) -> None:
            super().__init__()
            self.many = [Block(), (Block(), {"deep": Block()})]
            self.named = {"a": layer.Linear(4)}
            self.register_layers(layer.Linear(4), layer.Linear(4))
            loose = layer.Linear(4)
            self.closure = lambda x: loose(x)

        def forward(self, x: jax.Array) -> jax.Array:
            for block in (self.many[0], self.many[1][0], self.many[1][1]["deep"], self.named["a"]):
                x = block(x)
            for extra in self._registered.copy().values():
                x = extra(x) if extra._local in ("Linear_0", "Linear_1") else x
            return self.closure(x)

    net = Net()
    net.compile([sx.Placeholder((2, 4))])
    weights = [path for path in net.get_params() if path.endswith("W")]
    assert weights == [
        "many.0.fc.W",
        "many.1.0.fc.W",
        "many.1.1.deep.fc.W",
        "named.a.W",
        "Linear_0.W",
        "Linear_1.W",
        "Linear_2.W",  # the layer of the closure joined the layer that called it
    ]
    assert net.many[0].fc.W.name == "many.0.fc.W"
    assert list(net.many[0].get_params()) == ["many.0.fc.W", "many.0.fc.b"]


def test_set_params_by_exact_names_only() -> None:
    class Ten(sx.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc1, self.fc10 = layer.Linear(3), layer.Linear(3)

        def forward(self, x: jax.Array) -> jax.Array:
            return self.fc10(self.fc1(x))

    net = Ten()
    net.compile([sx.Placeholder((2, 3))])
    before = net.fc1.W.to_numpy()
    net.set_params({"fc10.W": np.ones((3, 3), np.float32)})
    np.testing.assert_array_equal(net.fc1.W.to_numpy(), before)
    with pytest.raises(sx.errors.NameMismatchError, match=r"fc2\.W"):
        net.set_params({"fc1.W": np.zeros((3, 3)), "fc2.W": np.zeros((3, 3))})
    with pytest.raises(sx.errors.ShapeError, match=r"fc1.b has shape \(3,\); received shape \(4,\)"):
        net.set_params({"fc1.W": np.zeros((3, 3)), "fc1.b": np.zeros(4)})
    np.testing.assert_array_equal(net.fc1.W.to_numpy(), before)


def test_get_params_before_compile_says_what_to_call() -> None:
    with pytest.raises(sx.errors.UninitializedError, match=r"compile\(\[placeholder\]\)"):
        MLP().get_params()


def test_state_paths() -> None:
    x, y = blobs()
    net = MLP()
    net.compile([x])
    net(x, y)
    assert set(net.state_dict()) == {
        *("fc1.W", "fc1.b", "fc2.W", "fc2.b", "optimizer.step", "optimizer.lr", "rng"),
        *(f"optimizer.momentum.{p}" for p in ("fc1.W", "fc1.b", "fc2.W", "fc2.b")),
    }


def test_load_state_dict_resumes_bit_for_bit() -> None:
    x, y = blobs()
    net = MLP()
    net.compile([x])
    for _ in range(3):
        net(x, y)
    saved = states(net)
    for _ in range(3):
        net(x, y)
    wanted = states(net)
    net.load_state_dict(saved)
    for _ in range(3):
        net(x, y)
    assert_equal_states(states(net), wanted)
    with pytest.raises(sx.errors.NameMismatchError, match="nonsense"):
        net.load_state_dict({"nonsense": 1})


def test_a_submodule_can_be_used_alone() -> None:
    x, y = blobs()
    net = MLP()
    net.compile([x])
    net(x, y)
    hidden = net.fc1(sx.from_numpy(x))
    np.testing.assert_allclose(hidden.to_numpy(), x @ net.fc1.W.to_numpy() + net.fc1.b.to_numpy(), rtol=1e-4, atol=1e-5)
    net(x, y)
    assert len(net.compilations) == 1


def test_two_models_may_share_a_layer() -> None:
    x, y = blobs()
    a, b = MLP(), MLP()
    b.fc1 = a.fc1
    a.compile([x])
    b.compile([x])
    for _ in range(3):
        a(x, y)
        shared = a.fc1.W.to_numpy()
        np.testing.assert_array_equal(b.fc1.W.to_numpy(), shared)
        b(x, y)
        assert not np.array_equal(a.fc1.W.to_numpy(), shared)


def test_adding_a_layer_later() -> None:
    class Grown(MLP):
        def forward(self, x: jax.Array) -> jax.Array:
            y = super().forward(x)
            return self.extra(y) if hasattr(self, "extra") else y

    x, y = blobs()
    net = Grown()
    net.compile([x])
    net(x, y)
    before = net.fc1.W.to_numpy()
    net.extra = layer.Linear(3)
    net.compile([x])
    np.testing.assert_array_equal(net.fc1.W.to_numpy(), before)
    net(x, y)
    assert "extra.W" in net.get_params()
    assert "optimizer.momentum.extra.W" in net.state_dict()


def test_a_deep_copy_is_independent_and_goes_on_alike() -> None:
    x, y = blobs()
    net = MLP()
    net.compile([x])
    for _ in range(2):
        net(x, y)
    twin = copy.deepcopy(net)
    assert twin.fc1._parent is twin
    before = states(net)
    assert_equal_states(states(twin), before)
    twin(x, y)
    assert_equal_states(states(net), before)
    net(x, y)
    assert_equal_states(states(net), states(twin))


def test_users_may_call_their_attributes_as_they_like() -> None:
    class Named(MLP):
        def __init__(self) -> None:
            super().__init__()
            self.path, self.root, self.where, self.state, self.param = "a", "b", "c", 1.0, 2.0

    x, y = blobs()
    net = Named()
    net.compile([x])
    net(x, y)
    assert (net.path, net.fc1.name) == ("a", "fc1")
