"""`Module.dry_run`: what it says, and that it leaves everything as it is."""

from __future__ import annotations

import tracemalloc
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from dry_models import GPT, Convolutional, floats, integers
from jax import monitoring
from models import MLP, Trained, assert_equal_states, assert_no_tracers, blobs, states

import singax as sx
from singax import layer
from singax.errors import ArgumentError, NameMismatchError, ShapeError
from singax.inspect import alike, once
from singax.recipes import Constant

COMPILED = "/jax/core/compile/backend_compile_duration"


@pytest.fixture(autouse=True)
def sharing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two layers alike share a trace."""
    monkeypatch.setattr(once, "WORTH_A_TRACE", 2)


def test_the_report_of_a_step() -> None:
    report = MLP().dry_run(floats(16, 5), integers(16))
    out, loss = report.outputs
    assert (out.shape, loss.shape) == ((16, 3), (1,))
    assert report.parameters == 5 * 8 + 8 + 8 * 3 + 3
    assert [(row.path, row.kind) for row in report.layers[1:]] == [
        ("loss", "SoftMaxCrossEntropy"), ("fc1", "Linear"), ("fc2", "Linear"),
    ]  # fmt: skip
    row = report["fc1"]
    assert (row.inputs[0].shape, row.outputs.shape, row.calls, row.parameter_bytes) == ((16, 5), (16, 8), 1, 4 * 48)
    assert row.forward == 2 * 16 * 5 * 8 + 16 * 8
    memory = report.memory
    assert (memory.parameters, memory.gradients, memory.inputs) == (300, 300, 16 * 5 * 4 + 16 * 4)
    assert memory.optimizer == 300 + 4 + 4  # momentum, learning rate, step


def test_parameters_and_states_are_those_of_the_compiled_model() -> None:
    net = Convolutional()
    report = net.dry_run(floats(2, 3, 8, 8), integers(2))
    net.compile([floats(2, 3, 8, 8)])
    net(np.zeros((2, 3, 8, 8), np.float32), np.zeros(2, np.int32))
    held = {path: np.asarray(value) for path, value in net.state_dict().items()}
    memory = report.memory
    assert report.parameters == sum(value.size for value in map(np.asarray, net.get_params().values()))
    assert memory.parameters + memory.states + memory.optimizer == sum(value.nbytes for value in held.values())
    for row in report.layers:
        own = {path: t for path, t in net.get_params().items() if path.startswith(f"{row.path}.") or not row.path}
        assert row.parameters == sum(np.asarray(t.data).size for t in own.values())


def test_a_trained_model_stays_as_it_is_bit_for_bit() -> None:
    net, (x, y) = MLP(), blobs()
    net.compile([sx.Placeholder(x.shape)])
    for _ in range(3):
        net(x, y)
    before, programs = states(net), len(net.compilations)
    net.dry_run(x, y)
    net.dry_run(floats(7, 5), integers(7), precision="bfloat16")
    net.dry_run(floats(7, 5), method="forward")
    assert_equal_states(before, states(net))
    assert_no_tracers(net)
    net(x, y)
    assert len(net.compilations) == programs


def test_a_model_that_was_not_compiled_starts_with_the_values_it_would_have_had() -> None:
    sx.device.get_default_device().SetRandSeed(3)
    plain, seen = MLP(), MLP()
    seen.dry_run(floats(16, 5), integers(16))
    assert not seen.fc1._initialized
    assert not hasattr(seen.fc1, "W")
    for net in (plain, seen):
        net.compile([floats(16, 5)])
    assert_equal_states(states(plain), states(seen))


def test_nothing_is_compiled_drawn_or_allocated(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    monitoring.register_event_duration_secs_listener(lambda event, *_, **__: compiled.append(event))
    monkeypatch.setattr(Constant, "draw", lambda *_: pytest.fail("a parameter was drawn"))
    arrays = len(jax.live_arrays())
    tracemalloc.start()
    report = GPT(96, 12288, 96, 50257, 64).dry_run(integers(1, 64), integers(64), precision="bfloat16")
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert report.parameters == pytest.approx(175e9, rel=0.01)
    assert most < 300e6
    assert len(jax.live_arrays()) <= arrays + 8  # a few constants of JAX itself
    assert COMPILED not in compiled


def test_operations_of_a_loop_and_of_branches() -> None:
    class Loops(sx.Module):
        def forward(self, x: Any) -> Any:
            x = jax.lax.scan(lambda c, _: (c @ c, None), x, None, 5)[0]
            return jax.lax.cond(x[0, 0] > 0, lambda a: a @ a, lambda a: a, x)

    report = Loops().dry_run(floats(4, 4), method="forward")
    assert report.forward == 6 * 2 * 4**3
    assert report.unknown == {}


def test_what_cannot_be_counted_is_named() -> None:
    class Until(sx.Module):
        def forward(self, x: Any) -> Any:
            x = jax.lax.while_loop(lambda a: a.sum() < 9, lambda a: a + 1, x)
            return jnp.linalg.cholesky(x)

    report = Until().dry_run(floats(4, 4), method="forward")
    assert "while of an unknown number of trips" in report.unknown
    assert "cholesky" in report.unknown
    assert "not counted" in str(report)


def test_precision_changes_what_is_kept_and_not_the_parameters() -> None:
    net = GPT(2, 32, 2, 50, 16)
    wide = net.dry_run(integers(2, 16), integers(32))
    narrow = net.dry_run(integers(2, 16), integers(32), precision="bfloat16")
    assert narrow.memory.parameters == wide.memory.parameters
    ours, theirs = (report["blocks.0.feed_forward.inner"].kept for report in (narrow, wide))
    assert ours == theirs / 2 + 2 * 32 * 128  # the weights in bfloat16 are kept too
    assert narrow.precision == "bfloat16"
    assert "bfloat16" in str(narrow)
    with pytest.raises(ArgumentError, match="precision"):
        net.dry_run(integers(2, 16), integers(32), precision="int8")


def test_an_unknown_size_is_n_in_every_number() -> None:
    net = Convolutional()
    report = net.dry_run(floats(None, 3, 8, 8), integers(None))
    assert str(report.outputs[0].shape[0]) == "N"
    assert "·N" in str(report)
    direct = net.dry_run(floats(6, 3, 8, 8), integers(6))
    there = report.at(6)
    assert there.found == direct.found
    assert report.forward.at(6) == direct.forward
    assert report.memory.kept.at(6) == direct.memory.kept
    assert net.dry_run(floats(None, 3, 8, 8), integers(None), batch=6).found == direct.found
    assert net.dry_run(floats(2, 3, 8, 8), integers(2), batch=6).found == direct.found


def test_a_parameter_may_not_depend_on_the_unknown_size() -> None:
    with pytest.raises(ShapeError, match="None in the placeholder"):
        MLP().dry_run(floats(4, None), integers(4))


def test_the_largest_batch_that_fits() -> None:
    report = MLP().dry_run(floats(None, 5), integers(None))
    found = report.fits("100 kB")
    assert found
    assert found.largest > 1
    assert report.at(found.largest).memory.peak <= 100_000 < report.at(found.largest + 1).memory.peak
    assert not report.fits("100kB", batch=found.largest + 1)
    assert f"largest batch that fits is {found.largest}" in str(found)


def test_what_fits_at_no_batch() -> None:
    report = MLP().dry_run(floats(4, 5), integers(4))
    found = report.fits(100)
    assert not found
    assert found.largest == 0
    assert "no batch fits: parameters 300 B" in str(found)


@pytest.mark.parametrize("memory", ["much", "", "1.2.3GB", -1, None, True])
def test_a_memory_that_is_none(memory: Any) -> None:
    with pytest.raises(ArgumentError, match="number of bytes"):
        MLP().dry_run(floats(4, 5), integers(4)).fits(memory)


def test_forward_alone() -> None:
    net = MLP()
    report = net.dry_run(floats(16, 5), method="forward")
    assert report.outputs.shape == (16, 3)
    assert report.backward == 0
    assert report.update == 0
    assert report["loss"].calls == 0
    assert "loss SoftMaxCrossEntropy (not called)" in str(report)
    step = net.dry_run(floats(16, 5), integers(16))
    assert report.memory.kept == step.memory.kept - step["loss"].kept - step["fc2"].kept
    assert report.memory.optimizer == 0 == report.memory.gradients


class Blocks(Trained):
    """Three blocks of two layers; one may be inside of a Remat."""

    def __init__(self, remat: bool) -> None:
        super().__init__()
        blocks = [layer.FeedForward(64, "gelu") for _ in range(3)]
        self.blocks = [layer.Remat(block) if remat and k == 1 else block for k, block in enumerate(blocks)]
        self.norm = layer.LayerNorm()

    def forward(self, x: Any) -> Any:
        for block in self.blocks:
            x = x + block(self.norm(x))
        return x


def test_remat_saves_what_is_said() -> None:
    plain, saving = (Blocks(flag).dry_run(floats(4, 16), integers(4)) for flag in (False, True))
    saved = plain["blocks.1"].remat_saves
    assert saved > 0
    assert plain.memory.kept - saving.memory.kept == saved


def test_layers_that_are_alike_have_the_numbers_of_layers_that_are_not() -> None:
    alike, unlike = Blocks(False), Blocks(False)
    for number, block in enumerate(unlike.blocks):
        block.number = number
        for _, inner in layer.tree.layers(block):
            inner.number = number
    first, second = (net.dry_run(floats(4, 16), integers(4)) for net in (alike, unlike))
    assert first.found == second.found


def test_kernels_with_equal_settings_are_alike() -> None:
    first, second, third = layer.Conv2d(4, 3, padding=1), layer.Conv2d(4, 3, padding=1), layer.Conv2d(4, 3)
    counts = alike.Likeness(layer.Sequential(first, second, third))
    assert [counts.count(each) for each in (first, second, third)] == [2, 2, 1]


def test_searching_is_counted_by_what_jax_makes_of_it() -> None:
    class Searching(Trained):
        def __init__(self) -> None:
            super().__init__()
            self.fc = layer.Linear(3)

        def forward(self, x: Any) -> Any:
            bins = jnp.searchsorted(jnp.linspace(-1, 1, 9), jax.lax.stop_gradient(x))
            return self.fc(x + bins)

    assert "call_hi_primitive" not in Searching().dry_run(floats(4, 5), integers(4)).unknown


def test_a_layer_that_is_called_twice_and_one_that_is_shared() -> None:
    class Twice(Trained):
        def __init__(self) -> None:
            super().__init__()
            self.fc = layer.Linear(5)
            self.also = self.fc

        def forward(self, x: Any) -> Any:
            return self.also(self.fc(x))

    report = Twice().dry_run(floats(4, 5), integers(4))
    assert [row.path for row in report.layers if row.kind == "Linear"] == ["fc"]
    row = report["fc"]
    assert (row.calls, row.parameters, row.forward) == (2, 30, 2 * (2 * 4 * 25 + 20))


def test_errors_name_what_is_wrong() -> None:
    net = MLP()
    with pytest.raises(NameMismatchError, match=r"no step named 'fit'.*forward, train_one_batch"):
        net.dry_run(floats(4, 5), method="fit")
    with pytest.raises(ArgumentError, match="batch must be an integer from 1 up"):
        net.dry_run(floats(4, 5), integers(4), batch=0)
    with pytest.raises(ArgumentError, match="give the batch"):
        net.dry_run(floats(None, 5), integers(None), xla=True)
    with pytest.raises(ArgumentError, match="there is no layer 'fc9'"):
        net.dry_run(floats(4, 5), integers(4))["fc9"]
    with pytest.raises(ShapeError, match="conv1"):
        Convolutional().dry_run(floats(4, 5), integers(4))


def test_xla_adds_its_own_estimate() -> None:
    report = MLP().dry_run(floats(16, 5), integers(16), xla=True)
    found, memory = report.xla, report.memory
    assert found is not None
    assert "estimate by XLA" in str(report)
    assert found.arguments == memory.parameters + memory.states + memory.optimizer + memory.inputs
    assert report.at(32).xla is None


def test_the_text_lines_up_and_says_alike_layers_once() -> None:
    lines = str(GPT(6, 32, 2, 50, 16).dry_run(integers(2, 16), integers(32))).splitlines()
    assert sum("TransformerEncoderLayer ×6" in line for line in lines) == 1
    table = lines[2 : lines.index("", 3)]
    assert max(map(len, table)) == len(table[1])
    end = table[0].index("parameters") + len("parameters")
    assert {line[end : end + 2] for line in [table[0], *table[2:]]} <= {"  ", ""}
    assert "<details open>" in MLP().dry_run(floats(2, 5), integers(2))._repr_html_()
