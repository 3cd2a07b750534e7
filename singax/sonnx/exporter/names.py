"""Names that are unique in a file."""

from __future__ import annotations


class Names:
    """Gives each wish a name of its own: the wish itself, or with a number behind it.

    >>> names = Names(); names.take("x"), names.take("x"), names.take("x_1"), names.take("")
    ('x', 'x_1', 'x_1_1', 'value')
    """

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._counts: dict[str, int] = {}

    def take(self, wish: str) -> str:
        """A name that was not given before."""
        wish = name = wish or "value"
        while name in self._taken:
            self._counts[wish] = self._counts.get(wish, 0) + 1
            name = f"{wish}_{self._counts[wish]}"
        self._taken.add(name)
        return name
