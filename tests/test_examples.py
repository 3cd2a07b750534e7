"""The examples run, and learn."""

from __future__ import annotations

import pathlib
import runpy
from typing import Any

import pytest

EXAMPLES = pathlib.Path(__file__).resolve().parent.parent / "examples"


@pytest.fixture(scope="module")
def char_rnn() -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLES / "char_rnn.py"))


def test_char_rnn_learns_more_than_the_frequencies_of_characters(char_rnn: dict[str, Any], capsys: Any) -> None:
    result = char_rnn["main"](["--quick"])
    first, second = result["bits"]
    assert second < first
    assert second < 0.8 * result["entropy"]
    assert len(result["sample"]) == len("The ") + 80
    printed = capsys.readouterr().out
    assert f"{second:.3f} bits per character" in printed
    assert result["sample"] in printed


def test_char_rnn_reads_a_file_and_forgets_between_epochs(char_rnn: dict[str, Any], tmp_path: pathlib.Path) -> None:
    file = tmp_path / "text.txt"
    file.write_text("to be or not to be. " * 40, encoding="utf-8")
    options = ["--text", str(file), "--epochs", "2", "--steps", "3", "--hidden", "4", "--seq", "8", "--batch", "2"]
    result = char_rnn["main"]([*options, "--sample", "5"])
    assert len(result["bits"]) == 2
    assert set(result["sample"]) <= set("to be or not to be. ")


def test_char_rnn_carries_its_state_from_batch_to_batch(char_rnn: dict[str, Any]) -> None:
    import numpy as np

    import singax as sx

    model = char_rnn["CharRNN"](characters=5, batch=2, hidden=4, lr=0.0)
    model.compile([sx.Placeholder((2, 3), dtype=sx.int32)])
    ids, following = np.array([[0, 1, 2], [3, 4, 0]], np.int32), np.array([1, 2, 3, 4, 0, 1], np.int32)
    model(ids, following)
    first = model.hx.to_numpy()
    model(ids, following)
    second = model.hx.to_numpy()
    model.forget()
    assert not model.hx.to_numpy().any()
    model(ids, following)
    np.testing.assert_array_equal(model.hx.to_numpy(), first)
    assert (first != second).any()
    assert len(model.compilations) == 1


def test_a_text_that_is_too_short(char_rnn: dict[str, Any]) -> None:
    with pytest.raises(SystemExit, match="characters"):
        char_rnn["Text"]("short", 4, 10)
