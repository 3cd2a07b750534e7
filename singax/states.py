"""What a model keeps: the flat state that its steps hand over, as dicts and as files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import numpy as np

from singax import device as devices
from singax import files, mode
from singax.dtypes import float16
from singax.errors import ArgumentError, NameMismatchError, ShapeError, StateError
from singax.freezing import Freezing
from singax.interrupt import deferred_interrupts
from singax.layer import tree
from singax.layer.base import Layer
from singax.ledger import Ledger
from singax.storage import Bank, Unfilled
from singax.tensor import Tensor


class StatefulLayer(Layer):
    """A layer at the root of a tree, which owns the state of everything below it."""

    _bank: Bank
    _bank_version: int
    _members: tuple[Any, ...]
    _runners: dict[Any, Any]
    _ledger: Ledger
    _generator: devices.Generator
    _compute_dtype: np.dtype | None
    _freezing: Freezing
    _awaited: Any = None  # a `checkpoint.awaited.Awaited`: values from a file that wait for their places

    # -- state --------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, jax.Array]:
        """Path → array for the whole state: parameters, running statistics, optimizer slots, step, random key."""
        bank = self._settled_bank()
        for cell in bank.cells:
            cell.lent = True
        bank.dirty = True
        return dict(zip(bank.paths, bank.values, strict=True))

    def load_state_dict(self, states: Mapping[str, Any]) -> None:
        """Set states by exact path; others stay as they are. Checks names and shapes before it changes anything."""
        self._ledger.want_all_slots()
        bank = self._current_bank()
        known = dict(zip(bank.paths, bank.cells, strict=True))
        unknown = sorted(set(states) - set(known))
        if unknown:
            raise NameMismatchError(f"there is no state named {', '.join(unknown)}; known: {', '.join(known)}")
        for path, value in states.items():
            if np.shape(value) != tuple(known[path].get().shape):
                raise ShapeError(f"{path} has shape {tuple(known[path].get().shape)}; received {np.shape(value)}")
        for path, value in states.items():
            dtype = known[path].get().dtype
            known[path].set(value.astype(dtype) if isinstance(value, jax.Array) else np.array(value, dtype))

    # -- freezing -----------------------------------------------------------------------------------------------

    def freeze(self, *patterns: str) -> None:
        """Stop training the parameters whose paths match: `model.freeze("encoder.*")`; without a pattern, all.

        They get no gradient, no update and no slot of an optimizer (one that is there is dropped, its momentum too);
        their `requires_grad` is False. `*` stands for dots as well. May be called before the parameters exist: the
        patterns hold for those to come, and for each path the last call that matches it decides. What is compiled is
        compiled once more when it runs next.

        **Raises** `NameMismatchError` for a pattern that matches no parameter: at once if all have been created, else
        at the end of `compile`.
        """
        self._change_freezing(patterns, trains=False)

    def unfreeze(self, *patterns: str) -> None:
        """Train the parameters whose paths match (without a pattern, all) again: the opposite of `freeze`."""
        self._change_freezing(patterns, trains=True)

    def _change_freezing(self, patterns: tuple[str, ...], trains: bool) -> None:
        if mode.local.step is not None or mode.local.frame is not None:
            raise StateError("freeze and unfreeze are called between steps, not inside a forward or a step")
        changed = self._freezing.add(self, patterns or ("*",), trains)
        if not trains:
            cells, root = {id(tensor._cell) for tensor in changed}, self._root
            for owner in (root if isinstance(root, StatefulLayer) else self)._ledger.owners():
                owner.forget(cells)

    def _parameters_made(self) -> None:
        self._freezing.settle(self)

    # -- checkpoints --------------------------------------------------------------------------------------------

    def save(
        self,
        path: str | os.PathLike[str],
        state: Mapping[str, Any] | None = None,
        overwrite: bool = True,
        onnx: bool = True,
    ) -> None:
        """Write a checkpoint: `path.safetensors`, complete on its own, and `path.onnx`, the network for everyone else.

        The first holds all parameters and states, optimizer slots, the random key, step, learning rate and loss scale,
        your `state`, a format version, the versions of libraries, a SHA-256 of each array and a save id, which the
        second holds too. Any library of safetensors opens it. Each file is written beside its place, flushed to the
        disk and renamed: a crash or a full disk leaves the old file or the new one, whole.

        **Args**
          path: of both files; an ending .safetensors or .onnx is left out.
          state: what else `load` shall return: numbers, texts, None, dicts, lists, tuples, arrays, Tensors; an
            optimizer as what its `get_states()` returns.
          overwrite: False refuses to replace files.
          onnx: False writes no `path.onnx`, for a model that ONNX cannot express.

        In a program of several processes all call it, and process 0 writes.

        **Raises** before anything is written: `UninitializedError` for a model without parameters, `ArgumentError` for
        a state that no file can hold, or files that exist; `FileFormatError` for a dtype that files cannot hold;
        `ExportError` for a model that ONNX cannot express. While writing: OSError, and the old files are unchanged.

        >>> import tempfile, numpy as np, singax as sx
        >>> class Net(sx.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.fc = sx.layer.Linear(2)
        ...     def forward(self, x):
        ...         return self.fc(x)
        >>> net, path = Net(), tempfile.mkdtemp() + "/net"
        >>> net.compile([sx.Placeholder((4, 3))])
        >>> net.save(path, state={"epoch": 3}, onnx=False)
        >>> Net().load(path)
        {'epoch': 3}
        """
        from singax import checkpoint

        checkpoint.save(self, path, state, overwrite, onnx)

    def load(self, path: str | os.PathLike[str], include_state: bool = True, strict: bool = True) -> dict[str, Any]:
        """Set everything that `save` has written; returns the `state` that was given to it.

        The file is verified as a whole (version, names, shapes, dtypes, checksums) before the model is touched, and
        then everything is set at once. Works before `compile` (parameters are then filled with the file's values, not
        drawn; what does not fit is reported by `compile`) and for a model on other devices: values go where the
        model's own are. A constant learning rate is that of the file; set `optimizer.lr` afterwards for another one.

        **Args**
          path: of both files. With an ending, only that file is read: from `net.onnx` the weights by their names.
          include_state: False sets the layers' parameters and states only, and returns {}.
          strict: False turns names that are missing or unexpected into a warning; wrong shapes and dtypes never.

        **Raises** `StateMismatchError`, which lists all that is missing, unexpected, or of another shape or dtype;
        `FileFormatError` for a file that is damaged, no checkpoint, or of a newer format; FileNotFoundError. The model
        is then as it was. Warns if the two files come from different saves, and takes the complete one.
        """
        from singax import checkpoint

        return checkpoint.load(self, path, include_state, strict)

    def to_safetensors(self, path: str | os.PathLike[str]) -> None:
        """Write the layers' parameters and states by path, without anything of singax, for other frameworks.

        `path` is used as it is. **Raises** as `save` does.
        """
        from singax import checkpoint

        checkpoint.save_plain(self, path)

    def from_safetensors(self, path: str | os.PathLike[str], strict: bool = True) -> None:
        """Set the layers' parameters and states from a file of any framework whose names, shapes and dtypes fit.

        As `load` does, it verifies first, works before `compile`, and raises `StateMismatchError` or
        `FileFormatError`. A checkpoint of `save` is read too, with its checksums.
        """
        from singax import checkpoint

        checkpoint.load_plain(self, path, strict)

    # -- SINGA's zip files --------------------------------------------------------------------------------------

    TENSOR_DICT_FILENAME, STATES_ATTR_FILENAME = f"/{files.ARRAYS}", f"/{files.ATTRIBUTES}"
    MODEL_STATE_TYPE, AUX_STATE_TYPE = files.MODEL_STATE, files.AUXILIARY_STATE

    def save_states(self, fpath: Any, aux_states: Mapping[str, Any] | None = None) -> None:
        """Write the parameters and states as SINGA's zip file, with further values under names of their own.

        `aux_states` are Tensors, arrays or numbers. A file that exists is never overwritten (`ArgumentError`), and
        other dtypes than float32, float16 and int32 are refused (`FileFormatError`).
        """
        if os.path.exists(fpath):
            raise ArgumentError(f"save_states does not overwrite files. Received the path of one: {os.fspath(fpath)}")
        states = {path: tensor.to_numpy() for path, tensor in self.get_states().items()}
        extra = {name: as_saved(value) for name, value in (aux_states or {}).items()}
        files.write_singa_zip(fpath, states, extra)

    def load_states(self, fpath: Any) -> dict[str, Tensor]:
        """Set the states from a zip file of SINGA or `save_states`; returns the further values as Tensors.

        Raises `FileFormatError` for another kind of file, `NameMismatchError` or `ShapeError` if it is of another
        model. Nothing is changed then.
        """
        states, extra = files.read_singa_zip(fpath)
        with deferred_interrupts():
            self.set_states(states)
        return {name: Tensor(data=value, requires_grad=False, name=name) for name, value in extra.items()}

    def _current_bank(self) -> Bank:
        """The flat state, brought up to date if layers, Tensors or optimizers have come or gone."""
        if self._bank_version != tree.structure_version() or self._bank.stolen:
            tree.name_members(self)
            self._parameters_made()
            for owner in self._ledger.owners():
                owner.expect_underflow(self._compute_dtype == float16)
            self._receive()
            _adopt_in_stable_order(self._bank, _unique(self._named_cells()))
            changes = [owner.take_change() for owner in self._ledger.owners()]
            members = tuple(value for _, value in tree.walk(self) if isinstance(value, tree.Branch | tree.Stateful))
            if any(changes) or _other_objects(members, self._members):
                for runner in self._runners.values():
                    runner.programs.clear()
            self.__dict__["_members"] = members
            self.__dict__["_bank_version"] = tree.structure_version()
        return self._bank

    def _receive(self, settled: bool = True) -> None:
        """Take what a file holds for places that have come to be since it was loaded."""
        if self._awaited is not None and not mode.local.tracing:
            self._awaited.deliver(self, settled)

    def _settled_bank(self) -> Bank:
        """The flat state, ready to be handed to a program: drawn, placed, and nobody else's."""
        bank = self._current_bank()
        if bank.dirty:
            bank.settle()
        return bank

    def _named_cells(self) -> Iterator[tuple[str, Any]]:
        for path, tensor in tree.tensors(self, owners=True):
            if mode.traced(tensor._cell.get()):
                raise StateError(
                    f"{path} holds a value that existed only while a step was being compiled: return such values from "
                    "the step instead of keeping them in a list of the model, and remove this one"
                )
            if not isinstance(tensor._cell.get(), Unfilled):
                yield path, tensor._cell
        for name, guest in self._ledger.guests.items():
            for path, tensor in guest.state_tensors():
                yield tree.join(name, path), tensor._cell
        yield "rng", self._generator.cell


def as_saved(value: Any) -> np.ndarray:
    """A further value of a checkpoint as an array; Python's numbers become 32 bits."""
    if isinstance(value, Tensor):
        return value.to_numpy()
    array = np.asarray(value)
    return array.astype(jax.dtypes.canonicalize_dtype(array.dtype))


def _unique(named: Iterator[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for path, cell in named:
        if path in found:
            raise NameMismatchError(f"two states have the path {path!r} ('rng' is the random key): rename an attribute")
        found[path] = cell
    return found


def _other_objects(new: tuple[Any, ...], old: tuple[Any, ...]) -> bool:
    """Whether a layer or optimizer that was there has gone or been replaced; newcomers alone change no program."""
    present = {id(value) for value in new}
    return any(id(value) not in present for value in old)


def _adopt_in_stable_order(bank: Bank, named: dict[str, Any]) -> None:
    """States that were there keep their places, new ones follow: programs made for fewer states stay valid."""
    kept = [path for path in bank.paths if path in named]
    old = set(kept)
    order = kept + [path for path in named if path not in old]
    cells = [named[path] for path in order]
    if bank.stolen or tuple(order) != bank.paths or any(a is not b for a, b in zip(cells, bank.cells, strict=True)):
        bank.adopt(list(zip(order, cells, strict=True)))
