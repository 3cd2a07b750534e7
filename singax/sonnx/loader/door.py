"""The door: a file, bytes or an `onnx.ModelProto` as a checked `Model`."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable
from typing import Any

from singax.errors import ArgumentError, ModelFileError
from singax.sonnx.importer.graph import Model
from singax.sonnx.loader.external import Folder, opened, regular
from singax.sonnx.loader.functions import check_calls, keyed
from singax.sonnx.loader.graphs import Converter, Place
from singax.sonnx.loader.limits import Limits
from singax.sonnx.loader.messages import FORMATS
from singax.sonnx.loader.opsets import check_format, imported
from singax.sonnx.loader.refusal import above_limit, refuse, shown
from singax.sonnx.loader.schemas import signature
from singax.sonnx.loader.survey import survey
from singax.sonnx.loader.tensors import Measure
from singax.sonnx.loader.wire import Parser
from singax.sonnx.registry import handler_of

DEFAULT_LIMITS = Limits()
_MOST_LISTED = 500

_ANY_OPSET = 2**31 - 1


def load(
    source: Any, limits: Limits = DEFAULT_LIMITS, is_supported: Callable[[str, str, int], bool] | None = None
) -> Model:
    """A model, once everything in it was found to be in order.

    Nothing is trusted: sizes, names, nesting, versions, arity and attributes, tensors against their shapes, and the
    files that hold external data are checked before anything of their size is allocated, by this package's own code.

    **Args**
      source: the path of a file, its bytes, or an `onnx.ModelProto`.
      limits: how large things may be.
      is_supported: (domain, operator, opset) → whether the importer knows the operator (default: onnx defines it or it
        has a handler).

    **Raises** `ModelFileError`, which names the file, the node or tensor, what was expected and what was found;
    FileNotFoundError.

    >>> load(b"no model")
    Traceback (most recent call last):
    singax.errors.ModelFileError: ...
    """
    file = os.fspath(source) if isinstance(source, str | os.PathLike) else ""
    try:
        data = _content(source, limits)
        folder = Folder(pathlib.Path(file) if file else None, limits)
        return _model(data, folder, limits, is_supported or _is_defined)
    except ModelFileError as error:
        error.in_file(file)
        raise
    except MemoryError:
        raise ModelFileError(file, "the model", "memory", "as much as its tensors need", "less") from None


def _is_defined(domain: str, op_type: str, opset: int) -> bool:
    """Defined by onnx at this opset; or handled by us, if onnx defines no such operator at any opset."""
    if signature(domain, op_type, opset) is not None:
        return True
    return signature(domain, op_type, _ANY_OPSET) is None and handler_of(domain, op_type, opset) is not None


def _content(source: Any, limits: Limits) -> bytes:
    if isinstance(source, str | os.PathLike):
        return _read(os.fspath(source), limits)
    if isinstance(source, bytes | bytearray | memoryview):
        data = bytes(source)
    elif hasattr(source, "SerializeToString"):
        data = _serialized(source)
    else:
        raise ArgumentError(f"a model is a path, bytes or an onnx.ModelProto. Received: {type(source).__name__}")
    if len(data) > limits.file_bytes:
        above_limit("the model", limits, "file_bytes", len(data))
    return data


def _read(path: str, limits: Limits) -> bytes:
    size = regular(os.stat(path), "the file", "kind", links=None)
    if size > limits.file_bytes:
        above_limit("the file", limits, "file_bytes", size)
    with opened(os.path.realpath(path), "the file", links=None) as file:
        data = file.read(size)
    if len(data) != size:
        refuse("the file", "size", f"{size} bytes", f"{len(data)} when it was read")
    return data


def _serialized(proto: Any) -> bytes:
    """The bytes of a ModelProto; protobuf cannot write more than 2 GiB."""
    try:
        return bytes(proto.SerializeToString())
    except ValueError as error:
        refuse("the model", "size", "less than 2 GiB; save it with external data", shown(str(error)))


def _model(data: bytes, folder: Folder, limits: Limits, supports: Callable[[str, str, int], bool]) -> Model:
    raw = Parser(data, FORMATS, limits).message("Model")
    check_format(raw.ir_version)
    if raw.graph is None or not raw.graph.output:
        refuse("the model", "graph", "a graph with outputs", "none")
    opsets = imported(raw.opset_import, "the model", raw.ir_version)
    functions = keyed(raw.functions, limits)
    check_calls(functions, raw.graph, limits)
    total = Measure(limits, folder)
    survey(raw, total)
    converter = Converter(total, functions, supports)
    made = {key: converter.function(function, key, opsets) for key, function in functions.items()}
    graph = converter.graph(raw.graph, Place(opsets))
    if converter.unsupported:
        _refuse_unsupported(converter.unsupported)
    return Model(graph, opsets, made, _metadata(raw, limits))


def _refuse_unsupported(found: dict[str, str]) -> None:
    """One error that names all operators that are not supported."""
    names = ", ".join(sorted(found)[:_MOST_LISTED])
    refuse(next(iter(found.values())), "operators", "supported ones", f"{len(found)} that are not: {names}")


def _metadata(raw: Any, limits: Limits) -> dict[str, str]:
    if len(raw.metadata) > limits.metadata_entries:
        above_limit("the model", limits, "metadata_entries", len(raw.metadata))
    made: dict[str, str] = {}
    for entry in raw.metadata:
        key = (entry.key or b"").decode(errors="replace")
        if key in made:
            refuse("the model", f"metadata {shown(key)}", "one entry", "two")
        made[key] = (entry.value or b"").decode(errors="replace")
    return made
