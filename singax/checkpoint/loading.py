"""Loading into a model: a file is read and checked as a whole, then compared with the model, then put into it."""

from __future__ import annotations

import os
import pathlib
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from singax import files
from singax.checkpoint.awaited import Awaited, Held
from singax.checkpoint.document import USER, Document, read_document
from singax.checkpoint.homes import PARAMETER
from singax.checkpoint.network import network_weights, save_id_of
from singax.checkpoint.paths import NETWORK, STATES, PathLike, both, to_read
from singax.checkpoint.user_state import decoded
from singax.checkpoint.wire import outlined, unwired
from singax.errors import ArgumentError, FileFormatError, StateError
from singax.files import SafetensorsFile
from singax.mode import local


def load(model: Any, path: PathLike, include_state: bool, strict: bool) -> dict[str, Any]:
    """See `Module.load`."""
    source = to_read(path)
    if source.suffix == NETWORK:
        values = {name: Held(PARAMETER, value) for name, value in network_weights(source).items()}
        _attach(model, Awaited(os.fspath(source), values, strict, complete=False))
        return {}
    with _opened_pair(source) as (file, other):
        document = read_document(file)
        if os.fspath(path) != os.fspath(source):
            _check_pair(source, document, other)
        state = _user_state(file, document) if include_state else {}
        _attach(model, _awaited(source, file, document, strict, complete=include_state))
    return state


def load_plain(model: Any, path: PathLike, strict: bool) -> None:
    """See `Module.from_safetensors`."""
    with files.open_safetensors(path) as file:
        if any(key.startswith("singax.") for key in file.metadata):
            _attach(model, _awaited(path, file, read_document(file), strict, complete=False))
        else:
            values = {name: Held(PARAMETER, field) for name, field in file.fields.items()}
            _attach(model, Awaited(os.fspath(path), values, strict, False, file.read))


def _awaited(path: PathLike, file: SafetensorsFile, document: Document, strict: bool, complete: bool) -> Awaited:
    """The states in an open checkpoint; nothing is read yet."""
    arrays = document.arrays
    values = {
        name: Held(arrays[name].kind, outlined(name, field.dtype, field.shape, arrays[name].note))
        for name, field in file.fields.items()
        if arrays[name].kind != USER
    }

    def read(name: str) -> Any:
        return unwired(file.read(name, arrays[name].checksum), arrays[name].note)

    return Awaited(os.fspath(path), values, strict, complete, read)


def load_network(path: PathLike) -> Any:
    """A model from an ONNX file alone, without its class: see `Module.from_onnx`.

    **Args** path: of the file; the ending .onnx may be left out.

    **Raises** `ArgumentError` for the file of states, which needs the class; `ModelFileError`; FileNotFoundError.
    """
    from singax.module import Module

    text = os.fspath(path)
    if text.endswith(STATES):
        raise ArgumentError(f"{text} holds states, and no network: make the model, then call model.load({text!r})")
    return Module.from_onnx(text if text.endswith(NETWORK) else text + NETWORK)


def _attach(model: Any, awaited: Awaited) -> None:
    """Deliver what the model has places for; the rest waits. If it does not fit, the model is as it was."""
    if local.tracing or local.frame is not None:
        raise StateError("a model is loaded between steps, not inside of one")
    before, model.__dict__["_awaited"] = model._awaited, None
    if before is not None and not awaited.complete:
        awaited = before.overlaid(awaited)
    try:
        model._current_bank()
        model.__dict__["_awaited"] = awaited
        awaited.deliver(model)
    except BaseException:
        model.__dict__["_awaited"] = before
        raise


@contextmanager
def _opened_pair(source: pathlib.Path) -> Iterator[tuple[SafetensorsFile, str | None]]:
    """The complete file, open, and the save id of the network beside it: both as one writer has left them."""
    with ExitStack() as stack:
        with files.folder_lock(source.parent, shared=True):
            file = stack.enter_context(files.open_safetensors(source))
            other = save_id_of(both(source)[1])
        yield file, other


def _check_pair(source: pathlib.Path, document: Document, other: str | None) -> None:
    network = both(source)[1]
    if network.exists() and other != document.save_id:
        warnings.warn(
            f"{network} is of another save than {source}: a crash came between the two, or the later save was made "
            f"with onnx=False. {source.name}, which is complete, is loaded; save again to renew {network.name}",
            stacklevel=4,
        )


def _user_state(file: SafetensorsFile, document: Document) -> dict[str, Any]:
    """What was given to `save`; each array of the file has one place in it."""
    waiting = {name: about for name, about in document.arrays.items() if about.kind == USER}

    def array(name: Any) -> Any:
        about, field = waiting.pop(name), file.fields[name]
        outlined(name, field.dtype, field.shape, about.note)
        return unwired(file.read(name, about.checksum), about.note)

    state = decoded(document.state, array)
    if not isinstance(state, dict):
        raise FileFormatError(f"the state in it is a {type(state).__name__}, and no dict")
    return state
