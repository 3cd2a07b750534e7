"""DistOpt: data-parallel training in SINGA's words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from singax.errors import ArgumentError, StateError
from singax.layer import tree
from singax.mode import NeedsBuild, local
from singax.opt import compression, ranks
from singax.opt.optimizer import Optimizer
from singax.opt.singa import SGD
from singax.opt.slots import Slots, put, slots_came
from singax.tensor import Tensor

Pairs = list[tuple[Tensor, Any]]

THRESHOLD = 2097152


class DistOpt(tree.Stateful):
    """Wraps an optimizer: gradients are averaged over all ranks before they are applied.

    **Args**
      opt: the optimizer (SGD()).
      nccl_id: SINGA's, without effect: JAX's processes find each other (`jax.distributed.initialize`).
      local_rank: reported as `local_rank`; the default is the rank itself.
      world_size: if given, it must be the number of processes that JAX knows.
      buffSize: SINGA's, without effect: there is no buffer of fixed size.
      axis_name: the ranks are those along this axis of the `jax.shard_map` (with `check_vma=False`) or `jax.vmap` in
        which the step runs. Outside of it there is one rank, which sees the whole batch.

    Ranks are thus: one in a single process; those along `axis_name`, for `model.functional_step()` on several devices;
    or one per process (then steps run call by call, `use_graph=False`, on arrays of each process). All methods of SINGA
    give SINGA's results in the first and last case. With `axis_name` all ranks share one state, so error feedback and
    partial updates, where every rank has a state of its own, raise `StateError`.

    *Differences from SINGA*: in-place methods take Tensors (arrays cannot be changed in place); error feedback is kept
    per parameter; sparse gradients travel as dense arrays.

    **Raises** `ArgumentError` for a world size that is not there, and as described.

    >>> import singax as sx
    >>> dist = DistOpt(SGD(0.5))
    >>> w = sx.Tensor(data=[1.0], stores_grad=True)
    >>> dist.update(w, sx.Tensor(data=[1.0])); w.to_numpy()
    array([0.5], dtype=float32)
    """

    def __init__(
        self,
        opt: Optimizer | None = None,
        nccl_id: Any = None,
        local_rank: int | None = None,
        world_size: int | None = None,
        buffSize: int = 4194304,
        axis_name: str | None = None,
    ) -> None:
        self.opt = SGD() if opt is None else opt
        if not isinstance(self.opt, Optimizer):
            raise ArgumentError(f"DistOpt wraps an Optimizer. Received: {type(opt).__name__}")
        if world_size is not None and (axis_name is not None or world_size != jax.process_count()):
            known = f"the axis {axis_name!r} says" if axis_name else f"JAX knows {jax.process_count()}"
            raise ArgumentError(f"{known} how many ranks there are. Received: world_size={world_size}")
        self.opt._owner = self
        self.axis_name, self.buffSize, self.partial = axis_name, buffSize, 0
        self._local_rank, self._residuals = local_rank, Slots()
        self._buffered: list[Any] = []

    # -- who takes part -----------------------------------------------------------------------------------------

    @property
    def communicator(self) -> ranks.Communicator:
        """Who takes part here: see `singax.opt.ranks`."""
        return ranks.communicator(self.axis_name)

    @property
    def world_size(self) -> int:
        """The number of ranks."""
        return self.communicator.size

    @property
    def global_rank(self) -> Any:
        """The number of this rank; an array inside the axis."""
        return self.communicator.rank

    @property
    def local_rank(self) -> Any:
        """The number of this rank on its machine, as given."""
        return self.global_rank if self._local_rank is None else self._local_rank

    def wait(self) -> None:
        """Nothing to wait for: JAX orders what depends on each other."""
        self.communicator.wait()

    # -- steps --------------------------------------------------------------------------------------------------

    def __call__(self, loss: Tensor) -> None:
        """`backward_and_update`."""
        self.backward_and_update(loss)

    def update(self, param: Tensor, grad: Any) -> None:
        """Apply the sum `grad` of the gradients of all ranks, divided by their number. Counts no step."""
        self.opt.update(param, _array(grad) / self.world_size)

    def backward_and_update(self, loss: Tensor, threshold: int = THRESHOLD) -> None:
        """Backward, average the gradients, update, count a step.

        `threshold`: larger gradients are reduced alone, smaller ones together (where processes are reduced over; XLA
        does so by itself).
        """
        self._finish(self._reduced(self._gradients(loss), self.communicator.sum, threshold))

    def backward_and_update_half(
        self, loss: Tensor, threshold: int = THRESHOLD, clipping: bool = False, clip_Value: float = 100
    ) -> None:
        """The same with gradients in float16 on the wire, clipped to ± `clip_Value` before if `clipping`."""
        pairs = self._gradients(loss)
        if clipping:
            pairs = [(p, jnp.clip(_array(g), -clip_Value, clip_Value)) for p, g in pairs]
        self._finish(self._reduced(pairs, self._half, threshold))

    def backward_and_partial_update(self, loss: Tensor, threshold: int = THRESHOLD) -> None:
        """Every rank applies its own gradients; then one group of parameters per call, in turn, is averaged."""
        communicator = self._own_states("backward_and_partial_update")
        pairs = self._gradients(loss)
        self.opt.apply_gradients(pairs)
        parts = compression.groups([p.size() for p, _ in pairs], threshold)
        if communicator.size > 1:
            chosen = [pairs[i] for i in parts[self.partial]]
            averaged = self._reduced([(p, p) for p, _ in chosen], communicator.sum, threshold)
            for parameter, total in averaged:
                put(parameter, (total / communicator.size).astype(parameter.dtype))
            self.partial = (self.partial + 1) % len(parts)
        self.opt.step()

    def backward_and_sparse_update(
        self, loss: Tensor, threshold: int = THRESHOLD, spars: float = 0.05, topK: bool = False, corr: bool = True
    ) -> None:
        """The same as `backward_and_update` with few entries of each gradient, or group of small ones.

        `topK`: the fraction `spars` of largest entries; else those of size ≥ `spars`. `corr`: what was left out is
        added to the next gradient (error feedback).
        """
        compression.check_sparsity(spars, topK)
        communicator = self._own_states("corr=True") if corr else self.communicator
        pairs = self._gradients(loss)
        residuals = self._residuals_of([p for p, _ in pairs]) if corr else [None] * len(pairs)
        reduced: Pairs = list(pairs)
        for part in compression.groups([p.size() for p, _ in pairs], threshold):
            values = [_array(pairs[i][1]) for i in part]
            held = (
                compression.fused([r._cell.array() for i in part if (r := residuals[i]) is not None]) if corr else None
            )
            total, rest = compression.sparse(compression.fused(values), held, communicator.sum, spars, topK)
            for i, value, left in zip(
                part, compression.split(total, values), compression.split(rest, values), strict=True
            ):
                reduced[i] = (pairs[i][0], value)
                if (residual := residuals[i]) is not None:
                    put(residual, left.astype(residual.dtype))
        self._finish(reduced)

    # -- single reductions --------------------------------------------------------------------------------------

    def all_reduce(self, ct: Any) -> None:
        """Replace a Tensor by its sum over all ranks. An array is accepted where there is one rank: nothing changes."""
        if isinstance(ct, Tensor) or self.world_size > 1:
            self._in_place([ct], self.communicator.sum)

    def all_reduce_half(self, ct: Tensor) -> None:
        """`all_reduce` in float16."""
        self._in_place([ct], self._half)

    def fused_all_reduce(self, ct: Sequence[Any], send: bool = True) -> None:
        """`all_reduce` of many together. With `send=False` they are only noted, to be sent by the next call."""
        self._fused(ct, send, self.communicator.sum)

    def fused_all_reduce_half(self, ct: Sequence[Any], send: bool = True) -> None:
        """`fused_all_reduce` in float16."""
        self._fused(ct, send, self._half)

    def sparsification(self, ct: Tensor, accumulation: Tensor | None, spars: float, topK: bool) -> None:
        """Replace a Tensor by the sum of the entries that are kept, and `accumulation` by what is left."""
        self.fused_sparsification([ct], accumulation, spars, topK)

    def fused_sparsification(self, ct: Sequence[Tensor], accumulation: Tensor | None, spars: float, topK: bool) -> None:
        """`sparsification` of many as one vector; `accumulation` has as many elements as all of them."""
        compression.check_sparsity(spars, topK)
        values = [_array(_checked(tensor)) for tensor in ct]
        held = None if accumulation is None else accumulation._cell.array().ravel()
        total, rest = compression.sparse(compression.fused(values), held, self.communicator.sum, spars, topK)
        for tensor, value in zip(ct, compression.split(total, values), strict=True):
            put(tensor, value)
        if accumulation is not None:
            put(accumulation, rest.reshape(accumulation.shape).astype(accumulation.dtype))

    # -- inside -------------------------------------------------------------------------------------------------

    def _gradients(self, loss: Tensor) -> Pairs:
        ranks.communicator(self.axis_name)  # refuses here what would fail inside backward
        return [pair for pair in self.opt.gradients(loss) if pair[0].name not in self.opt.frozen]

    def _finish(self, pairs: Pairs) -> None:
        size = self.world_size
        self.opt.apply_gradients([(p, _array(total) / size) for p, total in pairs] if size > 1 else pairs)
        self.opt.step()

    def _half(self, value: Any) -> Any:
        return compression.half(value, self.communicator.sum)

    def _reduced(self, pairs: Pairs, reduce: Callable[[Any], Any], threshold: int) -> Pairs:
        values = [_array(value) for _, value in pairs]
        if not self.communicator.fuses:
            return [(p, reduce(value)) for (p, _), value in zip(pairs, values, strict=True)]
        reduced = list(pairs)
        for part in compression.groups([value.size for value in values], threshold):
            some = [values[i] for i in part]
            for i, total in zip(part, compression.split(reduce(compression.fused(some)), some), strict=True):
                reduced[i] = (pairs[i][0], total)
        return reduced

    def _in_place(self, tensors: Sequence[Any], reduce: Callable[[Any], Any]) -> None:
        pairs = [(_checked(tensor), tensor) for tensor in tensors]
        for tensor, total in self._reduced(pairs, reduce, THRESHOLD):
            put(tensor, total)

    def _fused(self, tensors: Sequence[Any], send: bool, reduce: Callable[[Any], Any]) -> None:
        if not send:
            self._buffered.extend(tensors)
            return
        buffered, self._buffered = self._buffered, []
        if buffered and [id(tensor) for tensor in buffered] != [id(tensor) for tensor in tensors]:
            raise ArgumentError(
                "fused_all_reduce sends the tensors that were buffered since the last time, in their order. "
                f"Received: {len(tensors)} tensors, after {len(buffered)} had been buffered"
            )
        self._in_place(tensors, reduce)

    def _own_states(self, what: str) -> ranks.Communicator:
        found = self.communicator
        if found.replicated:
            raise StateError(
                f"{what} keeps other states on every rank, but inside an axis all ranks share one state. Use "
                f"backward_and_update, _half, or corr=False. Received: axis_name={self.axis_name!r}"
            )
        return found

    def _residuals_of(self, params: list[Tensor]) -> list[Tensor]:
        keyed = {self._residuals.key_of(p.name, p): p for p in params}
        self.opt._join_step()
        if self._residuals.ask(keyed):
            if local.tracing:
                raise NeedsBuild
            self.prepare()
            slots_came()
        return [self._residuals.held["residual"][key] for key in keyed]

    # -- states: those of the optimizer, and what was left out ---------------------------------------------------

    def state_tensors(self) -> Iterator[tuple[str, Tensor]]:
        yield from self.opt.state_tensors()
        yield from self._residuals.tensors()

    def fresh_state(self) -> dict[str, Any]:
        zeros = {path: np.zeros(tensor.shape, tensor.dtype) for path, tensor in self._residuals.tensors()}
        return {**self.opt.fresh_state(), **zeros}

    def want(self, parameters: list[Tensor]) -> set[int]:
        return self.opt.want(parameters)

    def prepare(self) -> None:
        self.opt.prepare()
        if self._residuals.wanted:
            self._residuals.create(_zero_residuals)

    def forget(self, cells: set[int]) -> bool:
        dropped = self._residuals.forget(cells)
        return self.opt.forget(cells) or bool(dropped)

    def remembered(self) -> Callable[[], None]:
        optimizer, residuals = self.opt.remembered(), self._residuals.remembered()

        def put_back() -> None:
            optimizer()
            residuals()

        return put_back

    def may_yet_have(self, path: str) -> bool:
        """What the sparse updates leave out is kept from their first call on."""
        return path.startswith(f"residual{tree.SEPARATOR}")

    def values_came(self) -> None:
        self.opt.values_came()

    def expect_underflow(self, narrow: bool) -> None:
        self.opt.expect_underflow(narrow)

    def take_change(self) -> bool:
        return self.opt.take_change()

    def __repr__(self) -> str:
        return f"DistOpt({self.opt!r})"


def _zero_residuals(params: Mapping[str, Tensor]) -> Any:
    return {"residual": {key: np.zeros(p.shape, p.dtype) for key, p in params.items()}}, {}


def _array(value: Any) -> Any:
    return value._cell.array() if isinstance(value, Tensor) else jnp.asarray(value)


def _checked(tensor: Any) -> Tensor:
    if not isinstance(tensor, Tensor):
        raise ArgumentError(
            "an array cannot be changed in place: pass the Tensor itself, not its data. "
            f"Received: {type(tensor).__name__}"
        )
    return tensor
