"""Records with more than five fields are built by keyword: no value is in the wrong place."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
MOST = 5
"""Values that a record may be given by position."""

LEFT = {
    "compiler/kernels/cpu/tiling.py": {
        "Tile"
    },  # of four fields: another record of this name is large
    "compiler/kernels/gpu/templates/gemm/candidates.py": {"Tile"},
    "compiler/kernels/gpu/templates/gemm/mfma.py": {"Tile"},
}
"""Records that are built of a table's tuples."""


def is_record(node: ast.AST) -> bool:
    """Whether a class is a dataclass or a named tuple."""
    return isinstance(node, ast.ClassDef) and (
        any(ast.unparse(decorator).startswith("dataclass") for decorator in node.decorator_list)
        or "NamedTuple" in map(ast.unparse, node.bases)
    )


def fields(record: ast.ClassDef) -> list[str]:
    """The fields of a record in their order."""
    return [
        ast.unparse(node.target)
        for node in record.body
        if isinstance(node, ast.AnnAssign) and "ClassVar" not in ast.unparse(node.annotation)
    ]


def large_records(trees: list[ast.Module]) -> set[str]:
    """The names of records with more than `MOST` fields."""
    classes = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    return {node.name for node in classes if is_record(node) and len(fields(node)) > MOST}


def built_by_position(tree: ast.Module, records: set[str]) -> Iterator[str]:
    """The records that are given more than `MOST` values, or a list of values, by position."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            starred = any(isinstance(argument, ast.Starred) for argument in node.args)
            if node.func.id in records and (starred or len(node.args) > MOST):
                yield node.func.id


def test_large_records_are_built_by_keyword():
    files = sorted((ROOT / "compiler").rglob("*.py"))
    trees = {path.relative_to(ROOT).as_posix(): ast.parse(path.read_text()) for path in files}
    records = large_records([*trees.values()])
    found = {name: {*built_by_position(tree, records)} for name, tree in trees.items()}
    wrong = {name: some for name, names in found.items() if (some := names - LEFT.get(name, set()))}
    assert not wrong


def test_a_record_built_by_position_is_found():
    source = "@dataclass(frozen=True)\nclass R:\n" + "".join(f"    {c}: int\n" for c in "abcdef")
    tree = ast.parse(f"{source}R(1, 2, 3, 4, 5, f=6)\nR(1, 2, 3, 4, 5, 6)\nR(*range(6))\n")
    assert [*built_by_position(tree, large_records([tree]))] == ["R", "R"]
