"""The README's Python runs as it stands."""

from __future__ import annotations

import pathlib
import re
import runpy

import pytest

README = pathlib.Path(__file__).resolve().parent.parent / "README.md"


def test_the_code_of_the_readme_runs(capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.S)
    assert len(blocks) == 2
    script = tmp_path / "readme.py"
    script.write_text("\n".join(blocks))
    runpy.run_path(str(script))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert lines[3] == "(64, 10)"


def test_the_readme_has_exactly_two_commands() -> None:
    commands = [line for line in README.read_text().splitlines() if line.startswith("python3 -m venv")]
    assert len(commands) == 2
