"""Images with their channels last, where a program convolves.

XLA:CPU convolves with the channels last and would move them there and back around each convolution of an ONNX graph,
which has them second. Here they are moved once, and what goes element by element, pads, cuts, joins or pools works on
them as they then lie.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax import lax
from jax.extend.core import Literal

from singax.sonnx.importer.listing import Array, Atom, Equation, Listing, applied

# fmt: off
_ELEMENTWISE = frozenset([
    "abs", "add", "and", "ceil", "clamp", "convert_element_type", "copy", "div", "eq", "erf", "exp", "expm1",
    "floor", "ge", "gt", "integer_pow", "is_finite", "le", "log", "log1p", "log2", "logistic", "lt", "max", "min",
    "mul", "ne", "neg", "not", "one_minus_square", "or", "polynomial", "pow", "rem", "round", "rsqrt", "select_n",
    "sign", "sqrt", "square", "stop_gradient", "sub", "tanh", "xor",
])
# fmt: on
_PER_AXIS = {
    "pad": ("padding_config",),
    "slice": ("start_indices", "limit_indices", "strides"),
    "reduce_window_max": ("window_dimensions", "window_strides", "padding", "base_dilation", "window_dilation"),
    "reduce_window_sum": ("window_dimensions", "window_strides", "padding", "base_dilation", "window_dilation"),
}
_REDUCTIONS = frozenset({"reduce_sum", "reduce_max", "reduce_min", "reduce_prod"})


def convolves(listing: Listing) -> bool:
    """Whether a program has a convolution with its channels second."""
    return any(_is_convolution(equation) for equation in listing.equations)


def _is_convolution(equation: Equation) -> bool:
    if equation.primitive.name != "conv_general_dilated" or equation.params["batch_group_count"] != 1:
        return False
    return all(tuple(spec) == tuple(range(len(spec))) for spec in equation.params["dimension_numbers"])


def _last(rank: int) -> tuple[int, ...]:
    """The axes of (N, C, …) in the order (N, …, C)."""
    return (0, *range(2, rank), 1)


class ChannelsLast:
    """Computes equations; each value is kept as the program has it, with the channels last, or as both."""

    def __init__(self, listing: Listing, values: dict[int, Array]) -> None:
        self._kinds, self._plain, self._moved = listing.kinds, values, dict[int, Array]()
        self._broadcasts: dict[int, Equation] = {}

    def run(self, equations: Sequence[Equation]) -> None:
        """Compute equations in order."""
        for equation in equations:
            rule = self._rule(equation)
            if rule is None:
                results = applied(equation, [self.plain(atom) for atom in equation.inputs])
                self._plain.update(zip(equation.outputs, results, strict=True))
            else:
                rule(equation)

    def _rule(self, equation: Equation) -> Callable[[Equation], None] | None:
        name, rank = equation.primitive.name, self._rank(equation.outputs[0]) if equation.outputs else 0
        if name == "broadcast_in_dim" and rank > 2 and len(equation.inputs) == 1:
            return self._broadcast
        if _is_convolution(equation):
            return self._convolution
        if not any(self._is_moved(atom) for atom in equation.inputs):
            return None
        if name in _ELEMENTWISE and all(self._rank(atom) in (0, rank) for atom in equation.inputs):
            return self._elementwise
        if name in _PER_AXIS or name == "concatenate":
            return self._along_axes
        return self._reduction if name in _REDUCTIONS and len(equation.inputs) == 1 else None

    # -- values -----------------------------------------------------------------------------------------------------

    def plain(self, atom: Atom) -> Array:
        """A value as the program has it."""
        if isinstance(atom, Literal):
            return atom.val
        if atom not in self._plain:
            if atom in self._broadcasts:
                equation = self._broadcasts[atom]
                self._plain[atom] = applied(equation, [self.plain(equation.inputs[0])])[0]
            else:
                self._plain[atom] = lax.transpose(self._moved[atom], np.argsort(_last(self._rank(atom))))
        return self._plain[atom]

    def moved(self, atom: Atom) -> Array:
        """A value with its channels last."""
        if isinstance(atom, Literal) or self._rank(atom) == 0:
            return self.plain(atom)
        if atom not in self._moved:
            spread = self._spread(self._broadcasts[atom]) if atom in self._broadcasts else None
            order = _last(self._rank(atom))
            self._moved[atom] = lax.transpose(self.plain(atom), order) if spread is None else spread
        return self._moved[atom]

    def _spread(self, equation: Equation) -> Array | None:
        """A broadcast value with its channels last: the small one is moved."""
        order = _last(self._rank(equation.outputs[0]))
        target = {axis: at for at, axis in enumerate(order)}
        axes = [target[axis] for axis in equation.params["broadcast_dimensions"]]
        small = self.plain(equation.inputs[0])
        by_axis = sorted(range(len(axes)), key=axes.__getitem__)
        small = lax.transpose(small, by_axis) if by_axis != list(range(len(axes))) else small
        shape = [equation.params["shape"][axis] for axis in order]
        return lax.broadcast_in_dim(small, shape, sorted(axes))

    def _is_moved(self, atom: Atom) -> bool:
        return not isinstance(atom, Literal) and atom in self._moved and atom not in self._broadcasts

    def _rank(self, atom: Atom) -> int:
        return np.ndim(atom.val) if isinstance(atom, Literal) else len(self._kinds[atom].shape)

    # -- rules ------------------------------------------------------------------------------------------------------

    def _broadcast(self, equation: Equation) -> None:
        self._broadcasts[equation.outputs[0]] = equation

    def _convolution(self, equation: Equation) -> None:
        rank = self._rank(equation.outputs[0])
        image, kernel = (0, rank - 1, *range(1, rank - 1)), (rank - 1, rank - 2, *range(rank - 2))
        numbers = lax.ConvDimensionNumbers(image, kernel, image)
        W = lax.transpose(self.plain(equation.inputs[1]), (*range(2, rank), 1, 0))
        params = {**equation.params, "dimension_numbers": numbers}
        self._keep(equation, params, [self.moved(equation.inputs[0]), W])

    def _elementwise(self, equation: Equation) -> None:
        self._keep(equation, equation.params, [self.moved(atom) for atom in equation.inputs])

    def _along_axes(self, equation: Equation) -> None:
        """Parameters with an entry for each axis follow the axes; so does the axis of `concatenate`."""
        order, params = _last(self._rank(equation.outputs[0])), dict(equation.params)
        for name in _PER_AXIS.get(equation.primitive.name, ()):
            if params[name] is not None:
                params[name] = tuple(params[name][axis] for axis in order)
        if "dimension" in params:
            params["dimension"] = order.index(params["dimension"])
        self._keep(equation, params, [self.moved(atom) for atom in equation.inputs])

    def _reduction(self, equation: Equation) -> None:
        order = _last(self._rank(equation.inputs[0]))
        axes = tuple(sorted(order.index(axis) for axis in equation.params["axes"]))
        left = [axis for at, axis in enumerate(order) if at not in axes]
        moved = equation._replace(params={**equation.params, "axes": axes})
        (result,) = applied(moved, [self.moved(equation.inputs[0])])
        self._plain[equation.outputs[0]] = lax.transpose(result, np.argsort(left))

    def _keep(self, equation: Equation, params: Any, inputs: list[Array]) -> None:
        results = applied(equation._replace(params=params), inputs)
        self._moved.update(zip(equation.outputs, results, strict=True))
