"""onnx's backend interface, so that anybody can point onnx's own test suite at `singax.sonnx`.

>>> import onnx, numpy as np
>>> node = onnx.helper.make_node("Add", ["a", "b"], ["c"])
>>> run_node(node, [np.ones(2, np.float32), np.ones(2, np.float32)])
(array([2., 2.], dtype=float32),)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import onnx
from onnx import helper
from onnx.backend.base import Backend

from singax import autograd
from singax import device as devices
from singax.errors import DeviceNotFoundError
from singax.sonnx.rep import prepare


def _classes() -> dict[str, str]:
    """The classes of `autograd` by the operators that they are named after, whatever the case of the letters."""
    known = {name.lower(): name for name, made in vars(autograd).items() if isinstance(made, type)}
    names = {schema.name for schema in onnx.defs.get_all_schemas() if not schema.domain}
    return {name: known[name.lower()] for name in sorted(names) if name.lower() in known} | {"Neg": "Negative"}


class SingaBackend(Backend):
    """What `onnx.backend.test.BackendTest` runs.

    *Differences from SINGA*: all opsets and IR versions of the installed onnx are read, so `_opset_version` and
    `_ir_version` are the newest.
    """

    _opset_version, _ir_version = onnx.defs.onnx_opset_version(), int(onnx.IR_VERSION)
    _rename_operators: ClassVar[dict[str, str]] = _classes()
    """ONNX's name of an operator → the class in `autograd`."""

    @classmethod
    def is_compatible(cls, model: Any, device: str = "CPU", **kwargs: Any) -> bool:
        """Whether the model can be prepared."""
        try:
            prepare(model)
        except ValueError:
            return False
        return True

    @classmethod
    def prepare(cls, model: Any, device: str = "CPU", **kwargs: Any) -> Any:
        """A model that runs."""
        return prepare(model, device, **kwargs)

    @classmethod
    def run_model(cls, model: Any, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple[Any, ...]:
        """The outputs of a model."""
        return tuple(cls.prepare(model, device, **kwargs).run(inputs))

    @classmethod
    def run_node(
        cls, node: Any, inputs: Any, device: str = "CPU", outputs_info: Sequence[Any] | None = None, **kwargs: Any
    ) -> tuple[Any, ...]:
        """The outputs of one node; `opset_version` chooses its meaning (default: the newest)."""
        return tuple(prepare(_model_of(node, inputs, kwargs.get("opset_version")), device).run(inputs))

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether this machine has the device."""
        try:
            devices.create(device.lower())
        except (DeviceNotFoundError, ValueError):
            return False
        return True


def _model_of(node: Any, inputs: Any, opset: int | None) -> Any:
    names = [name for name in node.input if name]
    infos = [_info(name, np.asarray(value)) for name, value in zip(names, inputs, strict=True)]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
    graph = helper.make_graph([node], "node", infos, outputs)
    version = onnx.defs.onnx_opset_version() if opset is None else opset
    domains = {"": version, **({node.domain: 1} if node.domain else {})}
    return helper.make_model(graph, opset_imports=[helper.make_opsetid(d, v) for d, v in domains.items()])


def _info(name: str, value: np.ndarray) -> Any:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)


run_model, run_node, supports_device = SingaBackend.run_model, SingaBackend.run_node, SingaBackend.supports_device
