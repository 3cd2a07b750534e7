"""Rematerialisation: compute activations again in the backward pass instead of keeping them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from singax.errors import ArgumentError
from singax.layer import tree
from singax.layer.base import Layer
from singax.layer.pure import PureCall
from singax.mode import local

POLICIES = (
    "everything_saveable",
    "nothing_saveable",
    "dots_saveable",
    "dots_with_no_batch_dims_saveable",
)


class Remat(Layer):
    """A layer whose activations are not kept for the backward pass, but computed again there (Chen et al. 2016).

    Outputs, gradients, new states and random draws are those of the layer itself; memory goes down and the forward of
    the layer is computed twice.

    The wrapper does not show in paths: `self.block = Remat(Block())` has the parameters `block.fc.W` …, with the
    initial values they would have without it. The layer itself is `remat.layer`.

    **Shapes** those of the layer.

    **Args**
      layer: the layer to run.
      policy: which intermediate results are kept nevertheless: one of `jax.checkpoint_policies`, or the name of one
        of those that need no arguments ("dots_saveable" …). Default None keeps only the inputs of the layer.
      prevent_cse: see `jax.checkpoint` (default True). False compiles to better code where XLA cannot merge the two
        computations, inside a `lax.scan` for instance.

    **Raises** `ArgumentError` for what is no layer or no policy.

    *Differences from SINGA*: SINGA has no such layer.

    >>> import singax as sx
    >>> block = Remat(sx.layer.Linear(3))
    >>> _ = block(sx.Tensor(data=[[1.0, 2.0]]))
    >>> sorted(block.get_params())
    ['W', 'b']
    """

    def __init__(self, layer: Layer, policy: Any = None, prevent_cse: bool = True) -> None:
        super().__init__()
        if not isinstance(layer, Layer):
            raise ArgumentError(f"Remat takes a layer; for a function use jax.checkpoint. Received: {layer!r}")
        self.policy, self.prevent_cse = checked_policy(policy), prevent_cse
        self._adopt(layer, "")

    @property
    def layer(self) -> Layer:
        """The layer that is run."""
        return self._registered[""]

    def forward(self, *inputs: Any, **options: Any) -> Any:
        if local.frame is not None and local.frame.building:
            return self.layer(*inputs, **options)
        call = PureCall(self.layer, [tensor for _, tensor in tree.tensors(self)], inputs, options)
        before = call.drawn_before
        rematerialised = checkpointed(
            lambda states, arrays: call(states, arrays, before), self.policy, self.prevent_cse
        )
        return call.finish(*rematerialised(call.states, call.arrays))


def checkpointed(function: Callable[..., Any], policy: Any, prevent_cse: bool) -> Callable[..., Any]:
    """`function` under `jax.checkpoint`; the policy may be a name."""
    if isinstance(policy, str):
        policy = getattr(jax.checkpoint_policies, policy)
    return jax.checkpoint(function, policy=policy, prevent_cse=prevent_cse)


def checked_policy(policy: Any) -> Any:
    """`policy` itself. Raises `ArgumentError` unless it is None, a function or a known name."""
    if policy is None or policy in POLICIES or (callable(policy) and not isinstance(policy, type)):
        return policy
    raise ArgumentError(
        f"expected a policy: one of jax.checkpoint_policies, or {', '.join(POLICIES)}. Received: {policy!r}"
    )
