"""Random ONNX graphs against onnxruntime; SINGAX_RANDOM_GRAPHS sets how many (5000 for a nightly run)."""

from __future__ import annotations

import os
from collections import Counter

import numpy as np
import onnx
import pytest
from random_graphs.compare import difference, mismatches
from random_graphs.generate import operators, random_model
from random_graphs.rules import RULES
from random_graphs.values import Value, both

SEEDS = int(os.environ.get("SINGAX_RANDOM_GRAPHS", "80"))
BATCH = 10
_SAVED = os.environ.get("SINGAX_RANDOM_GRAPHS_FOLDER", "")


@pytest.mark.parametrize("first", range(0, SEEDS, BATCH))
def test_as_onnxruntime_computes_it(first: int) -> None:
    pytest.importorskip("onnxruntime", reason="the comparison needs onnxruntime")
    found = []
    for seed in range(first, min(first + BATCH, SEEDS)):
        found += _problems(seed)
    advice = "`python -m random_graphs SEED [FILE]` in the folder tests shows and saves one"
    assert not found, "\n".join([*found, advice])


def _problems(seed: int) -> list[str]:
    """What is wrong with the model of a seed; it is saved where SINGAX_RANDOM_GRAPHS_FOLDER says."""
    model = random_model(seed)
    try:
        found = mismatches(model)
    except Exception as error:  # an error of either side is a finding; the seed must be told
        found = [f"seed {seed}: {type(error).__name__}: {error}"]
    if found and _SAVED:
        onnx.save(model.proto, os.path.join(_SAVED, f"{seed}.onnx"))
    return found


def test_the_generator_covers_the_operators() -> None:
    drawn: Counter[str] = Counter()
    for seed in range(1000):
        drawn.update(operators(random_model(seed).proto))
    assert len(drawn) >= 180, len(drawn)
    assert {"If", "Loop", "Scan", "SequenceMap", "RNN", "LSTM", "GRU", "QLinearConv", "MatMulInteger"} <= set(drawn)
    assert {rule.name for rule in RULES} <= set(drawn)


def test_opsets_and_free_sizes_vary() -> None:
    models = [random_model(seed) for seed in range(300)]
    assert {model.proto.opset_import[0].version for model in models} == set(range(7, 24))
    free = [model for model in models if len(model.feeds) == 2]
    assert len(free) >= 60
    for model in free:
        first, second = ([x.shape for x in feeds.values()] for feeds in model.feeds)
        assert first != second


@pytest.mark.parametrize("seed", range(0, 40, 4))
def test_a_seed_gives_the_same_model(seed: int) -> None:
    one, other = random_model(seed), random_model(seed)
    assert one.proto.SerializeToString() == other.proto.SerializeToString()
    for first, second in zip(one.feeds, other.feeds, strict=True):
        assert all(np.array_equal(first[name], second[name]) for name in first)


def test_a_difference_is_seen() -> None:
    value = Value("y", "float32", both((2,)), 0, 1)
    right = np.asarray([0.5, 200.0], np.float32)
    assert difference(value, right + np.float32(1e-5), right) == ""
    assert "1 of 2 differ" in difference(value, right + np.asarray([2e-4, 0], np.float32), right)
    assert "instead of float32" in difference(value, right.astype(np.float64), right)
    assert "instead of float32[2]" in difference(value, right[:1], right)
    whole = Value("y", "int64", both((1,)), 0, 9, 0)
    assert difference(whole, np.asarray([3]), np.asarray([4]))
    assert not difference(Value("y", "uint8", both((1,)), 0, 9, 0, slack=1), np.asarray([3]), np.asarray([4]))
