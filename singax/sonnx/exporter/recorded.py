"""SINGA's form of an export: what was recorded between some Tensors and a result is run again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from singax import mode
from singax.autograd.border import framed, is_tensor
from singax.autograd.node import Node
from singax.autograd.recorder import unwrapped
from singax.errors import ArgumentError, ExportError
from singax.layer.tree import Branch
from singax.mode import Frame
from singax.storage import Cell, exchanged
from singax.tensor import Tensor


class LabelledFrame(Frame):
    """A frame that labels the equations of each call with a number, and keeps the layer of it in `calls`."""

    __slots__ = ("calls",)

    def __init__(
        self,
        cells: list[Cell],
        generator: Any,
        calls: list[Branch],
        building: bool = False,
        compute: np.dtype | None = None,
    ) -> None:
        super().__init__(cells, generator, building, compute)
        self.calls = calls

    def scope(self, layer: Any) -> str:
        self.calls.append(layer)
        return f"@{len(self.calls) - 1}@"

    def sibling(self, cells: list[Cell]) -> Frame:
        return LabelledFrame(cells, self.generator, self.calls, self.building, self.compute)


class Recorded:
    """The recorded calls that lead from `inputs` to `outputs`, in order.

    Other Tensors that they read and that store a gradient are parameters; the rest are constants.
    """

    def __init__(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> None:
        if not all(isinstance(t, Tensor) for t in [*inputs, *outputs]):
            raise ArgumentError("to_onnx([x], [y]) takes lists of Tensors")
        self.inputs, self.outputs = list(inputs), list(outputs)
        self.nodes: list[Node] = []
        for tensor in self.outputs:
            self._collect(tensor)
        self.parameters = self._parameters()

    def _collect(self, tensor: Tensor) -> None:
        """Note the nodes that lead to a Tensor, those that come first in front."""
        waiting: list[tuple[Any, bool]] = [(self._maker(tensor), False)]
        while waiting:
            node, ready = waiting.pop()
            if node is None or any(node is known for known in self.nodes):
                continue
            if ready:
                self.nodes.append(node)
                continue
            waiting.append((node, True))
            waiting += [(self._maker(t), False) for t in _tensors_of(node)]

    def _maker(self, tensor: Tensor) -> Node | None:
        """The node that made a Tensor, unless that is an input."""
        creator = tensor._creator
        if any(tensor is given for given in self.inputs) or not isinstance(creator, Node):
            return None
        if creator.call is None:
            raise ExportError(f"{creator.name} was recorded while something else was traced: export the layer itself")
        return creator

    def _parameters(self) -> list[tuple[str, Tensor]]:
        found: dict[int, tuple[str, Tensor]] = {}
        for node in self.nodes:
            leaves = [t for t in _tensors_of(node) if t.stores_grad and self._maker(t) is None]
            for tensor in [*leaves, *node.call.tensors]:
                if all(tensor is not given for given in self.inputs):
                    found.setdefault(id(tensor._cell), (tensor.name, tensor))
        return list(found.values())

    def run(self, states: Sequence[Any], arrays: Sequence[Any], calls: list[Branch]) -> list[Any]:
        """The outputs for these values of the parameters and inputs."""
        cells = {id(t._cell): value for (_, t), value in zip(self.parameters, states, strict=True)}
        known = {id(t): value for t, value in zip(self.inputs, arrays, strict=True)}
        results: dict[int, list[Any]] = {}

        def value(tensor: Tensor) -> Any:
            if id(tensor) in known:
                return known[id(tensor)]
            node = self._maker(tensor)
            if node is not None:
                return results[id(node)][node.output_ids[id(tensor)]]
            return cells.get(id(tensor._cell), tensor._cell.array())

        for node in self.nodes:
            results[id(node)] = _replayed(node.call, value, cells, calls)
        return [value(tensor) for tensor in self.outputs]


def _tensors_of(node: Node) -> list[Tensor]:
    return [leaf for leaf in node.call.leaves if isinstance(leaf, Tensor)]


def _replayed(call: Any, value: Any, cells: dict[int, Any], calls: list[Branch]) -> list[Any]:
    """The outputs of a recorded call for other values of its Tensors and states."""
    leaves = [value(leaf) if isinstance(leaf, Tensor) else leaf for leaf in call.leaves]
    args, kwargs = jax.tree.unflatten(call.tree, leaves)
    frame = LabelledFrame(call.cells, call.generator, calls, compute=call.compute)
    states = [cells.get(id(cell), cell.array()) for cell in call.cells]
    with exchanged(call.cells, states), framed(frame), mode.training_mode(False):
        out = unwrapped(call.body(*args, **kwargs))
    return jax.tree.leaves(out, is_leaf=is_tensor)
