"""One name, one meaning: what is public in several modules, and records built by position."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
FILES = sorted(path for path in (ROOT / "compiler").rglob("*.py") if path.stat().st_size)

TEMPLATES = "compiler/kernels/gpu/templates/"
"""Each template has its own problem, config and so on, with the same names on purpose."""

OPERATOR_ROOMS = (
    "compiler/frontend/interpreter/",
    "compiler/frontend/rules/",
    "compiler/ir/operators/",
    "compiler/kernels/ops/",
)
"""Each has a function for an ONNX operator, named after it: its meaning, shapes, kernel, rewrite."""

ON_PURPOSE = {
    "BACKEND": "each backend's module defines it for the registry",
    "FLAGS": "those of each compiler that is run",
    "FORMAT": "each file format has one",
    "GraphOp": "each dialect has one",
    "MAGIC": "each binary file format has one",
    "MOST_NODES": "the largest graph that each policy takes",
    "VERSION": "each file format has one",
    "WeightOp": "each dialect has one",
    "device": "each GPU backend has one: the driver of the present device",
    "load": "the public function, the artifact's and the database's",
    "present_architecture": "each GPU backend has one",
    "save": "the artifact's and the database's",
}
"""Public names that several modules define, with the reason."""

MOST_SHARED = 0
"""The other names that several modules define: to be lowered."""


def public_names(tree: ast.Module) -> Iterator[str]:
    """The functions, classes and constants that a module defines at the top level."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names = [node.name]
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [target.id for target in targets if isinstance(target, ast.Name)]
        else:
            names = []
        yield from (name for name in names if not name.startswith("_"))


def shared_names() -> dict[str, list[str]]:
    """The names that several modules define; all operators' functions in a room are one."""
    homes: dict[str, set[str]] = defaultdict(set)
    operators: set[str] = set()
    for path in FILES:
        name = str(path.relative_to(ROOT))
        if name.startswith(TEMPLATES):
            continue
        for public in public_names(ast.parse(path.read_text())):
            homes[public].add(name)
    found: dict[str, list[str]] = {}
    for public, modules in homes.items():
        outside = [m for m in modules if public.isupper() or not m.startswith(OPERATOR_ROOMS)]
        if len(outside) > 1:
            found[public] = sorted(outside)
    del operators
    return found


if __name__ == "__main__":
    for k, v in sorted(shared_names().items()):
        if k not in ON_PURPOSE:
            print(k, *[x.removeprefix("compiler/") for x in v])
