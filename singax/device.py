"""Devices: SINGA's functions over JAX's devices. Nothing touches a device before it is used.

>>> import singax as sx
>>> sx.device.create_cpu_device() == sx.device.create_cpu_device()
True
"""

from __future__ import annotations

import copy
import functools
import weakref
from typing import Any

import jax
import numpy as np

from singax.errors import ArgumentError, DeviceNotFoundError
from singax.recipes import HostSource, host_source
from singax.storage import Cell, Deferred

_PLATFORM_NAMES = {"cuda": "gpu", "rocm": "gpu"}


class Device:
    """One device of a platform (`"cpu"`, `"gpu"`, `"tpu"`, or None for JAX's default), found when first used.

    `id()` is SINGA's way of comparing devices: −1 for the CPU, 0 and up for accelerators; `==` works as well.
    """

    def __init__(self, platform: str | None = None, index: int = 0) -> None:
        self.platform, self.index = platform, index

    @functools.cached_property
    def jax_device(self) -> jax.Device:
        """The `jax.Device`. Raises `DeviceNotFoundError` when this machine does not have it."""
        try:
            found = jax.local_devices() if self.platform is None else jax.local_devices(backend=self.platform)
        except RuntimeError as error:
            raise DeviceNotFoundError(self._missing()) from error
        if self.index >= len(found):
            raise DeviceNotFoundError(self._missing())
        return found[self.index]

    def _missing(self) -> str:
        present = ", ".join(sorted({d.platform for d in jax.devices()}))
        return f"there is no device {self.platform}:{self.index} on this machine; JAX sees: {present}"

    @property
    def place(self) -> Any:
        """What arrays are moved to: None (JAX decides) for the default device."""
        return None if self.platform is None else self.jax_device

    def id(self) -> int:
        """−1 for the CPU, otherwise the number of the accelerator."""
        return -1 if self.jax_device.platform == "cpu" else int(self.jax_device.id)

    def SetRandSeed(self, seed: int) -> None:
        """Seed parameters that are created from now on, in-place fills, and the dropout of every live model."""
        set_seed(seed)

    def Sync(self) -> None:
        """Wait until everything submitted so far has run."""
        jax.effects_barrier()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and self.jax_device == other.jax_device

    def __hash__(self) -> int:
        return hash(self.jax_device)

    def __repr__(self) -> str:
        return "Device(default)" if self.platform is None else f"Device({self.platform}:{self.index})"


class Randomness:
    """The seed, the host generator of in-place fills, and the keys of everything that draws in compiled code."""

    def __init__(self) -> None:
        self.generators: weakref.WeakSet[Generator] = weakref.WeakSet()
        self.free_layers = 0
        self.reseed(0)

    def reseed(self, seed: int) -> None:
        self.seed = seed
        self.fills: HostSource = host_source(seed, "fills")
        self.free_layers = 0
        for generator in list(self.generators):
            generator.reset()

    def next_free_layer(self) -> int:
        """A number for a layer without a model, so that two of them do not start with equal weights."""
        self.free_layers += 1
        return self.free_layers


class Generator:
    """A random key as state: a cell with two uint32 words, which a compiled step moves forward."""

    def __init__(self) -> None:
        self.cell = Cell(None)
        self.reset()
        randomness.generators.add(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Generator:
        made = Generator()
        made.cell = copy.deepcopy(self.cell, memo)
        return made

    def reset(self) -> None:
        """Start again from the current seed."""
        seed = randomness.seed
        self.cell.set(Deferred((2,), np.dtype("uint32"), None, lambda: key_words(seed)), lent=False)


def key_words(seed: int) -> np.ndarray:
    """The two words of a random key for `seed` (uint32, shape (2,))."""
    return np.array([(seed >> 32) & 0xFFFFFFFF, seed & 0xFFFFFFFF], np.uint32)


randomness = Randomness()
free_generator = Generator()
default_device = Device()


def set_seed(seed: int) -> None:
    """Set the seed of everything random: the same seed gives the same parameters, fills and dropout masks.

    Raises `ArgumentError` unless `seed` is an integer from 0 to 2**64 − 1.
    """
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed < 2**64:
        raise ArgumentError(f"the seed must be an integer from 0 to 2**64 - 1. Received: {seed!r}")
    randomness.reseed(int(seed))


def get_default_device() -> Device:
    """The device that JAX uses by default (the accelerator, where there is one)."""
    return default_device


def create_cpu_device() -> Device:
    """The host CPU."""
    return Device("cpu")


def create_cuda_gpu() -> Device:
    """GPU 0. Raises `DeviceNotFoundError` where there is none."""
    return create("gpu")


def create_cuda_gpu_on(device_id: int) -> Device:
    """GPU `device_id`. Raises `DeviceNotFoundError` where there is none."""
    return create(f"gpu:{device_id}")


def create(name: str) -> Device:
    """The device named `"platform"` or `"platform:index"`: `"cpu"`, `"gpu:1"`, `"cuda:0"`, `"tpu"` …

    Raises `ArgumentError` for a malformed name and `DeviceNotFoundError` for one that this machine does not have.
    """
    platform, _, index = name.partition(":")
    if not platform or not (index or "0").isdigit():
        raise ArgumentError(f"a device is named 'platform' or 'platform:index', such as 'gpu:1'. Received: {name!r}")
    found = Device(_PLATFORM_NAMES.get(platform, platform), int(index or 0))
    _ = found.jax_device
    return found


def as_place(device: Any) -> Any:
    """What `jax.device_put` takes for `device`: a Device, a name, a `jax.Device`, a `Sharding`, or None (default)."""
    if isinstance(device, str):
        device = create(device)
    return device.place if isinstance(device, Device) else device
