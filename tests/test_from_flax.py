"""Flax modules as layers: Flax's numbers, names and states."""

from __future__ import annotations

import copy
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from models import Trained, assert_equal_states, assert_no_tracers, blobs, states

import singax as sx
from singax import autograd
from singax.errors import ArgumentError
from singax.layer import FromFlax, Linear, Remat, Repeat
from singax.recipes import host_source
from singax.storage import Deferred
from singax.tensor import Tensor


class LinenBlock(nn.Module):
    """Parameters, statistics, dropout; the mode is an argument."""

    width: int = 5

    @nn.compact
    def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
        y = nn.Dense(7)(x)
        y = jnp.tanh(nn.BatchNorm(use_running_average=not train, momentum=0.5)(y))
        self.sow("losses", "size", y.sum())
        return x + nn.Dense(self.width)(nn.Dropout(0.3, deterministic=not train)(y))


class NNXBlock(nnx.Module):
    """The same; the mode is an attribute."""

    def __init__(self, size: int, rngs: nnx.Rngs) -> None:
        self.first, self.last = nnx.Linear(size, 7, rngs=rngs), nnx.List([nnx.Linear(7, size, rngs=rngs)])
        self.norm, self.drop = nnx.BatchNorm(7, momentum=0.5, rngs=rngs), nnx.Dropout(0.3, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        return x + self.last[0](self.drop(jnp.tanh(self.norm(self.first(x)))))


class Net(Trained):
    def __init__(self, body: sx.layer.Layer) -> None:
        super().__init__()
        self.body, self.head = body, Linear(3)

    def forward(self, x: jax.Array) -> jax.Array:
        return self.head(self.body(x))


KINDS: dict[str, Any] = {
    "linen": lambda: FromFlax(LinenBlock()),
    "linen class": lambda: FromFlax(LinenBlock, width=5),
    "nnx class": lambda: FromFlax(NNXBlock, 5),
    "nnx": lambda: FromFlax(NNXBlock(5, rngs=nnx.Rngs(3))),
}
every_kind = pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)

LINEN = ["BatchNorm_0.bias", "BatchNorm_0.scale", "Dense_0.bias", "Dense_0.kernel", "Dense_1.bias", "Dense_1.kernel"]
STATISTICS = ["batch_stats.BatchNorm_0.mean", "batch_stats.BatchNorm_0.var"]
NNX = ["first.bias", "first.kernel", "last.0.bias", "last.0.kernel", "norm.bias", "norm.scale"]


def _built(body: sx.layer.Layer, **options: Any) -> Net:
    net = Net(body)
    net.compile([sx.Placeholder((None, 5))], **options)
    return net


@every_kind
def test_names_training_and_statistics(make: Any) -> None:
    x, y = blobs()
    net = _built(make())
    names = sorted(path.removeprefix("body.") for path in net.get_params() if path.startswith("body."))
    others = sorted(path for path in net.get_states() if path not in net.get_params())
    linen = names == LINEN
    assert linen or names == NNX
    assert others == [f"body.{name}" for name in (STATISTICS if linen else ["norm.mean", "norm.var"])]
    before = states(net)
    losses = [float(net(x, y)[1]) for _ in range(20)]
    assert losses[-1] < losses[0]
    assert len(net.compilations) == 1
    after = states(net)
    for path in net.get_states():
        assert np.abs(before[path] - after[path]).max() > 0, path
    assert_no_tracers(net)


@every_kind
def test_nothing_is_drawn_while_building(make: Any) -> None:
    net = Net(make())
    assert net.infer_shape((None, 5)) == (None, 3)
    assert sx.layer.tree.tensors(net) == []
    sx.layer.build.build(net, sx.layer.build.own_forward(net), (sx.Placeholder((2, 5)),), {})
    values = [tensor._cell.get() for _, tensor in sx.layer.tree.tensors(net.body)]
    assert len(values) == 8
    assert all(isinstance(value, Deferred) for value in values)


def test_linen_computes_what_flax_computes() -> None:
    x, y = blobs()
    net = _built(FromFlax(LinenBlock()))
    net(x, y)
    found = states(net)
    params: dict[str, Any] = {}
    for path, value in found.items():
        if path.startswith("body.") and "batch_stats" not in path:
            module, leaf = path.removeprefix("body.").split(".")
            params.setdefault(module, {})[leaf] = value
    statistics = {"BatchNorm_0": {name: found[f"body.batch_stats.BatchNorm_0.{name}"] for name in ("mean", "var")}}
    variables = {"params": params, "batch_stats": statistics}
    net.eval()
    expected = LinenBlock().apply(variables, x)
    np.testing.assert_allclose(net.body(Tensor(data=x)).to_numpy(), expected, rtol=1e-5, atol=1e-6)
    autograd.training = True
    net.body(Tensor(data=x))
    _, new = LinenBlock().apply(variables, x, train=True, mutable=["batch_stats"], rngs={"dropout": jax.random.key(0)})
    for name, value in new["batch_stats"]["BatchNorm_0"].items():
        ours = net.body.get_states()[f"body.batch_stats.BatchNorm_0.{name}"].to_numpy()
        np.testing.assert_allclose(ours, value, rtol=1e-5, atol=1e-6)


def test_linen_draws_with_flax_initialisers_under_the_path_of_the_layer() -> None:
    x, _ = blobs()
    net = _built(FromFlax(LinenBlock()))
    keys = [jax.random.fold_in(host_source(0, "body.").key(), k) for k in range(2)]
    variables = LinenBlock().init({"params": keys[0], "dropout": keys[1]}, x)
    kernel = net.get_params()["body.Dense_1.kernel"].to_numpy()
    np.testing.assert_allclose(kernel, variables["params"]["Dense_1"]["kernel"], rtol=1e-6)
    again = _built(FromFlax(LinenBlock()))
    np.testing.assert_array_equal(again.get_params()["body.Dense_1.kernel"].to_numpy(), kernel)
    sx.device.set_seed(1)
    other = _built(FromFlax(LinenBlock()))
    assert np.abs(other.get_params()["body.Dense_1.kernel"].to_numpy() - kernel).max() > 0.01


def test_nnx_draws_with_flax_initialisers_under_the_path_of_the_layer() -> None:
    net = _built(FromFlax(NNXBlock, 5))
    expected = NNXBlock(5, rngs=nnx.Rngs(host_source(0, "body.").key()))
    for name, variable in (("first.kernel", expected.first.kernel), ("last.0.kernel", expected.last[0].kernel)):
        np.testing.assert_allclose(net.get_params()[f"body.{name}"].to_numpy(), variable[...], rtol=1e-6)


def test_nnx_computes_what_flax_computes() -> None:
    x, _ = blobs()
    module = NNXBlock(5, rngs=nnx.Rngs(3))
    body = FromFlax(module)
    out = body(Tensor(data=x))
    reference = nnx.clone(module)
    reference.eval()
    np.testing.assert_allclose(out.to_numpy(), reference(x), rtol=1e-5, atol=1e-6)
    reference.train()
    reference.drop.rate = 0.0
    reference(x)
    autograd.training = True
    body(Tensor(data=x))
    np.testing.assert_allclose(body.get_states()["norm.var"].to_numpy(), reference.norm.var[...], rtol=1e-5)
    np.testing.assert_array_equal(module.norm.var[...], np.ones(7))


@every_kind
def test_eager_equals_compiled_and_copies_go_on_alike(make: Any) -> None:
    x, y = blobs()
    found = []
    for use_graph in (True, False):
        sx.device.set_seed(2)
        net = _built(make(), use_graph=use_graph)
        losses = [float(net(x, y)[1]) for _ in range(3)]
        net.eval()
        found.append((losses, net(x).to_numpy(), net))
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-5)
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-3, atol=1e-5)
    net = found[0][2]
    net.train()
    other = copy.deepcopy(net)
    net(x, y)
    other(x, y)
    assert_equal_states(states(net), states(other))
    fresh = _built(make())
    fresh.set_states({path: np.asarray(t.data) for path, t in net.get_states().items()})
    fresh.eval()
    net.eval()
    np.testing.assert_array_equal(fresh(x).to_numpy(), net(x).to_numpy())


@every_kind
def test_functional(make: Any) -> None:
    x, y = blobs()
    net = _built(make())
    init, apply = net.functional()
    drawn = {path: t.to_numpy() for path, t in net.get_states().items()}
    for path, value in init(0, x).items():
        np.testing.assert_allclose(value, drawn[path], rtol=1e-6, err_msg=path)
    key = jax.random.key(4)
    variables = init(key, x)
    fresh = Net(make())
    jitted = jax.jit(lambda key: fresh.functional().init(key, x))(key)
    assert_no_tracers(fresh)
    for path, value in variables.items():
        np.testing.assert_allclose(value, jitted[path], rtol=1e-6, err_msg=path)
    with pytest.raises(sx.errors.NameMismatchError, match="pass key="):
        apply(variables, x, train=True)
    apply(variables, x)
    outs = [apply(variables, x, train=True, key=jax.random.key(k))[0] for k in (0, 0, 1)]
    np.testing.assert_array_equal(outs[0], outs[1])
    assert not np.array_equal(outs[0], outs[2])
    step = net.functional_step()
    final, _ = jax.lax.scan(lambda s, _: step(s, x, y), step.init(0, x, y), None, length=2)
    for _ in range(2):
        net(x, y)
    for path, value in states(net).items():
        np.testing.assert_allclose(final[path], value, rtol=1e-3, atol=1e-5, err_msg=path)


@every_kind
def test_repeated_and_rematerialised(make: Any) -> None:
    x, y = blobs()
    found = []
    for wrap in (lambda m: Repeat(m, 2, remat=True), lambda m: sx.layer.Sequential(Remat(m()), m())):
        net = _built(wrap(make))
        first = {path: t.to_numpy() for path, t in net.get_states().items()}
        found.append((first, [float(net(x, y)[1]) for _ in range(2)], states(net)))
    for k in (0, 2):
        for path, value in found[0][k].items():
            if path.startswith("body."):
                for i in range(2):
                    separate = found[1][k][path.replace("body.", f"body.{i}.")]
                    np.testing.assert_allclose(value[i], separate, rtol=1e-3, atol=1e-5, err_msg=path)
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-5)


def test_a_module_without_random_numbers_draws_none() -> None:
    x, _ = blobs()
    still = FromFlax(nn.Dropout(0.5), kwargs={"deterministic": True})
    for body in (FromFlax(nn.Dense(5)), FromFlax(nnx.Linear, 5, 5), still):
        init, apply = Net(body).functional()
        apply(init(0, x), x, train=True)


@pytest.mark.parametrize("name", ["train", "training", "is_training", "deterministic", "use_running_average"])
def test_the_mode_reaches_the_module(name: str) -> None:
    calls = {
        "train": lambda self, x, train: x + train,
        "training": lambda self, x, training: x + training,
        "is_training": lambda self, x, is_training=None: x + is_training,
        "deterministic": lambda self, x, *, deterministic: x + deterministic,
        "use_running_average": lambda self, x, use_running_average: x + use_running_average,
    }
    told = type("Told", (nn.Module,), {"__call__": calls[name]})
    layer = FromFlax(told())
    x = Tensor(data=np.zeros(2, np.float32))
    inverted = name in ("deterministic", "use_running_average")
    for flag in (False, True):
        autograd.training = flag
        assert layer(x).to_numpy().tolist() == [float(flag != inverted)] * 2
        assert layer(x, **{name: False}).to_numpy().tolist() == [0, 0]
        assert FromFlax(told(), kwargs={name: True})(x).to_numpy().tolist() == [1, 1]


def test_a_field_of_the_module_decides() -> None:
    x = Tensor(data=np.ones((4, 3), np.float32))
    autograd.training = True
    layer = FromFlax(nn.BatchNorm(use_running_average=True))
    np.testing.assert_allclose(layer(x).to_numpy(), 1, rtol=1e-4)
    told = FromFlax(nn.BatchNorm())
    np.testing.assert_allclose(told(x).to_numpy(), 0, atol=1e-4)


def test_other_streams_and_methods() -> None:
    class Noisy(nn.Module):
        def __call__(self, x: jax.Array) -> jax.Array:
            return x + jax.random.normal(self.make_rng("noise"), x.shape)

        def twice(self, x: jax.Array) -> jax.Array:
            return 2 * x

    x = Tensor(data=np.zeros(3, np.float32))
    with pytest.raises(ArgumentError, match=r"name all of them in rngs\. Received: rngs=\('dropout',\)"):
        FromFlax(Noisy())(x)
    noisy = FromFlax(Noisy(), rngs="noise")
    assert not np.array_equal(noisy(x).to_numpy(), noisy(x).to_numpy())
    assert FromFlax(Noisy, method="twice")(Tensor(data=np.float32([3]))).to_numpy().tolist() == [6]

    class Plain(nnx.Module):
        def half(self, x: jax.Array) -> jax.Array:
            return x / 2

    assert FromFlax(Plain, method="half")(Tensor(data=np.float32([3]))).to_numpy().tolist() == [1.5]


def test_a_state_that_changes_in_evaluation_mode() -> None:
    class Counter(nn.Module):
        @nn.compact
        def __call__(self, x: jax.Array) -> jax.Array:
            count = self.variable("cache", "count", lambda: jnp.zeros((), jnp.int32))
            if not self.is_initializing():
                count.value = count.value + 1
            return x + count.value

    x = np.zeros((2, 5), np.float32)
    net = _built(FromFlax(Counter()), is_train=False)
    for expected in (1, 2, 3):
        net(x)
        assert net.get_states()["body.cache.count"].item() == expected


def test_partitioned_parameters_are_plain_arrays() -> None:
    layer = FromFlax(nn.Dense(3, kernel_init=nn.with_partitioning(nn.initializers.lecun_normal(), ("a", "b"))))
    assert layer(Tensor(data=np.ones((2, 4), np.float32))).shape == (2, 3)
    assert sorted(layer.get_params()) == ["bias", "kernel"]


def test_mixed_precision() -> None:
    x, y = blobs()
    net = _built(FromFlax(LinenBlock()), precision="bfloat16")
    losses = [float(net(x, y)[1]) for _ in range(5)]
    assert losses[-1] < losses[0]
    assert {str(t.dtype) for t in net.get_states().values()} == {"float32"}


def test_gradients_are_those_of_flax() -> None:
    autograd.training = True
    x = blobs()[0]
    layer = FromFlax(nn.Dense(3))
    layer(Tensor(data=x))
    pairs = autograd.backward(autograd.reduce_sum(autograd.sin(layer(Tensor(data=x)))))
    ours = {tensor.name: gradient.to_numpy() for tensor, gradient in pairs}
    params = {name: jnp.asarray(t.to_numpy()) for name, t in layer.get_params().items()}
    theirs = jax.grad(lambda p: jnp.sin(nn.Dense(3).apply({"params": p}, x)).sum())(params)
    assert sorted(ours) == ["bias", "kernel"]
    for name, value in theirs.items():
        np.testing.assert_allclose(ours[name], value, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: FromFlax(jnp.sin), "Received: .*ufunc|Received: function|Received: PjitFunction"),
        (lambda: FromFlax(int), "Received: type"),
        (lambda: FromFlax(nn.Dense(3), 4), "Dense with 1 arguments"),
    ],
)
def test_what_is_no_module_is_refused(make: Any, match: str) -> None:
    with pytest.raises(ArgumentError, match=match):
        make()


def test_a_variable_named_like_an_attribute_is_refused() -> None:
    class Bad(nn.Module):
        @nn.compact
        def __call__(self, x: jax.Array) -> jax.Array:
            return x * self.param("forward", nn.initializers.ones, (5,))

    layer = FromFlax(Bad())
    with pytest.raises(ArgumentError, match="Received: 'forward'"):
        layer.infer_shape((2, 5))
    assert layer._plan is None
