"""Refusing a file: what was wanted, what was found, and where."""

from __future__ import annotations

from typing import Any, NoReturn

from singax.errors import ModelFileError
from singax.sonnx.loader.limits import Limits

_MOST_SHOWN = 120


def refuse(where: str, field: str, wanted: str, found: str) -> NoReturn:
    """Raise the one error of the loader; `load` adds the path of the file."""
    raise ModelFileError("", where, field, wanted, found)


def above_limit(where: str, limits: Limits, name: str, found: int) -> NoReturn:
    """Refuse what is larger than the limit of this name."""
    refuse(where, name.replace("_", " "), f"at most {getattr(limits, name)} (Limits.{name})", str(found))


def shown(value: Any) -> str:
    """A value from the file in a message: never longer than a line."""
    text = repr(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}… ({len(text)} characters)"


def plain(text: str) -> str:
    """A name from the file without quotes, where it is a short and printable one."""
    return text if text.isprintable() and len(text) <= _MOST_SHOWN else shown(text)


def listed(values: Any, most: int = 10) -> str:
    """Several values from the file in a message."""
    values = list(values)
    text = ", ".join(shown(value) for value in values[:most])
    return f"{text} and {len(values) - most} more" if len(values) > most else text
