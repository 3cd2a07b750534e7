"""Repeat: the numbers of separate blocks from one program of constant size."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from models import Trained, assert_equal_states, assert_no_tracers, blobs, states

import singax as sx
from singax import autograd, layer, opt
from singax.errors import ArgumentError, DTypeError, NameMismatchError, ShapeError, StateError
from singax.layer import BatchNorm2d, Dropout, Linear, Remat, Repeat
from singax.tensor import Tensor

N = 3


class Block(layer.Layer):
    """Parameters, states and random numbers."""

    def __init__(self, size: int = 5) -> None:
        super().__init__()
        self.fc1, self.norm, self.drop, self.fc2 = Linear(7), BatchNorm2d(), Dropout(0.3), Linear(size)

    def forward(self, x: jax.Array, scale: Any = None) -> jax.Array:
        y = self.fc2(self.drop(jnp.tanh(self.norm(self.fc1(x)))))
        return x + (y if scale is None else y * scale)


class Plain(layer.Layer):
    """Without a bias in front of a norm, whose gradient is nothing but rounding errors that Adam blows up."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.drop = Linear(5), Dropout(0.3)

    def forward(self, x: jax.Array) -> jax.Array:
        return x + self.drop(jnp.tanh(self.fc(x)))


class Separate(layer.Layer):
    """What Repeat stands for."""

    def __init__(self, make: Callable[[], layer.Layer], n: int) -> None:
        super().__init__()
        self.register_layers({str(i): make() for i in range(n)})

    def forward(self, x: Any, *extra: Any, **options: Any) -> Any:
        for block in self._registered.values():
            x = block(x, *extra, **options)
        return x


class Net(Trained):
    def __init__(self, blocks: layer.Layer, optimizer: Any = None) -> None:
        super().__init__(optimizer)
        self.first, self.blocks, self.drop, self.head = Dropout(0.1), blocks, Dropout(0.2), Linear(3)

    def forward(self, x: jax.Array) -> jax.Array:
        return self.head(self.drop(self.blocks(self.first(x))))


def stacked(found: dict[str, Any], name: str = "blocks", n: int = N) -> dict[str, np.ndarray]:
    """States of separate blocks under the paths, and in the shapes, of Repeat."""
    out = {}
    for path, value in found.items():
        parts = path.split(f"{name}.0.")
        if len(parts) == 2:
            out[f"{parts[0]}{name}.{parts[1]}"] = np.stack([
                found[path.replace(f"{name}.0.", f"{name}.{i}.")] for i in range(n)
            ])  # fmt: skip
        elif f"{name}." not in path:
            out[path] = np.asarray(value)
    return out


def trained(blocks: layer.Layer, use_graph: bool = True, optimizer: Any = None) -> tuple[Any, ...]:
    x, y = blobs()
    net = Net(blocks, optimizer)
    net.compile([sx.Placeholder((None, 5))], use_graph=use_graph)
    before = {path: tensor.to_numpy() for path, tensor in net.get_states().items()}
    losses = [float(net(x, y)[1]) for _ in range(3)]
    assert_no_tracers(net)
    after = states(net)
    net.eval()
    return before, losses, after, net(x).to_numpy()


def assert_alike(separate: tuple[Any, ...], repeated: tuple[Any, ...]) -> None:
    assert_equal_states(stacked(separate[0]), repeated[0])
    np.testing.assert_allclose(separate[1], repeated[1], rtol=1e-5)
    expected = stacked(separate[2])
    assert sorted(expected) == sorted(repeated[2])
    for path, value in expected.items():
        np.testing.assert_allclose(value, repeated[2][path], rtol=1e-4, atol=1e-5, err_msg=path)
    np.testing.assert_array_equal(expected["rng"], repeated[2]["rng"])
    np.testing.assert_allclose(separate[3], repeated[3], rtol=1e-4, atol=1e-5)


WAYS: dict[str, Callable[[], layer.Layer]] = {
    "factory": lambda: Repeat(Block, N),
    "block": lambda: Repeat(Block(5), N),
    "remat": lambda: Repeat(Block, N, remat=True),
    "policy": lambda: Repeat(Block, N, remat="dots_saveable", unroll=2),
    "unrolled": lambda: Repeat(Block, N, unroll=True),
    "rematted": lambda: Repeat(lambda: Remat(Block()), N),
    "outside": lambda: Remat(Repeat(Block, N)),
}


@pytest.mark.parametrize("make", WAYS.values(), ids=WAYS)
def test_the_same_numbers_as_separate_blocks(make: Any) -> None:
    """Initial values bit for bit; losses, masks, running statistics, gradients and momentum over three steps."""
    assert_alike(trained(Separate(Block, N)), trained(make()))


def test_eager_and_adam() -> None:
    separate = trained(Separate(Plain, N), optimizer=opt.Adam(0.01))
    assert_alike(separate, trained(Repeat(Plain, N), optimizer=opt.Adam(0.01), use_graph=False))


class Twice(layer.Layer):
    """A block with repeated blocks inside."""

    def __init__(self, inner: Callable[[], layer.Layer]) -> None:
        super().__init__()
        self.inner, self.fc = inner(), Linear(5)

    def forward(self, x: jax.Array) -> jax.Array:
        return jnp.tanh(self.fc(self.inner(x)))


def test_nested() -> None:
    separate = trained(Separate(lambda: Twice(lambda: Separate(Block, 2)), N))
    repeated = trained(Repeat(lambda: Twice(lambda: Repeat(Block, 2, remat=True)), N))
    assert repeated[0]["blocks.inner.fc1.W"].shape == (N, 2, 5, 7)
    inner = {k: stacked(separate[k], "inner", 2) for k in (0, 2)}
    assert_alike((inner[0], separate[1], inner[2], separate[3]), repeated)


def test_functional_init_from_a_key_or_seed() -> None:
    x, _ = blobs()
    separate, repeated = Net(Separate(Block, N)), Net(Repeat(Block, N))
    for start in (0, jax.random.key(5)):
        expected = stacked(separate.functional().init(start, x))
        found = jax.jit(lambda x, start=start: repeated.functional().init(start, x))(x)
        assert sorted(found) == sorted(expected)
        for path, value in expected.items():
            np.testing.assert_allclose(value, found[path], rtol=1e-6, err_msg=path)


def test_functional_gradients_and_states() -> None:
    x, _ = blobs()
    found = []
    for blocks in (Separate(Block, N), Repeat(Block, N)):
        init, apply = Net(blocks).functional()

        def loss(v: Any, apply: Any = apply) -> Any:
            out, new = apply(v, x, train=True, key=jax.random.key(7))
            return (out**2).mean(), new

        (value, new), grads = jax.jit(jax.value_and_grad(loss, has_aux=True))(init(0, x))
        found.append((value, new, grads))
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-5)
    for separate, repeated in zip(found[0][1:], found[1][1:], strict=True):
        for path, value in stacked(separate).items():
            np.testing.assert_allclose(value, repeated[path], rtol=1e-4, atol=1e-6, err_msg=path)


def test_the_program_and_the_build_do_not_grow() -> None:
    """A step of 24 blocks has as many equations as one of 2, and a block runs as often."""

    class Counting(Block):
        runs = 0

        def forward(self, x: jax.Array, scale: Any = None) -> jax.Array:
            Counting.runs += 1
            return super().forward(x, scale)

    x, y = blobs()
    found = []
    for n in (2, 24):
        Counting.runs = 0
        net = Net(Repeat(Counting, n))
        net.compile([x])
        built = Counting.runs
        step = net.functional_step()
        state = step.init(0, x, y)
        Counting.runs = 0
        found.append((str(jax.make_jaxpr(step)(state, x, y)).count(" = "), built, Counting.runs))
    assert found[0] == found[1]
    assert found[0][1] == 1


def test_arguments_for_all_blocks() -> None:
    x, _ = blobs()
    x = Tensor(data=x)
    outs = []
    repeated, separate = Repeat(Block, N), Separate(Block, N)
    for blocks in (repeated, separate):
        blocks(x)
    separate.set_states(repeated.unstacked_states())
    for blocks in (repeated, separate):
        outs.append([
            blocks(x, Tensor(data=[0.5])).to_numpy(), blocks(x, scale=Tensor(data=[0.25])).to_numpy(),
            blocks(x, 2.0).to_numpy(), blocks(x, None).to_numpy(),
        ])  # fmt: skip
    for a, b in zip(*outs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_a_tuple_as_input() -> None:
    class Pair(layer.Layer):
        def initialize(self, pair: Any, step: Any) -> None:
            self.w = self.param((4,), "uniform")

        def forward(self, pair: Any, step: Any) -> Any:
            a, b = pair["a"], pair["b"]
            return {"a": a + self.w.data * b, "b": b + step}

    blocks = Repeat(Pair, N)
    a, b = blocks({"a": Tensor(data=np.zeros(4)), "b": Tensor(data=np.int32(1))}, Tensor(data=np.int32(2))).values()
    w = blocks.get_params()["w"].to_numpy()
    np.testing.assert_allclose(a.to_numpy(), w[0] + 3 * w[1] + 5 * w[2], rtol=1e-6)
    assert b.item() == 7


def test_names_shapes_and_exchange() -> None:
    net = Net(Repeat(Block, N))
    net.compile([sx.Placeholder((None, 5))])
    shapes = {path: t.shape for path, t in net.get_states().items() if path.startswith("blocks.")}
    assert shapes == {
        "blocks.fc1.W": (N, 5, 7), "blocks.fc1.b": (N, 7), "blocks.fc2.W": (N, 7, 5), "blocks.fc2.b": (N, 5),
        "blocks.norm.scale": (N, 7), "blocks.norm.bias": (N, 7),
        "blocks.norm.running_mean": (N, 7), "blocks.norm.running_var": (N, 7),
    }  # fmt: skip
    w = np.arange(N * 35, dtype=np.float32).reshape(N, 5, 7)
    net.set_params({"blocks.fc1.W": w})
    assert net.blocks.layer.fc1.W.to_numpy().tolist() == w.tolist()
    flat = net.blocks.unstacked_states()
    assert sorted(flat)[:2] == ["0.fc1.W", "0.fc1.b"]
    np.testing.assert_array_equal(flat["2.fc1.W"], w[2])
    net.blocks.set_unstacked_states({name: value + 1 for name, value in flat.items()})
    np.testing.assert_array_equal(net.blocks.layer.fc1.W.to_numpy(), w + 1)
    net.blocks.set_unstacked_states({f"{i}.fc1.b": np.full(7, i, np.float32) for i in range(N)})
    assert net.blocks.layer.fc1.b.to_numpy()[:, 0].tolist() == [0, 1, 2]
    with pytest.raises(NameMismatchError, match=r"missing: 1\.fc1\.b; unknown: 3\.fc1\.b"):
        net.blocks.set_unstacked_states({f"{i}.fc1.b": np.zeros(7) for i in (0, 2, 3)})
    with pytest.raises(ShapeError, match="block 1"):
        net.blocks.set_unstacked_states({f"{i}.fc1.b": np.zeros(7 + (i == 1)) for i in range(N)})


def test_infer_shape_leaves_nothing_behind() -> None:
    blocks = Repeat(Block, N)
    assert blocks.infer_shape((None, 5)) == (None, 5)
    assert not blocks._initialized
    assert not blocks._stacked
    x, y = blobs()
    net = Net(blocks)
    net.compile([x])
    first = net.blocks.layer.fc1.W.to_numpy()
    assert blocks.infer_shape((None, 5)) == (None, 5)
    net.compile([sx.Placeholder((None, 5))])
    np.testing.assert_array_equal(net.blocks.layer.fc1.W.to_numpy(), first)
    net(x, y)


def test_values_from_a_constructor_are_the_same_in_all_blocks() -> None:
    class Constant(layer.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.w = Tensor(data=np.float32([1, 2]), stores_grad=True)
            self.count = Tensor((1,), requires_grad=False)

        def forward(self, x: jax.Array) -> jax.Array:
            self.count.data = x[:1]
            return x * self.w.data

    blocks = Repeat(Constant(), N)
    out = blocks(Tensor(data=np.float32([1, 1])))
    assert out.to_numpy().tolist() == [1, 8]
    assert blocks.layer.w.to_numpy().tolist() == [[1, 2]] * N
    assert blocks.layer.count.to_numpy().tolist() == [[1.0]] * N


def block_of(blocks: Repeat) -> Block:
    """The first block by itself."""
    block = Block()
    block(Tensor((2, 5)).set_value(0))
    block.set_states({
        path.removeprefix("0."): v for path, v in blocks.unstacked_states().items() if path.startswith("0.")
    })  # fmt: skip
    return block


def test_a_block_that_was_built_already_is_copied() -> None:
    x = Tensor(data=blobs()[0])
    block = Block()
    once = block(x).to_numpy()
    w = block.fc1.W.to_numpy()
    blocks = Repeat(block, N)
    out = blocks(x)
    assert blocks.get_params()["fc1.W"].to_numpy().tolist() == [w.tolist()] * N
    expected = x
    for _ in range(N):
        expected = block_of(blocks)(expected)
    np.testing.assert_allclose(out.to_numpy(), expected.to_numpy(), rtol=1e-5, atol=1e-6)
    assert not np.allclose(out.to_numpy(), once)


def test_what_the_model_holds_elsewhere_is_shared() -> None:
    class Scaled(layer.Layer):
        def __init__(self, scale: layer.Layer) -> None:
            super().__init__()
            self.scale, self.fc = scale, Linear(5)

        def forward(self, x: jax.Array) -> jax.Array:
            return jnp.tanh(self.scale(self.fc(x)))

    class Model(Net):
        def __init__(self, wrap: Callable[[Callable[[], layer.Layer]], layer.Layer]) -> None:
            scale = Linear(5)
            super().__init__(wrap(lambda: Scaled(scale)))
            self.scale = scale

        def forward(self, x: jax.Array) -> jax.Array:
            return self.head(self.scale(self.blocks(x)))

    x, y = blobs()
    found = []
    for wrap in (lambda make: Separate(make, N), lambda make: Repeat(make, N)):
        net = Model(wrap)
        net.compile([x])
        w = net.scale.W.to_numpy() * 0 + np.eye(5, dtype=np.float32)
        net.scale.W.copy_from_numpy(w)
        losses = [float(net(x, y)[1]) for _ in range(3)]
        found.append((losses, net.scale.W.to_numpy()))
    assert found[1][1].shape == (5, 5)
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-5)
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-4, atol=1e-6)


def test_a_shared_state_may_not_be_assigned() -> None:
    class Model(Net):
        def __init__(self) -> None:
            norm = BatchNorm2d()
            super().__init__(Repeat(norm, N))
            self.norm = norm

    x, y = blobs()
    net = Model()
    net.compile([x])
    with pytest.raises(StateError, match="not part of the layer"):
        net(x, y)
    assert_no_tracers(net)


def test_a_layer_that_only_evaluation_calls() -> None:
    class Late(layer.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.early, self.late = Linear(5), Linear(5)

        def forward(self, x: jax.Array) -> jax.Array:
            return self.early(x) if sx.mode.training else self.late(x)

    x = Tensor(data=blobs()[0])
    blocks = Repeat(Late, N)
    autograd.training = True
    blocks(x)
    early = blocks.layer.early.W.to_numpy()
    autograd.training = False
    blocks(x)
    assert blocks.layer.late.W.shape == (N, 5, 5)
    np.testing.assert_array_equal(blocks.layer.early.W.to_numpy(), early)


def test_initialize_from_outside() -> None:
    blocks = Repeat(Block, N)
    blocks.initialize(sx.Placeholder((2, 5)))
    assert blocks.get_params()["fc1.W"].shape == (N, 5, 7)
    assert len({float(v) for v in blocks.get_params()["fc1.W"].to_numpy()[:, 0, 0]}) == N


def test_deep_copy() -> None:
    x, y = blobs()
    net = Net(Repeat(Block, N))
    net.compile([x])
    net(x, y)
    other = copy.deepcopy(net)
    net(x, y)
    other(x, y)
    assert_equal_states(states(net), states(other))
    assert other.blocks.layer.fc1.W is not net.blocks.layer.fc1.W


def test_mixed_precision() -> None:
    x, y = blobs()
    losses = []
    for blocks in (Separate(Block, N), Repeat(Block, N, remat=True)):
        net = Net(blocks)
        net.compile([x], precision="bfloat16")
        losses.append([float(net(x, y)[1]) for _ in range(2)])
        assert {str(t.dtype) for t in net.get_params().values()} == {"float32"}
    np.testing.assert_allclose(*losses, rtol=0.02)


@pytest.mark.parametrize("bad", [0, -1, 1.5, True, "3", None])
def test_a_bad_number_is_refused(bad: Any) -> None:
    with pytest.raises(ArgumentError, match="n must be"):
        Repeat(Block, bad)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: Repeat(jnp.sin, 2), "sin|positional"),
        (lambda: Repeat(3, 2), "expected a layer"),
        (lambda: Repeat(lambda: 3, 2), "expected a layer"),
        (lambda: Repeat(Block, 2, unroll=0), "unroll must be"),
        (lambda: Repeat(Block, 2, remat="x"), "expected a policy"),
    ],
)
def test_bad_arguments_are_refused(make: Any, match: str) -> None:
    with pytest.raises((ArgumentError, TypeError), match=match):
        make()


@pytest.mark.parametrize("built", [False, True])
def test_a_block_that_changes_the_shape_is_refused(built: bool) -> None:
    class Grow(layer.Layer):
        width = 5

        def forward(self, x: jax.Array) -> Any:
            return jnp.zeros((x.shape[0], self.width))

    x = Tensor(data=blobs()[0])
    blocks = Repeat(Grow, N)
    if built:
        blocks(x)
        blocks.layer.width = 6
    else:
        blocks.layer.width = 6
    with pytest.raises(ShapeError, match=r"float32\[16, 5\].*Received from it: float32\[16, 6\]"):
        blocks(x)


def test_a_block_that_changes_the_dtype_is_refused() -> None:
    with pytest.raises(DTypeError, match=r"int32\[2\].*Received from it: float32\[2\]"):
        Repeat(layer.Lambda(lambda x: x / 2), 2)(Tensor(data=np.int32([1, 2])))


@pytest.mark.parametrize("inputs", [(), (None,), (1.0,)])
def test_what_is_no_array_is_refused(inputs: Any) -> None:
    with pytest.raises(ArgumentError, match="Received"):
        Repeat(layer.Lambda(lambda x: x), 2)(*inputs)
