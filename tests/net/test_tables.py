"""What is known of operators stands in their entries: few other files list several by name."""

import ast
from collections.abc import Iterator
from pathlib import Path

from compiler.net.operators import OPERATORS

ROOT = Path(__file__).parents[2] / "compiler"
HOME = "net/"
LEAST = 3
"""The fewest operators in one literal that are a table."""

TABLES = {
    "frontend/sources/checking.py": (1, "where onnx infers other shapes"),
    "frontend/rules/contrib/activations.py": (1, "the activations of onnxruntime's GEMMs"),
    "frontend/rules/contrib/signatures.py": (2, "onnxruntime's forms of them"),
    "frontend/sources/attributes.py": (1, "ONNX's forms before they are rewritten"),
    "kernels/gpu/templates/attention/rounding.py": (1, "one pattern: after a Clip to integers"),
    "kernels/gpu/templates/recurrence/template.py": (1, "CUDA's expression of each"),
    "kernels/ops/elementwise.py": (1, "TVM's expression of each"),
}
"""Files with tables of operators, how many, and why: numbers here may only become smaller."""


def is_operator(node: ast.AST | None) -> bool:
    """Whether an expression is the name of an operator."""
    return isinstance(node, ast.Constant) and node.value in OPERATORS


def listed(node: ast.AST) -> int:
    """How many operators a literal lists by name."""
    match node:
        case ast.Dict(keys=items) | ast.Set(elts=items) | ast.Tuple(elts=items):
            return sum(map(is_operator, items))
        case ast.List(elts=items):
            return sum(map(is_operator, items))
        case ast.MatchOr(patterns=patterns):
            return sum(isinstance(p, ast.MatchValue) and is_operator(p.value) for p in patterns)
        case ast.Call(func=ast.Attribute(value=ast.Constant(value=str(text)), attr="split")):
            return sum(word in OPERATORS for word in text.split())
        case _:
            return 0


def tables(tree: ast.AST) -> Iterator[int]:
    """The lines of literals that list several operators."""
    for node in ast.walk(tree):
        if isinstance(node, ast.expr | ast.pattern) and listed(node) >= LEAST:
            yield node.lineno


def test_few_files_list_operators():
    found = {
        name: lines
        for path in sorted(ROOT.rglob("*.py"))
        if not (name := path.relative_to(ROOT).as_posix()).startswith(HOME)
        and (lines := sorted(tables(ast.parse(path.read_text()))))
    }
    more = [
        f"compiler/{name}: lines {lines}: make it a fact of the entries in compiler/{HOME}"
        for name, lines in found.items()
        if len(lines) > TABLES.get(name, (0, ""))[0]
    ]
    assert not more, "\n".join(more)
    fewer = [
        f"{name}: {len(found.get(name, []))} instead of {count}: lower the number in {__file__}"
        for name, (count, _) in TABLES.items()
        if len(found.get(name, [])) < count
    ]
    assert not fewer, "\n".join(fewer)


def test_every_kind_of_literal_counts():
    texts = (
        "x in ('Add', 'Mul', 'Sub')",
        "{'Add': 1, 'Mul': 2, 'Sub': 3}",
        "{'Add', 'Mul', 'Sub'}",
        "['Add', 'Mul', 'Sub']",
        "'Add Mul Sub'.split()",
        "match x:\n    case 'Add' | 'Mul' | 'Sub': pass",
    )
    assert [len(list(tables(ast.parse(text)))) for text in texts] == [1] * len(texts)
    assert not list(tables(ast.parse("f('Add', 'Mul', 'Sub'), ('Add', 'Mul', 'x')")))
