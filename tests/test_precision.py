"""Mixed precision: float32 parameters, narrow computation, wide norms and losses."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from models import Trained, assert_equal_states, images, states

import singax as sx
from singax.errors import ArgumentError

SEEN: dict[str, Any] = {}


class Spy(sx.layer.Layer):
    """A layer that notes the dtypes which it gets."""

    def initialize(self, x: jax.Array) -> None:
        self.gain = self.param(x.shape[-1:], "ones", x.dtype)

    def forward(self, x: jax.Array) -> jax.Array:
        SEEN.update(input=x.dtype, parameter=self.gain.data.dtype)
        return x * self.gain


class Norm(sx.layer.LayerNorm):
    """A norm that notes the dtype of its parameter."""

    def forward(self, x: jax.Array) -> jax.Array:
        SEEN.update(norm=self.scale.data.dtype, into_norm=x.dtype)
        return super().forward(x)


class Net(Trained):
    """Convolution, both norms, dropout, a linear head."""

    def __init__(self, optimizer: Any = None) -> None:
        super().__init__(optimizer)
        self.conv, self.batch_norm = sx.layer.Conv2d(4, 3), sx.layer.BatchNorm2d()
        self.norm, self.spy, self.head = Norm(), Spy(), sx.layer.Linear(3)

    def forward(self, x: jax.Array) -> jax.Array:
        y = jax.nn.relu(self.batch_norm(self.conv(x)))
        return self.head(self.spy(self.norm(y.reshape(len(y), -1))))


def compiled(precision: Any, **options: Any) -> Net:
    """The net in this precision."""
    sx.device.set_seed(0)
    net = Net(sx.opt.SGD(lr=0.05, momentum=0.9))
    net.compile([sx.Placeholder((4, 2, 8, 8))], precision=precision, **options)
    return net


@pytest.mark.parametrize("precision", ["bfloat16", sx.bfloat16, "float16"])
def test_dtypes(precision: Any) -> None:
    """What is stored is float32, what is computed is narrow, norms and losses are float32."""
    net, narrow = compiled(precision), sx.dtypes.canonical(precision)
    x, y = images()
    out, loss = net(x, y)
    assert {str(v.dtype) for v in net.state_dict().values() if jnp.issubdtype(v.dtype, jnp.floating)} == {"float32"}
    assert (out.dtype, loss.dtype) == (narrow, sx.float32)
    assert {"input": narrow, "parameter": narrow, "norm": sx.float32, "into_norm": narrow} == SEEN
    net.eval()
    assert net(x).dtype == narrow


def test_initial_values_are_those_of_float32() -> None:
    """The precision changes no parameter."""
    assert_equal_states(states(compiled("bfloat16")), states(compiled("float32")))


def test_training_is_close_to_float32() -> None:
    """Losses of 15 steps stay near those of float32, compiled and call by call."""
    x, y = images()
    runs = [compiled("float32"), compiled("bfloat16"), compiled("bfloat16", use_graph=False)]
    losses = np.array([[float(net(x, y)[1]) for net in runs] for _ in range(15)])
    assert losses[-1, 0] < 0.5 * losses[0, 0]
    np.testing.assert_allclose(losses[:, 1], losses[:, 0], rtol=0.05, atol=0.02)
    np.testing.assert_allclose(losses[:, 2], losses[:, 1], rtol=0.05, atol=0.02)
    assert (losses[:, 1] != losses[:, 0]).any()


def test_float16_scales_the_loss() -> None:
    """The optimizer gets a loss scale, which is a state; a step that overflows changes nothing but the scale."""
    net, (x, y) = compiled("float16"), images()
    losses = [float(net(x, y)[1]) for _ in range(15)]
    assert losses[-1] < 0.5 * losses[0]
    assert net.state_dict()["optimizer.loss_scale.scale"] == 2.0**15
    before = states(net)
    net.optimizer.loss_scale.scale.set_value(2.0**30)
    net(x, y)
    after = states(net)
    assert after["optimizer.loss_scale.scale"] == 2.0**29
    trained = [name for name in net.get_params() if "running" not in name]
    for name in [*trained, "optimizer.step"]:
        np.testing.assert_array_equal(after[name], before[name])
    net.compile([sx.Placeholder((4, 2, 8, 8))])
    net(x, y)
    assert net.optimizer.loss_scale is None
    assert "optimizer.loss_scale.scale" not in net.state_dict()


def test_functional_forms() -> None:
    """`functional` and `functional_step` compute in the same precision."""
    net, (x, y) = compiled("bfloat16"), images()
    init, apply = net.functional()
    assert jax.jit(apply)(init(0, x), x).dtype == sx.bfloat16
    step = net.functional_step()
    state, (out, loss) = jax.jit(step)(step.init(0, x, y), x, y)
    ours, ours_loss = net(x, y)
    np.testing.assert_allclose(float(loss[0]), float(ours_loss), rtol=1e-3)
    assert out.dtype == ours.dtype
    assert state["head.W"].dtype == jnp.float32


def test_back_to_float32() -> None:
    """Compiling again without a precision is float32 again, with the same parameters."""
    net, (x, _) = compiled("bfloat16"), images()
    before = states(net)
    net.compile([sx.Placeholder((4, 2, 8, 8))], is_train=False)
    assert net(x).dtype == sx.float32
    assert_equal_states(states(net), before)


@pytest.mark.parametrize("precision", ["int8", "float64", "half-ish", None])
def test_other_precisions_are_refused(precision: Any) -> None:
    """The message names what there is; the model stays as it was."""
    net = compiled("bfloat16")
    with pytest.raises((ArgumentError, sx.errors.DTypeError), match=r"eceived|unknown dtype"):
        net.compile([sx.Placeholder((4, 2, 8, 8))], precision=precision)
    assert net._compute_dtype == sx.bfloat16
