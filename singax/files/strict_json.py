"""JSON from a stranger: nothing nested deeply, nothing named twice, nothing that grows far beyond its bytes.

>>> strict_json(b'{"a": [1, 2]}')
{'a': [1, 2]}
"""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

from singax.errors import FileFormatError

MOST_VALUES = 1_000_000
DEEPEST = 200

_STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_BRACKETS = re.compile(rb"[\[\]{}]")


def strict_json(text: bytes, most_values: int = MOST_VALUES, deepest: int = DEEPEST) -> Any:
    """What `text` (UTF-8) says. Raises `FileFormatError` for text that is no JSON, is nested deeper than `deepest`,
    holds more than `most_values` values, names a key twice, takes more memory than there is, or holds NaN or Infinity,
    which JSON does not have.
    """
    if sum(text.count(sign) for sign in (b",", b"[", b"{")) > most_values:
        raise FileFormatError(f"its JSON holds more than {most_values} values")
    try:
        _check_depth(text, deepest)
        return json.loads(text.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_refuse_constant)
    except FileFormatError:
        raise
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"its JSON is broken: {error}") from error
    except MemoryError:
        raise FileFormatError(f"its JSON of {len(text)} bytes takes more memory than there is") from None


def _check_depth(text: bytes, deepest: int) -> None:
    depth = 0
    for bracket in _BRACKETS.finditer(_STRINGS.sub(b"", text)):
        depth += 1 if bracket[0] in b"[{" else -1
        if depth > deepest:
            raise FileFormatError(f"its JSON is nested deeper than {deepest}")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        twice, _ = Counter(name for name, _ in pairs).most_common(1)[0]
        raise FileFormatError(f"its JSON names {twice[:200]!r} twice")
    return found


def _refuse_constant(name: str) -> Any:
    raise FileFormatError(f"its JSON holds {name}, which is no JSON")
