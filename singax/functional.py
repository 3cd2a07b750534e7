"""The pure side of a model, for people who write `jax.jit`, `grad`, `vmap` and `lax.scan` themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp

from singax import arguments, mode
from singax.autograd.border import framed, is_tensor
from singax.autograd.recorder import unwrapped
from singax.device import key_words
from singax.errors import NameMismatchError
from singax.layer import build, tree
from singax.mode import Frame, NeedsBuild
from singax.program import functionalize, without_static
from singax.recipes import host_source, traced_source
from singax.storage import Cell, exchanged
from singax.tensor import Tensor

if TYPE_CHECKING:
    from singax.module import Module

Variables = dict[str, Any]


class Functional(NamedTuple):
    """`init_fn, apply_fn = model.functional()`.

    `init(key, *inputs)` → variables: a dict path → array of parameters and states, drawn from a JAX key (works under
    `jit` and `vmap`) or from an integer seed (the values that `compile` would draw).

    `apply(variables, *inputs, train=False, key=None)` → outputs; with `train=True` → `(outputs, new_variables)`, where
    the new variables hold updated running statistics. `key` seeds dropout. Inputs and outputs are plain arrays.
    """

    init: Callable[..., Variables]
    apply: Callable[..., Any]


class FunctionalStep:
    """A training step as a pure function; callable, and the pair `(init, apply)` when unpacked.

    `init(key, *inputs)` → state: a dict path → array of parameters, states, optimizer slots, step and random key.
    `apply(state, *inputs)` → `(new_state, outputs)`: the order that `lax.scan` wants. Calling the object is `apply`.
    """

    def __init__(self, init: Callable[..., Variables], apply: Callable[..., tuple[Variables, Any]]) -> None:
        self.init, self.apply = init, apply

    def __iter__(self) -> Iterator[Callable[..., Any]]:
        return iter((self.init, self.apply))

    def __call__(self, state: Mapping[str, Any], *inputs: Any, **kwargs: Any) -> tuple[Variables, Any]:
        return self.apply(state, *inputs, **kwargs)


def functional_model(module: Module) -> Functional:
    """`init` and `apply` of the forward of `module`."""

    def init(key: Any, *inputs: Any) -> Variables:
        """Fresh parameters and states for these inputs."""
        build.ensure(module, build.own_forward(module), _arrays(inputs), {})
        held = {path: tensor._cell.array() for path, tensor in tree.tensors(module)}
        return {**{path: jnp.array(value) for path, value in held.items()}, **_redrawn(module, key)}

    def apply(variables: Mapping[str, Any], *inputs: Any, train: bool = False, key: Any = None) -> Any:
        """The outputs for these variables and inputs."""
        forward = build.own_forward(module)
        build.ensure(module, forward, inputs, {})
        named = tree.tensors(module)
        _check_names(variables, [path for path, _ in named])
        return _apply(module, forward, named, variables, inputs, train, key)

    return Functional(init, apply)


def _apply(
    module: Module,
    forward: Callable[..., Any],
    named: list[tuple[str, Tensor]],
    variables: Mapping[str, Any],
    inputs: tuple[Any, ...],
    train: bool,
    key: Any,
) -> Any:
    from singax.layer.inside import call_inside

    generator = module._generator.cell
    cells = [tensor._cell for _, tensor in named] + [generator]
    values = [jnp.asarray(variables[path]) for path, _ in named] + [_key_data(key)]
    frame = Frame(cells, generator, compute=tree.compute_dtype(module))
    with exchanged(cells, values), framed(frame), mode.training_mode(train):
        out = unwrapped(call_inside(frame, module, forward, _arrays(inputs), {}))
        new = {path: tensor._cell.get() for path, tensor in named}
    if frame.draws and key is None:
        raise NameMismatchError("the model draws random numbers in training mode: pass key=jax.random.key(…)")
    return (out, new) if train else out


def functional_step(module: Module, method: str) -> FunctionalStep:
    """`init` and `apply` of a training step of `module`."""
    function = step_function(module, method)

    def init(key: Any, *inputs: Any, **kwargs: Any) -> Variables:
        """A fresh state for these inputs."""
        bank = settled(module, function, inputs, kwargs)
        state = dict(zip(bank[0], [cell.array() for cell in bank[1]], strict=True))
        state.update(_fresh_owners(module))
        state.update(_redrawn(module, key))
        state["rng"] = _key_data(key)
        return {path: jnp.array(value) for path, value in state.items()}

    def apply(state: Mapping[str, Any], *inputs: Any, **kwargs: Any) -> tuple[Variables, Any]:
        """One step: the new state and the outputs."""
        paths, cells = settled(module, function, inputs, kwargs)
        _check_names(state, paths)
        packed = arguments.pack(function, inputs, kwargs)
        pure = functionalize(module, function, cells, packed.form, training=True)
        new, out = pure([jnp.asarray(state[path]) for path in paths], [jnp.asarray(v) for v in packed.inputs])
        return dict(zip(paths, new, strict=True)), without_static(out)

    return FunctionalStep(init, apply)


def step_function(module: Module, method: str) -> Callable[..., Any]:
    """The body of a step, as it was written; raises `NameMismatchError` for another name."""
    if method not in module._step_names:
        known = ", ".join(sorted(module._step_names)) or "none"
        raise NameMismatchError(f"{type(module).__name__} has no step named {method!r}; its steps: {known}")
    return getattr(type(module), method).__wrapped__


def settled(
    module: Module, function: Callable[..., Any], inputs: Any, kwargs: Any
) -> tuple[tuple[str, ...], list[Cell]]:
    """The paths and cells of the whole state, once an abstract run of the step has created all of it."""
    packed = arguments.pack(function, inputs, kwargs)
    shapes = [jax.ShapeDtypeStruct(v.shape, jax.dtypes.canonicalize_dtype(v.dtype)) for v in packed.inputs]
    while True:
        with jax.ensure_compile_time_eval():
            module._ledger.want_all_slots()
            bank = module._current_bank()
            for cell in bank.cells:
                cell.array()
        states = [jax.ShapeDtypeStruct(v.shape, v.dtype) for v in bank.values]
        contexts: list[mode.StepContext] = []
        pure = functionalize(module, function, list(bank.cells), packed.form, True, contexts.append)
        try:
            jax.eval_shape(pure, states, shapes)
        except NeedsBuild:
            continue
        if not module._ledger.after_trace(function.__name__, contexts[-1]):
            return bank.paths, list(bank.cells)


def _redrawn(module: Module, key: Any) -> Variables:
    """Fresh values of every parameter and state that a recipe made, with the shapes they have now."""
    found: Variables = {}
    for path, tensor in tree.tensors(module):
        recipe = tensor._cell.recipe
        if recipe is not None:
            source = host_source(key, path) if isinstance(key, int) else traced_source(key, path)
            found[path] = jnp.asarray(recipe.draw(source, tensor.shape, tensor.dtype))
    return found


def _fresh_owners(module: Module) -> Variables:
    found: Variables = {}
    for path, owner in module._ledger.named_owners():
        found.update({tree.join(path, name): array for name, array in owner.fresh_state().items()})
    return found


def _key_data(key: Any) -> Any:
    if key is None:
        key = 0
    if isinstance(key, int):
        return jnp.asarray(key_words(key))
    data = jax.random.key_data(key) if jnp.issubdtype(key.dtype, jax.dtypes.prng_key) else key
    return jnp.asarray(data, jnp.uint32)


def _arrays(inputs: Any) -> Any:
    return jax.tree.map(lambda v: v.data if isinstance(v, Tensor) and v.is_filled() else v, inputs, is_leaf=is_tensor)


def _check_names(given: Mapping[str, Any], wanted: Any) -> None:
    missing, unknown = sorted(set(wanted) - set(given)), sorted(set(given) - set(wanted))
    if missing or unknown:
        raise NameMismatchError(
            f"the variables do not fit the model; missing: {', '.join(missing) or 'none'}; "
            f"unknown: {', '.join(unknown) or 'none'}"
        )
