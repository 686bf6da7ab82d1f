"""Sizes that keep files and folders readable, and docstrings on public names."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FILES = sorted(
    path
    for folder in ("compiler", "tests", "benchmarks", "examples")
    for path in (ROOT / folder).rglob("*.py")
    if path.stat().st_size
)
GUARDED = ("compiler", "benchmarks", "examples")
"""Where folders are rooms of at most 25 modules."""
PRODUCT = [path for path in FILES if (ROOT / "compiler") in path.parents]


def limit(path: Path) -> int:
    """The most lines a file may have."""
    room = path.relative_to(ROOT).parts[1]
    return {"passes": 200, "ir": 400}.get(room, 500)


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_file_size(path: Path):
    assert len(path.read_text().splitlines()) <= limit(path)


@pytest.mark.parametrize("path", PRODUCT, ids=lambda p: str(p.relative_to(ROOT)))
def test_public_things_have_docstrings(path: Path):
    tree = ast.parse(path.read_text())
    missing = [] if ast.get_docstring(tree) else ["the module"]
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            missing += [] if ast.get_docstring(node) else [node.name]
    assert not missing


FOLDERS = sorted({path.parent for path in FILES if path.relative_to(ROOT).parts[0] in GUARDED})


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda p: str(p.relative_to(ROOT)))
def test_folder_size(folder: Path):
    modules = {path.name for path in folder.glob("*.py")} - {"__init__.py"}
    assert len(modules) <= 25
