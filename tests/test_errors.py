"""Bad input: one clear exception that names the layer and the shapes, and nothing half-changed."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from models import MLP, Trained, blobs, states

import singax as sx
from singax import layer


class Stack(sx.Module):
    """Two blocks, so that paths are longer than a name."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = [MLP(), MLP()]

    def forward(self, x: jax.Array) -> jax.Array:
        return self.blocks[1](self.blocks[0](x))


def test_wrong_shape_names_the_layer_and_the_shapes() -> None:
    net = Stack()
    net.compile([sx.Placeholder((4, 5))], is_train=False)
    with pytest.raises(sx.errors.ShapeError) as caught:
        net(np.ones((4, 6), np.float32))
    message = str(caught.value)
    assert "blocks.0.fc1 (Linear)" in message
    assert "(…, 5)" in message
    assert "(4, 6)" in message


def test_an_error_of_jax_names_the_layer_once() -> None:
    class Broken(MLP):
        def forward(self, x: jax.Array) -> jax.Array:
            return jnp.dot(super().forward(x), x)

    with pytest.raises(TypeError) as caught:
        Broken().compile([sx.Placeholder((4, 5))])
    notes = [note for note in caught.value.__notes__ if note.startswith("in layer")]
    assert notes == ["in layer Broken, called with float32[4, 5]"]


def test_a_failing_build_leaves_nothing_half_initialised() -> None:
    class Late(sx.Module):
        fail = True

        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = layer.Linear(4), layer.Linear(4)

        def forward(self, x: jax.Array) -> jax.Array:
            y = self.a(x)
            return self.b(jnp.concatenate([y, y]) if not self.fail else y.reshape(3, 5))

    net = Late()
    with pytest.raises(TypeError):
        net.compile([sx.Placeholder((4, 5))])
    assert not net.a._initialized
    assert "W" not in net.a.__dict__
    with pytest.raises(sx.errors.UninitializedError):
        net.get_params()
    net.fail = False
    net.compile([sx.Placeholder((4, 5))], is_train=False)
    assert net(np.ones((4, 5), np.float32)).shape == (8, 4)


def test_unknown_initializer_name() -> None:
    class Named(MLP):
        def __init__(self) -> None:
            super().__init__()
            self.fc2 = layer.Linear(3, kernel_init="he_unifrom")

    net = Named()
    with pytest.raises(sx.errors.NameMismatchError, match=r"fc2 \(Linear\): .*'he_unifrom'; known: .*he_uniform"):
        net.compile([sx.Placeholder((4, 5))])
    assert not net.fc1._initialized


def test_a_layer_never_used() -> None:
    class Forgotten(MLP):
        def __init__(self) -> None:
            super().__init__()
            self.spare = layer.Linear(3)

    x, y = blobs()
    net = Forgotten()
    net.compile([x])
    with pytest.raises(sx.errors.UnusedLayerError, match=r"spare \(Linear\)"):
        net(x, y)
    with pytest.raises(sx.errors.UninitializedError, match=r"spare \(Linear\)"):
        net.spare.get_params()

    class Inference(sx.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.spare = layer.Linear(2), layer.Linear(3)

        def forward(self, x: jax.Array) -> jax.Array:
            return self.used(x)

    only = Inference()
    with pytest.raises(sx.errors.UnusedLayerError, match=r"spare \(Linear\)"):
        only.compile([sx.Placeholder((2, 2))], is_train=False)
    assert not only.used._initialized


def test_none_where_a_size_is_needed() -> None:
    class Flat(sx.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = layer.Linear(2)

        def forward(self, x: jax.Array) -> jax.Array:
            return self.fc(x.reshape(1, -1))

    with pytest.raises(sx.errors.ShapeError, match=r"parameter fc\.W of Flat depends on a size that is None"):
        Flat().compile([sx.Placeholder((None, 5))], is_train=False)
    net = MLP()
    with pytest.raises(sx.errors.UnfilledError, match="x"):
        net(sx.Placeholder((None, 5), name="x"), np.zeros(3, np.int32))


def test_infer_shape_of_what_is_left_out_and_of_what_is_no_shape() -> None:
    attend = sx.layer.MultiHeadAttention(2)
    assert attend.infer_shape((3, 5, 8), None, None) == attend.infer_shape((3, 5, 8)) == (3, 5, 8)
    for wrong in ("3, 5, 8", 8, {3, 5}):
        with pytest.raises(sx.errors.ArgumentError, match="infer_shape takes tuples of sizes"):
            attend.infer_shape(wrong)


def test_infer_shape_with_unknown_sizes() -> None:
    assert layer.Linear(4).infer_shape((None, 5)) == (None, 4)
    assert layer.Linear(4).infer_shape((2, None, 5)) == (2, None, 4)
    assert layer.Conv2d(4, 11, stride=4).infer_shape((None, 1, None, None)) == (None, 4, None, None)
    assert layer.Flatten().infer_shape((None, 3, 4)) == (None, 12)
    assert layer.AvgPool2d(16, pad_mode="SAME_UPPER").infer_shape((None, 1, None, None)) == (None, 1, None, None)
    assert MLP().infer_shape((None, 5)) == (None, 3)
    model = MLP()
    model.infer_shape((7, 5))
    assert not model.fc1._initialized
    hs, h, c = layer.LSTM(5, 6).infer_shape((None, 4, 5))
    assert (hs, h, c) == ((None, 4, 6), (4, 6), (4, 6))
    assert layer.Embedding(10, 3).infer_shape((None, 7)) == (None, 7, 3)
    with pytest.raises(sx.errors.ShapeError, match="Conv2d"):
        layer.Conv2d(4, 3).infer_shape((1, 3))


def test_step_argument_errors_change_nothing() -> None:
    x, y = blobs()
    net = MLP()
    net.compile([x])
    net(x, y)
    before = states(net)
    for bad in ((x, y[:3]), (x[:, :2], y), (x.astype(np.int32)[:, :0], y)):
        with pytest.raises((sx.errors.SingaxError, TypeError, ValueError)):
            net(*bad)
    for path, value in states(net).items():
        np.testing.assert_array_equal(value, before[path])


def test_layers_made_in_forward() -> None:
    class Fresh(sx.Module):
        def forward(self, x: jax.Array) -> jax.Array:
            return layer.Linear(3)(x)

    net = Fresh()
    net.compile([sx.Placeholder((2, 2))], is_train=False)
    with pytest.raises(sx.errors.StateError, match="Create layers in __init__"):
        net(np.ones((2, 2), np.float32))


def test_compile_arguments() -> None:
    for bad in ([], None, 3):
        with pytest.raises(sx.errors.ArgumentError, match="non-empty list"):
            MLP().compile(bad)


def test_state_that_changes_its_shape() -> None:
    class Growing(MLP):
        def __init__(self) -> None:
            super().__init__()
            self.cache = sx.Tensor((1, 2), requires_grad=False).set_value(0.0)

        def train_one_batch(self, x: Any, y: Any) -> Any:
            self.cache = sx.autograd.cat([self.cache, self.cache])
            return super().train_one_batch(x, y)

    x, y = blobs()
    net = Growing()
    net.compile([x])
    with pytest.raises(sx.errors.ShapeError, match=r"'cache' has shape \(1, 2\) and cannot become \(2, 2\)"):
        net(x, y)


def test_a_foreign_tensor_cannot_be_changed_by_a_step() -> None:
    outside = sx.Tensor(data=[0.0])

    class Foreign(MLP):
        def train_one_batch(self, x: Any, y: Any) -> Any:
            outside.copy_data(outside + 1.0)
            return super().train_one_batch(x, y)

    x, y = blobs()
    net = Foreign()
    net.compile([x])
    with pytest.raises(sx.errors.StateError, match="make it an attribute"):
        net(x, y)
    assert float(outside) == 0.0


def test_keyword_only_and_any_order_calls() -> None:
    class Two(sx.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = layer.Linear(3)

        def forward(self, x: jax.Array, mask: Any = None, scale: float = 1.0) -> Any:
            y = self.fc(x=x) * scale
            return y if mask is None else (y * mask, mask)

    net = Two()
    x = np.ones((2, 4), np.float32)
    net.eval()
    plain = net(x=x)
    masked, mask = net(mask=np.zeros((2, 1), np.float32), x=x)
    assert plain.shape == masked.shape == (2, 3)
    assert float(abs(masked.to_numpy()).max()) == 0.0
    assert mask.shape == (2, 1)
    np.testing.assert_allclose(net(x, scale=2.0).to_numpy(), 2 * plain.to_numpy(), rtol=1e-6)
    free = layer.Linear(3)
    assert free(x=sx.from_numpy(x)).shape == (2, 3)


def test_devices() -> None:
    assert sx.device.create_cpu_device() == sx.device.create_cpu_device()
    assert sx.device.get_default_device().id() == -1
    for missing in (
        sx.device.create_cuda_gpu,
        lambda: sx.device.create_cuda_gpu_on(1),
        lambda: sx.device.create("tpu:0"),
    ):
        with pytest.raises(sx.errors.DeviceNotFoundError, match="on this machine"):
            missing()
    with pytest.raises(sx.errors.ArgumentError, match="named 'platform'"):
        sx.device.create("cpu:x")
    for bad in (-1, 1.5, True, "1"):
        with pytest.raises(sx.errors.ArgumentError, match="the seed"):
            sx.device.set_seed(bad)


def test_multi_input_multi_output() -> None:
    class Many(Trained):
        def __init__(self) -> None:
            super().__init__()
            self.fc = layer.Linear(3)

        def forward(self, pair: Any, extra: jax.Array) -> Any:
            a, b = pair
            return {"sum": self.fc(a + b), "extra": extra}

        def train_one_batch(self, pair: Any, extra: Any, y: Any) -> Any:
            out = self.forward(pair, extra)
            loss = self.loss(out["sum"], y)
            self.optimizer(loss)
            return out, loss

    x, y = blobs()
    net = Many()
    net.compile([[sx.Placeholder((None, 5)), sx.Placeholder((None, 5))], sx.Placeholder((None,))])
    first = float(net([x, x], y, y)[1])
    out, loss = net([x, x], y, y)
    assert float(loss) < first
    np.testing.assert_array_equal(out["extra"].to_numpy(), y)
    assert len(net.compilations) == 1
