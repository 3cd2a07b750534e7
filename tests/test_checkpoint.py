"""Module.save and Module.load: what comes back, where it goes, and that what does not fit changes nothing."""

from __future__ import annotations

import copy
import os
import pathlib
from typing import Any

import jax
import numpy as np
import optax
import pytest
from checkpoint_models import CharRNN, Dropped, adam
from models import MLP, Trained, assert_equal_states, blobs, states, trained
from safetensors.numpy import load_file

import singax as sx
from singax import recipes
from singax.errors import (
    ArgumentError,
    FileFormatError,
    StateError,
    StateMismatchError,
    UninitializedError,
)

X, Y = blobs()


def test_everything_comes_back(tmp_path: pathlib.Path) -> None:
    """Into a compiled model, one that was trained otherwise, and one that is compiled afterwards."""
    net = trained()
    net.save(tmp_path / "net", onnx=False)
    assert os.listdir(tmp_path) == ["net.safetensors"]
    compiled, other, early = trained(steps=0), trained(steps=7), MLP()
    for model in (compiled, other, early):
        assert model.load(tmp_path / "net") == {}
    early.compile([X])
    for model in (compiled, other, early):
        assert_equal_states(states(model), states(net))
    net(X, Y)
    for model in (compiled, other, early):
        model(X, Y)
        assert_equal_states(states(model), states(net))
        assert model._awaited is None


def test_any_library_of_safetensors_opens_it(tmp_path: pathlib.Path) -> None:
    """Names are the paths of the states, values are theirs."""
    net = trained()
    net.save(tmp_path / "net", state={"losses": np.arange(3.0)}, onnx=False)
    found = load_file(tmp_path / "net.safetensors")
    assert_equal_states(found, {**states(net), "state/losses": np.arange(3.0)})


def test_parameters_are_not_drawn_before_they_are_loaded(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model that is compiled after load takes the file's values and calls no generator."""
    trained().save(tmp_path / "net", onnx=False)
    monkeypatch.setattr(recipes.HostSource, "normal", lambda *_: pytest.fail("drawn"))
    monkeypatch.setattr(recipes.HostSource, "uniform", lambda *_: pytest.fail("drawn"))
    net = MLP()
    net.load(tmp_path / "net")
    net.compile([X])
    states(net)


@pytest.mark.parametrize("graph", [True, False])
def test_a_model_that_is_never_compiled(tmp_path: pathlib.Path, graph: bool) -> None:
    """It takes the file's values with its first batch, slots included."""
    net = trained()
    net.save(tmp_path / "net", onnx=False)
    other = MLP()
    other.load(tmp_path / "net")
    other.graph(graph)
    loss = float(other(X, Y)[1])
    assert loss == pytest.approx(float(net(X, Y)[1]), rel=1e-6)
    for path, value in states(net).items():
        np.testing.assert_allclose(states(other)[path], value, rtol=1e-5, atol=1e-7, err_msg=path)


def test_saved_again_before_compile(tmp_path: pathlib.Path) -> None:
    """Values that wait for their places are saved too; a copy of the model has them as well."""
    trained().save(tmp_path / "a", onnx=False)
    net = MLP()
    net.load(tmp_path / "a")
    copy.deepcopy(net).save(tmp_path / "b", onnx=False)
    assert_equal_states(load_file(tmp_path / "a.safetensors"), load_file(tmp_path / "b.safetensors"))


def test_every_difference_in_one_message(tmp_path: pathlib.Path) -> None:
    """Missing, unexpected, wrong shape, wrong dtype; each with its path, what was wanted and what was found."""

    class Wider(Trained):
        def __init__(self) -> None:
            super().__init__()
            self.fc1, self.fc3 = sx.layer.Linear(9), sx.layer.Linear(3)
            self.count = sx.Tensor(data=np.zeros(2, np.int32), requires_grad=False)

        def forward(self, x: Any) -> Any:
            return self.fc3(self.fc1(x))

    source = MLP()
    source.count = sx.Tensor(data=np.zeros(2, np.float32), requires_grad=False)
    trained(source).save(tmp_path / "net", onnx=False)
    net = trained(Wider())
    before = states(net)
    with pytest.raises(StateMismatchError) as caught:
        net.load(tmp_path / "net")
    assert_equal_states(states(net), before)
    error = caught.value
    assert error.wrong_shape["fc1.W"] == "wanted float32[5, 9], found float32[5, 8]"
    assert error.wrong_dtype == {"count": "wanted int32[2], found float32[2]"}
    assert error.missing["fc3.W"] == "wanted float32[9, 3], found nothing"
    assert error.unexpected["fc2.W"] == "wanted nothing, found float32[8, 3]"
    for part in ("fc1.W", "fc3.b", "fc2.b", "count", "optimizer.momentum.fc2.W", "nothing was changed"):
        assert part in str(error)
    with pytest.raises(StateMismatchError, match="wrong dtype: count"):
        Wider().load(tmp_path / "net")


def test_what_does_not_fit_is_found_by_compile(tmp_path: pathlib.Path) -> None:
    """The model is as it was before compile, and still waits for a compile that fits."""
    trained().save(tmp_path / "net", onnx=False)
    net = MLP(hidden=9)
    net.load(tmp_path / "net")
    with pytest.raises(StateMismatchError, match=r"fc1\.W: wanted float32\[5, 9\], found float32\[5, 8\]"):
        net.compile([X])
    with pytest.raises(sx.errors.UninitializedError):
        net.get_params()
    net.fc1 = sx.layer.Linear(8)
    net.compile([X])
    assert_equal_states(states(net), load_file(tmp_path / "net.safetensors"))


def _load_and_compile(model: Any, path: pathlib.Path) -> None:
    model.load(path, strict=False)
    model.compile([X])


def test_strict_false_warns_about_names_only(tmp_path: pathlib.Path) -> None:
    """The rest is loaded; wrong shapes are errors all the same."""

    class Longer(MLP):
        def __init__(self, optimizer: Any = None, hidden: int = 8) -> None:
            super().__init__(optimizer, hidden)
            self.fc3 = sx.layer.Linear(3)

        def forward(self, x: Any) -> Any:
            return self.fc3(super().forward(x))

    net = trained()
    net.save(tmp_path / "net", onnx=False)
    for model in (trained(Longer()), Longer()):
        with pytest.warns(UserWarning, match=r"missing: fc3\.W"):
            _load_and_compile(model, tmp_path / "net")
        np.testing.assert_array_equal(states(model)["fc1.W"], states(net)["fc1.W"])
        model(X, Y)
    with pytest.raises(StateMismatchError, match="wrong shape"):
        trained(Longer(hidden=9)).load(tmp_path / "net", strict=False)
    trained(Longer()).save(tmp_path / "longer", onnx=False)
    with pytest.warns(UserWarning, match=r"unexpected: fc3\.W"):
        trained().load(tmp_path / "longer", strict=False)


def test_without_state_only_the_layers(tmp_path: pathlib.Path) -> None:
    """include_state=False leaves optimizer and random key alone, and returns nothing."""
    trained().save(tmp_path / "net", state={"epoch": 3}, onnx=False)
    net = trained(MLP(adam()), steps=1)
    before = states(net)
    assert net.load(tmp_path / "net", include_state=False) == {}
    saved = load_file(tmp_path / "net.safetensors")
    for path, value in states(net).items():
        np.testing.assert_array_equal(value, (saved if path.startswith("fc") else before)[path], err_msg=path)


def test_another_optimizer_is_an_error(tmp_path: pathlib.Path) -> None:
    """Slots of another kind, also if the file has none of a kind that the model has; nothing stays behind."""
    trained().save(tmp_path / "momentum", onnx=False)
    trained(MLP(sx.opt.SGD(0.1))).save(tmp_path / "plain", onnx=False)
    for steps in (0, 2):
        net = trained(MLP(adam()), steps)
        before = states(net)
        with pytest.raises(StateMismatchError, match=r"unexpected: optimizer\.momentum\.fc1\.W"):
            net.load(tmp_path / "momentum")
        assert_equal_states(states(net), before)
    with pytest.raises(StateMismatchError, match=r"missing: optimizer\.momentum\.fc1\.W"):
        trained().load(tmp_path / "plain")
    late = MLP(sx.opt.SGD(0.1))
    late.load(tmp_path / "momentum")
    with pytest.raises(StateMismatchError, match=r"unexpected: optimizer\.momentum"):
        late.compile([X])


def test_slots_that_the_saved_model_had_not_needed_yet(tmp_path: pathlib.Path) -> None:
    """Saved before the first step: a trained model's slots become what they were at first."""
    net = trained(steps=0)
    net.save(tmp_path / "net", onnx=False)
    other = trained(steps=5)
    other.load(tmp_path / "net")
    for model in (net, other):
        for _ in range(2):
            model(X, Y)
    assert_equal_states(states(net), states(other))


def test_the_learning_rate_is_the_files(tmp_path: pathlib.Path) -> None:
    """A number is part of the state; it may be set again."""
    net = trained(MLP(sx.opt.SGD(0.1)))
    net.optimizer.lr = 0.025
    net.save(tmp_path / "net", onnx=False)
    other = trained(MLP(sx.opt.SGD(0.5)))
    other.load(tmp_path / "net")
    assert float(other.optimizer.lr_value) == pytest.approx(0.025)
    assert repr(other.optimizer) == "SGD(lr=0.02500000037252903)"
    other.optimizer.lr = 0.5
    other(X, Y)


class Two(Trained):
    """Two optimizers for two parts, as in a GAN."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = sx.layer.Linear(4), sx.layer.Linear(3)
        self.optimizer, self.slow = sx.opt.SGD(0.1, momentum=0.9, freeze="second.*"), adam()
        self.slow.frozen = type(self.slow.frozen)("first.*")

    def forward(self, x: Any) -> Any:
        return self.second(self.first(x))

    def train_one_batch(self, x: Any, y: Any) -> Any:
        out = self.forward(x)
        loss = self.loss(out, y)
        self.optimizer(loss)
        self.slow(loss)
        return out, loss


def scaled() -> Any:
    """An optax chain whose state is one number per kind, shared by all parameters, and one per parameter."""
    return sx.opt.Optax(optax.chain(optax.scale_by_adam(), optax.scale_by_schedule(lambda step: -0.01 / (1 + step))))


class Heavy(sx.opt.Optimizer):
    """A user's optimizer in SINGA's style, with slots of its own."""

    def __init__(self) -> None:
        super().__init__(0.1)
        self.moments: dict[str, Any] = {}

    def apply(self, param_name: str, param_value: Any, param_grad: Any) -> None:
        if param_name not in self.moments:
            self.moments[param_name] = sx.tensor.zeros_like(param_value)
        self.moments[param_name] = self.moments[param_name] * 0.9 + param_grad
        param_value -= self.lr_value * self.moments[param_name]


OPTIMIZERS: dict[str, Any] = {
    "two": Two,
    "optax": lambda: MLP(scaled()),
    "optax of a count alone": lambda: MLP(sx.opt.Optax(optax.scale_by_schedule(lambda step: -0.1 / (1 + step)))),
    "apply": lambda: MLP(Heavy()),
    "averaged": lambda: MLP(sx.opt.SGD(0.1, average=0.9)),
    "accumulated": lambda: MLP(sx.opt.Adam(0.01, accumulate=2)),
    "groups": lambda: MLP(sx.opt.SGD(0.1, momentum=0.9, groups={"fc2.*": {"lr": 0.01}}, freeze="fc1.b")),
    "dropout": Dropped,
    "charrnn": CharRNN,
    "distributed": lambda: MLP(sx.opt.DistOpt(sx.opt.SGD(0.1, momentum=0.9))),
}


@pytest.mark.parametrize("kind", OPTIMIZERS)
@pytest.mark.parametrize("early", [True, False])
def test_kinds_of_optimizers(tmp_path: pathlib.Path, kind: str, early: bool) -> None:
    """A fresh model goes on bit for bit, whether it is loaded before compile or after."""
    make = OPTIMIZERS[kind]
    net = trained(make())
    net.save(tmp_path / "net", onnx=False)
    other = make()
    if not early:
        other.compile([X])
    other.load(tmp_path / "net")
    if early:
        other.compile([X])
    for model in (net, other):
        model(X, Y)
    assert_equal_states(states(net), states(other))
    assert other._awaited is None


def test_an_optimizer_that_is_no_attribute(tmp_path: pathlib.Path) -> None:
    """The model meets it in its first step; what the file holds for it is there before the update."""
    guests = [sx.opt.SGD(0.1, momentum=0.9) for _ in range(3)]

    class Host(MLP):
        guest = 0

        def train_one_batch(self, x: Any, y: Any) -> Any:
            out = self.forward(x)
            loss = self.loss(out, y)
            guests[self.guest](loss)
            return out, loss

    def host(number: int) -> Host:
        made = Host()
        made.optimizer = None
        made.__dict__["guest"] = number
        return made

    net, other, eager = host(0), host(1), host(2)
    trained(net).save(tmp_path / "net", onnx=False)
    for model in (other, eager):
        model.compile([X])
        model.load(tmp_path / "net")
    eager.graph(False)
    for model in (net, other, eager):
        model(X, Y)
    assert_equal_states(states(net), states(other))
    assert int(guests[2].step_counter) == 4


def test_float16_before_compile(tmp_path: pathlib.Path) -> None:
    """The loss scale comes with compile(precision="float16"), and its value from the file."""
    net = MLP()
    net.compile([X], precision="float16")
    net(X, Y)
    net.optimizer.loss_scale.scale.set_value(64.0)
    net.save(tmp_path / "net", onnx=False)
    other = MLP()
    other.load(tmp_path / "net")
    other.compile([X], precision="float16")
    assert_equal_states(states(net), states(other))
    with pytest.raises(StateMismatchError, match=r"unexpected: optimizer\.loss_scale\.scale"):
        trained().load(tmp_path / "net")


def test_placement_is_the_models(tmp_path: pathlib.Path) -> None:
    """Values go to the device, or in the sharding, that the model has; parts on several devices are saved whole."""
    net = trained()
    net.save(tmp_path / "net", onnx=False)
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:8]), ("d",))
    split = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(None, "d"))
    other = trained(steps=0)
    other.fc1.W.data = jax.device_put(other.fc1.W.data, split)
    other.fc1.b.to_device(jax.devices()[3])
    other.load(tmp_path / "net")
    assert other.fc1.W.data.sharding == split
    assert other.fc1.b.data.devices() == {jax.devices()[3]}
    other.save(tmp_path / "other", onnx=False)
    assert_equal_states(load_file(tmp_path / "other.safetensors"), states(net))


def test_dtypes(tmp_path: pathlib.Path) -> None:
    """Narrow floats, integers, booleans, complex numbers, typed keys, scalars, empty arrays are states like others."""
    values = {
        "bf": np.ones(3, sx.bfloat16), "half": np.ones(2, np.float16), "byte": np.arange(3, dtype=np.uint8),
        "flag": np.array([True, False]), "wave": np.array([1 + 2j], np.complex64), "one": np.float32(3.5),
        "none": np.zeros((0, 3), np.float32), "f8": np.ones(2, jax.numpy.float8_e4m3fn),
    }  # fmt: skip

    def made(fill: bool) -> Any:
        net = MLP()
        for name, value in values.items():
            setattr(net, name, sx.Tensor(data=value if fill else np.zeros_like(value), requires_grad=False))
        net.key = sx.Tensor._of(jax.random.key(7 if fill else 8), requires_grad=False)
        return net

    net, other = made(True), made(False)
    net.compile([X])
    other.compile([X])
    net.save(tmp_path / "net", onnx=False)
    other.load(tmp_path / "net")
    for name, value in values.items():
        found = getattr(other, name).to_numpy()
        assert found.dtype == value.dtype
        np.testing.assert_array_equal(found, value)
    assert (jax.random.key_data(other.key.data) == jax.random.key_data(jax.random.key(7))).all()
    net.odd = sx.Tensor(data=np.ones(2, jax.numpy.int4), requires_grad=False)
    with pytest.raises(FileFormatError, match="odd cannot be saved"):
        net.save(tmp_path / "net", onnx=False)


def test_when_nothing_is_saved(tmp_path: pathlib.Path) -> None:
    """Too early, in the middle of a step, no such folder, a file that is to stay; nothing is written."""

    class Within(MLP):
        def train_one_batch(self, x: Any, y: Any) -> Any:
            self.save(tmp_path / "net", onnx=False)
            return super().train_one_batch(x, y)

    with pytest.raises(UninitializedError, match="fc1"):
        MLP().save(tmp_path / "net", onnx=False)
    with pytest.raises(StateError, match="between steps"):
        trained(Within())
    with pytest.raises(FileNotFoundError, match="no folder"):
        trained().save(tmp_path / "none" / "net", onnx=False)
    with pytest.raises(ArgumentError, match="state/f is a function"):
        trained().save(tmp_path / "net", state={"f": blobs}, onnx=False)
    assert os.listdir(tmp_path) == []
    trained().save(tmp_path / "net", onnx=False)
    with pytest.raises(ArgumentError, match="overwrite"):
        trained().save(tmp_path / "net.safetensors", overwrite=False, onnx=False)
    assert os.listdir(tmp_path) == ["net.safetensors"]


def test_only_process_zero_writes(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others take no part on the disk."""
    net = trained()
    monkeypatch.setattr(jax, "process_index", lambda: 1)
    net.save(tmp_path / "net", onnx=False)
    net.to_safetensors(tmp_path / "plain.safetensors")
    assert os.listdir(tmp_path) == []


def test_plain_safetensors(tmp_path: pathlib.Path) -> None:
    """Layers only, for other frameworks and from them; a checkpoint is read as well."""
    net = trained()
    net.to_safetensors(tmp_path / "plain.safetensors")
    net.save(tmp_path / "net", onnx=False)
    found = load_file(tmp_path / "plain.safetensors")
    assert_equal_states(found, {name: t.to_numpy() for name, t in net.get_states().items()})
    for name in ("plain", "net"):
        for other in (trained(steps=1), MLP()):
            other.from_safetensors(tmp_path / f"{name}.safetensors")
            other.compile([X])
            np.testing.assert_array_equal(other.fc1.W.to_numpy(), net.fc1.W.to_numpy())
    with pytest.raises(FileFormatError, match="from_safetensors"):
        net.load(tmp_path / "plain.safetensors")


def test_weights_of_another_file_over_a_checkpoint_that_waits(tmp_path: pathlib.Path) -> None:
    """What the second file does not hold stays the first one's."""
    net, weights = trained(), trained(steps=5)
    net.save(tmp_path / "net", onnx=False)
    weights.to_safetensors(tmp_path / "weights.safetensors")
    other = MLP()
    other.load(tmp_path / "net")
    other.from_safetensors(tmp_path / "weights.safetensors")
    other.compile([X])
    for path, value in states(other).items():
        source = weights if path.startswith("fc") else net
        np.testing.assert_array_equal(value, states(source)[path], err_msg=path)


def test_a_seed_after_load_is_a_new_seed(tmp_path: pathlib.Path) -> None:
    """Loading sets the random key; `set_seed` sets it again."""
    net = trained(Dropped())
    net.save(tmp_path / "net", onnx=False)
    net.load(tmp_path / "net")
    sx.device.set_seed(5)
    assert states(net)["rng"].tolist() == [0, 5]
