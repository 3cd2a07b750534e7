"""Print SINGA's public names against ours: what is there, what is missing, what is left out and why.

Run `python tools/api_coverage.py`; it ends with an error if a name is missing that is not marked as omitted.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

from singa_names import NAMES, OMITTED


def _home(path: str) -> Any:
    """The module or class behind "layer.Layer"; None where we have none."""
    module, _, owner = path.partition(".")
    try:
        found: Any = importlib.import_module(f"singax.{module}")
    except ModuleNotFoundError:
        return None
    return getattr(found, owner, None) if owner else found


def _members(home: Any) -> set[str]:
    """Names of a module or class, with those that instances get in `__init__`."""
    names = set(dir(home))
    if isinstance(home, type):
        for base in home.__mro__:
            names |= set(getattr(base, "__annotations__", {}))
            code = getattr(base.__dict__.get("__init__"), "__code__", None)
            names |= set(code.co_names) if code else set()
    return names


def missing() -> dict[str, list[str]]:
    """Path → SINGA's names that we neither have nor omit on purpose."""
    found: dict[str, list[str]] = {}
    for path, names in NAMES.items():
        home = _home(path)
        known = _members(home) if home is not None else set()
        lazy = (
            (lambda name, home=home: home is not None and hasattr(home, name)) if not isinstance(home, type) else None
        )
        lost = [n for n in names.split() if n not in known and not (lazy and lazy(n)) and f"{path}.{n}" not in OMITTED]
        if lost:
            found[path] = lost
    return found


def main() -> int:
    """Print a line for each module and class, then what is missing and omitted."""
    lost = missing()
    for path, names in NAMES.items():
        total, gone = len(names.split()), len(lost.get(path, []))
        omitted = sum(name.startswith(f"{path}.") and name.count(".") == path.count(".") + 1 for name in OMITTED)
        print(f"{path:24} {total - gone - omitted:4} of {total:4}" + (f", {omitted} omitted" if omitted else ""))
    for name, reason in OMITTED.items():
        print(f"omitted: {name}: {reason}")
    for path, names in lost.items():
        print(f"missing: {path}: {' '.join(names)}")
    total = sum(len(names.split()) for names in NAMES.values())
    print(f"{total} names, {sum(map(len, lost.values()))} missing, {len(OMITTED)} omitted")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
