"""Parameter groups and frozen parameters, chosen by name."""

from __future__ import annotations

import fnmatch
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from singax.errors import ArgumentError, NameMismatchError
from singax.layer import tree
from singax.opt.schedule import Constant, Rate, Schedule, as_schedule
from singax.tensor import Tensor

RATES = ("lr", "lr_scale")


class Group:
    """The options of the parameters whose names match `pattern`.

    `group["lr"] = 0.01` and `group["lr_scale"] = 0.5` change a rate that is a number, without compiling again.
    """

    def __init__(self, pattern: str, options: Mapping[str, Any], known: Collection[str]) -> None:
        if not isinstance(options, Mapping) or not options:
            raise ArgumentError(f"groups[{pattern!r}] is a dict of options. Received: {options!r}")
        for name in options:
            if name not in known:
                raise ArgumentError(
                    f"groups[{pattern!r}] has no option {name!r}; this optimizer knows: {', '.join(sorted(known))}. "
                    f"Received: {dict(options)!r}"
                )
        self.pattern = pattern
        self.rates = {name: Rate(options[name], name) for name in RATES if name in options}
        self.schedules: dict[str, Schedule] = {
            name: as_schedule(value, name) for name, value in options.items() if name not in RATES
        }

    def __getitem__(self, option: str) -> Schedule:
        return self.rates[option].schedule if option in self.rates else self.schedules[option]

    def __setitem__(self, option: str, value: float) -> None:
        rate = self.rates.get(option)
        if rate is None or not isinstance(rate.schedule, Constant) or callable(value):
            raise ArgumentError(
                f"only a rate (lr, lr_scale) that was given as a number can be changed, and to a number, in "
                f"groups[{self.pattern!r}]; give anything else to a new optimizer. Received: {option}={value!r}"
            )
        rate.change(value, 0)

    def __repr__(self) -> str:
        return f"Group({self.pattern!r}: {', '.join([*self.rates, *self.schedules])})"


class Groups(Mapping[str, Group]):
    """All groups by pattern, in order: where two set the same option, the later one holds."""

    def __init__(self, entries: Mapping[str, Mapping[str, Any]] | None, known: Collection[str]) -> None:
        if not isinstance(entries or {}, Mapping):
            raise ArgumentError(f"groups is a dict from name patterns to dicts of options. Received: {entries!r}")
        self._groups = {pattern: Group(pattern, options, known) for pattern, options in (entries or {}).items()}

    def __getitem__(self, pattern: str) -> Group:
        return self._groups[pattern]

    def __iter__(self) -> Iterator[str]:
        return iter(self._groups)

    def __len__(self) -> int:
        return len(self._groups)

    def of(self, name: str) -> list[Group]:
        """The groups that a parameter belongs to."""
        return [group for pattern, group in self._groups.items() if matches(pattern, name)]

    def parts(self, names: Mapping[str, str]) -> dict[str, tuple[dict[str, Schedule], list[str]]]:
        """Parameters (key → name) that are updated alike: label → (schedules that differ, keys); label "" for none."""
        found: dict[str, tuple[dict[str, Schedule], list[str]]] = {}
        for key, name in names.items():
            special = [group for group in self.of(name) if group.schedules]
            changed = {option: schedule for group in special for option, schedule in group.schedules.items()}
            label = "+".join(group.pattern for group in special)
            found.setdefault(label, (changed, []))[1].append(key)
        return found

    def rate(self, name: str, lr: Any, rates: Mapping[str, Any]) -> Any:
        """The learning rate of a parameter, out of the main one and the values of `tensors`."""
        scale = None
        for group in self.of(name):
            lr = rates.get(_path("lr", group.pattern), lr)
            scale = rates.get(_path("lr_scale", group.pattern), scale)
        return lr if scale is None else lr * scale

    def rates(self) -> list[tuple[str, Rate]]:
        """All rates with their paths."""
        return [(_path(name, g.pattern), rate) for g in self._groups.values() for name, rate in g.rates.items()]

    def tensors(self) -> dict[str, Tensor]:
        """The values of all rates."""
        return {path: rate.value for path, rate in self.rates()}


class Frozen:
    """Parameters that get no update and no slot."""

    def __init__(self, patterns: str | Iterable[str] | None) -> None:
        self.patterns = (patterns,) if isinstance(patterns, str) else tuple(patterns or ())
        if not all(isinstance(pattern, str) for pattern in self.patterns):
            raise ArgumentError(f"freeze is a name pattern or a list of them. Received: {patterns!r}")

    def __contains__(self, name: object) -> bool:
        return any(matches(pattern, str(name)) for pattern in self.patterns)


def matches(pattern: str, name: str) -> bool:
    """Whether a name matches a shell pattern; `*` stands for dots as well."""
    return fnmatch.fnmatchcase(name, pattern)


def check_patterns(patterns: Iterable[str], names: Collection[str]) -> None:
    """`NameMismatchError` for a pattern that matches no parameter."""
    idle = [pattern for pattern in patterns if not any(matches(pattern, name) for name in names)]
    if idle:
        raise NameMismatchError(
            f"no parameter matches {', '.join(map(repr, idle))}. Received parameters: {', '.join(sorted(names))}"
        )


def _path(rate: str, pattern: str) -> str:
    return tree.join(rate, pattern)
