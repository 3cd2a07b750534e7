"""`prepare`: a model file as something that runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from singax import device as devices
from singax.errors import ArgumentError, DTypeError, NameMismatchError, ShapeError
from singax.sonnx.importer.graph import Graph, Model, ValueInfo
from singax.sonnx.importer.pieces import Executor, lifted
from singax.sonnx.loader import Limits, load
from singax.sonnx.loader.door import DEFAULT_LIMITS


class Described(NamedTuple):
    """An input or output: name, dtype, shape (names or None where a size is free)."""

    name: str
    dtype: Any
    shape: tuple[Any, ...] | None


class SingaRep:
    """A model that runs: `rep.run([x])`.

    Weights and what is computed from constants are kept; there is one program for each set of input shapes, unless the
    graph needs the host (`report()` says where and why).
    """

    def __init__(self, model: Model, device: Any = None, **options: Any) -> None:
        self.model, self.dev = lifted(model), devices.as_place(device.lower() if isinstance(device, str) else device)
        self._options = options
        self.executor = Executor(self.model, **options)
        self._cut: dict[Any, Executor] = {}
        graph = self.model.graph
        wanted = [info for info in graph.inputs if info.name not in graph.constants]
        self.inputs = [Described(info.name, info.dtype, info.shape) for info in wanted]
        self.outputs = [Described(info.name, info.dtype, info.shape) for info in graph.outputs]
        self._infos = {info.name: info for info in graph.inputs}
        self.is_graph, self.has_initialized = False, True

    @property
    def states(self) -> dict[str, np.ndarray]:
        """The constants of the model by name."""
        return dict(self.model.graph.constants)

    def run(self, x: Any, last_layers: int | None = None, aux_output: Sequence[str] = ()) -> list[Any]:
        """The outputs as NumPy arrays.

        **Args**
          x: one array per input, in order, or a dict by name; inputs that have a default may be left out.
          last_layers: run only the nodes up to this one (default: all). k ≥ 0: nodes 0 … k; k < 0: (k + 1) modulo the
            number of nodes, as in SINGA, so that −2 runs all and −1 only the first. The outputs are then the node's.
          aux_output: names of further values to return after the outputs.

        **Raises** `NameMismatchError`, `ShapeError` or `DTypeError` for inputs that do not fit, `ModelFileError` for a
        node that cannot be computed.
        """
        feeds = self._feeds(x)
        with jax.default_device(self.dev):
            return self._executor(last_layers, tuple(aux_output)).run(feeds)

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
      device: where it runs, such as "CPU" or "CUDA:0" (default: JAX's choice).
      most_trips: the largest number of iterations of a Loop (default: any).
      limits: how large the file and its parts may be, and in `run_bytes` what its values may take.
      check_indices: whether indices, lengths and divisors that come from data are watched, so that `run` raises for
        one that does not fit; else what is gathered from out of range is NaN, or an extreme integer, and an integer
        divided by 0 is whatever XLA makes of it.
      options: others, such as SINGA's `init_inputs`, are ignored.

    **Raises** `ModelFileError` for a file that is broken, hostile or not supported.
    """
    made = model if isinstance(model, Model) else load(model, limits)
    return SingaRep(made, device, most_trips=most_trips, most_bytes=limits.run_bytes, check_indices=check_indices)
