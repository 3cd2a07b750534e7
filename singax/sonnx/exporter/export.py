"""`to_onnx`: a model, or any function of arrays, as an ONNX model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import jax
import numpy as np
import onnx
from google.protobuf.message import EncodeError
from onnx import helper, numpy_helper

from singax.dtypes import nbytes
from singax.errors import ArgumentError, ExportError
from singax.layer import build
from singax.layer.base import Layer
from singax.sonnx.exporter.capture import Capture, captured
from singax.sonnx.exporter.equations import Aval, aval_of
from singax.sonnx.exporter.functions import DOMAIN, Place, Structure
from singax.sonnx.exporter.graph import Graph, Ref, Session, value_info
from singax.sonnx.exporter.inputs import Arguments, arguments
from singax.sonnx.exporter.lowering.complex_numbers import is_complex
from singax.sonnx.exporter.nodes import reads, rename, without_dead
from singax.sonnx.exporter.recorded import Recorded
from singax.sonnx.exporter.symbolic import Dim, Size, expression
from singax.sonnx.exporter.walk import Walker

OLDEST_OPSET = 13
DEFAULT_OPSET = 17
LARGEST = (1 << 31) - 1
"""Bytes that a protobuf message may have."""


def to_onnx(
    model: Any,
    inputs: Sequence[Any],
    *,
    opset: int = DEFAULT_OPSET,
    dynamic_batch: bool = True,
    dynamic_axes: Mapping[str, Mapping[int, str]] | None = None,
    functions: bool = True,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    metadata: Mapping[str, str] | None = None,
    model_version: int = 0,
) -> onnx.ModelProto:
    """The forward of `model` in evaluation mode as an ONNX model, which has been checked.

    SINGA's form `to_onnx([x], [y])` exports what was recorded between the Tensors x and y; its sizes are fixed.

    Operations of singax become their ONNX operators, other code of JAX is said with the primitives that it is made of.

    **Args**
      model: a `Module` or layer, or a function of arrays.
      inputs: one Placeholder, Tensor, array or (nested) list of them per argument of `forward`; only shapes and dtypes
        count. A size that is None stays unknown in the file, the same axis of all inputs being the same unknown.
      opset: the version of ONNX's operators, from 13 on (default 17).
      dynamic_batch: whether the first axis of the inputs may have any size, although `inputs` gives one (default). It
        is the one whose size is that of the first axis of the first input.
      dynamic_axes: names for further axes that may have any size: {"x": {1: "time"}}.
      functions: whether each layer becomes a local function, so that viewers show structure (default True).
      input_names, output_names: default: those of the parameters of `forward`, and "output" or "output_<n>".
      metadata: further entries of the model's metadata; model_version: a number of your own.

    Parameters are initializers under their paths, nodes have the paths of their layers. A model of more than 2 GiB is
    written by `onnx.save(made, path, save_as_external_data=True)`, since no single file may be that large.

    **Raises** `ExportError`, which names everything that cannot be exported.

    >>> import singax as sx
    >>> made = to_onnx(lambda x: sx.ops.relu(x), [sx.Placeholder((4, 3))])
    >>> [node.op_type for node in made.graph.node], made.graph.input[0].type.tensor_type.shape.dim[0].dim_param
    (['Relu'], 'batch')
    """
    newest = onnx.defs.onnx_opset_version()
    if not OLDEST_OPSET <= opset <= newest:
        raise ArgumentError(f"opset must lie from {OLDEST_OPSET} to {newest}. Received: {opset}")
    if isinstance(model, list | tuple):
        model, inputs, dynamic_batch = Recorded(model, inputs), model, False
        input_names = [tensor.name for tensor in inputs] if input_names is None else input_names
    given = arguments(own_function(model), inputs, dynamic_batch, dynamic_axes, input_names)
    made = exported(model, given, opset, output_names, functions)
    helper.set_model_props(made, {**(metadata or {})})
    made.model_version = model_version
    large = weight_bytes(made) > LARGEST // 2
    check(exported(model, given, opset, output_names, functions, weights=False) if large else made)
    return made


def weight_bytes(model: onnx.ModelProto) -> int:
    """The bytes of all initializers."""
    sizes = ((tensor.dims, helper.tensor_dtype_to_np_dtype(tensor.data_type)) for tensor in model.graph.initializer)
    return sum(nbytes(tuple(dims), dtype) for dims, dtype in sizes)


def check(model: onnx.ModelProto) -> None:
    """onnx's own check, with shape inference. It reads the model as one message."""
    try:
        onnx.checker.check_model(model, full_check=True)
    except EncodeError as error:
        raise ExportError(f"the model has more than {LARGEST} bytes of constants besides its parameters") from error


def exported(
    model: Any,
    given: Arguments,
    opset: int,
    output_names: Sequence[str] | None = None,
    functions: bool = True,
    weights: bool = True,
) -> onnx.ModelProto:
    """The forward as a model that has not been checked. Without `weights`, parameters are inputs after the others."""
    capture = captured(model, given)
    given = given.apart_from({path for path, _ in capture.parameters})
    session, graph, outputs = _written(capture, given, opset, output_names)
    return _assembled(model, capture, given, session, graph, outputs, functions, weights)


def own_function(model: Any) -> Callable[..., Any]:
    """What is exported of a model: its forward, or itself if it is a function."""
    if isinstance(model, Layer):
        function = build.own_forward(model)
        return function.__get__(model)
    if isinstance(model, Recorded):
        return model.run
    if not callable(model):
        raise ArgumentError(f"expected a layer or a function of arrays. Received: {type(model).__name__}")
    return model


def _written(
    capture: Capture, given: Arguments, opset: int, output_names: Sequence[str] | None
) -> tuple[Session, Graph, list[tuple[str, Aval]]]:
    """All nodes, and the outputs with their shapes."""
    session = Session(opset, capture.symbols)
    graph = Graph(session)
    inputs = [Ref(session.names.take(one.name), one.sizes(capture.symbols), one.dtype) for one in given.inputs]
    parameters = []
    for path, tensor in capture.parameters:
        parameters.append(Ref(session.names.take(path), tuple(tensor.shape), tensor.dtype))
    for ref in inputs:
        graph.has_axes(ref)
    graph.defines_symbols([(str(ref.name), ref.shape) for ref in inputs])
    results = Walker(session)(graph, capture.programs, [*parameters, *inputs])
    shapes = [aval_of(row) for row in zip(*[program.out_avals for program in capture.programs], strict=True)]
    if any(map(is_complex, [ref.dtype for ref in [*parameters, *inputs]] + [aval.dtype for aval in shapes])):
        session.problem("a parameter, input or output is complex, which ONNX's operators do not know: take its parts")
    if session.problems:
        raise ExportError("; ".join(session.problems))
    return session, graph, _named_outputs(session, graph, results, shapes, output_names, [*parameters, *inputs])


def _named_outputs(
    session: Session,
    graph: Graph,
    results: Sequence[Ref],
    shapes: Sequence[Aval],
    names: Sequence[str] | None,
    given: Sequence[Ref],
) -> list[tuple[str, Aval]]:
    """The outputs under their names; one that is an input, a constant or there twice becomes a node of its own."""
    wanted = list(names) if names is not None else _default_names(len(results))
    if len(wanted) != len(results):
        raise ArgumentError(f"expected {len(results)} output names. Received: {wanted}")
    taken = {ref.name for ref in given}
    new: dict[str, str] = {}
    for ref, name in zip(results, wanted, strict=True):
        own = session.names.take(name)
        source = graph.name(ref)
        if source in taken or ref.name is None:
            source = str(graph.op("Identity", Ref(source)).name)
        taken.add(source)
        new[source] = own
    for placed in graph.nodes:
        rename(placed.node, lambda name: new.get(name, name))
    return list(zip(new.values(), shapes, strict=True))


def _default_names(count: int) -> list[str]:
    return ["output"] if count == 1 else [f"output_{k}" for k in range(count)]


def _assembled(
    model: Any,
    capture: Capture,
    given: Arguments,
    session: Session,
    graph: Graph,
    outputs: list[tuple[str, Aval]],
    functions: bool,
    weights: bool,
) -> onnx.ModelProto:
    names = [name for name, _ in outputs]
    placed = without_dead(graph.nodes, names)
    values = dict(capture.parameters)
    structure = Structure([(c._path, type(c).__name__) for c in capture.calls], session.opset, set(values))
    depth = 1 if isinstance(model, Layer) else 0
    nodes = structure.grouped(placed, names, Place("", depth)) if functions else structure.flat(placed)
    read = {name for node in nodes for name in reads(node)} | set(names)
    values = {path: tensor for path, tensor in values.items() if path in read}
    open_ = [] if weights else [value_info(path, tensor.shape, tensor.dtype) for path, tensor in values.items()]
    tensors: dict[str, Any] = {path: tensor.data for path, tensor in values.items()} if weights else {}
    tensors.update((name, value) for name, value in session.initializers.items() if name in read)
    made = helper.make_graph(
        nodes,
        type(model).__name__ if isinstance(model, Layer) else getattr(model, "__name__", "function"),
        [value_info(one.name, one.shape, one.dtype) for one in given.inputs] + open_,
        [value_info(name, _shown(aval.shape, capture.symbols), aval.dtype) for name, aval in outputs],
    )
    whole = _model(made, structure, session.opset)
    for name, value in tensors.items():  # one by one: protobuf copies no message of 2 GiB
        whole.graph.initializer.add().CopyFrom(_tensor(name, value))
    return whole


def _model(graph: onnx.GraphProto, structure: Structure, opset: int) -> onnx.ModelProto:
    imports = structure.imports(graph.node)
    if structure.functions and all(one.domain != DOMAIN for one in imports):
        imports.append(helper.make_opsetid(DOMAIN, 1))
    return helper.make_model(
        graph,
        functions=structure.functions,
        opset_imports=imports,
        ir_version=max(8, helper.find_min_ir_version_for([helper.make_opsetid("", opset)])),
        producer_name="singax",
        producer_version=_version(),
    )


def _version() -> str:
    try:
        return version("singax")
    except PackageNotFoundError:
        return ""


def _tensor(name: str, value: Any) -> onnx.TensorProto:
    return numpy_helper.from_array(np.asarray(jax.device_get(value)), name)


def _shown(sizes: Sequence[Size], symbols: Mapping[str, Dim]) -> list[int | str | None]:
    return [size if isinstance(size, int) else _expression(size, symbols) for size in sizes]


def _expression(size: Dim, symbols: Mapping[str, Dim]) -> str | None:
    found = expression(size, symbols)
    return None if found is None else str(found)
