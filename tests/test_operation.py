"""The decorator: transparent in normal use, one equation while capturing."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

import singax as sx
from singax.ops import capturing, operations


def test_operations_are_transparent_in_normal_use() -> None:
    jaxpr = jax.make_jaxpr(lambda x: sx.ops.tanh(x))(jnp.ones(3))
    assert [eqn.primitive.name for eqn in jaxpr.eqns] == ["tanh"]


def test_capture_keeps_operations_whole_and_raw_code_raw() -> None:
    def forward(x: jax.Array) -> jax.Array:
        return jnp.sin(sx.ops.softmax(sx.ops.flatten(x, axis=1), axis=-1))

    x = np.ones((2, 3, 4), np.float32)
    with capturing():
        jaxpr = jax.make_jaxpr(forward)(x)
    names = [eqn.params["operation"].name if "operation" in eqn.params else eqn.primitive.name for eqn in jaxpr.eqns]
    assert names == ["flatten", "softmax", "sin"]
    assert jaxpr.eqns[1].params["operation"].twin.op_type == "Softmax"
    assert jaxpr.eqns[1].params["operation"].twin.convert(dict(jaxpr.eqns[1].params["attributes"])) == {"axis": -1}
    assert jaxpr.eqns[0].outvars[0].aval.shape == (2, 12)
    np.testing.assert_allclose(jax.extend.core.jaxpr_as_fun(jaxpr)(x)[0], forward(jnp.asarray(x)), rtol=1e-6)


def test_a_model_can_be_captured_layer_by_layer() -> None:
    class Net(sx.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = sx.layer.Linear(3)

        def forward(self, x: jax.Array) -> jax.Array:
            return sx.ops.relu(self.fc(x))

    init_fn, apply_fn = Net().functional()
    variables = init_fn(0, np.ones((2, 4), np.float32))
    with capturing():
        jaxpr = jax.make_jaxpr(apply_fn)(variables, np.ones((2, 4), np.float32))
    assert [eqn.params["operation"].twin.op_type for eqn in jaxpr.eqns] == ["MatMul", "Add", "Relu"]


def test_every_operation_is_documented_and_has_a_twin_or_says_none() -> None:
    for name, made in operations().items():
        assert made.__doc__, name
        assert made.twin.op_type is None or made.twin.op_type[0].isupper(), name
        assert "none" in repr(made) or made.twin.op_type in repr(made)
