"""The house rules: imports point one way, only public JAX, a light import, files of one thought."""

from __future__ import annotations

import ast
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCES = sorted((ROOT / "singax").rglob("*.py"))
FOLDERS = ("singax", "tests", "examples", "benchmarks", "tools")
ALL = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]

# Lower layers first. A module may import from its own row and from rows above it.
HOUSE = [
    ["errors", "checked", "compilations"],
    ["dtypes", "jaxprs", "recipes", "storage", "interrupt", "files"],
    ["mode", "ops", "dispatch"],
    ["device"],
    ["tensor"],
    ["initializer", "autograd", "singa_wrap"],
    ["layer"],
    ["arguments", "freezing", "ledger", "metric"],
    ["program"],
    ["functional", "states"],
    ["workbench"],
    ["module"],
    ["model", "opt", "data", "image_tool", "snapshot", "utils", "sonnx", "inspect"],
    ["checkpoint", "training"],
]
ROW = {name: row for row, names in enumerate(HOUSE) for name in names}


def _room(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def _imports(path: pathlib.Path) -> set[str]:
    """Rooms of singax that a file imports when it is loaded (imports for type checking do not count)."""
    tree = ast.parse(path.read_text())
    found: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "singax":
            names = [f"singax.{alias.name}" for alias in node.names] if node.module == "singax" else [node.module or ""]
            found |= {_room(name) for name in names}
        elif isinstance(node, ast.Import):
            found |= {_room(a.name) for a in node.names if a.name.startswith("singax.")}
    return found - {""}


def test_every_room_has_a_place() -> None:
    rooms = {path.relative_to(ROOT / "singax").parts[0].removesuffix(".py") for path in SOURCES}
    assert rooms - {"__init__"} == set(ROW)


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_point_one_way(path: pathlib.Path) -> None:
    own = path.relative_to(ROOT / "singax").parts[0].removesuffix(".py")
    if own == "__init__":
        return
    for room in _imports(path):
        assert ROW[room] < ROW[own] or room == own or room in HOUSE[ROW[own]], f"{own} imports {room}"


def test_rooms_in_one_row_have_no_cycles() -> None:
    edges: dict[str, set[str]] = {}
    for path in SOURCES:
        own = path.relative_to(ROOT / "singax").parts[0].removesuffix(".py")
        edges.setdefault(own, set()).update(_imports(path) - {own})
    for row in HOUSE:
        for a in row:
            for b in row:
                assert not (b in edges[a] and a in edges[b]), f"{a} and {b} import each other"


def test_no_cycles_between_files() -> None:
    files = {".".join(p.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): p for p in SOURCES}
    edges = {name: {t for t in _file_imports(path, files) if t != name} for name, path in files.items()}
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, " → ".join([*trail, name])
        if name not in done:
            for target in edges[name]:
                visit(target, (*trail, name))
            done.add(name)

    for name in files:
        if name.count(".") >= 2:  # packages re-export their files, so only files inside packages are checked
            visit(name, ())


def _file_imports(path: pathlib.Path, files: dict[str, pathlib.Path]) -> set[str]:
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("singax."):
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                found.add(full if full in files else node.module or "")
    return {name for name in found if name.count(".") >= 2}


@pytest.mark.parametrize("path", ALL, ids=lambda p: str(p.relative_to(ROOT)))
def test_only_public_jax(path: pathlib.Path) -> None:
    if path.name == "test_house.py":
        return
    text = path.read_text()
    for forbidden in (r"jax\._src", r"\bjax\.core\b", r"from jax import core\b"):
        assert not re.search(forbidden, text), f"{path.name} uses {forbidden}"
    nodes = list(ast.walk(ast.parse(text)))
    assert not [n for n in nodes if isinstance(n, ast.Call) and ast.unparse(n.func) in ("eval", "exec")], path.name
    assert not [n for n in nodes if isinstance(n, ast.Import) and any(a.name == "pickle" for a in n.names)], path.name


def test_import_is_light() -> None:
    code = (
        "import sys, singax; heavy = {'onnx', 'flax', 'matplotlib', 'IPython', 'optax', 'tqdm', 'rich', 'mlxtend'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT).stdout
    assert out.splitlines()[0] == "[]"


def test_import_touches_no_device() -> None:
    code = "import os; os.environ['JAX_PLATFORMS'] = 'nonsense'; import singax; singax.opt.SGD; print('ok')"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT).stdout
    assert out.strip() == "ok"


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_files_of_one_thought(path: pathlib.Path) -> None:
    lines = path.read_text().splitlines()
    assert len(lines) <= 400, f"{path.name} has {len(lines)} lines: split it"
    assert not lines or lines[0].startswith('"""'), f"{path.name} has no module docstring"


def test_no_asserts_on_user_input_in_layers_and_operations() -> None:
    for path in SOURCES:
        if path.parent.name in ("layer", "ops", "opt"):
            asserts = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Assert)]
            for node in asserts:
                assert "local." in ast.unparse(node), f"{path.name}:{node.lineno}"
