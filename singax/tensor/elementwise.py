"""SINGA's module functions that work element by element. Recorded while training, as operators are.

Values outside a function's range give inf or nan (SINGA aborts); integers and booleans count as floats where the
result is not whole.
"""

from __future__ import annotations

from typing import Any

from singax import ops
from singax.ops.operation import Operation
from singax.tensor import measures
from singax.tensor.operators import apart, predicate, stored
from singax.tensor.rules import apply, arithmetic, call


def abs(t: Any) -> Any:
    """|t|."""
    return call(ops.abs, t)


def exp(t: Any) -> Any:
    """e to the power t."""
    return call(ops.exp, t)


def ceil(t: Any) -> Any:
    """The smallest whole number not below t."""
    return call(ops.ceil, t)


def log(t: Any) -> Any:
    """Natural logarithm; −inf at 0, nan below."""
    return call(ops.log, t)


def sigmoid(t: Any) -> Any:
    """1 / (1 + exp(−t))."""
    return call(ops.sigmoid, t)


def sign(t: Any) -> Any:
    """−1, 0 or 1."""
    return call(ops.sign, t)


def sqrt(t: Any) -> Any:
    """Square root; nan below 0."""
    return call(ops.sqrt, t)


def square(t: Any) -> Any:
    """t · t."""
    return call(measures.square, t)


def tanh(t: Any) -> Any:
    """Hyperbolic tangent."""
    return call(ops.tanh, t)


def softmax(t: Any, out: Any = None) -> Any:
    """exp(t) normalised to sum 1 along the last axis. `out` receives the result and is returned.

    *Differences from SINGA*: t may have any number of axes. See `autograd.softmax` for other axes.
    """
    result = call(measures.softmax, apart(out, t))
    return result if out is None else stored(out, result)


def pow(t: Any, x: Any, out: Any = None) -> Any:
    """t to the power x, a number or a Tensor. `out` receives the result and is returned."""
    return _binary(ops.pow, t, x, out)


def add(lhs: Any, rhs: Any, ret: Any = None) -> Any:
    """lhs + rhs. `ret` receives the result and is returned."""
    return _binary(ops.add, lhs, rhs, ret)


def sub(lhs: Any, rhs: Any, ret: Any = None) -> Any:
    """lhs − rhs. `ret` receives the result and is returned."""
    return _binary(ops.sub, lhs, rhs, ret)


def eltwise_mult(lhs: Any, rhs: Any, ret: Any = None) -> Any:
    """lhs · rhs, element by element. `ret` receives the result and is returned."""
    return _binary(ops.mul, lhs, rhs, ret)


def div(lhs: Any, rhs: Any, ret: Any = None) -> Any:
    """lhs / rhs; ±inf or nan where rhs is 0. `ret` receives the result and is returned."""
    return _binary(ops.div, lhs, rhs, ret)


def lt(t: Any, x: Any) -> Any:
    """t < x as 0 and 1, as the operator."""
    return predicate(ops.less, t, x)


def le(t: Any, x: Any) -> Any:
    """t ≤ x as 0 and 1, as the operator."""
    return predicate(ops.less_equal, t, x)


def gt(t: Any, x: Any) -> Any:
    """t > x as 0 and 1, as the operator."""
    return predicate(ops.greater, t, x)


def ge(t: Any, x: Any) -> Any:
    """t ≥ x as 0 and 1, as the operator."""
    return predicate(ops.greater_equal, t, x)


def eq(t: Any, x: Any) -> Any:
    """t = x as 0 and 1, as the operator; False if x is None."""
    return False if x is None else predicate(ops.equal, t, x)


def _binary(operation: Operation, a: Any, b: Any, ret: Any) -> Any:
    """An operator, or its in-place form, which keeps the dtype of `ret`."""
    if ret is None:
        return arithmetic(operation, a, b)
    return stored(ret, apply(operation, apart(ret, a), apart(ret, b)))
