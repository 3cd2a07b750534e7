"""Devices: what SINGA's functions say on a machine without GPUs, and the time profile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import singax as sx
from singax import device
from singax.device import Device, step_times
from singax.errors import ArgumentError, DeviceNotFoundError
from singax.tensor import Tensor


@pytest.fixture(autouse=True)
def fresh_profile() -> Iterator[None]:
    step_times.reset()
    yield
    step_times.reset()


def test_cpu_devices() -> None:
    cpu = device.create_cpu_device()
    assert cpu == device.get_default_device()
    assert cpu.id() == device.get_default_device().id() == -1
    assert device.get_default_device() is device.get_default_device() is device.default_device
    assert cpu.host() == cpu
    assert device.create("cpu:2") != cpu
    assert len({cpu, device.create_cpu_device()}) == 1


def test_no_gpus_here() -> None:
    assert (device.get_num_gpus(), device.get_gpu_ids()) == (0, [])
    assert (device.get_num_opencl_platforms(), device.get_num_opencl_devices()) == (0, 0)
    assert device.create_cuda_gpus(0) == []


@pytest.mark.parametrize(
    "call",
    [
        device.create_cuda_gpu,
        device.create_opencl_device,
        lambda: device.create_cuda_gpu_on(1),
        lambda: device.create_cuda_gpus(2),
        lambda: device.create_cuda_gpus_on([0, 3]),
        lambda: device.get_gpu_mem_size(0),
        lambda: device.device_query(0, True),
        lambda: device.create("cpu:99"),
        lambda: device.create("nonsense"),
    ],
)
def test_devices_that_are_not_there(call: Callable[[], Any]) -> None:
    with pytest.raises(DeviceNotFoundError):
        call()


@pytest.mark.parametrize(
    "call",
    [
        lambda: device.create_cuda_gpu_on(-1),
        lambda: device.create_cuda_gpu_on("0"),
        lambda: device.create_cuda_gpus(True),
        lambda: device.create("cpu:x"),
        lambda: device.create("cpu:²"),
        lambda: device.create(7),
        lambda: device.create(""),
        lambda: Tensor((1,), device=object()),
        lambda: Device().SetVerbosity(2),
        lambda: Device().SetVerbosity("1"),
        lambda: Device().SetSkipIteration(-1),
        lambda: Device().SetRandSeed(-1),
    ],
)
def test_bad_arguments(call: Callable[[], Any]) -> None:
    with pytest.raises(ArgumentError, match="eceived"):
        call()


def test_what_is_known_of_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a stand-in for a GPU: (free, total) bytes, a line, and more lines."""

    class Client:
        platform_version = "cuda 13"

    class Gpu:
        device_kind, client = "Some GPU", Client()

        def memory_stats(self) -> dict[str, int] | None:
            return {"bytes_limit": 100, "bytes_in_use": 30} if known else None

    known = True
    monkeypatch.setattr(jax, "local_devices", lambda *, backend: [Gpu(), Gpu()])
    assert (device.get_num_gpus(), device.get_gpu_ids()) == (2, [0, 1])
    assert device.get_gpu_mem_size(1) == (70, 100)
    assert device.device_query(1) == "gpu:1: Some GPU"
    assert device.device_query(1, verbose=True).splitlines()[1:3] == ["  platform: cuda 13", "  bytes_limit: 100"]
    assert [d.index for d in device.create_cuda_gpus(2)] == [0, 1]
    known = False
    with pytest.raises(DeviceNotFoundError, match="no memory"):
        device.get_gpu_mem_size(0)


def test_where_values_are() -> None:
    """Results of operations know their device, and so do sharded values."""
    placed = Tensor((2,), device="cpu:3").set_value(1)
    for found in (placed, placed + 1, placed.clone(), sx.tensor.zeros_like(placed), placed.as_type("float16")):
        assert found.device == device.create("cpu:3")
    assert (Tensor(data=[1.0]) + 1).device == device.get_default_device()
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:2]), "x")
    split = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x"))
    assert Tensor(data=jax.device_put(jnp.ones(4), split)).device == split
    assert Tensor((4,), device=split).set_value(2).device == split


def test_graphs_belong_to_models() -> None:
    cpu = device.create_cpu_device()
    cpu.EnableGraph(False)
    with pytest.warns(UserWarning, match="use_graph=True"):
        cpu.EnableGraph(True)
    assert cpu.graph_enabled() is False
    cpu.ResetGraph()
    cpu.RunGraph()
    cpu.Sync()
    device.enable_lazy_alloc(True)
    with pytest.warns(UserWarning, match="no effect"):
        Device.EnableLazyAlloc(False)


def test_time_profile(capsys: pytest.CaptureFixture[str]) -> None:
    cpu = device.create_cpu_device()
    cpu.PrintTimeProfiling()
    assert capsys.readouterr().out == ""
    cpu.SetVerbosity(1)
    cpu.PrintTimeProfiling()
    assert capsys.readouterr().out == "Time Profiling:\nno compiled step has run\n"
    cpu.SetSkipIteration(1)
    for _ in range(3):
        assert step_times.timed("Net.step", lambda: {"loss": jnp.ones(2)})["loss"].shape == (2,)
    step_times.timed("Net.other", lambda: None)
    cpu.PrintTimeProfiling()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Time Profiling:"
    assert lines[1].startswith("Net.step: 0.")
    assert lines[1].endswith(" sec")
    assert lines[2] == "Net.other: 1 runs, all of them skipped"
    cpu.Reset()
    assert (step_times.verbosity, step_times.skip, step_times.seconds) == (0, 5, {})
