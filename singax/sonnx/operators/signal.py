"""Fourier transforms, the windows before them, and the mel scale after them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from singax.errors import ArgumentError, ShapeError
from singax.ops.checks import normal_axis
from singax.ops.window import wide_dtype
from singax.sonnx.operators.elementwise import dtype_of
from singax.sonnx.operators.geometry import affordable
from singax.sonnx.registry import Call, onnx_operator

Array = Any


@onnx_operator("DFT", since=17)
def dft_by_attribute(call: Call, x: Array, _: Array = None) -> Array:
    """Along the axis of an attribute."""
    return _dft(call, x, call.attribute("axis", 1))


@onnx_operator("DFT", since=20)
def dft(call: Call, x: Array, _: Array = None, __: Array = None) -> Array:
    """Along the axis of an input."""
    return _dft(call, x, _number(call, 2, -2))


def _number(call: Call, position: int, default: Any = None) -> int:
    """A whole number from an input of one element."""
    value = call.static(position)
    if value is None and default is not None:
        return int(default)
    if value is None or value.size != 1:
        raise ShapeError(f"expected one number as input {position}. Received: {value}")
    return int(value.reshape(()))


def _dft(call: Call, x: Array, axis: int) -> Array:
    """x (…, 1) of reals or (…, 2) of real and imaginary parts, transformed or transformed back along an axis."""
    x = jnp.asarray(x)
    axis = normal_axis("DFT", axis, x.ndim)
    inverse, onesided = bool(call.attribute("inverse", 0)), bool(call.attribute("onesided", 0))
    if x.ndim < 2 or x.shape[-1] not in (1, 2) or axis == x.ndim - 1:
        raise ShapeError(f"expected signals (…, 1) or (…, 2) and an axis before the last. Received: {x.shape}, {axis}")
    length = _number(call, 1, 2 * (x.shape[axis] - 1) if inverse and onesided else x.shape[axis])
    affordable("a transform", (*x.shape[:axis], length, *x.shape[axis + 1 : -1], 2))
    if length < 1:
        raise ArgumentError(f"expected a dft_length of 1 or more. Received: {length}")
    values = x.astype(wide_dtype(x.dtype))
    signal = values[..., 0] + 1j * values[..., 1] if x.shape[-1] == 2 else values[..., 0]
    return _transformed(signal, length, axis, inverse, onesided).astype(x.dtype)


def _transformed(signal: Array, length: int, axis: int, inverse: bool, onesided: bool) -> Array:
    if inverse:
        back = jnp.fft.irfft if onesided else jnp.fft.ifft
        return jnp.expand_dims(back(signal, length, axis), -1) if onesided else _parts(back(signal, length, axis))
    half = np.arange(length // 2 + 1)
    if jnp.iscomplexobj(signal):
        found = jnp.fft.fft(signal, length, axis)
        return _parts(jnp.take(found, half, axis) if onesided else found)
    found = jnp.fft.rfft(signal, length, axis)
    if onesided:
        return _parts(found)
    mirrored = jnp.conj(jnp.take(found, half[1 : (length + 1) // 2][::-1], axis))
    return _parts(jnp.concatenate([found, mirrored], axis))


def _parts(values: Array) -> Array:
    """Complex numbers as real and imaginary parts along a last axis."""
    return jnp.stack([values.real, values.imag], axis=-1)


@onnx_operator("STFT")
def stft(call: Call, x: Array, _: Array, window: Array = None, __: Array = None) -> Array:
    """Fourier transforms of frames of x (N, length, 1 or 2), `frame_step` apart, each times the window."""
    x = jnp.asarray(x)
    if x.ndim != 3 or x.shape[2] not in (1, 2):
        raise ShapeError(f"expected signals (N, length, 1 or 2). Received shape {x.shape}")
    step = _number(call, 1)
    length = _number(call, 3, x.shape[1] if window is None else np.shape(window)[0])
    if step < 1 or not 1 <= length <= x.shape[1] or (window is not None and np.shape(window) != (length,)):
        raise ArgumentError(f"expected frames within {x.shape[1]}, a step and a window. Received: {length}, {step}")
    count = 1 + (x.shape[1] - length) // step
    affordable("all frames", (x.shape[0], count, length, 2))
    frames = jnp.take(x, np.arange(count)[:, None] * min(step, x.shape[1]) + np.arange(length), axis=1)
    frames = frames.astype(wide_dtype(x.dtype))
    frames = frames if window is None else frames * window[:, None]
    signal = frames[..., 0] + 1j * frames[..., 1] if x.shape[2] == 2 else frames[..., 0]
    return _transformed(signal, length, 2, False, bool(call.attribute("onesided", 1))).astype(x.dtype)


@onnx_operator("HannWindow", "HammingWindow", "BlackmanWindow")
def window(call: Call, _: Array) -> np.ndarray:
    """Sums of cosines over as many places as the input says: known while tracing."""
    (size,) = affordable("a window", (_number(call, 0),))
    turns = np.arange(size) / max(size if call.attribute("periodic", 1) else size - 1, 1)
    waves = [factor * np.cos(2 * math.pi * k * turns) for k, factor in enumerate(_WAVES[call.node.op_type])]
    return np.sum(waves, axis=0).astype(dtype_of(call.attribute("output_datatype", 1)))


_WAVES: dict[str, Sequence[float]] = {
    "HannWindow": (0.5, -0.5),
    "HammingWindow": (25 / 46, -21 / 46),
    "BlackmanWindow": (0.42, -0.5, 0.08),
}


@onnx_operator("MelWeightMatrix")
def mel_weight_matrix(call: Call, *_: Array) -> np.ndarray:
    """Triangles over the bins of a spectrum, evenly spread on the mel scale: (bins, mel bins), known while tracing."""
    bands, length, rate = (_number(call, k) for k in range(3))
    low, high = (float(call.static(k).reshape(())) for k in (3, 4))
    if bands < 1 or length < 1 or rate < 1 or not 0 <= low <= high:
        raise ArgumentError(
            f"expected bands, a length, a rate and edges. Received: {bands}, {length}, {rate}, {low}, {high}"
        )
    affordable("a matrix", (length // 2 + 1, bands + 2))
    first, last = (2595 * math.log10(1 + edge / 700) for edge in (low, high))
    mels = np.arange(bands + 2) * (last - first) / (bands + 2) + first
    places = (length + 1) * (700 * (10 ** (mels / 2595) - 1)) // rate
    return _triangles(places, length // 2 + 1).astype(dtype_of(call.attribute("output_datatype", 1)))


def _triangles(places: np.ndarray, bins: int) -> np.ndarray:
    """Each rises from one place to the next and falls to the one after it; one that does not rise is 1 at its top."""
    bin_, (left, top, right) = np.arange(bins)[:, None], (places[k : len(places) - 2 + k] for k in range(3))
    rise, fall = top - left, right - top
    up = (bin_ - left) / np.where(rise == 0, 1, rise)
    down = (right - bin_) / np.where(fall == 0, 1, fall)
    rising = np.where(rise == 0, bin_ == top, np.where((bin_ >= left) & (bin_ <= top), up, 0))
    return np.where((bin_ >= top) & (bin_ < right) & (fall > 0), down, rising)
