"""Strict settings for all tests: eight fake devices, a persistent compilation cache, a clean slate for each test."""

from __future__ import annotations

import os
import pathlib
import signal
from collections.abc import Iterator

import jaxlib.version
import pytest

QUICK = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
"""Tests ask what a program computes, once: without optimisations XLA compiles it in a small part of the time. With
SINGAX_OPTIMIZED=1 the suite runs as users' programs do."""


def _flags() -> str:
    flags = ["--xla_force_host_platform_device_count=8"]
    if not os.environ.get("SINGAX_OPTIMIZED"):
        flags.append(QUICK)
        if jaxlib.version.__version__.startswith("0.10."):  # later ones know the option no more
            flags.append("--xla_cpu_use_fusion_emitters=false")
    return " ".join(flags)


os.environ.setdefault("XLA_FLAGS", _flags())
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax  # noqa: E402

CACHE = pathlib.Path(__file__).resolve().parent.parent / ".jax_cache"
jax.config.update("jax_compilation_cache_dir", str(CACHE))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)

import singax as sx  # noqa: E402
from singax.mode import local  # noqa: E402


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The tests of one row of the catalogue stand together: they share what is compiled for it."""
    files: dict[pathlib.Path, int] = {}
    rows: dict[str, int] = {}

    def place(item: pytest.Item) -> tuple[int, int]:
        row = str(item.callspec.params["row"]) if item.path.name == "test_catalogue.py" else ""  # type: ignore[attr-defined]
        return files.setdefault(item.path, len(files)), rows.setdefault(row, len(rows))

    items.sort(key=place)


@pytest.fixture(autouse=True)
def clean_slate() -> Iterator[None]:
    """Every test starts from seed 0 with recording off, and leaves nothing half-open."""
    sx.autograd.training = False
    sx.device.set_seed(0)
    yield
    assert local.frame is None
    assert local.step is None
    assert not local.tracing
    assert local.undo is None
    sx.autograd.training = False


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Ctrl-C raises KeyboardInterrupt, also in a process that was started in the background and ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
