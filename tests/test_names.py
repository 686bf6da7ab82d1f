"""One name, one meaning: few public names are defined in several modules, each on purpose."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
FILES = sorted(path for path in (ROOT / "compiler").rglob("*.py") if path.stat().st_size)

TEMPLATES = "compiler/kernels/gpu/templates/"
"""Each template has the same names for its problem, config and so on."""

RULES = ("compiler/rewrite/rules/", "compiler/rewrite/patterns.py")
"""Each family of rules has the same names for its tensors and rules, operators those of ONNX."""

ON_PURPOSE = {
    "Array": "any numpy array: of the IR, of what runs without it, of the interpreter, of TVM's",
    "Attributes": "of a node by ONNX's name: as a builder takes them, as a check reads them",
    "BACKEND": "each backend's module defines it for the registry",
    "Config": "the database's fields of one, and what a template's are in common",
    "ELEMENT_BYTES": "of tensors in a schedule, and of a GPU kernel's operands",
    "FLAGS": "those of each compiler that is run",
    "FORMAT": "each file format has one",
    "Graph": "of ONNX in the frontend, and of terms",
    "GraphOp": "each dialect has one",
    "Inputs": "the operands of a node in the frontend, and of a term",
    "MAGIC": "each binary file format has one",
    "MOST_NODES": "the largest graph that each policy takes",
    "Operand": "of an operator's entry, of the IR, of a GPU kernel, of a kernel as it is launched",
    "Problem": "of a node that cannot be specialised, and what templates' are in common",
    "Rule": "the types of an operator's results, and a substitution",
    "Shape": "run-time dimensions in the frontend, static ones after it",
    "Shapes": "by name in the frontend, by position in the table",
    "Site": "of a kernel in a launch, and of a rule in a graph",
    "T": "a type variable",
    "VERSION": "each file format has one",
    "Value": "in the frontend, of an attribute, of a database field, of a tensor expression",
    "Values": "arrays by name in the interpreter, operands of a launch in the IR",
    "WeightOp": "each dialect has one",
    "Window": "of an operator in the table, and of a tensor expression",
    "build": "a module, and the target of a rule",
    "ceil_div": "of numbers in kernels, and of extents",
    "device": "each GPU backend has one: the driver of the present device",
    "divide": "of integers that wrap, and the operator on them or on floats",
    "dtype_of": "of a type in the IR, and of TVM's expression",
    "equal": "as `divide`",
    "load": "the public function, the artifact's and the database's",
    "maximum": "of tensor expressions, and of extents",
    "minimum": "as `maximum`",
    "multiply": "as `divide`",
    "present_architecture": "each GPU backend has one",
    "run": "each command of the command line has one",
    "save": "the artifact's and the database's",
    "subtract": "as `divide`",
    "window_of": "as `Window`",
}
"""Public names that several modules define, with the reason."""


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


def shared_names() -> dict[str, set[str]]:
    """The public names that several modules define, with these."""
    homes: dict[str, set[str]] = defaultdict(set)
    for path in FILES:
        module = path.relative_to(ROOT).as_posix()
        if not module.startswith((TEMPLATES, *RULES)):
            for name in public_names(ast.parse(path.read_text())):
                homes[name].add(module)
    return {name: modules for name, modules in homes.items() if len(modules) > 1}


def test_names_are_shared_on_purpose_only():
    shared = shared_names()
    assert len(ON_PURPOSE) <= 40
    assert not ON_PURPOSE.keys() - shared.keys(), "these are not shared any more"
    others = shared.keys() - ON_PURPOSE.keys()
    assert not others, {name: sorted(shared[name]) for name in sorted(others)}


def test_all_kinds_of_names_are_found():
    tree = ast.parse("A = 1\nB: int = 2\ndef c(): d = 3\nclass E: f = 4\n_g = 5\nimport h")
    assert [*public_names(tree)] == ["A", "B", "c", "E"]
