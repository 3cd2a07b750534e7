"""Recipes for initial values, and the two sources of randomness that can carry them out.

A recipe is drawn from a `HostSource` (NumPy's Philox, no compilation: what `compile` and the in-place fills use) or
from a `TracedSource` (a JAX key, for `functional()`'s `init_fn` and for fills inside a compiled step). Both offer the
same methods, so each distribution is written once.

Why NumPy: the 17 convolution weights of a ResNet-18 took 0.5 s this way, 6.3 s with `jax.random.normal` called
for each and 8.6 s in one jitted program (XLA compiles one generator per shape), on one two-core machine.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

Sizes = tuple[int, ...]


class Source(Protocol):
    """Where random numbers come from: a seed or key, and the path of the parameter that is drawn."""

    path: str

    def at(self, path: str) -> Source: ...
    def each(self, paths: Sequence[str], draw: Callable[[Source], Any]) -> Any: ...
    def normal(self, shape: Sizes) -> Any: ...
    def uniform(self, shape: Sizes) -> Any: ...
    def key(self) -> jax.Array: ...


class HostSource:
    """Float32 draws of a NumPy Philox generator, made on the host."""

    def __init__(self, seed: int, path: str) -> None:
        self.seed, self.path = seed, path
        self.generator = np.random.Generator(np.random.Philox(key=_digest(f"{seed}/{path}")))

    def at(self, path: str) -> HostSource:
        """The source of another path under the same seed."""
        return HostSource(self.seed, path)

    def each(self, paths: Sequence[str], draw: Callable[[Source], Any]) -> np.ndarray:
        """The draws at all `paths`, stacked."""
        return np.stack([np.asarray(draw(self.at(path))) for path in paths])

    def normal(self, shape: Sizes) -> np.ndarray:
        return np.asarray(self.generator.standard_normal(shape, dtype=np.float32))

    def uniform(self, shape: Sizes) -> np.ndarray:
        return np.asarray(self.generator.random(shape, dtype=np.float32))

    def key(self) -> jax.Array:
        return jax.random.key(int(self.generator.integers(2**31)))


class TracedSource:
    """Float32 draws from a JAX key; works under `jit` and `vmap`. A function makes the key if one is needed."""

    def __init__(self, key: jax.Array | Callable[[], jax.Array], path: str = "", base: jax.Array | None = None) -> None:
        self._make = key if callable(key) else lambda: key
        self._key: Any = None
        self.path, self._base = path, base

    def at(self, path: str) -> TracedSource:
        """The source of another path under the same key."""
        return traced_source(self._common(), path)

    def each(self, paths: Sequence[str], draw: Callable[[Source], Any]) -> jax.Array:
        """The draws at all `paths`, stacked; one program for any number of them."""
        key, words = self._common(), jnp.asarray([_word(path) for path in paths], jnp.uint32)
        return jax.vmap(lambda word: jnp.asarray(draw(TracedSource(jax.random.fold_in(key, word)))))(words)

    def _common(self) -> jax.Array:
        """The key that all paths share."""
        if self._base is None:
            self._base = self.key()
        return self._base

    def normal(self, shape: Sizes) -> jax.Array:
        return jax.random.normal(self.key(), shape)

    def uniform(self, shape: Sizes) -> jax.Array:
        return jax.random.uniform(self.key(), shape)

    def key(self) -> jax.Array:
        self._key, key = jax.random.split(self._make() if self._key is None else self._key)
        return key


def _digest(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=16).digest(), "little")


def _word(path: str) -> int:
    return _digest(path) & 0x7FFFFFFF


def host_source(seed: int, path: str) -> HostSource:
    """The source of the parameter at `path`: depends on the seed and the path, and on nothing else."""
    return HostSource(seed, path)


def traced_source(key: jax.Array, path: str) -> TracedSource:
    """The source of the parameter at `path` under a JAX key."""
    return TracedSource(jax.random.fold_in(key, _word(path)), path, key)


class Recipe(Protocol):
    """Anything that can make initial values: `draw(source, shape, dtype)` → array of that shape and dtype."""

    def draw(self, source: Source, shape: Sizes, dtype: np.dtype) -> Any: ...


@dataclass(frozen=True)
class Constant:
    value: float

    def draw(self, source: Source, shape: Sizes, dtype: np.dtype) -> Any:
        return np.full(shape, self.value).astype(dtype)


@dataclass(frozen=True)
class Normal:
    mean: float
    std: float

    def draw(self, source: Source, shape: Sizes, dtype: np.dtype) -> Any:
        return _affine(source.normal(shape), self.std, self.mean, dtype)


@dataclass(frozen=True)
class Uniform:
    low: float
    high: float

    def draw(self, source: Source, shape: Sizes, dtype: np.dtype) -> Any:
        return _affine(source.uniform(shape), self.high - self.low, self.low, dtype)


@dataclass(frozen=True)
class Bernoulli:
    probability: float

    def draw(self, source: Source, shape: Sizes, dtype: np.dtype) -> Any:
        return (source.uniform(shape) < self.probability).astype(dtype)


@dataclass(frozen=True)
class Eye:
    def draw(self, source: Source, shape: Sizes, dtype: np.dtype) -> Any:
        return np.eye(*shape, dtype=dtype)


@dataclass(frozen=True)
class Orthogonal:
    """Rows or columns of a random orthogonal matrix, times `gain` (Saxe et al. 2014)."""

    gain: float

    def draw(self, source: Source, shape: Sizes, dtype: np.dtype) -> Any:
        rows, columns = shape[0], int(np.prod(shape[1:]))
        sample = source.normal((max(rows, columns), min(rows, columns)))
        numpy = np if isinstance(sample, np.ndarray) else jnp
        q, r = numpy.linalg.qr(sample)
        q = q * numpy.sign(numpy.diagonal(r))
        return (self.gain * (q if rows >= columns else q.T)).reshape(shape).astype(dtype)


@dataclass(frozen=True)
class FromFunction:
    """A JAX-style initializer `function(key, shape, dtype)`, such as those of `jax.nn.initializers`."""

    function: Callable[..., Any]

    def draw(self, source: Source, shape: Sizes, dtype: np.dtype) -> Any:
        return jnp.asarray(self.function(source.key(), shape, dtype))


@dataclass(frozen=True)
class Mapped:
    """Another recipe followed by an in-place operation, such as `W *= 0.1` inside `initialize`."""

    recipe: Recipe
    function: Callable[[Any], Any]

    def draw(self, source: Source, shape: Sizes, dtype: np.dtype) -> Any:
        return jnp.asarray(self.function(jnp.asarray(self.recipe.draw(source, shape, dtype)))).astype(dtype)


@dataclass(frozen=True)
class Stacked:
    """`count` values of another recipe along a new first axis: the parameters of equal blocks.

    `below` is the part of the path inside a block. Value i is drawn as the parameter of a separate block i would be:
    for the path `blocks.fc.W` with `below="fc.W"` at `blocks.0.fc.W`, `blocks.1.fc.W` …
    """

    recipe: Recipe
    count: int
    below: str

    def draw(self, source: Source, shape: Sizes, dtype: np.dtype) -> Any:
        recipe, depth = self._innermost()
        home = getattr(recipe, "home", lambda path: path)
        paths = [home(path) for path in self._paths(source.path)]
        return source.each(paths, lambda each: recipe.draw(each, shape[depth:], dtype)).reshape(shape)

    def _innermost(self) -> tuple[Recipe, int]:
        if not isinstance(self.recipe, Stacked):
            return self.recipe, 1
        recipe, depth = self.recipe._innermost()
        return recipe, depth + 1

    def _paths(self, path: str) -> list[str]:
        head = path.removesuffix(self.below)
        own = [f"{head}{number}.{self.below}" for number in range(self.count)]
        inner = self.recipe
        return [p for each in own for p in inner._paths(each)] if isinstance(inner, Stacked) else own


def _affine(sample: Any, scale: float, shift: float, dtype: np.dtype) -> Any:
    if isinstance(sample, np.ndarray):  # in place: a weight is not copied three times
        sample *= np.float32(scale)
        sample += np.float32(shift)
        return sample.astype(dtype, copy=False)
    return (sample * scale + shift).astype(dtype)


def required_parameters(function: Callable[..., Any]) -> int:
    """How many positional parameters without a default `function` takes; 0 when that cannot be told."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 0
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(p.kind in positional and p.default is inspect.Parameter.empty for p in parameters)
