"""Saving a model: everything is checked, then both files are written beside their places, then both are renamed."""

from __future__ import annotations

import os
import pathlib
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import jax

from singax import files
from singax.checkpoint import network
from singax.checkpoint.document import USER, About, Document, present_versions
from singax.checkpoint.homes import LAYERS, Home, homes
from singax.checkpoint.paths import PathLike, both
from singax.checkpoint.user_state import encoded
from singax.checkpoint.wire import Wire, wired
from singax.errors import ArgumentError, FileFormatError, NameMismatchError, StateError, UninitializedError
from singax.files import Entry
from singax.interrupt import deferred_interrupts
from singax.layer.tree import unbuilt
from singax.mode import local

if TYPE_CHECKING:
    from singax.checkpoint.network_file import NetworkFile

Stored = dict[str, tuple[str, Wire]]


def save(model: Any, path: PathLike, state: Mapping[str, Any] | None, overwrite: bool, onnx: bool) -> None:
    """See `Module.save`."""
    stored = stored_states(model)
    tree, arrays = encoded(dict(state or {}))
    for name, value in arrays.items():
        _add(stored, name, USER, partial(_same, value), value)
    save_id, targets = uuid.uuid4().hex, both(path)[: 2 if onnx else 1]
    wires = {name: wire for name, (_, wire) in stored.items()}
    graph = network.exported_network(model, save_id, wires) if onnx else None
    _check_targets(targets, overwrite)

    def texts(checksums: Mapping[str, str]) -> dict[str, str]:
        abouts = {name: About(kind, wire.note, checksums[name]) for name, (kind, wire) in stored.items()}
        return Document(save_id, present_versions(), abouts, tree).texts()

    with _on_process_zero(stored, graph) as writes:
        if writes:
            _write(targets, _entries(stored), texts, graph, overwrite)


def save_plain(model: Any, path: PathLike) -> None:
    """See `Module.to_safetensors`."""
    stored = stored_states(model)
    disguised = [name for name, (_, wire) in stored.items() if wire.note]
    if disguised:
        raise FileFormatError(f"other frameworks could not read {', '.join(disguised)}: use save() instead")
    plain = {name: (kind, wire) for name, (kind, wire) in stored.items() if kind in LAYERS}
    with _on_process_zero(plain, None) as writes:
        if writes:
            with files.replacing(path) as file:
                files.write_safetensors(file, _entries(plain), lambda checksums: {}, sealed=False)


def stored_states(model: Any) -> Stored:
    """All states of a model by path: their kind, and how they are stored.

    Raises `UninitializedError` before the model has parameters; `FileFormatError` for a dtype that files cannot hold.
    """
    if local.tracing or local.frame is not None:
        raise StateError("a model is saved between steps, not inside of one: what it holds there are no numbers")
    model._current_bank()
    model._bank.commit()
    awaited = model._awaited.values if model._awaited is not None else {}
    waiting = ", ".join(layer._where for layer in unbuilt(model))
    if waiting and not awaited:
        raise UninitializedError(
            f"{waiting} have no parameters yet: call compile, or the model itself, before it is saved"
        )
    found: Stored = {}
    for path, home in homes(model).items():
        if home.is_filled and path not in awaited:
            _add(found, path, home.kind, partial(_array_of, home), home.cell.get())
    for path, held in awaited.items():
        _add(found, path, held.kind, partial(_same, held.value), held.value)
    return found


def _add(stored: Stored, name: str, kind: str, read: Any, like: Any) -> None:
    if name in stored:
        raise NameMismatchError(f"two values have the name {name!r} in the file: rename one")
    stored[name] = (kind, wired(name, like.dtype, tuple(like.shape), read))


def _array_of(home: Home) -> Any:
    return home.cell.array()


def _same(value: Any) -> Any:
    return value


def _entries(stored: Stored) -> dict[str, Entry]:
    return {name: Entry(wire.dtype, wire.shape, wire.read) for name, (_, wire) in stored.items()}


def _check_targets(targets: tuple[pathlib.Path, ...], overwrite: bool) -> None:
    folder = targets[0].parent
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {folder} to save in")
    present = [os.fspath(target) for target in targets if target.exists()]
    if present and not overwrite:
        raise ArgumentError(f"{' and '.join(present)} exist already: pass overwrite=True, or another path")


def _write(
    targets: tuple[pathlib.Path, ...],
    entries: dict[str, Entry],
    texts: Any,
    graph: NetworkFile | None,
    overwrite: bool,
) -> None:
    with ExitStack() as stack:
        new = []
        for target in targets:
            with _explained(target):
                new.append(files.new_file(target, stack))
                if target is targets[0]:
                    files.write_safetensors(new[-1].file, entries, texts)
                else:
                    _write_pieces(new[-1].file, graph)
                new[-1].seal()
        _publish(targets, new, overwrite)


def _write_pieces(file: Any, graph: NetworkFile | None) -> None:
    for piece in graph.pieces() if graph is not None else ():
        file.write(piece)


def _publish(targets: tuple[pathlib.Path, ...], new: list[files.NewFile], overwrite: bool) -> None:
    """The complete file first: what `load` takes is new from then on, and the ids tell if the other one is not."""
    folder = targets[0].parent
    with deferred_interrupts(), files.folder_lock(folder):
        _check_targets(targets, overwrite)
        for file in new:
            file.publish()
        files.sync_folder(folder)


@contextmanager
def _explained(target: pathlib.Path) -> Iterator[None]:
    """Say in an OSError, such as a full disk, what was being written and that the old file is as it was."""
    try:
        yield
    except OSError as error:
        kept = "the file that was there is unchanged" if target.exists() else "nothing was written"
        message = f"saving {target} failed ({kept}): {error.strerror or error}"
        raise OSError(error.errno, message) from error


@contextmanager
def _on_process_zero(stored: Stored, graph: NetworkFile | None) -> Iterator[bool]:
    """Whether this process writes. The others take part in gathering what lies on several, and wait for the end."""
    writes = jax.process_index() == 0
    yield writes
    if jax.process_count() > 1:
        if not writes:
            for name in files.ordered({name: (wire.dtype, wire.shape) for name, (_, wire) in stored.items()}):
                stored[name][1].read()
            for _, wire in graph.parameters if graph is not None else ():
                wire.read()
        from jax.experimental import multihost_utils

        multihost_utils.sync_global_devices("singax.save")
