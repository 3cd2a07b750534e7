"""Module: a model. It compiles from placeholders, trains with one XLA program per step, and evaluates compiled too."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from singax import device as devices
from singax import dtypes, mode
from singax.arguments import outlined
from singax.compilations import Compilations
from singax.errors import ArgumentError
from singax.freezing import Freezing
from singax.functional import Functional, FunctionalStep, functional_model, functional_step
from singax.layer import build
from singax.layer.base import Layer, mark_border
from singax.layer.call import call_layer
from singax.ledger import Ledger
from singax.mode import local
from singax.program import MOST_RESTARTS, Runner, as_input, step_mode
from singax.storage import Bank
from singax.tensor import Tensor
from singax.workbench import Workbench

if TYPE_CHECKING:
    from singax.inspect.graph import Graph


def step(method: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a method of a Module as a training step: it is compiled as a whole, like `train_one_batch`."""
    method.__singax_step__ = True  # type: ignore[attr-defined]
    return method


def _wrapped_step(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def run_step(self: Module, *args: Any, **kwargs: Any) -> Any:
        if local.frame is not None or local.step is not None:
            return function(self, *args, **kwargs)
        if self.graph_mode:
            return _runner(self, function.__name__, function, donates=True)(args, kwargs)
        return _run_eagerly(self, function, args, kwargs)

    return run_step


class Module(Workbench):
    """Base class of models.

    Override `forward` (plain JAX arrays in and out) and `train_one_batch` (Tensors: forward, loss, `optimizer(loss)`).
    Calling the model runs `train_one_batch` in training mode and `forward` in evaluation mode. Methods named
    `train_one_batch*` or marked with `@singax.step` are compiled into one program each, with donated state.

    A program is selected by the method, the training flag, the arguments that are not arrays, and shapes and dtypes.
    Python runs when a program is traced, so plain attributes are read then: pass what varies as an argument, or call
    `compile` again after changing one.

    >>> import numpy as np, singax as sx
    >>> class Net(sx.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.fc, self.loss = sx.layer.Linear(2), sx.layer.MeanSquareError()
    ...         self.optimizer = sx.opt.SGD(lr=0.1)
    ...     def forward(self, x):
    ...         return self.fc(x)
    ...     def train_one_batch(self, x, y):
    ...         out = self.forward(x)
    ...         loss = self.loss(out, y)
    ...         self.optimizer(loss)
    ...         return out, loss
    >>> net = Net(); net.compile([sx.Placeholder((4, 3))])
    >>> out, loss = net(np.ones((4, 3), "float32"), np.zeros((4, 2), "float32"))
    >>> out.shape, sorted(net.get_params())
    ((4, 2), ['fc.W', 'fc.b'])
    """

    _internal = Layer._internal | {
        "training", "graph_mode", "sequential", "compilations", "_generator", "_bank", "_bank_version", "_members",
        "_runners",
        "_ledger", "_compute_dtype", "_freezing", "_inputs_seen",
    }  # fmt: skip

    _not_copied = Layer._not_copied | {
        "compilations", "_bank", "_bank_version", "_members", "_runners", "_ledger",
    }  # fmt: skip

    _step_names: frozenset[str] = frozenset()

    training: bool
    graph_mode: bool
    sequential: bool
    compilations: Compilations

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        made = super().__new__(cls)
        made.__dict__.update(
            training=True, graph_mode=True, sequential=False, compilations=Compilations(),
            _generator=devices.Generator(), _bank=Bank(), _bank_version=-1, _members=(), _runners={},
            _ledger=Ledger(made), _freezing=Freezing(), _compute_dtype=None,
        )  # fmt: skip
        return made

    def __init_subclass__(cls, **kwargs: Any) -> None:
        forward = cls.__dict__.get("forward")
        if callable(forward):
            type.__setattr__(cls, "forward", _wrapped_forward(forward))
        names = [name for name, value in cls.__dict__.items() if _is_step(name, value)]
        for name in names:
            setattr(cls, name, _wrapped_step(cls.__dict__[name]))
        cls._step_names = cls._step_names | frozenset(names)
        super().__init_subclass__(**kwargs)

    @classmethod
    def from_onnx(cls, model: Any, device: Any = None) -> Any:
        """An ONNX file (a path, bytes, or an `onnx.ModelProto`) as a model that trains: see `sonnx.SONNXModel`.

        Without a `device` a subclass is called with the model alone.
        """
        from singax.sonnx import SONNXModel

        made = cls if issubclass(cls, SONNXModel) else SONNXModel
        return made(model) if device is None else made(model, device=device)

    # -- compile, train, eval -----------------------------------------------------------------------------------

    def compile(
        self,
        inputs: Sequence[Any],
        is_train: bool = True,
        use_graph: bool = True,
        sequential: bool = False,
        graph_alg: bool | str | None = None,
        precision: Any = "float32",
    ) -> None:
        """Create the parameters from `inputs` and choose how to run.

        **Args**
          inputs: one Placeholder, Tensor, array or (nested) list of them per argument of `forward`. Only shapes and
            dtypes count; a size may be None where no parameter depends on it. A Tensor that is filled keeps its values
            as constants of the abstract pass.
          is_train: training mode (default) or evaluation mode.
          use_graph: compile steps into one program (default); False runs them call by call.
          sequential: kept for SINGA; XLA orders the operations.
          graph_alg: an older name of `sequential` (True or "sequence").
          precision: "float32" (default: as the inputs are), or for mixed precision "bfloat16" or "float16". Parameters,
            states and optimizer slots stay float32; layers see float32 inputs and parameters in this dtype, and
            results of `forward` have it too; norms and losses compute in float32. With float16 an optimizer without
            a `loss_scale` gets one: the loss is scaled so that small gradients do not vanish.

        Nothing is computed: `forward` runs on shapes only. May be called again, with other shapes or flags; existing
        parameters keep their values.

        **Raises** `ShapeError` and others from the layers, with their path; `UnusedLayerError` when a layer with
        parameters is never called. The model is then as it was before.
        """
        inputs, compute = _checked_inputs(inputs), compute_dtype(precision)
        before, self.__dict__["_compute_dtype"] = self._compute_dtype, compute
        try:
            self._build(inputs, is_train)
        except BaseException:
            self.__dict__["_compute_dtype"] = before
            raise
        self.__dict__["_inputs_seen"] = outlined(build.own_forward(self), tuple(inputs), {})
        self.training, self.graph_mode = is_train, use_graph
        self.sequential = sequential if graph_alg is None else graph_alg in (True, "sequence")
        mode.training = is_train
        self._runners.clear()
        self.__dict__["_bank_version"] = -1
        self._settled_bank()

    def _build(self, inputs: list[Any], is_train: bool) -> None:
        with mode.training_mode(is_train), build.journal(keep=True):
            build.build(self, build.own_forward(self), tuple(inputs), {}, constants=True)
            if not self._step_names:
                self._ledger.check_unused()
            self._freezing.check(self)

    def train(self, mode_: bool = True) -> None:
        """Switch to training mode (or, with False, to evaluation mode)."""
        self.training = mode_
        mode.training = mode_

    def eval(self) -> None:
        """Switch to evaluation mode."""
        self.train(False)

    def graph(self, *inputs: Any, mode: bool | None = None, sequential: bool = False) -> Graph | None:
        """SINGA's switch, and the graph of nodes.

        `graph(mode, sequential)` with bools, by position or name: steps are compiled (True) or run call by call
        (False); returns None. Otherwise: the forward pass for these placeholders (default: those of `compile`) as a
        `Graph`, to print, to iterate over, or to look at in a notebook; nothing is computed.

        **Raises** `ArgumentError` where the arguments of forward are not known.
        """
        if mode is None and not sequential and not (inputs and isinstance(inputs[0], bool)):
            from singax.inspect.graph import graph

            return graph(self, inputs)
        switches = [*inputs, *([] if mode is None else [mode])] or [True]
        self.graph_mode, self.sequential = bool(switches[0]), bool([*switches[1:], sequential][0])
        return None

    def __call__(self, *inputs: Any, **kwargs: Any) -> Any:
        if local.frame is None and local.step is None and self.training:
            return self.train_one_batch(*inputs, **kwargs)
        return self.forward(*inputs, **kwargs)

    @_wrapped_step
    def train_one_batch(self, *inputs: Any, **kwargs: Any) -> Any:
        """One training step. Override it; the default uses the deprecated attributes `loss` and `optim`."""
        loss, optim = self.__dict__.get("loss"), self.__dict__.get("optim")
        if not callable(loss) or not callable(optim) or len(inputs) < 2:
            raise ArgumentError(
                f"{type(self).__name__} is in training mode but defines no train_one_batch; define it, or call eval() "
                "to use the model for inference"
            )
        warnings.warn("Module.loss and Module.optim are deprecated: define train_one_batch", DeprecationWarning, 2)
        out = self.forward(*inputs[:-1], **kwargs)
        value = loss(out, inputs[-1])
        optim(value)
        return out, value

    # -- the pure side ------------------------------------------------------------------------------------------

    def functional(self) -> Functional:
        """The model as pure functions for JAX users: `init_fn, apply_fn = model.functional()`.

        See `singax.functional.Functional`.
        """
        return functional_model(self)

    def functional_step(self, method: str = "train_one_batch") -> FunctionalStep:
        """A training step as a pure function: `new_state, outputs = step(state, *inputs)`.

        See `singax.functional.FunctionalStep`.
        """
        return functional_step(self, method)


def _is_step(name: str, value: Any) -> bool:
    return callable(value) and (name.startswith("train_one_batch") or getattr(value, "__singax_step__", False))


def _wrapped_forward(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def forward(self: Module, *args: Any, **kwargs: Any) -> Any:
        if local.frame is not None or local.step is not None:
            return call_layer(self, function, args, kwargs)
        if self.training or not self.graph_mode:
            with mode.training_mode(self.training):
                return call_layer(self, function, args, kwargs)
        return _runner(self, "forward", forward, donates=False)(args, kwargs)

    return mark_border(forward)


def _runner(module: Module, name: str, function: Callable[..., Any], donates: bool) -> Runner:
    runner = module._runners.get((name, function))
    if runner is None:
        runner = Runner(module, f"{type(module).__name__}.{name}", function, donates)
        module._runners[name, function] = runner
    return runner


def _run_eagerly(module: Module, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    args, kwargs = jax.tree.map(_as_tensor, (args, kwargs), is_leaf=lambda leaf: isinstance(leaf, Tensor))
    for _ in range(MOST_RESTARTS):
        try:
            with step_mode(module, (), module.training, tracing=False):
                return function(module, *args, **kwargs)
        except mode.NeedsBuild:
            continue
    raise ArgumentError(f"{type(module).__name__} creates new layers each time it is called")


def _as_tensor(leaf: Any) -> Any:
    if isinstance(leaf, np.ndarray | np.generic):
        return Tensor(data=leaf, requires_grad=leaf.dtype.kind == "f")
    return as_input(leaf) if isinstance(leaf, jax.Array) else leaf


def compute_dtype(precision: Any) -> np.dtype | None:
    """The narrow dtype of a precision, None for float32; raises `ArgumentError` for what is none."""
    found = dtypes.canonical(precision)
    if found not in (dtypes.float32, dtypes.bfloat16, dtypes.float16):
        raise ArgumentError(f"precision must be float32, bfloat16 or float16. Received: {precision!r}")
    return None if found == dtypes.float32 else found


def _checked_inputs(inputs: Any) -> list[Any]:
    if not isinstance(inputs, list | tuple) or not inputs:
        raise ArgumentError(
            f"compile takes a non-empty list with one entry per argument of forward. Received: {inputs!r}"
        )
    for leaf in jax.tree.leaves(list(inputs), is_leaf=lambda leaf: isinstance(leaf, Tensor)):
        if isinstance(leaf, Tensor) and not leaf.is_filled() and dtypes.narrows(leaf.dtype):
            warnings.warn(
                f"{leaf.name} has dtype {leaf.dtype}, but JAX's x64 mode is off: it is treated as "
                f"{jax.dtypes.canonicalize_dtype(leaf.dtype)}. Use a 32-bit dtype, or "
                "jax.config.update('jax_enable_x64', True)",
                stacklevel=3,
            )
    return list(inputs)
