"""Matrix products and sums of products."""

from __future__ import annotations

from typing import Any

from random_graphs.builder import F32, WIDE_FLOATS, Builder
from random_graphs.rules import rule
from random_graphs.tame import tame
from random_graphs.values import Shapes, Value, both, broadcast, integers, like, rough


def summed(x: Value, y: Value, shapes: Shapes, terms: int) -> Value:
    """Sums of products of x and y, exact if both are."""
    high = x.bound * y.bound * terms
    if not x.floating:
        return integers(x.dtype, shapes, -high, high)
    gain = terms * max(x.bound, y.bound)
    result = rough([x, y], shapes, -high, high, gain, 2)
    exact = x.grid is not None and y.grid is not None
    return like(result, grid=(x.grid or 0) + (y.grid or 0), error=0.0) if exact else result


def product_shapes(x: Value, y: Value) -> Shapes:
    """The shapes of a matrix product."""
    rows = Value("", x.dtype, x.mapped(lambda s: s[:-2]), 0, 0)
    columns = Value("", x.dtype, y.mapped(lambda s: s[:-2]), 0, 0)
    batch = broadcast(rows, columns)
    first, second = ((*batch[r], x.shapes[r][-2], y.shapes[r][-1]) for r in (0, 1))
    return first, second


@rule("MatMul", 9)
def _matmul(g: Builder) -> Any:
    x = g.pick((*WIDE_FLOATS, "int32", "float16"), range(2, 5))
    x = tame(g, x, 8) if x.floating else x
    terms = x.size(-1)
    if g.chance(0.6) and x.floating:
        y = g.weight((terms, g.int(1, 5)), x.dtype, 0.5)
    else:
        matches = lambda v: v.shapes[0][-2] == v.shapes[1][-2] == terms  # noqa: E731
        y = g.pick([x.dtype], range(2, 5), where=matches)
        y = tame(g, y, 2) if y.floating else y
    return g.emit("MatMul", [x, y], summed(x, y, product_shapes(x, y), terms))


@rule("MatMul", 7)
def _vectors(g: Builder) -> Any:
    x = tame(g, g.pick(F32, range(1, 4)), 8)
    y = g.weight((x.size(-1),), x.dtype)
    return g.emit("MatMul", [x, y], summed(x, y, x.mapped(lambda s: s[:-1]), x.size(-1)))


@rule("Gemm", 7)
def _gemm(g: Builder) -> Any:
    x = tame(g, g.pick(WIDE_FLOATS, [2]), 8)
    flip_x, flip_y = g.int(0, 1), g.int(0, 1)
    terms, columns = x.size(0 if flip_x else 1), g.int(1, 5)
    y = g.weight((columns, terms) if flip_y else (terms, columns), x.dtype, 0.5)
    shapes = x.mapped(lambda s: [s[1] if flip_x else s[0], columns])
    product = summed(x, y, shapes, terms)
    alpha, beta = g.choice([None, 0.5]), g.choice([None, 2.0])
    bias = (
        g.weight(g.choice([(columns,), (1, columns), (1,), ()]), x.dtype, 1.0)
        if g.opset < 11 or g.chance(0.8)
        else None
    )
    high = product.bound + 2
    result = like(product, low=-high, high=high, grid=None if product.grid is None else product.grid + 4)
    return g.emit("Gemm", [x, y, bias], result, transA=flip_x, transB=flip_y, alpha=alpha, beta=beta)


@rule("Einsum", 12)
def _einsum(g: Builder) -> Any:
    x = tame(g, g.pick(F32, [3]), 4)
    terms = x.size(2)
    y = g.weight((3, terms), x.dtype, 0.5)
    equation = g.choice(["abc,dc->abd", "abc,dc->dab", "...c,dc->...d", "abc,dc->db", "a b c, d c -> a d"])
    b_summed, a_summed = equation.startswith("a b"), equation.endswith("->db")
    rows = max(s[1] for s in x.shapes) if b_summed else max(s[0] for s in x.shapes) if a_summed else 1
    rules: dict[str, Any] = {
        "abc,dc->abd": lambda s: (s[0], s[1], 3),
        "abc,dc->dab": lambda s: (3, s[0], s[1]),
        "...c,dc->...d": lambda s: (s[0], s[1], 3),
        "abc,dc->db": lambda s: (3, s[1]),
        "a b c, d c -> a d": lambda s: (s[0], 3),
    }
    return g.emit("Einsum", [x, y], summed(x, y, x.mapped(rules[equation]), terms * rows), equation=equation)


@rule("Einsum", 12)
def _diagonal(g: Builder) -> Any:
    x = g.pick(F32, [2], where=lambda v: all(s[0] == s[1] for s in v.shapes))
    trace = g.chance()
    count = max(s[0] for s in x.shapes) if trace else 1
    shapes = both(()) if trace else x.mapped(lambda s: [s[0]])
    result = like(x, shapes=shapes, low=-x.bound * count, high=x.bound * count, error=x.error * count)
    return g.emit("Einsum", [x], result, equation="ii->" if trace else "ii->i")


@rule("Det", 11)
def _det(g: Builder) -> Any:
    x = g.pick(F32, range(2, 4), where=lambda v: all(s[-1] == s[-2] <= 3 for s in v.shapes))
    x = tame(g, x, 1)
    n = max(s[-1] for s in x.shapes)
    result = rough([x], x.mapped(lambda s: s[:-2]), -6, 6, 6 * n, 8)
    return g.emit("Det", [x], result)
