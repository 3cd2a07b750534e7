"""Floating-point operations of a jaxpr, per layer and pass.

A multiplication with its addition counts as 2. Matrix products and convolutions are counted exactly (products with the
zeros of padding count, those with the zeros of a dilation do not), element by element operations as one per element of
the result, reductions as one per element of the operand. The body of a scan counts times its length, of the branches of
a cond the largest. What has no rule, or an unknown number of trips, is named and never counted as nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import jax
import numpy as np

_ELEMENTWISE = frozenset(
    "add sub mul div rem neg abs sign max min pow integer_pow square sqrt rsqrt cbrt exp exp2 log log1p expm1 sin cos "
    "tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh logistic erf erfc erf_inv lgamma digamma igamma igammac "
    "bessel_i0e bessel_i1e floor ceil round clamp add_any nextafter regularized_incomplete_beta polygamma zeta".split()
)
_REDUCTIONS = frozenset(
    "reduce_sum reduce_max reduce_min reduce_prod cumsum cumprod cummax cummin cumlogsumexp".split()
)
_SCATTERS = frozenset("scatter-add scatter_add scatter-mul scatter_mul scatter-sub scatter_sub".split())
_FREE = frozenset(
    "reshape broadcast_in_dim transpose slice dynamic_slice dynamic_update_slice gather scatter concatenate pad rev "
    "squeeze expand_dims iota select_n convert_element_type bitcast_convert_type copy copy_p eq ne lt le gt ge and or "
    "not xor is_finite stop_gradient argmax argmin sort top_k reduce_and reduce_or reduce_xor shift_left "
    "shift_right_logical shift_right_arithmetic population_count clz real imag conj complex random_bits random_wrap "
    "random_unwrap random_fold_in random_split random_seed threefry2x32 device_put optimization_barrier "
    "reduce_precision split empty scatter-min scatter-max scatter_min scatter_max name sharding_constraint eq_to "
    "le_to lt_to create_token symbolic_zeros pbroadcast pvary mesh_cast full".split()
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


Key = tuple[tuple[str, ...], bool]
"""The scopes that an equation stands in, and whether it belongs to the backward pass."""

Table = dict[Key, Flops]


class Counter:
    """Counts jaxprs; each distinct inner jaxpr is looked at once."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, Table]] = {}
        self._scopes: dict[str, Key] = {}

    def table(self, jaxpr: Any) -> Table:
        """Scope and pass → operations, of a (closed) jaxpr."""
        inner = getattr(jaxpr, "jaxpr", jaxpr)
        if id(inner) not in self._known:
            self._known[id(inner)] = inner, self._counted(inner)
        return self._known[id(inner)][1]

    def _counted(self, jaxpr: Any) -> Table:
        found: Table = {}
        for equation in jaxpr.eqns:
            scopes, backward = self._scope(equation)
            for (below, inner_backward), flops in self._of(equation).items():
                key = (scopes + below, backward or inner_backward)
                found.setdefault(key, Flops()).add(flops)
        return found

    def _scope(self, equation: Any) -> Key:
        text = str(equation.source_info.name_stack)
        if text not in self._scopes:
            self._scopes[text] = parsed(text)
        return self._scopes[text]

    def _of(self, equation: Any) -> Table:
        name = equation.primitive.name
        parts = [self.table(jaxpr) for jaxpr in inner_jaxprs(equation)]
        if name == "scan":
            return _times(parts[0], equation.params["length"])
        if name == "while":
            return _noted(_sum(parts), "while of an unknown number of trips")
        if name == "cond":
            return max(parts, key=lambda part: sum(flops.total for flops in part.values()))
        if parts and name not in _REDUCTIONS:
            return _sum(parts)
        return {((), False): own_flops(equation)}


def own_flops(equation: Any) -> Flops:
    """The operations of one equation without inner jaxprs."""
    name, out = equation.primitive.name, equation.outvars[0].aval if equation.outvars else None
    if name in _PRODUCTS:
        return Flops(products=2.0 * _PRODUCTS[name](equation))
    if name in _FREE or out is None or not _is_inexact(out):
        return Flops() if name in _FREE | _ELEMENTWISE | _REDUCTIONS | _SCATTERS else _unknown(name)
    if name in _ELEMENTWISE:
        return Flops(others=_size(out))
    if name in _REDUCTIONS:
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


def inner_jaxprs(equation: Any) -> Iterator[Any]:
    """The jaxprs that an equation runs."""
    for name, value in equation.params.items():
        if name in ("jvp_jaxpr_fun", "fwd_jaxpr_thunk", "jvp_jaxpr_thunk", "bwd", "to_apply", "update_jaxpr"):
            continue
        yield from (item for item in _flat(value) if hasattr(getattr(item, "jaxpr", item), "eqns"))


def _flat(value: Any) -> Iterable[Any]:
    return value if isinstance(value, tuple | list) else (value,)


def _times(table: Table, times: float) -> Table:
    made: Table = {}
    for key, flops in table.items():
        made.setdefault(key, Flops()).add(flops, times)
    return made


def _sum(tables: Iterable[Table]) -> Table:
    made: Table = {}
    for table in tables:
        for key, flops in table.items():
            made.setdefault(key, Flops()).add(flops)
    return made


def _noted(table: Table, what: str) -> Table:
    table.setdefault(((), False), Flops()).unknown[what] = 1
    return table


_WRAPPED = re.compile(r"^(\w+)\((.*)\)$")


def parsed(name_stack: str) -> Key:
    """The scopes in a name stack without JAX's transformations, and whether one of these is a transposition.

    >>> parsed("transpose(jvp(Net))/blocks.0/fc")
    (('Net', 'blocks.0', 'fc'), True)
    """
    scopes, backward = [], False
    for part in filter(None, name_stack.split("/")):
        while match := _WRAPPED.match(part):
            backward |= match.group(1) == "transpose"
            part = match.group(2)
        if part:
            scopes.append(part)
    return tuple(scopes), backward


def by_layer(table: Table, paths: Iterable[str], separator: str = ".") -> dict[str, tuple[Flops, Flops]]:
    """Layer path → (forward, backward). Scopes that are no layers belong to the layer around them."""
    known = set(paths) | {""}
    prefixes = {separator.join(path.split(separator)[:k]) for path in known for k in range(path.count(separator) + 2)}
    found: dict[str, tuple[Flops, Flops]] = {}
    for (scopes, backward), flops in table.items():
        path = reduce(lambda at, scope: _joined(at, scope, separator, prefixes), scopes, "")
        while path not in known:
            path = path.rpartition(separator)[0]
        found.setdefault(path, (Flops(), Flops()))[backward].add(flops)
    return found


def _joined(path: str, scope: str, separator: str, prefixes: set[str]) -> str:
    candidate = f"{path}{separator}{scope}" if path else scope
    return candidate if candidate in prefixes else path
