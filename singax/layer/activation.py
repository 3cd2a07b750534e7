"""Activation functions without arguments, as layers."""

from __future__ import annotations

from collections.abc import Callable

import jax

from singax import ops
from singax.layer.base import Layer


class Activation(Layer):
    """A layer that applies `function` to an input of any shape."""

    function: Callable[..., jax.Array]

    def forward(self, x: jax.Array) -> jax.Array:
        return self.function(x)


class ReLU(Activation):
    """max(x, 0), any shape. ONNX: Relu.

    >>> ReLU().infer_shape((2, 3))
    (2, 3)
    """

    function = staticmethod(ops.relu)


class ReLU6(Activation):
    """x limited to 0 … 6, any shape. ONNX: Clip.

    >>> ReLU6().infer_shape((2, 3))
    (2, 3)
    """

    function = staticmethod(ops.relu6)


class Sigmoid(Activation):
    """1 / (1 + exp(−x)), any shape. ONNX: Sigmoid.

    >>> Sigmoid().infer_shape((2, 3))
    (2, 3)
    """

    function = staticmethod(ops.sigmoid)


class Tanh(Activation):
    """Hyperbolic tangent, any shape. ONNX: Tanh.

    >>> Tanh().infer_shape((2, 3))
    (2, 3)
    """

    function = staticmethod(ops.tanh)


class SELU(Activation):
    """γ · elu(x, α) with α = 1.67326 and γ = 1.0507, any shape (Klambauer et al. 2017). ONNX: Selu.

    >>> SELU().infer_shape((2, 3))
    (2, 3)
    """

    function = staticmethod(ops.selu)


class SiLU(Activation):
    """x · sigmoid(x), any shape (Elfwing et al. 2018). Also called `Swish`. ONNX: Sigmoid and Mul.

    >>> SiLU().infer_shape((2, 3))
    (2, 3)
    """

    function = staticmethod(ops.silu)


Swish = SiLU


class Mish(Activation):
    """x · tanh(softplus(x)), any shape (Misra 2019). ONNX: Mish.

    >>> Mish().infer_shape((2, 3))
    (2, 3)
    """

    function = staticmethod(ops.mish)


class Softplus(Activation):
    """log(1 + exp(x)), any shape. ONNX: Softplus.

    >>> Softplus().infer_shape((2, 3))
    (2, 3)
    """

    function = staticmethod(ops.softplus)


class Softsign(Activation):
    """x / (1 + |x|), any shape. ONNX: Softsign.

    >>> Softsign().infer_shape((2, 3))
    (2, 3)
    """

    function = staticmethod(ops.softsign)


class Hardswish(Activation):
    """x · clip(x / 6 + 1 / 2, 0, 1), any shape (Howard et al. 2019). ONNX: HardSwish.

    >>> Hardswish().infer_shape((2, 3))
    (2, 3)
    """

    function = staticmethod(ops.hardswish)
