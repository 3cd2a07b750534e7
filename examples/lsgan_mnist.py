"""A GAN with least squares in place of cross entropy, which learns to write digits (LSGAN, Mao et al. 2017).

    python examples/lsgan_mnist.py            # about a minute; samples go to lsgan_mnist.png
    python examples/lsgan_mnist.py --quick    # a few seconds, to see that it runs

The discriminator's answer is any number: 1 for real images, 0 for generated ones. Its square error goes on growing
with the distance, where a probability would be saturated and leave the generator without a gradient. All else is as
in `gan_mnist.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
from gan_mnist import GAN, Discriminator, run

import singax as sx


class Critic(Discriminator):
    """How real an image is. **Shapes** (N, 784) → (N, 1), any numbers."""

    def forward(self, images: jax.Array) -> jax.Array:
        return self.scores(images)


class LSGAN(GAN):
    """Both networks, and the square error."""

    def __init__(self, lr: float) -> None:
        super().__init__(lr, Critic(), sx.layer.MeanSquareError())


def main(argv: Sequence[str] | None = None) -> dict[str, float]:
    """Train, write the samples, return the last losses."""
    return run(LSGAN, argv, __doc__, "lsgan_mnist.png")


if __name__ == "__main__":
    main()
