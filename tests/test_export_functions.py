"""Small functions of raw jnp and lax code as ONNX: the same in onnxruntime and, imported again, in singax."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from export_cases import check, normal
from jax import lax

import singax as sx
from singax.errors import ExportError

Function = Callable[..., Any]

ARITHMETIC: dict[str, Function] = {
    "polynomial": lambda x: x**3 - 2 * x**2 + 1 / (x + 9) - x**-2,
    "bases": lambda x: jnp.log2(jnp.abs(x) + 1) + jnp.log10(jnp.abs(x) + 1) + jnp.exp2(x) * jnp.power(3.0, x),
    "coefficients": lambda x: jnp.polyval(jnp.array([0.5, -1.0, 2.0, 1.0]), x) + jax.nn.gelu(x, approximate=True),
    "powers": lambda x: jnp.abs(x) ** 0.3 + jnp.sqrt(x * x + 1) + lax.rsqrt(x * x + 1) + jnp.cbrt(x),
    "near zero": lambda x: jnp.expm1(x * 1e-3) * 1e3 + jnp.log1p(jnp.abs(x) * 1e-3) * 1e3 + jnp.expm1(x),
    "exponentials": lambda x: jnp.logaddexp(x, 2 * x) + jnp.exp2(x) + jax.nn.log_sigmoid(x),
    "trigonometry": lambda x: jnp.sin(x) + jnp.arctan2(x, x - 1) + jnp.sinh(x) + jnp.tan(x / 9) + jnp.arctanh(x / 9),
    "errors": lambda x: lax.erf(x) + lax.erfc(x) * 2 + jax.nn.gelu(x, approximate=False),
    "rounding": lambda x: jnp.round(x * 2) + jnp.floor(x) + jnp.ceil(x) + jnp.trunc(x) + jnp.sign(x),
    "remainders": lambda x: jnp.mod(x, 0.7) + jnp.fmod(x, 0.7) + jnp.floor_divide(x, 0.7) + jnp.remainder(-x, 1.3),
    "limits": lambda x: jnp.clip(x, -0.5, 0.5) + jnp.maximum(x, 0.1) + lax.clamp(-1.0, x, 1.0) + jax.nn.relu6(x),
    "choices": lambda x: jnp.where(x > 0, jnp.where(x < 1, x, 1), -x) + jnp.where(jnp.isfinite(1 / x), 0, 1),
    "logic": lambda x: ((x > 0) & (x < 1)) | ~(x != 0) ^ (x >= 2),
    "integers": lambda x: (x * 9).astype(jnp.int32) // 4 + (x * 9).astype(jnp.int32) % 5 - jnp.int32(7) // 2,
    "conversion": lambda x: x.astype(jnp.int32).astype(jnp.float16).astype(jnp.float32) + (x > 0),
}

REDUCTION: dict[str, Function] = {
    "sums": lambda x: x.sum() + x.mean(-1, keepdims=True) + x.prod(1, keepdims=True),
    "batch mean": lambda x: x - x.mean(0),
    "spread": lambda x: (x.var(0), x.std((0, 1)), jnp.median(x, axis=1)),
    "extremes": lambda x: x.max(1) - x.min(1) + x.argmax(1) + x.argmin(1),
    "any and all": lambda x: jnp.any(x > 1, 1).astype(jnp.int32) + jnp.all(x > -9, 1) + (x > 0).sum(1),
    "norms": lambda x: x / jnp.linalg.norm(x, axis=-1, keepdims=True) + jax.nn.logsumexp(x, axis=1, keepdims=True),
    "softmax": lambda x: jax.nn.softmax(x) + jax.nn.log_softmax(x, 1) + jax.nn.standardize(x),
    "running": lambda x: jnp.cumsum(x, 1) + lax.cumsum(x, 1, reverse=True),
    "running others": lambda x: jnp.cumprod(x, 1) + lax.cummax(x, 1) + lax.cummin(x, 1, reverse=True),
    "running logsumexp": lambda x: lax.cumlogsumexp(x, 1),
}

SHAPES: dict[str, Function] = {
    "reshape": lambda x: x.reshape(x.shape[0], 2, -1).transpose(0, 2, 1).reshape(-1, 2),
    "rows and columns": lambda x: x[:, None, :] * x[:, :, None],
    "all pairs": lambda x: jnp.square(x[:, None] - x[None]).sum(-1),
    "joining": lambda x: jnp.concatenate([x, jnp.zeros((x.shape[0], 2)), jnp.stack([x[:, 0], x[:, 1]], 1)], 1),
    "repeating": lambda x: jnp.tile(x, (2, 1)) + jnp.repeat(x, 2, axis=0) + jnp.broadcast_to(x[:1], (2 * len(x), 6)),
    "padding": lambda x: jnp.pad(x, ((0, 0), (1, 2)), constant_values=3.0) + jnp.pad(x, ((0, 0), (3, 0)), mode="edge"),
    "lax padding": lambda x: lax.pad(x, 0.5, ((0, 0, 0), (-1, 2, 1))) + lax.pad(x, 0.0, ((0, 0, 0), (4, -3, 1))),
    "turning": lambda x: x[:, ::-1] + jnp.roll(x, 2, axis=1) + jnp.flip(x, (0, 1)),
    "slices": lambda x: x[1:, 1:-1:2] if len(x) > 9 else x[:, 1:-1:2],
    "splitting": lambda x: jnp.split(x, 3, axis=1)[1] + jnp.split(x, [2, 4], axis=1)[2],
    "counting": lambda x: x + jnp.arange(x.shape[0])[:, None] * jnp.arange(6) + jnp.eye(6)[2] + jnp.linspace(0, 1, 6),
    "triangles": lambda x: jnp.tril(x[:, :, None] + x[:, None]) + jnp.triu(jnp.ones((6, 6)), 1),
    "one hot": lambda x: jax.nn.one_hot(x[:, 0].astype(jnp.int32), 4),
}

INDEXING: dict[str, Function] = {
    "by numbers": lambda x: x[:, jnp.array([0, 2, -1])],
    "by computed": lambda x: x[:, (jnp.abs(x[0, :3]) * 2).astype(jnp.int32)],
    "by pairs": lambda x: x[jnp.arange(x.shape[0]), jnp.abs(x[:, 0]).astype(jnp.int32)],
    "by pairs of axes": lambda x: x.reshape(-1, 2, 3)[:, jnp.array([0, 1, 1]), jnp.array([2, 0, 1])],
    "apart": lambda x: x.reshape(-1, 2, 3)[jnp.array([0, 0]), :, jnp.array([2, 0])],
    "along": lambda x: jnp.take_along_axis(x, jnp.argsort(-x, axis=1)[:, :2], axis=1),
    "beyond": lambda x: jnp.take(x, jnp.array([1, 7, -9]), axis=1, mode="fill", fill_value=5.0),
    "clipped": lambda x: jnp.take(x, (x[:, 0] * 9).astype(jnp.int32), axis=1, mode="clip"),
    "batched": lambda x: jax.vmap(lambda row, i: row[i])(x, jnp.abs(x[:, 1]).astype(jnp.int32)),
    "windows": lambda x: jax.vmap(lambda row, i: lax.dynamic_slice(row, (i,), (3,)))(x, x[:, 1].astype(jnp.int32)),
    "dynamic": lambda x: lax.dynamic_slice(x, (0, jnp.abs(x[0, 0]).astype(jnp.int32)), (1, 4)),
    "updated": lambda x: lax.dynamic_update_slice(x, x[:1, :2], (0, jnp.abs(x[0, 0]).astype(jnp.int32))),
    "set": lambda x: x.at[:, 1].set(0.0).at[0, jnp.array([2, 3])].set(7.0),
    "set mask": lambda x: x.at[:, jnp.array([0, 9])].set(1.0, mode="drop"),
    "sorting": lambda x: jnp.sort(x, axis=1) + jnp.argsort(x, axis=1),
    "several keys": lambda x: lax.sort((jnp.round(x), x, -x), dimension=1, num_keys=2),
    "largest": lambda x: lax.top_k(x, 3),
    "searching": lambda x: jnp.searchsorted(jnp.linspace(-2, 2, 9), x),
}

REDUCED_UPDATES: dict[str, Function] = {  # ScatterND adds from opset 16 on, compares from 18 on
    "added": lambda x: x.at[:, jnp.array([1, 1, 2])].add(1.0),
    "segments": lambda x: jax.ops.segment_sum(x, jnp.abs(x[:, 0]).astype(jnp.int32), 4),
    "histogram": lambda x: jnp.zeros(5).at[jnp.abs(x[:, 0]).astype(jnp.int32)].add(x[:, 1]),
}

PRODUCTS: dict[str, Function] = {
    "matrices": lambda x: x @ jnp.ones((6, 3)) + x @ x.T[:, :1],
    "einsum": lambda x: jnp.einsum("bi,bj,jk->bik", x, x, jnp.ones((6, 2))),
    "batched product": lambda x: jnp.einsum("bhi,bhj->hij", x.reshape(-1, 2, 3), x.reshape(-1, 2, 3)),
    "contracted twice": lambda x: jnp.tensordot(x.reshape(-1, 2, 3), jnp.ones((2, 3, 5)), 2),
    "outer": lambda x: jnp.outer(x[:, 0], jnp.arange(3.0)),
    "convolution": lambda x: lax.conv_general_dilated(
        x.reshape(-1, 6, 1), jnp.ones((3, 1, 2)), (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC")
    ),
    "signal": lambda x: jax.vmap(lambda row: jnp.convolve(row, jnp.array([1.0, 2.0, -1.0]), mode="same"))(x),
    "windows": lambda x: (
        lax.reduce_window(x, -jnp.inf, lax.max, (1, 3), (1, 2), "SAME")
        + lax.reduce_window(x, 0.0, lax.add, (1, 2), (1, 2), "VALID")
    ),
    "products in windows": lambda x: lax.reduce_window(x, 1.0, lax.mul, (1, 3), (1, 1), "SAME"),
}

CONTROL: dict[str, Function] = {
    "scan": lambda x: lax.scan(lambda c, row: (0.5 * c + row, c.sum()), jnp.zeros(6), x),
    "scan backwards": lambda x: lax.scan(lambda c, row: (c + row, c * row), jnp.zeros(6), x, reverse=True),
    "scan of steps": lambda x: lax.scan(lambda c, _: (jnp.cos(c), c[0, 0]), x, None, length=4),
    "for": lambda x: lax.fori_loop(0, 5, lambda i, c: c * 0.9 + i, x),
    "while": lambda x: lax.while_loop(lambda c: c[0] < 5, lambda c: (c[0] + 1, jnp.tanh(c[1] + x)), (0, x))[1],
    "while data": lambda x: lax.while_loop(lambda c: jnp.abs(c).max() > 0.1, lambda c: c / 2, x),
    "cond": lambda x: lax.cond(x.sum() > 0, lambda: x * 2, lambda: x - 1),
    "switch": lambda x: lax.switch(
        jnp.abs(x[0, 0] * 2).astype(jnp.int32), [lambda v: v, lambda v: v * 2, lambda v: v.sum() + v], x
    ),
    "map": lambda x: lax.map(lambda row: row @ row, x),
    "vmap": lambda x: jax.vmap(jnp.dot, (0, None))(x, x[0]),
    "nested": lambda x: lax.scan(
        lambda c, row: (lax.cond(row[0] > 0, lambda: c + row, lambda: c - row), c), jnp.zeros(6), x
    )[0],
    "jit and checkpoint": lambda x: jax.jit(jax.checkpoint(lambda v: jnp.sin(v) * v))(x),
    "derivative": lambda x: jax.grad(lambda v: (jnp.tanh(v) ** 2).sum())(x),
}

TABLES = ARITHMETIC, REDUCTION, SHAPES, INDEXING, PRODUCTS, CONTROL
CASES = [pytest.param(function, id=name) for table in TABLES for name, function in table.items()]


@pytest.mark.parametrize("function", CASES)
def test_functions(function: Function) -> None:
    check(function, normal(6), opsets=(17,))


@pytest.mark.parametrize("name", REDUCED_UPDATES)
def test_updates_that_add(name: str) -> None:
    check(REDUCED_UPDATES[name], normal(6), opsets=(18,))


def test_bits() -> None:
    def bits(x: jax.Array) -> jax.Array:
        n = (x * 99).astype(jnp.int32)
        return ((n & 12) | (n ^ 5)) + (n >> 2) + (n << 1) + ~n + lax.shift_right_logical(n, 30)

    check(bits, normal(6), opsets=(17, 18))


def test_bits_of_floats() -> None:
    def bits(x: jax.Array) -> jax.Array:
        whole = lax.bitcast_convert_type((x * 9).astype(jnp.int32), jnp.uint32) >> 28
        return whole + lax.reduce_precision(x, 8, 7) + lax.reduce_precision(x, 5, 10) + lax.reduce_precision(x, 8, 23)

    check(bits, normal(6))
    with pytest.raises(ExportError, match="bitcast_convert_type of float32 to int32"):
        sx.sonnx.to_onnx(lambda x: lax.bitcast_convert_type(x, jnp.int32), [np.ones((4, 3), np.float32)])
    with pytest.raises(ExportError, match="reduce_precision to 4 and 3 bits"):
        sx.sonnx.to_onnx(lambda x: lax.reduce_precision(x, 4, 3), [np.ones((4, 3), np.float32)])


FOURIER: dict[str, Function] = {
    "spectrum": lambda x: jnp.abs(jnp.fft.rfft(x)),
    "power": lambda x: (lambda z: (z * jnp.conj(z)).real)(jnp.fft.fft(x)),
    "along another axis": lambda x: jnp.fft.fft(x.T, axis=0).imag.T,
    "there and back": lambda x: jnp.fft.irfft(jnp.fft.rfft(x) * 2) - jnp.fft.ifft(jnp.fft.fft(x)).real,
    "odd length": lambda x: jnp.fft.irfft(jnp.fft.rfft(x[:, :5]), n=5),
    "two axes": lambda x: jnp.abs(jnp.fft.rfft2(x.reshape(-1, 2, 3))) + jnp.fft.fft2(x.reshape(-1, 2, 3)).real[..., :2],
    "filter": lambda x: jnp.fft.irfft(jnp.fft.rfft(x) * jnp.fft.rfft(jnp.array([1.0, 2, 0, 0, 0, 0]))),
    "some frequencies": lambda x: jnp.abs(jnp.fft.rfft(x)[:, jnp.array([2, 0, 3])]),
    "a real number's conjugate": lambda x: lax.conj(x).imag + (1j * x).imag,
    "parts": lambda x: (lambda z: z.real - z.imag + jnp.abs(-z))(lax.complex(x, x + 1) + jnp.fft.fft(x)),
}


@pytest.mark.parametrize("name", FOURIER)
def test_fourier_transforms(name: str) -> None:
    check(FOURIER[name], normal(6))


def test_complex_numbers_elsewhere_are_refused() -> None:
    x = np.ones((4, 3), np.float32)
    with pytest.raises(ExportError, match="exp of complex numbers has no form"):
        sx.sonnx.to_onnx(lambda x: jnp.exp(jnp.fft.fft(x)).real, [x])
    with pytest.raises(ExportError, match="output is complex"):
        sx.sonnx.to_onnx(jnp.fft.fft, [x])
    with pytest.raises(ExportError, match="fft has an operator only from opset 17"):
        sx.sonnx.to_onnx(lambda x: jnp.fft.fft(x).real, [x], opset=16)


def test_everything_unsupported_is_named_at_once() -> None:
    def forward(x: jax.Array) -> jax.Array:
        noise = jax.random.normal(jax.random.key(0), x.shape)
        return lax.igamma(x, x) + lax.nextafter(x, x) + noise

    with pytest.raises(ExportError, match=r"random_.*random numbers.*") as caught:
        sx.sonnx.to_onnx(forward, [np.ones((4, 3), np.float32)])
    assert "igamma" in str(caught.value)
    assert "nextafter" in str(caught.value)
