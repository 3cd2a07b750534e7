"""The numbers of a dry run against hand counts and against XLA."""

from __future__ import annotations

from typing import Any

import jax
import pytest
from dry_models import FIVE, GPT, ResNet50, floats, integers

import singax as sx


@pytest.mark.parametrize("name", list(FIVE))
def test_memory_is_within_a_tenth_of_xlas_own_estimate(name: str) -> None:
    make, inputs = FIVE[name]
    report = make().dry_run(*inputs, xla=True)
    memory, xla = report.memory, report.xla
    assert xla is not None
    assert memory.parameters + memory.states + memory.optimizer + memory.inputs == xla.arguments
    assert memory.peak == pytest.approx(xla.peak, rel=0.1)


def test_resnet_50_has_four_giga_multiplications() -> None:
    report = ResNet50().dry_run(floats(1, 3, 224, 224), integers(1))
    assert report.parameters == pytest.approx(25.557e6, rel=1e-3)
    products = sum(row.forward for row in report.layers if row.kind in ("Conv2d", "Linear"))
    assert products == pytest.approx(2 * 4.09e9, rel=0.01)
    assert report.forward == pytest.approx(products, rel=0.02)  # norms, activations, pooling, the loss
    assert report.unknown == {}


def test_gpt_2_small_is_six_per_parameter_and_token_and_attention() -> None:
    layers, width, vocabulary, length = 12, 768, 50257, 1024
    report = GPT(layers, width, 12, vocabulary, length).dry_run(integers(1, length), integers(length))
    weights = layers * 12 * width**2 + width * vocabulary
    attention = 4 * layers * length**2 * width  # q·k and a·v, forward; the zeros above the diagonal are computed too
    assert report.parameters == pytest.approx(weights + (vocabulary + length) * width, rel=2e-3)
    assert report.forward == pytest.approx(2 * weights * length + attention, rel=0.01)
    assert report.forward + report.backward == pytest.approx(6 * weights * length + 3 * attention, rel=0.01)
    assert report.unknown == {}


class Product(sx.Module):
    """One operation."""

    def __init__(self, run: Any) -> None:
        super().__init__()
        self.run = run

    def forward(self, *inputs: Any) -> Any:
        return self.run(*inputs)


def convolved(x: Any, w: Any, **options: Any) -> Any:
    """A convolution of NCHW and OIHW."""
    return jax.lax.conv_general_dilated(x, w, dimension_numbers=("NCHW", "OIHW", "NCHW"), **options)


@pytest.mark.parametrize(
    ("run", "shapes", "count"),
    [
        (lambda a, b: a @ b, [(3, 4, 5), (3, 5, 6)], 2 * 3 * 4 * 5 * 6),
        (lambda a, b: jax.numpy.einsum("bij,bkj->ik", a, b),
         [(3, 4, 5), (3, 6, 5)], 2 * 3 * 4 * 5 * 6),
        (lambda x, w: convolved(x, w, window_strides=(1, 1), padding="VALID"),
         [(2, 3, 8, 8), (4, 3, 3, 3)], 2 * 2 * 4 * 6 * 6 * 3 * 9),
        (lambda x, w: convolved(x, w, window_strides=(2, 2), padding="SAME"),
         [(2, 3, 8, 8), (4, 3, 3, 3)], 2 * 2 * 4 * 4 * 4 * 3 * 9),
        (lambda x, w: convolved(x, w, window_strides=(1, 1), padding="VALID", feature_group_count=3),
         [(2, 3, 8, 8), (6, 1, 3, 3)], 2 * 2 * 6 * 6 * 6 * 9),
        (lambda x, w: convolved(x, w, window_strides=(1, 1), padding=((2, 2), (2, 2)), lhs_dilation=(2, 2)),
         [(1, 3, 4, 4), (5, 3, 3, 3)], 2 * 5 * 3 * 9 * 16),
        (lambda x: jax.numpy.tanh(x) + 1, [(7, 3)], 2 * 21),
        (lambda x: x.sum(1), [(7, 3)], 21),
        (lambda x: x.reshape(3, 7).T, [(7, 3)], 0),
    ],
)  # fmt: skip
def test_operations_by_hand(run: Any, shapes: list[tuple[int, ...]], count: int) -> None:
    report = Product(run).dry_run(*map(sx.Placeholder, shapes), method="forward")
    assert report.forward == count
    assert report.unknown == {}
