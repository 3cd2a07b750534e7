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


def _has(home: Any, name: str) -> bool:
    """Whether a module or class has the name, or its instances get it in `__init__`."""
    if hasattr(home, name):
        return True
    for base in getattr(home, "__mro__", ()):
        code = getattr(base.__dict__.get("__init__"), "__code__", None)
        if name in getattr(base, "__annotations__", {}) or (code and name in code.co_names):
            return True
    return False


def missing() -> dict[str, list[str]]:
    """Path → SINGA's names that we neither have nor omit on purpose."""
    found = {}
    for path, names in NAMES.items():
        home = _home(path)
        lost = [name for name in names.split() if not _has(home, name) and f"{path}.{name}" not in OMITTED]
        if lost:
            found[path] = lost
    return found


def main() -> int:
    """Print a line for each module and class, then what is missing and omitted."""
    lost = missing()
    for path, names in NAMES.items():
        wanted = names.split()
        omitted = sum(f"{path}.{name}" in OMITTED for name in wanted)
        present = len(wanted) - len(lost.get(path, [])) - omitted
        print(f"{path:24} {present:4} of {len(wanted):4}" + (f", {omitted} omitted" if omitted else ""))
    for name, reason in OMITTED.items():
        print(f"omitted: {name}: {reason}")
    for path, left in lost.items():
        print(f"missing: {path}: {' '.join(left)}")
    total = sum(len(names.split()) for names in NAMES.values())
    print(f"{total} names, {sum(map(len, lost.values()))} missing, {len(OMITTED)} omitted")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
