"""The restricted Boltzmann machine and the least-squares GAN do what their papers say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import singax as sx
from singax import tensor

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


@pytest.fixture(autouse=True)
def _examples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def test_a_step_of_contrastive_divergence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two steps against a transcription in NumPy, with given draws."""
    import rbm_mnist

    draws = np.random.default_rng(1).random((3, 5), np.float32)
    monkeypatch.setattr(tensor, "random", lambda shape: tensor.from_numpy(draws))
    model = rbm_mnist.RBM(hidden=5, lr=0.1)
    visible = np.random.default_rng(0).random((3, 784)).astype(np.float32)
    W, b, a = (value.to_numpy().astype(np.float64) for value in (model.weight, model.hidden_bias, model.visible_bias))
    moments = [np.zeros_like(value) for value in (W, b, a)]
    for _ in range(2):
        hidden = sigmoid(visible @ W + b)
        seen = sigmoid((hidden > draws) @ W.T + a)
        thought = sigmoid(seen @ W + b)
        gradients = (seen.T @ thought - visible.T @ hidden, (thought - hidden).sum(0), (seen - visible).sum(0))
        moments = [0.9 * m + g / 3 + 2e-4 * v for m, g, v in zip(moments, gradients, (W, b, a), strict=True)]
        expected = ((visible - seen) ** 2).sum() / 3
        assert model.train_one_batch(tensor.from_numpy(visible)) == pytest.approx(expected, rel=1e-5)
        W, b, a = (value - 0.1 * moment for value, moment in zip((W, b, a), moments, strict=True))
    np.testing.assert_allclose(model.weight.to_numpy(), W, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(model.hidden_bias.to_numpy(), b, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(model.visible_bias.to_numpy(), a, rtol=1e-4, atol=1e-6)


def test_the_reconstruction_error_falls(tmp_path: Path) -> None:
    import rbm_mnist

    path = tmp_path / "filters.png"
    figures = rbm_mnist.main(
        ["--epochs", "4", "--limit", "400", "--batch", "20", "--hidden", "50", "--filters", str(path)]
    )
    assert figures["held out"] < 0.8 * figures["average"]
    assert path.read_bytes().startswith(b"\x89PNG")


def test_least_squares() -> None:
    """The critic's answer is any number; the loss is the square error; a step trains its own half."""
    import gan_mnist
    import lsgan_mnist

    model = lsgan_mnist.LSGAN(1e-3)
    model.dis_net.dropout1 = model.dis_net.dropout2 = sx.layer.Dropout(0.0)
    model.compile([sx.Placeholder((4, gan_mnist.NOISE))])
    rng = np.random.default_rng(0)
    noise, images = gan_mnist.noise_for(4, rng), rng.random((4, 784), np.float32)
    ones, zeros = np.ones((4, 1), np.float32), np.zeros((4, 1), np.float32)
    model.train_one_batch_dis(images, ones, noise, zeros)
    before = {path: p.to_numpy() for path, p in model.get_params().items()}
    scores = model.dis_net(model.gen_net(noise)).to_numpy()
    loss = model.train_one_batch(noise, ones)
    np.testing.assert_allclose(float(loss), ((scores - 1) ** 2).mean(), rtol=1e-4)
    assert ((scores < 0) | (scores > 1)).any()
    moved = {path for path, p in model.get_params().items() if (p.to_numpy() != before[path]).any()}
    assert "gen_net.out.W" in moved
    assert all(path.startswith("gen_net") for path in moved)
