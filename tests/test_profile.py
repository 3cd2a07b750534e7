"""`Module.profile`: where the time of a step goes."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest
from dry_models import GPT, Convolutional, floats, integers
from models import states

import singax as sx
from singax.errors import ArgumentError, NameMismatchError
from singax.inspect.hlo import Instructions, Origin
from singax.inspect.profile import Event, Profile, _own_times

IMAGES, LABELS = np.ones((2, 3, 8, 8), np.float32), np.zeros(2, np.int32)


@pytest.fixture(scope="module")
def model() -> sx.Module:
    made = Convolutional()
    made.compile([floats(2, 3, 8, 8)])
    return made


@pytest.fixture(scope="module")
def found(model: sx.Module) -> Profile:
    return model.profile(IMAGES, LABELS, steps=3)


def test_each_layer_has_its_time(found: Profile) -> None:
    assert [row.path for row in found.rows] == ["loss", "conv1", "conv2", "norm1", "norm2", "pool1", "pool2", "head"]
    assert all(row.seconds >= 0 for row in found.rows)
    for path in ("conv1", "conv2"):
        assert found[path].forward > 0
        assert found[path].backward > 0
    parts = sum(row.seconds for row in found.rows) + found.outside + found.unknown
    np.testing.assert_allclose(parts, found.busy, rtol=1e-6)
    assert found.busy > 0
    assert found.seconds > 0


def test_it_prints_and_shows(found: Profile) -> None:
    assert str(found).splitlines()[3].startswith("loss SoftMaxCrossEntropy")
    assert "outside of layers" in repr(found)
    assert "conv1" in found._repr_html_()


def test_the_model_is_left_as_it_was(model: sx.Module, tmp_path: pathlib.Path) -> None:
    before = states(model)
    assert model.profile(IMAGES, LABELS, steps=1, folder=tmp_path).folder == str(tmp_path)
    assert list(tmp_path.glob("**/*.trace.json.gz"))
    np.testing.assert_equal(states(model), before)
    assert not model.compilations


def test_layers_inside_a_loop_are_counted_once() -> None:
    model = GPT(3, 8, 2, 20, 8, repeat=True)
    model.compile([integers(2, 8)])
    found = model.profile(np.zeros((2, 8), np.int32), np.zeros(16, np.int32), steps=1)
    assert found["blocks"].seconds > found["blocks.attention"].seconds > 0
    assert found["blocks"].seconds < found.busy


def test_what_it_refuses(model: sx.Module) -> None:
    with pytest.raises(ArgumentError, match="steps must be an integer"):
        model.profile(IMAGES, LABELS, steps=0)
    with pytest.raises(NameMismatchError, match="no step named"):
        model.profile(IMAGES, LABELS, method="nothing")


PROGRAM = """
ENTRY %main (values_0: f32[4], values_1: f32[16,4], inputs: f32[8]) -> f32[4] {
  %values_0 = f32[4]{0} parameter(0)
  %values_1 = f32[16,4]{1,0} parameter(1)
  %inputs = f32[8]{0} parameter(2)
  %copy.1 = f32[4,16]{1,0} copy(%values_1)
  %scaled = f32[8]{0} fusion(%inputs, %values_0), kind=kLoop
  %conv = f32[8]{0} fusion(%scaled, %copy.1), kind=kCustom
  %relu = f32[8]{0} fusion(%conv), kind=kLoop, metadata={op_name="jit(f)/#1#/max"}
  %back = f32[16,4]{1,0} fusion(%relu, %inputs), kind=kCustom
  ROOT %new = f32[16,4]{1,0} fusion(%values_1, %back), metadata={op_name="jit(f)/add"}
}
"""


def test_instructions_without_a_name_belong_to_the_largest_parameter_near() -> None:
    instructions, sizes = Instructions(PROGRAM), {0: 4, 1: 64}
    assert instructions.origin("relu", sizes) == Origin("jit(f)/#1#/max", None, False)
    assert instructions.origin("conv", sizes) == Origin("", 1, False)
    assert instructions.origin("back", sizes) == Origin("", 1, True)
    assert instructions.origin("back", {}) is None
    assert instructions.origin("missing", sizes) is None


def span(name: str, start: float, duration: float) -> dict[str, Any]:
    """An event of the profiler."""
    return {"ts": start, "dur": duration, "args": {"hlo_op": name}}


def test_time_of_inner_operations_is_not_counted_twice() -> None:
    spans = [span("loop", 0, 100), span("a", 10, 30), span("b", 50, 20), span("after", 100, 5)]
    assert set(_own_times(spans)) == {Event("loop", 50), Event("a", 30), Event("b", 20), Event("after", 5)}
