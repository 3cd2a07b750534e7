"""com.microsoft.Tokenizer: texts into words, on the host; exported text pipelines begin with it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from singax.errors import ArgumentError, DTypeError
from singax.sonnx.operators.microsoft import MICROSOFT
from singax.sonnx.registry import Call, onnx_operator

_START, _END = "\x02", "\x03"
_NESTED = re.compile(r"[+*}]\??\)[+*{]")

Splitter = Callable[[str], list[str]]


@onnx_operator("Tokenizer", domain=MICROSOFT)
def tokenizer(call: Call, x: Any) -> np.ndarray:
    """Texts (C,) or (N, C) → their tokens (…, most tokens of a text), the rest filled with `pad_value`.

    Tokens are what `tokenexp` matches, or what is left between matches of the `separators`; with the one separator ""
    each character is one. Shorter ones than `mincharnum` are dropped. With `mark`, one stands before and one behind
    those of each text, unless no text has any.
    """
    if not isinstance(x, np.ndarray) or x.dtype != object or x.ndim not in (1, 2):
        raise DTypeError(f"expected strings (C,) or (N, C). Received: {getattr(x, 'dtype', type(x).__name__)}")
    split, ends = _splitter(call), ([_START], [_END]) if call.attribute("mark", 0) else ([], [])
    rows = [split(str(text)) for text in x.reshape(-1)]
    if any(rows):
        rows = [[*ends[0], *row, *ends[1]] for row in rows]
    made = np.full((len(rows), max(map(len, rows), default=0)), call.attribute("pad_value", ""), object)
    for row, found in zip(made, rows, strict=True):
        row[: len(found)] = found
    return made.reshape(*x.shape, made.shape[1])


def _splitter(call: Call) -> Splitter:
    separators, expression = call.attribute("separators") or [], call.attribute("tokenexp", "")
    least = call.attribute("mincharnum", 1)
    if least < 1 or not (separators or expression):
        raise ArgumentError(
            "expected separators or a tokenexp, and a mincharnum of 1 or more. "
            f"Received: {separators!r}, {expression!r} and {least}"
        )
    if list(separators) == [""]:
        return list
    if separators:
        return _between([_compiled(separator) for separator in separators], least)
    pattern = _compiled(expression)
    return lambda text: [found for found in (m.group() for m in pattern.finditer(text)) if len(found) >= least]


def _between(patterns: list[re.Pattern[str]], least: int) -> Splitter:
    """The parts between matches of the first pattern, divided by the second one, and so on."""

    def split(text: str) -> list[str]:
        parts = [text]
        for pattern in patterns:
            parts = [piece for part in parts for piece in _cut(pattern, part) if len(piece) >= least]
        return parts

    return split


def _cut(pattern: re.Pattern[str], text: str) -> list[str]:
    ends = [match.span() for match in pattern.finditer(text) if match.group()]
    starts = [0, *(stop for _, stop in ends)]
    return [text[start:stop] for start, stop in zip(starts, [*(start for start, _ in ends), len(text)], strict=True)]


def _compiled(pattern: str) -> re.Pattern[str]:
    """The pattern; one whose search could take for ever (a repetition of a repetition) is refused."""
    try:
        if not pattern or _NESTED.search(pattern):
            raise re.error("it is empty, or repeats a repetition")
        return re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise ArgumentError(f"expected a regular expression. Received: {pattern[:100]!r} ({error})") from error
