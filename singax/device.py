"""Devices: SINGA's functions over JAX's devices. Nothing touches a device before it is used.

>>> import singax as sx
>>> sx.device.create_cpu_device() == sx.device.create_cpu_device()
True
"""

from __future__ import annotations

import copy
import functools
import time
import warnings
import weakref
from collections.abc import Callable, Iterable
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

    def host(self) -> Device:
        """The host CPU."""
        return create_cpu_device()

    def SetRandSeed(self, seed: int) -> None:
        """Seed parameters that are created from now on, in-place fills, and the dropout of every live model."""
        set_seed(seed)

    def Sync(self) -> None:
        """Wait until everything submitted so far has run."""
        jax.effects_barrier()

    def Reset(self) -> None:
        """Forget the time profile and its settings. The seed stays."""
        step_times.reset()

    def EnableGraph(self, enable: bool) -> None:
        """A device records no operations: False says what is so anyway, True warns and changes nothing.

        Training steps are compiled by `Model.compile(use_graph=True)` or `Model.graph(True)`.
        """
        if enable:
            warnings.warn(
                "EnableGraph(True) has no effect: a device records no operations, they run at once. Use "
                "Model.compile(use_graph=True) or Model.graph(True) to compile training steps",
                stacklevel=2,
            )

    def graph_enabled(self) -> bool:
        """False: operations are never recorded for later."""
        return False

    def ResetGraph(self) -> None:
        """Nothing to do: a device records no operations."""

    def RunGraph(self, serial: bool = False) -> None:
        """Wait for everything that was submitted. Nothing is recorded, so nothing is left to run, serial or not."""
        self.Sync()

    def SetVerbosity(self, verbosity: int) -> None:
        """What is timed from now on, on all devices: 0 nothing (default), 1 each compiled step.

        A timed step is waited for. *Differences from SINGA*: operations cannot be timed one by one (2, 3), nor forward
        and backward apart, since a step is one program: `jax.profiler.trace` shows what is inside.
        """
        if verbosity not in (0, 1):
            raise ArgumentError(
                "verbosity is 0 or 1: a step is one program, whose operations jax.profiler.trace shows. "
                f"Received: {verbosity!r}"
            )
        step_times.verbosity = int(verbosity)

    def SetSkipIteration(self, skip_iteration: int) -> None:
        """How many runs of each step `PrintTimeProfiling` leaves out at the start (default 5)."""
        if isinstance(skip_iteration, bool) or not isinstance(skip_iteration, int) or skip_iteration < 0:
            raise ArgumentError(f"the number of runs to skip is 0 or more. Received: {skip_iteration!r}")
        step_times.skip = skip_iteration

    def PrintTimeProfiling(self) -> None:
        """Print the mean seconds of each compiled step, if `SetVerbosity(1)` was called before it ran."""
        if step_times.verbosity:
            print(step_times.report())

    @staticmethod
    def EnableLazyAlloc(enable: bool) -> None:
        """See `enable_lazy_alloc`."""
        enable_lazy_alloc(enable)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and self.jax_device == other.jax_device

    def __hash__(self) -> int:
        return hash(self.jax_device)

    def __repr__(self) -> str:
        return "Device(default)" if self.platform is None else f"Device({self.platform}:{self.index})"


class StepTimes:
    """How long the runs of each compiled step took; filled while `verbosity` is not 0."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Nothing is timed, and nothing has been."""
        self.verbosity, self.skip = 0, 5
        self.seconds: dict[str, list[float]] = {}

    def timed(self, name: str, run: Callable[[], Any]) -> Any:
        """The result of `run()`, a tree of arrays, which is waited for."""
        start = time.perf_counter()
        result = jax.block_until_ready(run())
        self.seconds.setdefault(name, []).append(time.perf_counter() - start)
        return result

    def report(self) -> str:
        """A line for each step: the mean over its runs but the first `skip`."""
        lines = [_mean_line(name, runs[self.skip :], len(runs)) for name, runs in self.seconds.items()]
        return "\n".join(["Time Profiling:", *(lines or ["no compiled step has run"])])


def _mean_line(name: str, kept: list[float], runs: int) -> str:
    return f"{name}: {sum(kept) / len(kept):.6f} sec" if kept else f"{name}: {runs} runs, all of them skipped"


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
step_times = StepTimes()
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
    return create_cuda_gpu_on(0)


def create_cuda_gpu_on(device_id: int) -> Device:
    """GPU `device_id`. Raises `DeviceNotFoundError` where there is none."""
    return create(f"gpu:{_count('a GPU', device_id)}")


def create_cuda_gpus(num: int) -> list[Device]:
    """GPUs 0 to num − 1. Raises `DeviceNotFoundError` where there are fewer."""
    return create_cuda_gpus_on(range(_count("a number of GPUs", num)))


def create_cuda_gpus_on(device_ids: Iterable[int]) -> list[Device]:
    """The GPUs with these numbers. Raises `DeviceNotFoundError` where one is missing."""
    return [create_cuda_gpu_on(device_id) for device_id in device_ids]


def get_num_gpus() -> int:
    """How many GPUs JAX sees on this machine; 0 where there are none."""
    return len(get_gpu_ids())


def get_gpu_ids() -> list[int]:
    """The numbers of the GPUs."""
    try:
        return list(range(len(jax.local_devices(backend="gpu"))))
    except RuntimeError:
        return []


def get_gpu_mem_size(id: int) -> tuple[int, int]:
    """(free, total) bytes of what JAX may use on GPU `id`. Raises `DeviceNotFoundError` where there is none.

    *Differences from SINGA*: JAX takes a part of the memory for itself, three quarters by default; that part is meant.
    """
    stats = _memory_of(create_cuda_gpu_on(id))
    return stats["bytes_limit"] - stats["bytes_in_use"], stats["bytes_limit"]


def device_query(id: int, verbose: bool = False) -> str:
    """What GPU `id` is; with `verbose`, the platform and the use of its memory too."""
    found = create_cuda_gpu_on(id)
    text = f"gpu:{id}: {found.jax_device.device_kind}"
    if not verbose:
        return text
    details = {"platform": found.jax_device.client.platform_version, **_memory_of(found)}
    return "\n".join([text, *(f"  {key}: {value}" for key, value in details.items())])


def _memory_of(found: Device) -> dict[str, int]:
    stats = found.jax_device.memory_stats() or {}
    if not {"bytes_limit", "bytes_in_use"} <= set(stats):
        raise DeviceNotFoundError(f"JAX reports no memory of {found}. Received: {sorted(stats)}")
    return stats


def _count(what: str, number: Any) -> int:
    if isinstance(number, bool) or not isinstance(number, int | np.integer) or number < 0:
        raise ArgumentError(f"{what} is an integer of 0 or more. Received: {number!r}")
    return int(number)


def create_opencl_device() -> Device:
    """Raises `DeviceNotFoundError`: XLA has no OpenCL devices."""
    raise DeviceNotFoundError("XLA has no OpenCL devices: use create_cpu_device() or create('gpu')")


def get_num_opencl_platforms() -> int:
    """0: XLA has no OpenCL devices."""
    return 0


def get_num_opencl_devices() -> int:
    """0: XLA has no OpenCL devices."""
    return 0


def enable_lazy_alloc(enable: bool) -> None:
    """Memory is always allocated when values come: True says what is so anyway, False warns and changes nothing."""
    if not enable:
        warnings.warn("enable_lazy_alloc(False) has no effect: memory is allocated when values come", stacklevel=2)


def create(name: str) -> Device:
    """The device named `"platform"` or `"platform:index"`: `"cpu"`, `"gpu:1"`, `"cuda:0"`, `"tpu"` …

    Raises `ArgumentError` for a malformed name and `DeviceNotFoundError` for one that this machine does not have.
    """
    platform, _, index = name.partition(":") if isinstance(name, str) else ("", "", "")
    if not platform or not (index or "0").isdecimal():
        raise ArgumentError(f"a device is named 'platform' or 'platform:index', such as 'gpu:1'. Received: {name!r}")
    found = Device(_PLATFORM_NAMES.get(platform, platform), int(index or 0))
    _ = found.jax_device
    return found


def as_place(device: Any) -> Any:
    """What `jax.device_put` takes for `device`: a Device, a name, a `jax.Device`, a `Sharding`, or None (default)."""
    if isinstance(device, str):
        device = create(device)
    if isinstance(device, Device):
        return device.place
    if device is None or isinstance(device, jax.Device | jax.sharding.Sharding):
        return device
    raise ArgumentError(
        f"a device is a Device, a name such as 'gpu:0', a jax.Device or a Sharding. Received: {device!r}"
    )


def from_place(place: Any) -> Any:
    """The Device for what `as_place` gives; a `Sharding` over several devices stays one."""
    if isinstance(place, jax.sharding.Sharding) and len(place.device_set) == 1:
        (place,) = place.device_set
    if not isinstance(place, jax.Device):
        return default_device if place is None else place
    return Device(place.platform, jax.local_devices(backend=place.platform).index(place))
