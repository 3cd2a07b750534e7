"""How a file of states differs from a model: everything in one message."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

from singax.errors import StateMismatchError

_MOST_SHOWN = 200


@dataclass
class Differences:
    """Paths with what was wanted and found, by kind of difference."""

    missing: dict[str, str] = field(default_factory=dict)
    unexpected: dict[str, str] = field(default_factory=dict)
    wrong_shape: dict[str, str] = field(default_factory=dict)
    wrong_dtype: dict[str, str] = field(default_factory=dict)

    def compare(self, path: str, wanted: Any, found: Any) -> None:
        """Note whether `found` has another shape or dtype than `wanted`, whose unknown sizes are None."""
        text = f"wanted {described(wanted)}, found {described(found)}"
        sizes = zip(wanted.shape, found.shape, strict=False)
        if len(wanted.shape) != len(found.shape) or any(a is not None and a != b for a, b in sizes):
            self.wrong_shape[path] = text
        elif wanted.dtype != found.dtype:
            self.wrong_dtype[path] = text

    def miss(self, path: str, wanted: Any) -> None:
        """Note that the file has nothing for `path`."""
        self.missing[path] = f"wanted {described(wanted)}, found nothing"

    def find(self, path: str, found: Any) -> None:
        """Note that the model has nothing for `path`."""
        self.unexpected[path] = f"wanted nothing, found {described(found)}"

    def report(self, source: str, strict: bool) -> None:
        """Raise `StateMismatchError` with all of them; only warn about names if not `strict`."""
        if self.wrong_shape or self.wrong_dtype or (strict and (self.missing or self.unexpected)):
            hint = "" if self.wrong_shape or self.wrong_dtype else "; strict=False loads what fits"
            raise StateMismatchError(
                f"{source} does not fit the model, and nothing was changed{hint}\n{self}",
                missing=self.missing,
                unexpected=self.unexpected,
                wrong_shape=self.wrong_shape,
                wrong_dtype=self.wrong_dtype,
            )
        if self.missing or self.unexpected:
            warnings.warn(f"{source} does not fit the model in all; the rest is loaded\n{self}", stacklevel=2)

    def __str__(self) -> str:
        kinds = {
            "wrong shape": self.wrong_shape,
            "wrong dtype": self.wrong_dtype,
            "missing": self.missing,
            "unexpected": self.unexpected,
        }
        lines = [f"  {kind}: {path}: {text}" for kind, found in kinds.items() for path, text in found.items()]
        more = len(lines) - _MOST_SHOWN
        return "\n".join(lines[:_MOST_SHOWN] + ([f"  … and {more} more"] if more > 0 else []))


def described(value: Any) -> str:
    """Dtype and shape: `float32[5, 8]`."""
    return f"{value.dtype}[{', '.join('?' if size is None else str(size) for size in value.shape)}]"
