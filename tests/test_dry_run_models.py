"""Dry runs of all kinds of models: several optimizers or none, imported, wrapped, with states that steps change."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from dry_models import floats, integers
from models import MLP, Trained, assert_equal_states, blobs, states
from onnx import TensorProto, helper, numpy_helper

import singax as sx
from singax import layer, opt
from singax.inspect import once


@pytest.fixture(autouse=True)
def sharing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two layers alike share a trace."""
    monkeypatch.setattr(once, "WORTH_A_TRACE", 2)


class Signs(opt.Optimizer):
    """In SINGA's style: slots in dicts of its own."""

    def __init__(self, lr: float) -> None:
        super().__init__(lr)
        self.sums: dict[str, sx.Tensor] = {}

    def apply(self, param_name: str, param_value: sx.Tensor, param_grad: Any) -> None:
        """Sum the signs."""
        if param_name not in self.sums:
            self.sums[param_name] = sx.Tensor(param_value.shape).set_value(0.0)
        self.sums[param_name] += sx.autograd.sign(param_grad)
        param_value -= self.lr_value * self.sums[param_name]


def optimizers() -> dict[str, Any]:
    """Of every kind."""
    import optax

    return {
        "SGD": opt.SGD(lr=0.1),
        "Adam": opt.Adam(lr=0.1),
        "clipped": opt.Adam(lr=0.1, clip_norm=1.0),
        "accumulating": opt.SGD(lr=0.1, momentum=0.9, accumulate=2),
        "averaging": opt.SGD(lr=0.1, average=0.9),
        "scaled": opt.SGD(lr=0.1, loss_scale=opt.LossScale()),
        "scheduled": opt.SGD(lr=opt.ExponentialDecay(0.1, 10, 0.5)),
        "grouped": opt.SGD(lr=0.1, momentum=0.9, groups={"fc1*": {"momentum": 0.0}}, freeze="fc2.b"),
        "optax": opt.Optax(optax.adafactor(0.01)),
        "own apply": Signs(0.1),
        "distributed": opt.DistOpt(opt.SGD(lr=0.1, momentum=0.9)),
    }


@pytest.mark.parametrize("name", list(optimizers()))
def test_the_states_of_every_optimizer(name: str) -> None:
    net = MLP(optimizers()[name])
    report = net.dry_run(floats(16, 5), integers(16))
    assert report.memory.gradients == 300 - (12 if name == "grouped" else 0)
    net.compile([floats(16, 5)])
    net(*blobs())
    held = {path: np.asarray(value) for path, value in net.state_dict().items()}
    total = report.memory.parameters + report.memory.states + report.memory.optimizer
    assert total == sum(value.nbytes for value in held.values())
    net.dry_run(floats(16, 5), integers(16))
    assert_equal_states(held, states(net))


def test_two_optimizers_and_two_steps() -> None:
    class Pair(sx.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.loss = layer.Linear(3), layer.Linear(3), layer.MeanSquareError()
            self.first, self.second = opt.SGD(lr=0.1, momentum=0.9), opt.Adam(lr=0.1)

        def forward(self, x: Any) -> Any:
            return self.b(self.a(x))

        def train_one_batch(self, x: Any, y: Any) -> Any:
            loss = self.loss(self.forward(x), y)
            pairs = list(sx.autograd.backward(loss))
            for optimizer, path in ((self.first, "a"), (self.second, "b")):
                optimizer.apply_gradients([(p, g) for p, g in pairs if p.name.startswith(path)])
                optimizer.step()
            return loss

        @sx.step
        def look(self, x: Any) -> Any:
            return self.forward(x)

    report = Pair().dry_run(floats(2, 3), floats(2, 3))
    assert report.memory.optimizer == (48 + 8) + (2 * 48 + 8)
    assert report.memory.gradients == 96
    assert report.untrained == ()
    looked = Pair().dry_run(floats(2, 3), method="look")
    assert looked.memory.gradients == 0 == looked.backward
    assert looked.untrained == ()


def test_an_optimizer_that_is_no_attribute_is_left_as_it_is() -> None:
    sgd = opt.SGD(lr=0.1, momentum=0.9)

    class Outside(MLP):
        def train_one_batch(self, x: Any, y: Any) -> Any:
            loss = self.loss(self.forward(x), y)
            sgd(loss)
            return loss

    net = Outside()
    del net.optimizer
    before = dict(sgd.__dict__)
    report = net.dry_run(floats(16, 5), integers(16))
    assert report.memory.optimizer == 300 + 8
    assert sgd.__dict__ == before
    assert [name for name, _ in sgd.state_tensors()] == ["step", "lr"]
    net.compile([floats(16, 5)])
    net(*blobs())
    held = states(net)
    assert net.dry_run(floats(16, 5), integers(16)).memory.optimizer == 308
    assert_equal_states(held, states(net))
    net(*blobs())


def test_a_parameter_that_no_gradient_reaches() -> None:
    class Half(MLP):
        def train_one_batch(self, x: Any, y: Any) -> Any:
            self.fc1(x)
            loss = self.loss(self.fc2(x), y)
            self.optimizer(loss)
            return loss

    report = Half().dry_run(floats(4, 5), integers(4))
    assert report.untrained == ("fc1.W", "fc1.b")
    assert "no gradient reaches fc1.W, fc1.b" in str(report)


def test_other_arguments_of_a_step() -> None:
    class Chosen(Trained):
        def __init__(self) -> None:
            super().__init__()
            self.fc = layer.Linear(3)

        def forward(self, x: Any, scale: float = 1.0) -> Any:
            return self.fc(x * scale)

        def train_one_batch(self, x: Any, y: Any, kind: str = "all", mask: Any = None) -> Any:
            out = self.forward(x)
            loss = self.loss(out, y)
            if kind == "all":
                self.optimizer(loss)
            return {"loss": loss, "kind": kind, "mask": mask}

    report = Chosen().dry_run(floats(4, 5), integers(4), kind="none", mask=np.ones(3, np.float32))
    assert report.outputs["kind"] == "none"
    assert report.outputs["mask"].shape == (3,)
    assert report.update == 0
    assert Chosen().dry_run(floats(4, 5), integers(4)).update > 0


def test_states_that_a_forward_changes() -> None:
    class Counting(layer.Layer):
        def initialize(self, x: Any) -> None:
            self.count, self.scale = self.state((1,)), self.param((1,), "ones")

        def forward(self, x: Any) -> Any:
            self.count = self.count.data + 1
            return x * self.scale.data

    class Net(Trained):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = [layer.Sequential(layer.Linear(3), layer.BatchNorm2d(), Counting()) for _ in range(3)]

        def forward(self, x: Any) -> Any:
            for block in self.blocks:
                x = block(x)
            return x

    report = Net().dry_run(floats(4, 3), integers(4))
    rows = [row for row in report.layers if row.kind == "Sequential"]
    assert [row.state_bytes for row in rows] == [2 * 12 + 4] * 3
    assert len({(row.forward, row.backward) for row in rows[1:]}) == 1


def test_a_layer_that_uses_the_states_of_another_one() -> None:
    class Borrower(layer.Layer):
        def __init__(self, source: list[Any]) -> None:
            super().__init__()
            self.take = lambda: source[0].W.data

        def forward(self, x: Any) -> Any:
            return x @ self.take()

    class Net(Trained):
        def __init__(self) -> None:
            super().__init__()
            self.fc = layer.Linear(3)
            lend = [self.fc]
            first = Borrower(lend)
            self.others = [first, Borrower(lend)]
            self.others[1].take = first.take

        def forward(self, x: Any) -> Any:
            x = self.fc(x)
            for other in self.others:
                x = other(x)
            return x

    net = Net()
    report = net.dry_run(floats(4, 3), integers(4))
    assert [row.forward for row in report.layers if row.kind == "Borrower"] == [2 * 4 * 9] * 2
    assert report.memory.gradients == 48


def imported() -> sx.Module:
    """x · w + b, from ONNX."""
    w = numpy_helper.from_array(np.ones((3, 2), np.float32), "w")
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["N", s]) for n, s in (("x", 3), ("y", 2)))
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Relu", ["m"], ["y"])]
    graph = helper.make_graph(nodes, "net", [x], [y], [w])
    opsets = [helper.make_opsetid("", 17)]

    class Imported(sx.sonnx.SONNXModel):
        def __init__(self, model: Any) -> None:
            super().__init__(model)
            self.loss, self.optimizer = layer.SoftMaxCrossEntropy(), opt.SGD(lr=0.1)

        def train_one_batch(self, x: Any, y: Any) -> Any:
            loss = self.loss(self.forward(x)[0], y)
            self.optimizer(loss)
            return loss

    return Imported(helper.make_model(graph, opset_imports=opsets, ir_version=8))


def test_a_model_from_onnx() -> None:
    net = imported()
    before = states(net)
    report = net.dry_run(floats(None, 3), integers(None))
    assert report.parameters == 6
    assert net.dry_run(floats(4, 3), integers(4)).layers[0].forward >= 2 * 4 * 6
    assert net.dry_run(floats(4, 3), method="forward").outputs[0].shape == (4, 2)
    after = states(net)
    assert_equal_states({path: after[path] for path in before}, before)


def test_flax_modules_and_repeats() -> None:
    import flax.linen as nn

    class Net(Trained):
        def __init__(self) -> None:
            super().__init__()
            self.dense = layer.FromFlax(nn.Dense(8))
            self.blocks = layer.Repeat(lambda: layer.FeedForward(16, "gelu"), 3, remat=True)
            self.plain = layer.Repeat(lambda: layer.FeedForward(16, "gelu"), 3)

        def forward(self, x: Any) -> Any:
            return self.plain(self.blocks(self.dense(x)))

    report = Net().dry_run(floats(4, 3), integers(4))
    assert report["dense"].parameters == 3 * 8 + 8
    assert report["plain"].parameters == report["blocks"].parameters == 3 * (2 * 8 * 16 + 16 + 8)
    products = 3 * 2 * (2 * 4 * 8 * 16)
    assert products < report["blocks"].forward < report["plain"].forward  # which also prepares the backward pass
    assert report["plain"].kept > report["blocks"].kept > 0
    assert report["blocks"].backward > report["plain"].backward  # the forward is computed again
    assert report.unknown == {}


def test_dropout_and_an_lstm() -> None:
    class Net(Trained):
        def __init__(self) -> None:
            super().__init__()
            self.lstm, self.head = layer.LSTM(3, 8, batch_first=True), layer.Linear(3)
            self.drops = [layer.Dropout(0.5), layer.Dropout(0.5)]

        def forward(self, x: Any) -> Any:
            y = self.lstm(x)[0][:, -1]
            for drop in self.drops:
                y = drop(y)
            return self.head(y)

    report = Net().dry_run(floats(4, 7, 3), integers(4))
    assert report.parameters == 4 * (3 * 8 + 8 * 8 + 8 + 8) + 27
    assert report["lstm"].forward > 2 * 4 * 7 * 4 * (3 * 8 + 8 * 8)
    head_reads = 4 * 8 * 4
    assert report["drops.0"].kept == report["drops.1"].kept - head_reads


def test_a_wide_model_gives_the_numbers_of_x64() -> None:
    report = MLP().dry_run(jax.ShapeDtypeStruct((4, 5), jnp.float32), jax.ShapeDtypeStruct((4,), jnp.int32))
    assert report.found == MLP().dry_run(np.zeros((4, 5), np.float32), np.zeros(4, np.int32)).found
