"""`Module.fit`, its callbacks and history, and many steps in one program."""

from __future__ import annotations

import itertools
import os
import pathlib
import signal
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from models import Trained, states

import singax as sx
from singax import metric, training
from singax.errors import ArgumentError, ShapeError, StateError
from singax.training import Batches, BestCheckpoint, EarlyStopping, History, NaNStop, TensorBoard

X = np.random.default_rng(0).standard_normal((24, 5), np.float32)
Y = np.arange(24, dtype=np.int32) % 3


class Net(Trained):
    """A small classifier with dropout, running statistics and a scheduled rate."""

    def __init__(self, lr: Any = None) -> None:
        super().__init__(sx.opt.Adam(lr=lr or sx.opt.ExponentialDecay(0.05, 4, 0.5)))
        self.first, self.norm, self.drop = sx.layer.Linear(6), sx.layer.BatchNorm2d(), sx.layer.Dropout(0.2)
        self.last = sx.layer.Linear(3)

    def forward(self, x: Any) -> Any:
        return self.last(self.drop(jax.nn.relu(self.norm(self.first(x)[:, :, None, None])[:, :, 0, 0])))


def net(**options: Any) -> Net:
    made = Net(**options)
    sx.device.set_seed(0)
    made.compile([sx.Placeholder((4, 5))])
    return made


def assert_same_states(one: sx.Module, other: sx.Module, rtol: float = 1e-5) -> None:
    ours, theirs = states(one), states(other)
    assert list(ours) == list(theirs)
    for path, value in ours.items():
        np.testing.assert_allclose(value, theirs[path], rtol=rtol, atol=1e-6, err_msg=path)


def batches(shuffle: bool = False, rows: int = 24) -> Batches:
    return Batches(X[:rows], Y[:rows], batch_size=4, shuffle=shuffle)


# -- many steps -----------------------------------------------------------------------------------------------------


def test_train_batches_gives_the_numbers_of_the_loop() -> None:
    one, many = net(), net()
    results = [one(*batch) for batch in batches()]
    out, loss = many.train_batches(X.reshape(6, 4, 5), Y.reshape(6, 4))
    np.testing.assert_allclose(loss.to_numpy().reshape(-1), [r[1].to_numpy().item() for r in results], rtol=1e-5)
    np.testing.assert_allclose(out.to_numpy(), np.stack([r[0].to_numpy() for r in results]), rtol=1e-4, atol=1e-6)
    assert_same_states(one, many)
    many.train_batches(X.reshape(6, 4, 5), Y.reshape(6, 4))
    assert [note.method for note in many.compilations] == ["Net.train_one_batch, scanned"]


def test_train_batches_of_an_eager_model_is_the_loop() -> None:
    one, many = net(), net()
    one.graph_mode = many.graph_mode = False
    losses = [one(*batch)[1].to_numpy() for batch in itertools.islice(batches(), 2)]
    _, loss = many.train_batches(X[:8].reshape(2, 4, 5), Y[:8].reshape(2, 4))
    np.testing.assert_allclose(loss.to_numpy(), losses, rtol=1e-6)


def test_train_batches_refuses_arrays_of_different_lengths() -> None:
    model = net()
    before = states(model)
    for args in ((X.reshape(6, 4, 5), Y.reshape(3, 8)), (X.reshape(6, 4, 5), np.float32(1)), ("text", 1)):
        with pytest.raises(ShapeError, match="number of steps"):
            model.train_batches(*args)
    np.testing.assert_equal(states(model), before)


# -- fit ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("steps_per_call", [1, 4, "auto"])
def test_fit_is_the_loop(steps_per_call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("singax.training.steps.MEASURED", 2)
    one, other = net(), net()
    losses = [one(*batch)[1].to_numpy().item() for _ in range(2) for batch in batches()]
    history = other.fit(batches(), epochs=2, steps_per_call=steps_per_call, verbose=0)
    np.testing.assert_allclose(history.steps["loss"], losses, rtol=1e-5)
    np.testing.assert_allclose(history["loss"], np.mean(np.reshape(losses, (2, 6)), axis=1), rtol=1e-5)
    assert_same_states(one, other)


def test_validation_uses_evaluation_mode_and_changes_nothing() -> None:
    model = net()
    history = model.fit(batches(), validation=batches(), metrics=[metric.Accuracy()], verbose=0)
    before = states(model)
    values = training.validation.validate(model, batches(), {"accuracy": metric.Accuracy()})
    np.testing.assert_equal(states(model), before)
    model.eval()
    out = model(X).to_numpy()
    losses = -jax.nn.log_softmax(out)[np.arange(24), Y]
    np.testing.assert_allclose(values["val_loss"], losses.mean(), rtol=1e-5)
    np.testing.assert_allclose(values["val_accuracy"], (out.argmax(1) == Y).mean(), rtol=1e-6)
    assert history["val_loss"] == [values["val_loss"]]
    assert set(history.names) == {"loss", "accuracy", "val_loss", "val_accuracy"}


@pytest.mark.parametrize("steps_per_call", [1, 3])
def test_metrics_of_an_epoch(steps_per_call: int) -> None:
    class Fixed(sx.Module):
        def train_one_batch(self, x: Any, y: Any) -> Any:
            return {"out": x * 1.0, "first": x[0, 0]}

    model = Fixed()
    history = model.fit(
        batches(), epochs=2, metrics={"right": metric.Accuracy()}, steps_per_call=steps_per_call, verbose=0
    )
    np.testing.assert_allclose(history["right"], [(X.argmax(1) == Y).mean()] * 2)
    np.testing.assert_allclose(history.steps["first"], np.tile(X[::4, 0], 2))


def test_batches_of_any_kind() -> None:
    class Foreign:
        """What other libraries' tensors are to us."""

        def __init__(self, value: np.ndarray) -> None:
            self.value = value

        def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
            return self.value

    kinds = [
        [(x, y) for x, y in batches()],
        [[jnp.asarray(x), sx.Tensor(data=y)] for x, y in batches()],
        [{"y": y, "x": x} for x, y in batches()],
        [(Foreign(x), Foreign(y)) for x, y in batches()],
    ]
    found = [net().fit(kind, verbose=0).steps["loss"] for kind in kinds]
    for losses in found[1:]:
        np.testing.assert_allclose(losses, found[0], rtol=1e-6)
    assert net().fit(lambda: iter(kinds[0]), epochs=2, verbose=0).steps["loss"][:6] == found[0]


def test_numbers_are_fetched_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("singax.training.fit.FETCHED", 4)
    model, reads = net(), []
    real = jax.device_get
    monkeypatch.setattr(jax, "device_get", lambda value: reads.append(len(value)) or real(value))
    model.fit(batches(), epochs=2, verbose=0)
    assert reads == [4, 2, 4, 2]


def test_the_bar_and_the_lines(capsys: pytest.CaptureFixture[str]) -> None:
    net().fit(batches(), epochs=2, verbose=2)
    printed = capsys.readouterr()
    assert [line.split(":")[0] for line in printed.out.splitlines()] == ["epoch 1/2", "epoch 2/2"]
    assert "/6 [" in printed.err
    net().fit(batches(), verbose=0)
    assert capsys.readouterr() == ("", "")


# -- the last batch -------------------------------------------------------------------------------------------------


def test_a_smaller_last_batch_is_told_once() -> None:
    model = net()
    with pytest.warns(UserWarning, match="2 rows instead of 4") as caught:
        history = model.fit(batches(rows=22), epochs=2, verbose=0)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert len(history.steps["loss"]) == 12
    assert "x changed from float32[4,5] to float32[2,5]" in repr(model.compilations)
    assert "x changed from float32[4,5] to float32[2,5]" in model.compilations._repr_html_()


def test_a_smaller_last_batch_is_dropped() -> None:
    model = net()
    assert len(model.fit(batches(rows=22), epochs=2, last="drop", verbose=0).steps["loss"]) == 10
    assert len(model.compilations) == 1


def test_a_smaller_last_batch_is_padded() -> None:
    class Weighted(Net):
        def train_one_batch(self, x: Any, y: Any, weight: Any) -> Any:
            out = self.forward(x)
            loss = sx.autograd.mul(self.loss(out, y), sx.autograd.reduce_mean(weight, axes=None, keepdims=False))
            self.optimizer(loss)
            return loss, sx.autograd.reduce_sum(weight, axes=None, keepdims=False)

    model = Weighted()
    model.compile([sx.Placeholder((4, 5))])
    assert model.fit(batches(rows=22), last="pad", verbose=0).steps["loss_2"] == [4, 4, 4, 4, 4, 2]
    assert len(model.compilations) == 1
    with pytest.raises(TypeError, match="weight"):
        net().fit(batches(rows=22), last="pad", verbose=0)


@pytest.mark.parametrize("steps_per_call", [1, 3])
def test_metrics_leave_out_the_rows_that_fill_up(steps_per_call: int) -> None:
    class Weighted(Net):
        def train_one_batch(self, x: Any, y: Any, weight: Any) -> Any:
            return super().train_one_batch(x, y)

    model, accuracy = Weighted(), metric.Accuracy()
    model.compile([sx.Placeholder((4, 5))])
    model.fit(batches(rows=10), metrics=[accuracy], last="pad", steps_per_call=steps_per_call, verbose=0)
    assert accuracy.count.to_numpy().sum() == 10


def test_validation_that_can_be_read_once_is_refused_for_several_epochs() -> None:
    with pytest.raises(ArgumentError, match="the validation is an iterator"):
        net().fit(batches(), epochs=2, validation=iter(batches()), verbose=0)


# -- callbacks ------------------------------------------------------------------------------------------------------


def test_early_stopping_goes_back_to_the_best() -> None:
    class Watch(training.Callback):
        def on_epoch_end(self, epoch: int, values: dict[str, Any]) -> None:
            values["worse"] = float(epoch)
            if epoch == 1:
                self.first = states(self.model)

    model, watch = net(), Watch()
    stopping = EarlyStopping("worse", patience=2, restore_best=True)
    history = model.fit(batches(), epochs=9, callbacks=[watch, stopping], verbose=0)
    assert len(history) == 3
    assert "worse has not improved for 2 epochs" in str(history.stopped)
    np.testing.assert_equal(states(model), watch.first)
    with pytest.raises(ArgumentError, match="no number 'val_loss'; there are: loss"):
        model.fit(batches(), callbacks=[EarlyStopping()], verbose=0)


def test_best_checkpoint(tmp_path: pathlib.Path) -> None:
    model = net()
    path = tmp_path / "best"
    history = model.fit(batches(), epochs=3, callbacks=[BestCheckpoint(path, "loss", onnx=False)], verbose=0)
    state = net().load(path)
    assert state["loss"] == min(history["loss"])
    assert history["loss"][state["epoch"] - 1] == state["loss"]


class Divide(sx.layer.Layer):
    """x / y."""

    def forward(self, x: Any, y: Any) -> Any:
        return x / y


@pytest.mark.parametrize("steps_per_call", [1, 3])
def test_nan_stop_names_the_layer_and_goes_back(steps_per_call: int) -> None:
    class Fragile(Net):
        def __init__(self) -> None:
            super().__init__()
            self.divide = Divide()

        def forward(self, x: Any) -> Any:
            return self.last(self.drop(self.divide(self.norm(self.first(x)[:, :, None, None])[:, :, 0, 0], x[0, 0])))

    x = X.copy()
    x[12, 0] = 0  # in the fourth batch
    good, model = Fragile(), Fragile()
    for made in (good, model):
        sx.device.set_seed(0)
        made.compile([sx.Placeholder((4, 5))])
    for k in range(3):
        good(x[4 * k : 4 * k + 4], Y[4 * k : 4 * k + 4])
    stop = NaNStop()
    data = Batches(x, Y, batch_size=4, shuffle=False)
    history = model.fit(data, epochs=2, callbacks=[stop], steps_per_call=steps_per_call, verbose=0)
    assert stop.layer == "divide"
    assert history.stopped == "the output of divide is not finite"
    assert_same_states(good, model)


def test_nan_stop_says_so_when_the_update_broke() -> None:
    model, stop = net(lr=1e38), NaNStop()
    history = model.fit([(X[:4] * 1e20, Y[:4]), (X[4:8] * 1e20, Y[4:8])], epochs=3, callbacks=[stop], verbose=0)
    assert history.stopped is not None
    assert all(np.isfinite(v).all() for v in states(model).values() if v.dtype.kind == "f")


def test_tensorboard_asks_for_its_package(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    import sys
    import types

    for name in ("tensorboardX", "torch.utils.tensorboard"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ArgumentError, match="pip install tensorboardX"):
        TensorBoard(tmp_path)
    written: list[Any] = []

    class Writer:
        def __init__(self, folder: str) -> None:
            self.folder = folder

        def add_scalar(self, *what: Any) -> None:
            written.append(what)

        def flush(self) -> None:
            written.append("flushed")

    monkeypatch.setitem(sys.modules, "tensorboardX", types.SimpleNamespace(SummaryWriter=Writer))
    history = net().fit(batches(), callbacks=[TensorBoard(tmp_path)], verbose=0)
    assert ("loss", history["loss"][0], 1) in written
    assert written[-1] == "flushed"


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_leaves_the_model_and_the_history() -> None:
    class Interrupt(training.Callback):
        def on_step_end(self, step: int, arguments: Any) -> None:
            if step == 8:
                os.kill(os.getpid(), signal.SIGINT)

    model, good = net(), net()
    history = model.fit(batches(), epochs=5, callbacks=[Interrupt()], verbose=0)
    assert str(history.stopped).startswith("interrupted in step")
    done = len(history.steps["loss"])
    assert done in (8, 9)
    for x, y in itertools.islice(itertools.chain(batches(), batches()), done):
        good(x, y)
    assert_same_states(good, model)
    model(*next(iter(batches())))


# -- the history ----------------------------------------------------------------------------------------------------


def test_a_history_can_always_be_shown() -> None:
    from matplotlib.figure import Figure

    empty, full = History(), net().fit(batches(), epochs=2, validation=batches(), verbose=0)
    full.epochs.append({"epoch": 3, "seconds": 0.0, "<b>": float("nan"), "table": [[1, 2]]})
    full.stopped = "<why>"
    for history in (empty, full):
        assert isinstance(history.plot("loss"), Figure)
        assert isinstance(history.plot(), Figure)
        assert "<table" in history._repr_html_()
        repr(history)
        history.to_dict()
    assert "<b>" not in full._repr_html_()
    assert "&lt;why&gt;" in full._repr_html_()
    assert np.isnan(full["loss"][2])
    with pytest.raises(KeyError, match="there are: none yet"):
        empty["loss"]


# -- what is refused ------------------------------------------------------------------------------------------------


def _endless() -> Iterator[Any]:
    yield from batches()


@pytest.mark.parametrize(
    ("data", "options", "match"),
    [
        ([], {}, "no batches"),
        (batches(), {"validation": []}, "validation data has no batches"),
        (_endless(), {"epochs": 2}, "read only once"),
        (batches(), {"epochs": -1}, "epochs must be an integer"),
        (batches(), {"last": "keep"}, "last is one of"),
        (batches(), {"steps_per_call": 0}, "steps_per_call"),
        (batches(), {"callbacks": [print]}, "callbacks are instances"),
        (batches(), {"metrics": [print]}, "metrics are instances"),
    ],
)
def test_what_fit_refuses(data: Any, options: dict[str, Any], match: str) -> None:
    with pytest.raises(ArgumentError, match=match):
        net().fit(data, verbose=0, **options)


def test_batches_refuse_what_does_not_fit() -> None:
    with pytest.raises(ShapeError, match="one first size"):
        Batches(X, Y[:3], batch_size=4)
    with pytest.raises(ArgumentError, match="batch_size"):
        Batches(X, batch_size=0)
    shuffled = Batches(Y, batch_size=5)
    first, second = ([y.tolist() for (y,) in shuffled] for _ in range(2))
    assert first != second
    assert sorted(itertools.chain(*first)) == sorted(Y.tolist())
    assert len(shuffled) == len(first) == 5


def test_fit_inside_a_step_is_refused() -> None:
    class Inner(sx.Module):
        def train_one_batch(self, x: Any) -> Any:
            self.fit([x])

    with pytest.raises(StateError, match="outside of layers and steps"):
        Inner().train_one_batch(X)
