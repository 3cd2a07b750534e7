"""singax operations as their ONNX operators, and as what they are made of where there is no such operator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr
from onnx import numpy_helper

from singax.ops.operation import Operation
from singax.sonnx.exporter import schemas
from singax.sonnx.exporter.details import completed
from singax.sonnx.exporter.downgrade import Fit, fitted
from singax.sonnx.exporter.equations import Equation
from singax.sonnx.exporter.graph import Graph, Ref, constant, element_type
from singax.sonnx.exporter.registry import Call
from singax.sonnx.exporter.symbolic import Size, merged_size

PRIMITIVE = "singax_operation"


def lowered(call: Call, operands: Sequence[Ref]) -> list[Ref]:
    """The results of a captured operation: its twin's if the opset has it, else its function's."""
    found = _as_twin(call, operands)
    return found if found is not None else call.walk(call.graph, _inside(call.equation), operands)


def _as_twin(call: Call, operands: Sequence[Ref]) -> list[Ref] | None:
    made: Operation = call.equation.variants[0].params["operation"]
    if made.twin.op_type is None or any(jnp.issubdtype(ref.dtype, jax.dtypes.prng_key) for ref in operands):
        return None
    keywords = [dict(eqn.params["attributes"]) for eqn in call.equation.variants]
    attributes = made.twin.convert(keywords[0])
    if any(_differ(made.twin.convert(other), attributes) for other in keywords[1:]):
        return None
    constants = _constants(call.graph, [made.twin.constant_inputs(k) for k in keywords], _first_dtype(operands))
    if constants is None:
        return None
    inputs = [*_in_places(call.equation, operands), *constants]
    if made.name == "gather":
        inputs[1] = _wrapped(call.graph, operands[1], operands[0].shape[attributes.get("axis", 0)])
    fit = fitted(made, inputs, attributes, call.opset)
    return None if fit is None else _node(call, made.twin.domain, completed(call.graph, fit))


def _wrapped(graph: Graph, indices: Ref, size: Size) -> Ref:
    """Indices that wrap around at the end of an axis, which ONNX's Gather refuses."""
    if indices.value is not None and isinstance(size, int):
        return constant(np.mod(indices.value.astype(np.int64), size))
    whole = graph.op("Cast", indices, to=element_type(np.int64))
    return Ref(graph.op("Mod", whole, graph.scalar(size)).name, indices.shape, np.dtype(np.int64))


def _inside(equation: Equation) -> tuple[ClosedJaxpr, ...]:
    """The operation's function as a program, in all traces."""
    programs = []
    for eqn in equation.variants:
        made, structure, attributes = (eqn.params[key] for key in ("operation", "tree", "attributes"))

        def function(*leaves: Any, made: Any = made, structure: Any = structure, attributes: Any = attributes) -> Any:
            return jax.tree.leaves(made.function(*jax.tree.unflatten(structure, leaves), **dict(attributes)))

        avals = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in eqn.invars]
        programs.append(jax.make_jaxpr(function)(*avals))
    return tuple(programs)


def _in_places(equation: Equation, operands: Sequence[Ref]) -> list[Ref | None]:
    """The arrays where ONNX has them; None where an optional one is absent."""
    arguments = jax.tree.unflatten(equation.variants[0].params["tree"], list(operands))
    return jax.tree.leaves(arguments, is_leaf=lambda v: v is None or isinstance(v, Ref))


def _constants(graph: Graph, variants: list[list[Any]], dtype: Any) -> list[Ref | None] | None:
    """The constant inputs; integers that differ between the traces are computed when the file runs."""
    if len({len(one) for one in variants}) > 1:
        return None
    found: list[Ref | None] = []
    for row in zip(*variants, strict=True):
        if row[0] is None or all(np.array_equal(row[0], other) for other in row[1:]):
            found.append(None if row[0] is None else constant(_like(row[0], dtype)))
        elif row[0].dtype == np.int64 and row[0].ndim == 1 and len({other.shape for other in row}) == 1:
            found.append(graph.sizes([merged_size(n) for n in zip(*[r.tolist() for r in row], strict=True)]))
        else:
            return None
    return found


def _like(value: np.ndarray, dtype: Any) -> np.ndarray:
    """A constant of floats in the dtype of the arrays."""
    return value.astype(dtype) if value.dtype == np.float32 and jnp.issubdtype(dtype, jnp.inexact) else value


def _first_dtype(operands: Sequence[Ref]) -> Any:
    return operands[0].dtype if operands else np.dtype(np.float32)


def _differ(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return a.keys() != b.keys() or not all(np.array_equal(a[key], b[key]) for key in a)


# -- dtypes -----------------------------------------------------------------------------------------------------------


def _node(call: Call, domain: str, fit: Fit) -> list[Ref] | None:
    """The node, with its inputs and outputs converted where ONNX's operator has other dtypes than ours."""
    schema, avals, inputs = schemas.schema_of(fit.op_type, call.opset, domain), call.equation.outputs, fit.inputs
    ins, outs = schemas.input_types(schema, len(inputs)), schemas.output_types(schema, len(avals))
    chosen = _chosen(schema, ins, outs, inputs, [aval.dtype for aval in avals])
    if chosen is None:
        return None
    graph = call.graph
    given = [
        ref if ref is None else converted(graph, ref, ref.dtype, chosen.get(t, ref.dtype))
        for t, ref in zip(ins, inputs, strict=True)
    ]
    made = graph.ops(fit.op_type, *given, outputs=len(avals), domain=domain, **_plain(fit.attributes))
    natural = [chosen[t] if t in chosen else _own_type(t, aval.dtype) for t, aval in zip(outs, avals, strict=True)]
    return [converted(graph, ref, d, aval.dtype) for ref, d, aval in zip(made, natural, avals, strict=True)]


def _chosen(
    schema: Any, ins: list[str], outs: list[str], inputs: list[Ref | None], results: list[Any]
) -> dict[str, np.dtype] | None:
    """A dtype for each type variable and type; None if the operator does not take what is needed."""
    found: dict[str, np.dtype] = {}
    for variable in dict.fromkeys(ins + outs):
        given = [ref.dtype for t, ref in zip(ins, inputs, strict=True) if t == variable and ref is not None]
        wanted = [dtype for t, dtype in zip(outs, results, strict=True) if t == variable]
        types = schemas.allowed(schema, variable)
        if types is None:
            found[variable] = schemas.dtype_named(variable)
            continue
        if len(types) == 1:
            found[variable] = schemas.dtype_named(next(iter(types)))
            continue
        candidates = [*wanted[:1], *_common(given)]
        fitting = [dtype for dtype in candidates if schemas.type_name(dtype) in types]
        if not candidates:  # only an input that is absent has this type
            continue
        if not fitting:
            return None
        found[variable] = np.dtype(fitting[0])
    return found


def _common(dtypes: list[Any]) -> list[Any]:
    """The dtype that all are promoted to; 64-bit ones are not asked about, where they are alike."""
    return dtypes[:1] if len(set(map(np.dtype, dtypes))) < 2 else [jnp.result_type(*dtypes)]


def _own_type(name: str, dtype: Any) -> np.dtype:
    return schemas.dtype_named(name) if name.startswith("tensor(") else np.dtype(dtype)


def converted(graph: Graph, ref: Ref, dtype: Any, wanted: Any) -> Ref:
    """A value of `dtype` in the dtype that is wanted; constants are converted at once."""
    if np.dtype(dtype) == np.dtype(wanted):
        return ref
    if ref.value is not None:
        return constant(ref.value.astype(wanted))
    return graph.op("Cast", ref, to=element_type(wanted))


def _plain(attributes: dict[str, Any]) -> dict[str, Any]:
    """Attributes as onnx takes them: arrays as tensors, tuples as lists."""
    found: dict[str, Any] = {}
    for key, value in attributes.items():
        if isinstance(value, np.ndarray):
            value = numpy_helper.from_array(value)
        found[key] = list(value) if isinstance(value, tuple) else value
    return found
