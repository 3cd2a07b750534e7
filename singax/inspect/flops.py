"""Floating-point operations of one equation of a jaxpr.

A multiplication with its addition counts as 2. Matrix products and convolutions are counted exactly (products with the
zeros of padding count, those with the zeros of a dilation do not), element by element operations as one per element of
the result, reductions as one per element of the operand. What has no rule is named and never counted as nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np


def names(text: str) -> frozenset[str]:
    """A set of the words of a text."""
    return frozenset(text.split())


ELEMENTWISE = names(
    "add sub mul div rem neg abs sign max min pow integer_pow square sqrt rsqrt cbrt exp exp2 log log1p expm1 sin cos "
    "tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh logistic erf erfc erf_inv lgamma digamma igamma igammac "
    "bessel_i0e bessel_i1e floor ceil round clamp add_any nextafter regularized_incomplete_beta polygamma zeta "
    "log2 one_minus_square polynomial"
)
REDUCTIONS = names("reduce_sum reduce_max reduce_min reduce_prod cumsum cumprod cummax cummin cumlogsumexp")
_SCATTERS = names("scatter-add scatter_add scatter-mul scatter_mul scatter-sub scatter_sub")
MOVING = names(
    "reshape broadcast_in_dim transpose slice dynamic_slice dynamic_update_slice gather scatter concatenate pad rev "
    "squeeze expand_dims iota select_n convert_element_type bitcast_convert_type copy copy_p eq ne lt le gt ge and or "
    "not xor is_finite stop_gradient argmax argmin sort top_k reduce_and reduce_or reduce_xor shift_left "
    "shift_right_logical shift_right_arithmetic population_count clz real imag conj complex random_bits random_wrap "
    "random_unwrap random_fold_in random_split random_seed threefry2x32 device_put optimization_barrier "
    "reduce_precision split empty scatter-min scatter-max scatter_min scatter_max name sharding_constraint eq_to "
    "le_to lt_to create_token symbolic_zeros pbroadcast pvary mesh_cast full"
)


@dataclass
class Flops:
    """Operations by kind, and how often something was met that cannot be counted."""

    products: float = 0.0
    others: float = 0.0
    unknown: dict[str, int] = field(default_factory=dict)

    @property
    def total(self) -> float:
        """All that is known."""
        return self.products + self.others

    def add(self, more: Flops, times: float = 1) -> None:
        """Add `more`, as many times."""
        self.products += times * more.products
        self.others += times * more.others
        for name, count in more.unknown.items():
            self.unknown[name] = self.unknown.get(name, 0) + count


def own_flops(equation: Any) -> Flops:
    """The operations of one equation without inner jaxprs."""
    name, out = equation.primitive.name, equation.outvars[0].aval if equation.outvars else None
    if name in _PRODUCTS:
        return Flops(products=2.0 * _PRODUCTS[name](equation))
    if name in MOVING or out is None or not _is_inexact(out):
        return Flops() if name in MOVING | ELEMENTWISE | REDUCTIONS | _SCATTERS else _unknown(name)
    if name == "polynomial":  # of x with its coefficients, by Horner's rule
        return Flops(others=2 * (len(equation.invars) - 2) * _size(out))
    if name in ELEMENTWISE:
        return Flops(others=_size(out))
    if name in REDUCTIONS:
        return Flops(others=_size(equation.invars[0].aval))
    if name in _SCATTERS:
        return Flops(others=_size(equation.invars[2].aval))
    if name.startswith("reduce_window") or name == "select_and_scatter_add":
        return Flops(others=_size(out) * math.prod(equation.params["window_dimensions"]))
    return _unknown(name)


def _unknown(name: str) -> Flops:
    return Flops(unknown={name: 1})


def _is_inexact(aval: Any) -> bool:
    return jax.numpy.issubdtype(aval.dtype, np.inexact)


def _size(aval: Any) -> int:
    return math.prod(aval.shape)


def _dot_products(equation: Any) -> int:
    (contracted, _), _ = equation.params["dimension_numbers"]
    left = equation.invars[0].aval.shape
    return _size(equation.outvars[0].aval) * math.prod(left[i] for i in contracted)


def _convolution_products(equation: Any) -> float:
    params, out = equation.params, _size(equation.outvars[0].aval)
    left, right = (v.aval for v in equation.invars[:2])
    numbers = params["dimension_numbers"]
    channels_out = right.shape[numbers.rhs_spec[0]]
    per_output = _size(right) / channels_out
    window = per_output / right.shape[numbers.rhs_spec[1]]
    groups = params["feature_group_count"] * params["batch_group_count"]
    through_inputs = _size(left) * window * channels_out / groups
    return min(out * per_output / params["batch_group_count"], through_inputs)


_PRODUCTS: dict[str, Callable[[Any], float]] = {
    "dot_general": _dot_products,
    "conv_general_dilated": _convolution_products,
}
