"""Who takes part in data-parallel training: one rank, the ranks along a JAX axis, or several processes."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from singax.errors import ArgumentError, StateError
from singax.mode import traced


class Communicator:
    """One rank alone. `sum` adds an array up over all ranks."""

    size: int = 1
    rank: Any = 0
    fuses = False
    replicated = False

    def sum(self, value: Any) -> Any:
        """The sum over all ranks, on every rank."""
        return value

    def wait(self) -> None:
        """Nothing to wait for: JAX orders what depends on each other."""


class AxisCommunicator(Communicator):
    """The ranks along an axis that `jax.shard_map` or `jax.vmap` has named; states are the same on all of them."""

    replicated = True

    def __init__(self, name: str) -> None:
        self.name, self.size = name, jax.lax.axis_size(name)

    @property
    def rank(self) -> Any:
        """The number of this rank, an array."""
        return jax.lax.axis_index(self.name)

    def sum(self, value: Any) -> Any:
        return jax.lax.psum(value, self.name)


class ProcessCommunicator(Communicator):
    """One rank per process of `jax.distributed`, each with arrays of its own; call by call only."""

    fuses = True

    def __init__(self) -> None:
        self.size, self.rank = jax.process_count(), jax.process_index()

    def sum(self, value: Any) -> Any:
        if traced(value):
            raise StateError(
                "a compiled step of one process cannot reduce over processes: run it with use_graph=False, or give "
                "DistOpt an axis_name and call model.functional_step() inside jax.shard_map over all devices. "
                f"Received: {self.size} processes and no axis_name"
            )
        mesh, add = _one_device_per_process()
        mine = jax.device_put(value[None], mesh.local_devices[0])
        rows = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("process"))
        stacked = jax.make_array_from_single_device_arrays((self.size, *value.shape), rows, [mine])
        return jnp.asarray(add(stacked).addressable_data(0))


@functools.cache
def _one_device_per_process() -> tuple[jax.sharding.Mesh, Any]:
    first: dict[int, jax.Device] = {}
    for device in jax.devices():
        first.setdefault(device.process_index, device)
    mesh = jax.sharding.Mesh(np.array([first[index] for index in sorted(first)]), ("process",))
    everywhere = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    return mesh, jax.jit(lambda stacked: stacked.sum(0, dtype=stacked.dtype), out_shardings=everywhere)


def communicator(axis_name: str | None) -> Communicator:
    """The one in charge here. Outside the axis there is one rank, which sees the whole batch.

    Raises `ArgumentError` inside a `shard_map` that has no such axis, or that tracks replication by itself.
    """
    if axis_name is None:
        return ProcessCommunicator() if jax.process_count() > 1 else Communicator()
    try:
        found = AxisCommunicator(axis_name)
    except NameError:
        others = jax.sharding.get_abstract_mesh().manual_axes
        if others:
            raise ArgumentError(
                f"DistOpt reduces over the axis {axis_name!r}, which is not bound here. Received axes: {sorted(others)}"
            ) from None
        return Communicator()
    if jax.typeof(found.rank) != jax.typeof(jnp.zeros((), found.rank.dtype)):  # JAX notes that they vary
        raise ArgumentError(
            "DistOpt needs each rank's own gradients: call jax.shard_map with check_vma=False. Received: check_vma=True"
        )
    return found
