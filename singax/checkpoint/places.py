"""The places that a model has for states at one moment, and which ones may yet come."""

from __future__ import annotations

from typing import Any

from singax.checkpoint.homes import LAYERS, OPTIMIZER, RANDOM, homes
from singax.checkpoint.slots import owner_of
from singax.layer import tree


class Places:
    """`homes` by path, `owners` (optimizers) by path.

    Without `complete` only the layers' states count. Unless `settled`, optimizers may still get states at any moment.
    """

    def __init__(self, model: Any, complete: bool, settled: bool) -> None:
        self.owners: dict[str, tree.Stateful] = dict(model._ledger.named_owners())
        self.homes = {path: home for path, home in homes(model).items() if complete or home.kind in LAYERS}
        self.built = not tree.unbuilt(model)
        self.begun = model._step_names <= model._ledger.traced_steps
        self.settled = settled

    def owner_of(self, path: str) -> str:
        """The path of the optimizer that `path` stands under, or nothing."""
        return owner_of(path, self.owners)

    def can_judge(self, kind: str) -> bool:
        """Whether all places of this kind are there, so that a missing value is an error."""
        if kind == RANDOM:
            return True
        return self.built and (self.settled or kind != OPTIMIZER)

    def may_come(self, path: str, kind: str) -> bool:
        """Whether the model may yet get a place for a value: with its first input, or its first step."""
        if not self.built or kind != OPTIMIZER:
            return not self.built
        if not self.settled:
            return True
        owner = self.owner_of(path)
        late = not owner or self.owners[owner].may_yet_have(path.removeprefix(owner + tree.SEPARATOR))
        return late and not self.begun
