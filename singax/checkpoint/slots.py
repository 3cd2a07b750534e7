"""The slots of optimizers: which ones a file holds tells which ones the model will need."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from singax.layer import tree


def owner_of(path: str, owners: Mapping[str, tree.Stateful]) -> str:
    """The path of the optimizer that a state's path stands under; empty if there is none."""
    matches = [owner for owner in owners if path.startswith(owner + tree.SEPARATOR)]
    return max(matches, key=len, default="")


def create_slots(model: Any, paths: Iterable[str]) -> Callable[[], None]:
    """Let the model's optimizers create the slots that stand in a file under these paths.

    Returns what removes them again.
    """
    owners = dict(model._ledger.named_owners())
    held = {tree.join(owner, path) for owner, value in owners.items() for path, _ in value.state_tensors()}
    new: dict[str, set[str]] = {}
    for path in set(paths) - held:
        new.setdefault(owner_of(path, owners), set()).add(path)
    undo = [_create(owners[owner], wanted, model) for owner, wanted in new.items() if owner]

    def remove() -> None:
        for action in reversed(undo):
            action()

    return remove


def _create(owner: tree.Stateful, paths: set[str], model: Any) -> Callable[[], None]:
    trainable = {tensor.name: tensor for _, tensor in model._ledger.trainable()}
    named = {name for path in paths for name in parameters_of(path, trainable)}
    undo = owner.remembered()
    try:
        owner.want([tensor for name, tensor in trainable.items() if name in named or not named])
        owner.prepare()  # a value for all parameters together names none of them
    except BaseException:
        undo()
        raise
    return undo


def parameters_of(path: str, names: Collection[str]) -> Iterator[str]:
    """The parameters that a slot at `path` may belong to: those whose names end it (a "#2" tells equal ones apart)."""
    plain = path.split("#")[0]
    starts = [index + 1 for index, sign in enumerate(plain) if sign == tree.SEPARATOR]
    return (plain[start:] for start in starts if plain[start:] in names)


def is_late(path: str, found: Iterable[str], names: Collection[str], started: bool) -> bool:
    """Whether a slot is missing from a file because the model that was saved had not needed it yet.

    So it is if that optimizer had not made a step, or had slots of this kind for other parameters.
    """
    kinds = tuple(path.split("#")[0].removesuffix(name) for name in parameters_of(path, names))
    return bool(kinds) and (not started or any(other.startswith(kinds) for other in found))
