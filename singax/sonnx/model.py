"""`SONNXModel`: an ONNX file as a Module that trains."""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from singax import mode
from singax.errors import ArgumentError, DTypeError, ModelFileError, NameMismatchError, ShapeError
from singax.module import Module
from singax.sonnx.importer.draws import has_seeds
from singax.sonnx.importer.graph import Graph, Model, ValueInfo, reads
from singax.sonnx.importer.inside import InsideEvaluator, pruned, refuse_wide
from singax.sonnx.importer.parameters import Weights, found_weights
from singax.sonnx.loader import Limits, load
from singax.sonnx.loader.door import DEFAULT_LIMITS
from singax.sonnx.rep import SingaRep, place_of, until_layer
from singax.tensor import Tensor

MOST_KNOWN_ELEMENTS = 4096
_ADMITTED = (["f", "f"], ["i", "i"], ["i", "f"], ["b", "f"], ["b", "i"])


class SONNXModel(Module):
    """An ONNX model as a `Module`: its weights are parameters under their ONNX names, and `compile`, `train_one_batch`
    in a subclass, freezing, `functional` and files of states work as for any other model.

    What is computed from shapes and constants is known while a program is traced, so index arithmetic costs nothing
    and accepts Placeholders. BatchNormalization (whose running statistics are states) and Dropout follow training mode;
    inside a Loop, a Scan, or an If whose condition depends on data, running statistics stay as they are.

    A parameter is a floating initializer of rank 1 or more, or the value of a Constant node with two elements or more,
    that a node computes with; also where it is stored quantised, or in another float, behind Cast or DequantizeLinear,
    or inside a branch. Scalars, and what operators only need to know (limits of Clip, scales of Resize …), stay
    constants.

    **Shapes** as the model declares; `forward` returns the **list** of outputs, as SINGA does.

    **Args**
      model: the path of a file, its bytes, or an `onnx.ModelProto`.
      device: where the weights are, and so where it runs ("CPU", "CUDA:0", a `Device`, a sharding …; default: JAX's
        choice).
      limits: how large the file, its parts and its values may be.

    A random node with a seed draws the same in each evaluation; in training, one reproducible mask after the other
    (the state `draws` counts them), whatever the seed of the device.

    Indices that come from data cannot raise inside a program that trains: what is gathered from out of range is NaN,
    or an extreme integer; what is scattered there is dropped; an integer divided by 0 is whatever XLA makes of it (−1).
    `prepare` raises for them. Nor can Ctrl-C end a compiled Loop that runs forever: try a file that nobody trusts with
    `prepare`, which it ends.

    **Raises** `ModelFileError` for a file that is broken, hostile or not supported; for a node that no compiled program
    can hold, when it is met; and for 64-bit floats, or integers beyond 32 bits, unless JAX's x64 is on.

    *Differences from SINGA*: all weights are parameters, with names of their own; mixed precision leaves the graph in
    its own dtypes.

    >>> from onnx import TensorProto, helper, numpy_helper
    >>> w = numpy_helper.from_array(np.ones(3, np.float32), "w")
    >>> x, y = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", 3]) for name in "xy"]
    >>> graph = helper.make_graph([helper.make_node("Mul", ["x", "w"], ["y"])], "scale", [x], [y], [w])
    >>> net = SONNXModel(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
    >>> list(net.get_params()), net.infer_shape((None, 3))
    (['w'], [(None, 3)])
    """

    _computes_wide = True
    _internal: ClassVar[frozenset[str]] = Module._internal | {"_cuts", "_rep"}  # type: ignore[misc]
    _not_copied: ClassVar[frozenset[str]] = Module._not_copied | {"_rep"}  # type: ignore[misc]
    is_graph = True

    _most_bytes = DEFAULT_LIMITS.run_bytes

    def __init__(self, model: Any, device: Any = None, limits: Limits = DEFAULT_LIMITS) -> None:
        super().__init__()
        self._take(found_weights(model if isinstance(model, Model) else load(model, limits)), place_of(device))
        self._most_bytes = limits.run_bytes
        self._file = os.fspath(model) if isinstance(model, str | os.PathLike) else ""

    def _take(self, weights: Weights, place: Any) -> None:
        self._known = _Known(weights.parameters, place)
        self._model, graph = weights.model, weights.model.graph
        self._cuts: dict[Any, Model] = {}
        for name, value in {**weights.parameters, **weights.states}.items():
            refuse_wide(value, f"tensor {name!r}")
        parameters = {n: self._tensor(n, v, True) for n, v in weights.parameters.items()}
        states = {n: self._tensor(n, v, False) for n, v in weights.states.items()}
        self._weights = (*parameters, *states)
        self.register_tensors({_path(name): tensor for name, tensor in (parameters | states).items()})
        self._count_draws()
        defaults = {*graph.constants, *self._weights}
        self._inputs = tuple(info for info in graph.inputs if info.name not in defaults)

    def _tensor(self, name: str, value: np.ndarray, trains: bool) -> Tensor:
        return Tensor(data=value, device=self._known.place, requires_grad=trains, stores_grad=trains, name=name)

    def _count_draws(self) -> None:
        """A state that counts the training forwards of a model with seeded random nodes."""
        self._draws = ""
        if has_seeds(self._model):
            names = (f"draws{'_' * count}" for count in itertools.count())
            self._draws = next(name for name in names if name not in self._registered)
            self.register_tensors({self._draws: self._tensor(self._draws, np.zeros(1, np.int32), False)})

    @property
    def sg_ir(self) -> SingaRep:
        """The same weights as a `SingaRep`: `self.sg_ir.run(x)` is the forward of this class."""
        rep: SingaRep | None = self.__dict__.get("_rep")
        if rep is None:
            rep = self.__dict__["_rep"] = SingaRep(self._model, self._known.place, net=self)
        return rep

    def weights(self) -> dict[str, np.ndarray]:
        """The weights and running statistics under their ONNX names, as NumPy arrays."""
        return {name: self._registered[_path(name)].to_numpy() for name in self._weights}

    # -- running ----------------------------------------------------------------------------------------------------

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        _check_arguments(cls)

    def __call__(self, *inputs: Any, **kwargs: Any) -> Any:
        refuse_narrowing(inputs, kwargs)
        return super().__call__(*inputs, **kwargs)

    def forward(self, *inputs: Any, aux_output: Sequence[str] = (), last_layers: int | None = None) -> list[Any]:
        """The outputs for the model's inputs, in order.

        **Args**
          inputs: arrays, or Python numbers for what the graph must know while it is traced.
          aux_output: names of further values to return after the outputs.
          last_layers: run only the nodes up to this one; the outputs are then its own. k ≥ 0: nodes 0 … k; k < 0:
            (k + 1) modulo the number of nodes, as in SINGA: −2 runs all, −3 drops the last node.
        """
        cut = self._cut(last_layers, tuple(aux_output))
        values = {name: self._registered[_path(name)].data for name in self._weights}
        values.update(self._given(inputs))
        drawn = self._registered[self._draws].data if self._draws and mode.training else None
        evaluator = InsideEvaluator(cut, self._known.values, drawn, self._most_bytes)
        try:
            outputs = evaluator.outputs(values)
        except ModelFileError as error:
            error.in_file(self._file)
            raise
        for name, value in evaluator.new_states().items():
            if _path(name) in self._registered:
                self._registered[_path(name)].data = value
        if drawn is not None:
            self._registered[self._draws].data = drawn + 1
        return outputs

    def _cut(self, last_layers: int | None, aux_output: tuple[str, ...]) -> Model:
        key = (last_layers, aux_output)
        if key not in self._cuts:
            known = {*self._weights, *self._model.graph.constants}
            made = until_layer(self._model, last_layers, aux_output, known)
            self._cuts[key] = _with_graph(made, pruned(made.graph))
        return self._cuts[key]

    def _given(self, inputs: Sequence[Any]) -> dict[str, Any]:
        if len(inputs) > len(self._inputs):
            raise ArgumentError(f"the model has {len(self._inputs)} inputs. Received: {len(inputs)}")
        pairs = zip(self._inputs, [*inputs, *[None] * len(self._inputs)], strict=False)
        missing = [info.name for info, value in pairs if value is None and self._is_read(info)]
        if missing:
            raise NameMismatchError(f"the inputs are {self._names()}. Missing: {', '.join(missing)}")
        return {i.name: admitted(i, v) for i, v in zip(self._inputs, inputs, strict=False) if v is not None}

    def _is_read(self, info: ValueInfo) -> bool:
        return info.kind == "tensor" and info.name in _read(self._model.graph)

    def _names(self) -> str:
        return ", ".join(info.name for info in self._inputs)

    # -- cutting ----------------------------------------------------------------------------------------------------

    def until(self, name: str) -> SONNXModel:
        """A model that ends at a tensor, or at the outputs of a node, with a copy of the weights that it needs.

        Inputs that it does not read may be left out, or be None.

        **Raises** `NameMismatchError` if nothing has this name.
        """
        graph = self._model.graph
        ends = [ValueInfo(output, None, None) for output in self._outputs_named(name)]
        cut = pruned(Graph(graph.name, graph.inputs, ends, graph.constants, graph.nodes))
        parts: list[dict[str, np.ndarray]] = [{}, {}]
        read = _read(cut)
        for key in [key for key in self._weights if key in read]:
            tensor = self._registered[_path(key)]
            parts[0 if tensor.stores_grad else 1][key] = tensor.to_numpy()
        made = SONNXModel.__new__(SONNXModel)
        Module.__init__(made)
        made._take(Weights(_with_graph(self._model, cut), *parts), self._known.place)
        made._file, made._most_bytes = self._file, self._most_bytes
        return made

    def _outputs_named(self, name: str) -> list[str]:
        tensors = {n for node in self._model.graph.nodes for n in node.outputs}
        if name in tensors or name in self._weights:
            return [name]
        for node in self._model.graph.nodes:
            if node.name == name:
                return [output for output in node.outputs if output]
        raise NameMismatchError(f"no node or tensor is named {name!r}")


class _Known:
    """The file's values of small parameters, and where the weights were put; no member of the tree."""

    def __init__(self, values: dict[str, np.ndarray], place: Any) -> None:
        self.values = {name: value for name, value in values.items() if value.size <= MOST_KNOWN_ELEMENTS}
        self.place = place

    def __deepcopy__(self, memo: Any) -> _Known:
        return self


def _path(name: str) -> str:
    """The path of a weight: its ONNX name; "rng" is taken by the random key."""
    return "rng_" if name == "rng" else name


def _with_graph(model: Model, graph: Graph) -> Model:
    return Model(graph, model.opsets, model.functions, model.metadata)


def _read(graph: Graph) -> set[str]:
    return {name for node in graph.nodes for name in reads(node)} | {info.name for info in graph.outputs}


def _check_arguments(model: type[SONNXModel]) -> None:
    """Let forward and the steps that a class defines refuse what they would narrow."""
    for name in ({"forward"} | model._step_names) & set(model.__dict__):
        setattr(model, name, _refusing(model.__dict__[name]))


def _refusing(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def checked(self: SONNXModel, *args: Any, **kwargs: Any) -> Any:
        refuse_narrowing(args, kwargs)
        return function(self, *args, **kwargs)

    return checked


def refuse_narrowing(*arguments: Any) -> None:
    """`DTypeError` for NumPy integers among (nested) arguments that would not survive as 32 bits."""
    if not jax.config.read("jax_enable_x64"):
        for value in jax.tree.leaves(arguments):
            if isinstance(value, np.ndarray | np.generic):
                refuse_wide_integers(np.asarray(value))


def refuse_wide_integers(value: np.ndarray) -> None:
    """`DTypeError` for integers that would not survive as 32 bits, while JAX's x64 is off."""
    if value.dtype not in (np.int64, np.uint64) or not value.size or jax.config.read("jax_enable_x64"):
        return
    limits = np.iinfo(np.int32 if value.dtype == np.int64 else np.uint32)
    if value.min() < limits.min or value.max() > limits.max:
        raise DTypeError(
            f"expected integers of 32 bits, while JAX's x64 is off. Received {value.dtype} from {value.min()} "
            f"to {value.max()}"
        )


_check_arguments(SONNXModel)


def admitted(info: ValueInfo, value: Any) -> Any:
    """The value of an input with the dtype that the model declares; 64 bits become 32 where JAX's x64 is off."""
    if isinstance(value, list | tuple) and info.kind != "tensor":
        return [admitted(ValueInfo(info.name, info.dtype, None), item) for item in value]
    known = not isinstance(value, jax.Array)
    array = np.asarray(value) if known else value
    if info.dtype is not None and array.dtype != info.dtype:
        array = _converted(info, array, known)
    _check_shape(info, array.shape)
    return array


def _converted(info: ValueInfo, array: Any, known: bool) -> Any:
    wanted = info.dtype
    assert wanted is not None, "the caller has asked"
    if not known and wanted in (np.float64, np.complex128) and not jax.config.read("jax_enable_x64"):
        raise ModelFileError("", f"input {info.name!r}", "dtype", "32 bits, while JAX's x64 is off", str(wanted))
    kinds = [_kind(dtype) for dtype in (array.dtype, wanted)]
    if kinds in _ADMITTED:
        return array.astype(wanted if known else jax.dtypes.canonicalize_dtype(wanted))
    raise DTypeError(f"the input {info.name!r} has dtype {wanted}. Received: {array.dtype}")


def _kind(dtype: Any) -> str:
    """ "f" for floats, those of ml_dtypes included; else NumPy's kind, "i" for unsigned integers too."""
    if jnp.issubdtype(dtype, jnp.floating):
        return "f"
    return "i" if jnp.issubdtype(dtype, jnp.integer) else np.dtype(dtype).kind


def _check_shape(info: ValueInfo, shape: tuple[int, ...]) -> None:
    if info.shape is None:
        return
    fits = len(info.shape) == len(shape)
    if not fits or any(isinstance(w, int) and w != n for w, n in zip(info.shape, shape, strict=True)):
        raise ShapeError(f"the input {info.name!r} has shape {info.shape}. Received shape {tuple(shape)}")
