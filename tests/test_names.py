"""One name, one meaning: few public names are defined in several modules, each on purpose."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import onnx

ROOT = Path(__file__).parent.parent
FILES = sorted(path for path in (ROOT / "compiler").rglob("*.py") if path.stat().st_size)

TEMPLATES = "compiler/kernels/gpu/templates/"
"""Each template has the same names for its problem, config and so on."""

OPERATOR_ROOMS = (
    "compiler/frontend/interpreter/",
    "compiler/frontend/rules/",
    "compiler/ir/operators/",
    "compiler/kernels/ops/",
)
"""Each has a function for an ONNX operator, named after it: meaning, rewrite, shapes, kernel."""

OPERATORS = {schema.name.lower() for schema in onnx.defs.get_all_schemas()}

ON_PURPOSE = {
    "Array": "any numpy array: of the IR, of what runs without it, of the interpreter, of TVM's",
    "BACKEND": "each backend's module defines it for the registry",
    "FLAGS": "those of each compiler that is run",
    "FORMAT": "each file format has one",
    "GraphOp": "each dialect has one",
    "MAGIC": "each binary file format has one",
    "MOST_NODES": "the largest graph that each policy takes",
    "Operand": "of an operator's entry, of the IR, of a GPU kernel, of a kernel as it is launched",
    "T": "a type variable",
    "VERSION": "each file format has one",
    "WeightOp": "each dialect has one",
    "device": "each GPU backend has one: the driver of the present device",
    "load": "the public function, the artifact's and the database's",
    "numpy_dtype": "of what runs without the IR's libraries, and of the IR",
    "present_architecture": "each GPU backend has one",
    "save": "the artifact's and the database's",
}
"""Public names that several modules define, with the reason."""

MOST_OTHERS = 53
"""How many other names there still are: lower it with each that is gone, at last to none."""


def public_names(tree: ast.Module) -> Iterator[str]:
    """The functions, classes and constants that a module defines at its top level."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names = [node.name]
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [target.id for target in targets if isinstance(target, ast.Name)]
        else:
            names = []
        yield from (name for name in names if not name.startswith("_"))


def is_operators(name: str, module: str) -> bool:
    """Whether a function is one of those for an operator in a module of operators."""
    return name.replace("_", "") in OPERATORS and module.startswith(OPERATOR_ROOMS)


def shared_names() -> dict[str, set[str]]:
    """The public names that several modules define, with these."""
    homes: dict[str, set[str]] = defaultdict(set)
    for path in FILES:
        module = path.relative_to(ROOT).as_posix()
        if not module.startswith(TEMPLATES):
            for name in public_names(ast.parse(path.read_text())):
                if not is_operators(name, module):
                    homes[name].add(module)
    return {name: modules for name, modules in homes.items() if len(modules) > 1}


def test_names_are_shared_on_purpose_only():
    shared = shared_names()
    assert len(ON_PURPOSE) <= 40
    assert not ON_PURPOSE.keys() - shared.keys(), "these are not shared any more"
    others = {name: sorted(shared[name]) for name in sorted(shared.keys() - ON_PURPOSE.keys())}
    assert len(others) <= MOST_OTHERS, others


def test_all_kinds_of_names_are_found():
    tree = ast.parse("A = 1\nB: int = 2\ndef c(): d = 3\nclass E: f = 4\n_g = 5\nimport h")
    assert [*public_names(tree)] == ["A", "B", "c", "E"]
