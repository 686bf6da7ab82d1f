"""Sizes that keep files and folders readable, and docstrings on public names."""

import ast
from pathlib import Path

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


def without_docstring(source: str) -> list[str]:
    """The public things of a module that have no docstring."""
    tree = ast.parse(source)
    public = [
        node
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
    ]
    missing = [] if ast.get_docstring(tree) else ["the module"]
    return [*missing, *(node.name for node in public if not ast.get_docstring(node))]


def test_no_file_is_too_long():
    lengths = {path: len(path.read_text().splitlines()) for path in FILES}
    long = [
        f"{path.relative_to(ROOT)}: {length} lines, at most {limit(path)}"
        for path, length in lengths.items()
        if length > limit(path)
    ]
    assert not long, "\n".join(long)


def test_public_things_have_docstrings():
    missing = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in PRODUCT
        for name in without_docstring(path.read_text())
    ]
    assert not missing, "\n".join(missing)


def test_a_missing_docstring_is_found():
    assert without_docstring("def a(): 1\nclass B: 'b'\ndef _c(): 1") == ["the module", "a"]


def test_no_folder_has_too_many_modules():
    folders = {path.parent for path in FILES if path.relative_to(ROOT).parts[0] in GUARDED}
    sizes = {folder: len({*folder.glob("*.py")} - {folder / "__init__.py"}) for folder in folders}
    large = [f"{folder.relative_to(ROOT)}: {size}" for folder, size in sizes.items() if size > 25]
    assert not large, "\n".join(large)
