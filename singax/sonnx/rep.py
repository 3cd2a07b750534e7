"""`prepare`: a model file as something that runs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from singax import device as devices
from singax import mode
from singax.errors import ArgumentError, DTypeError, NameMismatchError, ShapeError
from singax.mode import local
from singax.sonnx.importer import host
from singax.sonnx.importer.evaluate import Evaluator, Scope
from singax.sonnx.importer.graph import Graph, Model, Node, ValueInfo
from singax.sonnx.importer.pieces import Executor, lifted
from singax.sonnx.loader import Limits, load
from singax.sonnx.loader.door import DEFAULT_LIMITS
from singax.sonnx.nodes import OnnxNode


class Described(NamedTuple):
    """An input or output: name, dtype, shape (names or None where a size is free)."""

    name: str
    dtype: Any
    shape: tuple[Any, ...] | None


class Layered(NamedTuple):
    """A node and a function that computes it: arrays for its inputs, in order → the list of its outputs."""

    node: OnnxNode
    operator: Callable[..., list[Any]]


class SingaRep:
    """A model that runs: `rep.run([x])`.

    Weights and what is computed from constants are kept; there is one program for each set of input shapes, unless the
    graph needs the host (`report()` says where and why).

    With `rep.is_graph = True` it takes and gives Tensors, as SINGA's does: while `autograd.training` is on, the results
    carry the graph that `autograd.backward` follows, down to the weights.

    `inputs` and `outputs` describe the model (name, dtype, shape), `states` are its weights and other constants by
    name, `layers` its nodes, each with a function that computes it.
    """

    def __init__(self, model: Model, device: Any = None, net: Any = None, **options: Any) -> None:
        self.model, self.dev = lifted(model), place_of(device)
        self._source, self._net, self._options = model, net, options
        self.executor = Executor(self.model, **options)
        self._cut: dict[Any, Executor] = {}
        graph = self.model.graph
        wanted = [info for info in graph.inputs if info.name not in graph.constants]
        self.inputs = [Described(info.name, info.dtype, info.shape) for info in wanted]
        self.outputs = [Described(info.name, info.dtype, info.shape) for info in graph.outputs]
        self._infos = {info.name: info for info in graph.inputs}
        self.is_graph, self.has_initialized = net is not None, True

    @property
    def states(self) -> dict[str, np.ndarray]:
        """The weights and other constants of the model by name."""
        trained = {} if self._net is None else self._net.weights()
        return {**self.model.graph.constants, **trained}

    @functools.cached_property
    def layers(self) -> list[Layered]:
        """The nodes in the order in which they run, each with a function from arrays to the list of its outputs."""
        return [Layered(_named(node, k), self._operator(node)) for k, node in enumerate(self.model.graph.nodes)]

    def _operator(self, node: Node) -> Callable[..., list[Any]]:
        def operator(*inputs: Any) -> list[Any]:
            scope = Scope({"": None, **dict(zip(node.inputs, map(_listed, inputs), strict=True))})
            with jax.default_device(self.dev), jax.enable_x64(True):
                Evaluator(self.model).node(node, scope, self.model.opsets)
                return [host.as_numpy(scope[name]) for name in node.outputs if name]

        return operator

    def __getattr__(self, name: str) -> Any:
        """A node's function under the node's name."""
        found = [] if name.startswith("_") or name == "layers" else [x for x in self.layers if x.node.name == name]
        if not found:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}, and no node has this name")
        return found[0].operator

    def run(self, x: Any, last_layers: int | None = None, aux_output: Sequence[str] = ()) -> list[Any]:
        """The outputs as NumPy arrays; as Tensors where `is_graph` is True.

        **Args**
          x: one array (or Tensor) per input, in order, or a dict by name; inputs that have a default may be left out.
          last_layers: run only the nodes up to this one (default: all). k ≥ 0: nodes 0 … k; k < 0: (k + 1) modulo the
            number of nodes, as in SINGA, so that −2 runs all and −1 only the first. The outputs are then the node's.
          aux_output: names of further values to return after the outputs.

        **Raises** `NameMismatchError`, `ShapeError` or `DTypeError` for inputs that do not fit, `ModelFileError` for a
        node that cannot be computed.
        """
        if self.is_graph:
            return self._run_graph(x, last_layers, tuple(aux_output))
        feeds = self._feeds(x)
        with jax.default_device(self.dev):
            return self._executor(last_layers, tuple(aux_output)).run(feeds)

    def _run_graph(self, x: Any, last_layers: int | None, aux_output: tuple[str, ...]) -> list[Any]:
        from singax.sonnx.model import SONNXModel

        if self._net is None:
            self._net = SONNXModel(self._source, self.dev)
        own = local.frame is None and local.step is None
        if own and self._net.training != mode.training:
            self._net.training = mode.training
        if isinstance(x, Mapping):
            x = [x.get(info.name) for info in self.inputs]
        values = x if isinstance(x, list | tuple) else [x]
        return SONNXModel.forward(self._net, *values, last_layers=last_layers, aux_output=aux_output)

    def _executor(self, last_layers: int | None, aux_output: tuple[str, ...]) -> Executor:
        if last_layers is None and not aux_output:
            return self.executor
        key = (last_layers, aux_output)
        if key not in self._cut:
            known = set(self.model.graph.constants)
            self._cut[key] = Executor(until_layer(self.model, last_layers, aux_output, known), **self._options)
        return self._cut[key]

    def report(self) -> str:
        """How many programs there are, and where the host is needed and why."""
        pieces = self.executor.pieces()
        lines = [f"{self.executor.compiled} compiled programs for {len(self.model.graph.nodes)} nodes"]
        lines += [f"known inputs: {name}" for name in sorted(self.executor.known_inputs)]
        for piece in pieces:
            if piece.reason:
                lines.append(f"on the host: {self.model.graph.nodes[piece.stop].where}: {piece.reason}")
        return "\n".join(lines)

    def _feeds(self, x: Any) -> dict[str, Any]:
        if not isinstance(x, Mapping):
            values = list(x) if isinstance(x, list | tuple) else [x]
            names = [info.name for info in self.inputs]
            if len(values) > len(self._infos):
                raise ArgumentError(f"the model has {len(self._infos)} inputs. Received: {len(values)}")
            all_names = names + [name for name in self._infos if name not in names]
            x = dict(zip(all_names, values, strict=False))
        unknown, missing = set(x) - set(self._infos), {info.name for info in self.inputs} - set(x)
        if unknown or missing:
            known = ", ".join(self._infos)
            raise NameMismatchError(
                f"the inputs are {known}. Received unknown: {', '.join(sorted(unknown)) or 'none'}; "
                f"missing: {', '.join(sorted(missing)) or 'none'}"
            )
        return {name: fitting(self._infos[name], value) for name, value in x.items()}


def fitting(info: ValueInfo, value: Any) -> Any:
    """The value of an input as NumPy, with the dtype and rank that the model declares."""
    if value is None or info.kind != "tensor":
        return _listed(value)
    array = value.to_numpy() if hasattr(value, "to_numpy") else np.asarray(value)
    if info.dtype is not None and array.dtype != info.dtype:
        array = _converted(info, array)
    if info.shape is not None:
        fixed = zip(info.shape, array.shape, strict=False)
        if len(info.shape) != array.ndim or any(isinstance(w, int) and w != s for w, s in fixed):
            raise ShapeError(f"the input {info.name!r} has shape {info.shape}. Received shape {array.shape}")
    return array


def _listed(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_listed(item) for item in value]
    return None if value is None else np.asarray(value)


def _converted(info: ValueInfo, array: np.ndarray) -> np.ndarray:
    """Conversions that lose nothing, and those of SINGA between float64, int64 and their 32-bit forms."""
    wanted = info.dtype
    assert wanted is not None, "the caller has asked"
    if wanted.kind == "O" or array.dtype.kind in "US":
        return array.astype(object)
    if np.can_cast(array.dtype, wanted, "same_kind"):
        converted = array.astype(wanted)
        if np.array_equal(converted.astype(array.dtype), array, equal_nan=array.dtype.kind in "fc"):
            return converted
        if array.dtype.kind == "f":
            return converted
    raise DTypeError(f"the input {info.name!r} has dtype {wanted}. Received: {array.dtype}")


def until_layer(model: Model, last_layers: int | None, aux_output: Sequence[str], constants: set[str]) -> Model:
    """The model up to a node, by SINGA's rule, with further outputs; `constants` are names that need no node."""
    graph = model.graph
    count = len(graph.nodes)
    stop = count - 1 if last_layers is None else last_layers if last_layers >= 0 else (last_layers + 1) % count
    nodes = graph.nodes[: min(stop, count - 1) + 1]
    known = {name for node in nodes for name in node.outputs} | constants | {info.name for info in graph.inputs}
    missing = [name for name in aux_output if name not in known]
    if missing:
        raise NameMismatchError(f"no value is named {', '.join(missing)} among the nodes that run")
    outputs = graph.outputs if len(nodes) == count else [_anonymous(n) for n in nodes[-1].outputs if n]
    made = Graph(graph.name, graph.inputs, [*outputs, *map(_anonymous, aux_output)], graph.constants, nodes)
    return Model(made, model.opsets, model.functions, model.metadata)


def _anonymous(name: str) -> ValueInfo:
    return ValueInfo(name, None, None)


def place_of(device: Any) -> Any:
    """What `jax.device_put` takes for a device; onnx's names ("CPU", "CUDA:0") are in capitals."""
    return devices.as_place(device.lower() if isinstance(device, str) else device)


def _named(node: Node, position: int) -> OnnxNode:
    """The node under SINGA's name for it."""
    made = OnnxNode(node)
    made.name = node.name.replace(".", "_") if node.name else f"{node.op_type}_{position}"
    return made


def prepare(
    model: Any,
    device: Any = None,
    *,
    most_trips: int | None = None,
    limits: Limits = DEFAULT_LIMITS,
    check_indices: bool = True,
    **options: Any,
) -> SingaRep:
    """A model file, its bytes, or an `onnx.ModelProto`, checked and ready to run.

    **Args**
      device: where the weights are and the programs run: "CPU", "CUDA:0", a `Device` … (default: JAX's choice).
      most_trips: the largest number of iterations of a Loop (default: any; Ctrl-C ends an endless one, on CPUs a
        compiled one too).
      limits: how large the file and its parts may be, and in `run_bytes` what its values may take.
      check_indices: whether indices, lengths and divisors that come from data are watched, so that `run` raises for
        one that does not fit; else what is gathered from out of range is NaN, or an extreme integer, and an integer
        divided by 0 is whatever XLA makes of it.
      options: others, such as SINGA's `init_inputs`, are ignored.

    **Raises** `ModelFileError` for a file that is broken, hostile or not supported; `DeviceNotFoundError` for a
    device that this machine has not.
    """
    made = model if isinstance(model, Model) else load(model, limits)
    return SingaRep(made, device, most_trips=most_trips, most_bytes=limits.run_bytes, check_indices=check_indices)
