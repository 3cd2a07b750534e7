"""Every public name of SINGA is here, or left out for a reason that is written down."""

from __future__ import annotations

import pathlib
import sys
from typing import Any

import pytest

TOOLS = pathlib.Path(__file__).resolve().parent.parent / "tools"


@pytest.fixture(name="api_coverage")
def _api_coverage(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(TOOLS))
    sys.modules.pop("api_coverage", None)
    import api_coverage

    return api_coverage


def test_nothing_is_missing(api_coverage: Any, capsys: Any) -> None:
    """The script ends well and says so."""
    assert api_coverage.missing() == {}
    assert api_coverage.main() == 0
    assert ", 0 missing, " in capsys.readouterr().out


def test_the_inventory_is_whole(api_coverage: Any) -> None:
    """The inventory's own counts: 91 functional names and 92 classes of operators, 26 layers."""
    names = api_coverage.NAMES["autograd"].split()
    functions, classes = names.index("relu"), names.index("ReLU")
    assert classes - functions - 1 == 91  # add_all besides
    assert names.index("Linear") - classes == 92
    assert len(api_coverage.NAMES["layer"].split()) - 2 == 26  # Layer and RNN_Base besides


def test_what_is_omitted_is_not_there(api_coverage: Any) -> None:
    """A name that came leaves the list."""
    for path in api_coverage.OMITTED:
        owner, _, name = path.rpartition(".")
        assert name in api_coverage.NAMES[owner].split()
        assert not api_coverage._has(api_coverage._home(owner), name)
