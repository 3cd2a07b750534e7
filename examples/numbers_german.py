"""Numbers from 0 to 9999 in words, English and German, for `translation.py`.

The German words are parts of one long word, which is written without spaces: "zwei und vierzig" is "zweiundvierzig".
"""

from __future__ import annotations

from collections.abc import Callable

ENGLISH = [
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"),
    *("ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
]
ENGLISH_TENS = ["", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
GERMAN = [
    *("null", "ein", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun"),
    *("zehn", "elf", "zwölf", "dreizehn", "vierzehn", "fünfzehn", "sechzehn", "siebzehn", "achtzehn", "neunzehn"),
]
GERMAN_TENS = ["", "", "zwanzig", "dreißig", "vierzig", "fünfzig", "sechzig", "siebzig", "achtzig", "neunzig"]


def english(number: int) -> list[str]:
    """4042 is four thousand forty two."""
    if number < 20:
        return [ENGLISH[number]]
    if number < 100:
        return [ENGLISH_TENS[number // 10], *_rest(english, number % 10)]
    size, name = (1000, "thousand") if number >= 1000 else (100, "hundred")
    return [*english(number // size), name, *_rest(english, number % size)]


def german(number: int) -> list[str]:
    """4042 is vier tausend zwei und vierzig. At the end one is "eins", in front of something "ein"."""
    return ["eins"] if number == 1 else _german(number)


def _german(number: int) -> list[str]:
    if number < 20:
        return [GERMAN[number]]
    if number < 100:
        unit = [GERMAN[number % 10], "und"] if number % 10 else []
        return [*unit, GERMAN_TENS[number // 10]]
    size, name = (1000, "tausend") if number >= 1000 else (100, "hundert")
    return [*_german(number // size), name, *_rest(german, number % size)]


def _rest(words: Callable[[int], list[str]], number: int) -> list[str]:
    return words(number) if number else []
