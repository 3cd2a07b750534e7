"""Every suite over every row of the catalogue."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from catalogue import TWIN, Row, rows
from jax.test_util import check_grads
from subjects import Holder, assert_close, bare, cast, drawn, floating, names_of, placeholder, shared, subject, tensors
from twins import onnx_of

import singax as sx
from singax import autograd, ops
from singax.errors import SingaxError

ROWS = rows()
LAYERS = [row for row in ROWS if isinstance(row.make(), sx.layer.Layer)]
OPERATIONS = [row for row in ROWS if row not in LAYERS]

every_row = pytest.mark.parametrize("row", ROWS, ids=str)
every_layer = pytest.mark.parametrize("row", LAYERS, ids=str)
every_operation = pytest.mark.parametrize("row", OPERATIONS, ids=str)


@pytest.mark.parametrize("row", [r for r in ROWS if r.reference is not None], ids=str)
def test_value(row: Row) -> None:
    """The value is NumPy's, or that of the operation's ONNX twin."""
    it = shared(row)
    out = it.compiled(it.variables, it.inputs)
    assert_close(out, _reference(row, it), row.rtol, row.atol)


def _reference(row: Row, it: Any) -> Any:
    inputs = jax.tree.map(np.asarray, it.inputs)
    if row.reference != TWIN:
        states = {name.removeprefix("layer."): np.asarray(v) for name, v in it.variables.items()}
        return row.reference(states, *inputs) if it.model is not None else row.reference(*inputs)  # type: ignore[operator]
    operation = row.make()
    constants = operation.twin.constant_inputs(row.attributes)
    flat = jax.tree.leaves(inputs)
    return onnx_of(operation, [*flat, *constants], **row.attributes)


@pytest.mark.parametrize("row", [r for r in ROWS if r.grad], ids=str)
def test_gradient(row: Row) -> None:
    """Gradients to parameters and floating inputs equal finite differences at float64."""
    with jax.enable_x64(True):
        it = subject(row, jnp.float64)
        leaves, tree = jax.tree.flatten(it.inputs)
        moving = [k for k, leaf in enumerate(leaves) if jnp.issubdtype(leaf.dtype, jnp.floating)]
        parameters = {name: cast(value, jnp.float64) for name, value in it.parameters.items()}

        @jax.jit
        def function(parameters: dict[str, Any], values: list[Any]) -> list[Any]:
            given = list(leaves)
            for k, value in zip(moving, values, strict=True):
                given[k] = value
            variables = {name: cast(v, jnp.float64) for name, v in it.variables.items()}
            return floating(it.run({**variables, **parameters}, jax.tree.unflatten(tree, given)))

        arguments = jax.tree.map(np.asarray, (parameters, [leaves[k] for k in moving]))  # NumPy compiles no sums
        assert jax.tree.leaves(arguments), "nothing to differentiate: say grad=False"
        check_grads(function, arguments, order=1, modes=("rev",), atol=1e-4, rtol=1e-4)


@every_row
def test_eager_compiled_and_functional_agree(row: Row) -> None:
    """Called with Tensors, compiled, and as a pure function: the same outputs; the tape's gradients are JAX's."""
    it = shared(row)
    functional = it.compiled(it.variables, it.inputs)
    if it.model is None:
        assert_close(it.run({}, it.inputs), functional, 1e-5, 1e-5)
        if isinstance(row.make(), ops.Operation):
            _compare_node(row, it, functional)
    elif not row.random or not row.training:
        _compare_module(row, it, functional)


def _compare_node(row: Row, it: Any, functional: Any) -> None:
    autograd.training = True
    given = tensors(it.inputs)
    out = autograd.node(functools.partial(row.make(), **row.attributes))(*given)
    assert_close(out, functional, 1e-5, 1e-5)
    first = next((leaf for leaf in jax.tree.leaves(out) if isinstance(leaf, sx.Tensor) and leaf.requires_grad), None)
    wanted = floating(it.inputs)
    if first is None or not wanted or not row.grad:
        return
    got = first.creator.backward(*[jnp.ones(leaf.shape, leaf.dtype) for leaf in floating(bare(out))])
    got = got if isinstance(got, tuple | list) else (got,)
    theirs = jax.jit(_pulled, static_argnums=0)(it.run, it.inputs, floating(jax.tree.map(jnp.ones_like, functional)))
    assert_close(floating(list(got)), [g for g in floating(theirs) if g.dtype != jax.dtypes.float0], 1e-5, 1e-5)


def _pulled(run: Any, inputs: list[Any], dys: list[Any]) -> list[Any]:
    return jax.vjp(lambda *inputs: floating(run({}, list(inputs))), *inputs)[1](dys)


def _compare_module(row: Row, it: Any, functional: Any) -> None:
    eager, model = Holder(row.make()), Holder(row.make())
    for made, graph in ((eager, False), (model, True)):
        made.compile([placeholder(i) for i in it.inputs], is_train=False, use_graph=graph)
        made.set_states({name: np.asarray(value) for name, value in it.variables.items()})
    if not row.training:
        assert_close(model(*it.inputs), functional, 1e-5, 1e-5)
    autograd.training = row.training
    assert_close(eager.layer(*tensors(it.inputs)), functional, 1e-5, 1e-5)


@pytest.mark.parametrize("row", [r for r in ROWS if r.vmap and not r.training], ids=str)
def test_vmap(row: Row) -> None:
    """A batch of inputs under `jax.vmap` equals one call after another."""
    it = shared(row)
    others = drawn(row.inputs, seed=100)
    stacked = jax.tree.map(lambda a, b: jnp.stack([jnp.asarray(a), b]), it.inputs, others)
    together = jax.jit(jax.vmap(it.run, in_axes=(None, 0)))(it.variables, stacked)
    for k, inputs in enumerate((it.inputs, others)):
        assert_close(jax.tree.map(lambda v, k=k: v[k], together), it.compiled(it.variables, inputs), 1e-5, 1e-5)


@pytest.mark.parametrize("row", [r for r in ROWS if r.bfloat16 is not None], ids=str)
def test_bfloat16_is_close_to_float32(row: Row) -> None:
    """With bfloat16 inputs and parameters the outputs are close to those of float32."""
    wide, narrow = shared(row), subject(row, jnp.bfloat16)
    inputs = jax.tree.map(lambda v: cast(v, jnp.float32), narrow.inputs)
    variables = {name: jnp.asarray(wide.variables[name], v.dtype) for name, v in narrow.variables.items()}
    ours = jax.tree.leaves(jax.jit(narrow.run)(variables, narrow.inputs))
    rounded = {name: jnp.asarray(v, wide.variables[name].dtype) for name, v in variables.items()}
    theirs = jax.tree.leaves(wide.compiled(rounded, inputs))
    for a, b in zip(ours, theirs, strict=True):
        assert jnp.issubdtype(a.dtype, jnp.floating) == jnp.issubdtype(b.dtype, jnp.floating)
        scale = max(float(np.max(np.abs(np.asarray(b, np.float64)), initial=0.0)), 1e-3)
        np.testing.assert_allclose(np.asarray(a, np.float64), np.asarray(b, np.float64), atol=row.bfloat16 * scale)


@every_layer
def test_inferred_shapes_are_the_real_ones(row: Row) -> None:
    """`infer_shape` allocates nothing, leaves the layer as it was, and is right."""
    layer, inputs = row.make(), drawn(row.inputs)
    inferred = layer.infer_shape(*[placeholder(i) for i in inputs])
    assert not layer._initialized or not sx.layer.tree.creates_parameters(layer)
    real = jax.tree.map(lambda v: tuple(v.shape), bare(layer(*tensors(inputs))))
    assert jax.tree.leaves(inferred, is_leaf=_is_shape) == jax.tree.leaves(real, is_leaf=_is_shape)


def _is_shape(value: Any) -> bool:
    return isinstance(value, tuple) and all(isinstance(size, int) for size in value)


@every_operation
def test_captured_operations_compute_the_same(row: Row) -> None:
    """Bound as one equation, an operation has the shapes and values it has otherwise."""
    if not isinstance(row.make(), ops.Operation):
        pytest.skip("not an operation but a function of several")
    it = shared(row)
    with ops.capturing():
        fresh = functools.partial(it.run)  # JAX keeps the trace of a function that it has seen
        jaxpr, shapes = jax.make_jaxpr(fresh, return_shape=True)({}, it.inputs)
    assert [e.primitive.name for e in jaxpr.eqns] == ["singax_operation"]
    real = it.run({}, it.inputs)
    assert jax.tree.map(lambda v: (tuple(v.shape), v.dtype), shapes) == jax.tree.map(
        lambda v: (tuple(v.shape), v.dtype), real
    )


@every_layer
def test_states_round_trip(row: Row) -> None:
    """The states of one layer, set on another, give the same outputs bit for bit."""
    it = shared(row)
    sx.device.set_seed(1)
    other = subject(row)
    assert it.model is not None
    assert other.model is not None
    other.model.set_states({name: np.asarray(t.data) for name, t in it.model.get_states().items()})
    values = {name: tensor.data for name, tensor in other.model.get_states().items()}
    ours, theirs = it.compiled(it.variables, it.inputs), other.compiled({**other.variables, **values}, it.inputs)
    assert_close(ours, theirs, 0.0, 0.0)


@pytest.mark.parametrize(
    ("row", "specs"),
    [(r, specs) for r in ROWS for specs in r.rejects],
    ids=lambda v: str(v) if isinstance(v, Row) else "",
)
def test_rejected_inputs(row: Row, specs: Any) -> None:
    """One clear error, which names the operation or layer and says what it received."""
    made, inputs = row.make(), drawn(specs)
    layer = isinstance(made, sx.layer.Layer)
    if layer:
        made(*tensors(drawn(row.inputs)))
    with pytest.raises(SingaxError) as caught:
        made(*tensors(inputs)) if layer else made(*inputs, **row.attributes)
    assert "eceived" in str(caught.value)
    assert any(name in str(caught.value) for name in names_of(row, made))
