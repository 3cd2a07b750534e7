"""The ledger of a model: what its steps need before a trace, and what they have trained."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from singax import mode
from singax.errors import UnusedLayerError
from singax.layer import tree
from singax.mode import local
from singax.tensor import Tensor

if TYPE_CHECKING:
    from singax.module import Module

logger = logging.getLogger("singax")


class Ledger:
    """Optimizers that are no attributes (`guests`), slots that were guessed, and which parameters were updated."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.guests: dict[str, tree.Stateful] = {}
        self.traced_steps: set[str] = set()
        self._guesses: set[int] = set()
        self._updated: set[int] = set()
        self._reported: set[str] = set()
        self.quiet = False  # True: nothing is logged

    def named_owners(self) -> list[tuple[str, tree.Stateful]]:
        """All optimizers with their paths: attributes first."""
        attributes = [(path, value) for path, value in tree.walk(self.module) if isinstance(value, tree.Stateful)]
        return attributes + list(self.guests.items())

    def owners(self) -> list[tree.Stateful]:
        """All optimizers."""
        return [owner for _, owner in self.named_owners()]

    def trainable(self) -> list[tuple[str, Tensor]]:
        """Paths and parameters that are not frozen."""
        return [(path, t) for path, t in tree.tensors(self.module) if t.stores_grad and t.requires_grad]

    def welcome(self, owner: tree.Stateful) -> None:
        """Take in an optimizer that a step uses but that is no attribute of the model."""
        if any(owner is known for known in self.owners()):
            return
        taken = {*self.guests, *self.module.__dict__}
        names = (f"optimizer{number or ''}" for number in range(len(taken) + 1))
        self.guests[next(name for name in names if name not in taken)] = owner
        tree.structure_changed()
        if local.tracing:
            raise mode.NeedsBuild
        self.module._receive()

    def want_all_slots(self) -> None:
        """Ask for the slots that one optimizer will need; with several, the first trace tells who needs which."""
        owners = self.owners()
        if len(owners) == 1 and not self.traced_steps:
            self._guesses.update(owners[0].want([tensor for _, tensor in self.trainable()]))
        for owner in owners:
            owner.prepare()

    def after_trace(self, name: str, context: mode.StepContext) -> bool:
        """Drop slots that were guessed and not used (True: trace again), and report what was never trained."""
        self.traced_steps.add(name)
        self._updated |= context.updated
        idle = {key for key in self._guesses if key not in context.updated}
        self._guesses.clear()
        if idle:
            dropped = [owner.forget(idle) for owner in self.owners()]
            if any(dropped):
                return True
        if self.module._step_names <= self.traced_steps:
            self.check_unused()
            self.report_untrained()
            self.module._receive()
        return False

    def untrained(self) -> list[str]:
        """The parameters that no step has updated."""
        return [path for path, tensor in self.trainable() if id(tensor._cell) not in self._updated]

    def report_untrained(self) -> None:
        """Log, once each, the parameters that no step has updated."""
        fresh = [path for path in self.untrained() if path not in self._reported]
        self._reported.update(fresh)
        if fresh and not self.quiet:
            logger.warning(
                "no gradient reached %s. Usual causes: the loss does not depend on it, a stop_gradient or an integer "
                "cast cuts the path, or no optimizer was called with this loss. If it is meant to stay fixed, set its "
                "requires_grad to False",
                ", ".join(fresh),
            )

    def check_unused(self) -> None:
        """Raise `UnusedLayerError` for layers that should have parameters and were never called."""
        idle = ", ".join(layer._where for layer in tree.unbuilt(self.module))
        if idle:
            raise UnusedLayerError(
                f"{type(self.module).__name__} owns layers that are never called: {idle}. They would have no "
                "parameters. Call them in forward or in a step, or remove them"
            )
