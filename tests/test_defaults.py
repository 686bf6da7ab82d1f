"""No default of an attribute stands outside the operator table and the schemas.

Readers after the import get complete attributes; rules of the frontend ask a `ModelNode`
or an `Operator`, which know the defaults of the schema or the table.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "compiler"
OTHER_OPERATORS = ("program", "frontend/rules/first_opsets.py", "frontend/rules/contrib")
"""Operators that are not in the table: of the host, of the first opsets, and onnxruntime's."""
EVALUATED = ("net", "frontend/interpreter")
"""The table, and the evaluation of nodes of any opset."""
EXEMPT = (*OTHER_OPERATORS, *EVALUATED)


def _is_attributes(node: ast.expr) -> bool:
    text = ast.unparse(node)
    return text.split(".")[-1] == "attributes" or text.startswith("attributes_of(")


def _reads(node: ast.AST) -> bool:
    """Whether a node asks attributes by a name: `x.attributes.get("name", ...)`."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("get", "pop")
        and _is_attributes(node.func.value)
        and isinstance(node.args[0], ast.Constant)
    )


def _has_default(node: ast.AST) -> bool:
    """Whether a node reads an attribute with a literal as its default, or `or` another value."""
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
        return _reads(node.values[0]) and isinstance(node.values[-1], ast.Constant | ast.List)
    if not isinstance(node, ast.Call) or len(node.args) != 2:
        return False
    by_method = isinstance(node.func, ast.Attribute) and node.func.attr == "attribute"
    default = node.args[1]
    literal = not any(isinstance(part, ast.Name | ast.Call) for part in ast.walk(default))
    nothing = isinstance(default, ast.Constant) and default.value is None
    return by_method or (_reads(node) and literal and not nothing)


def restated(text: str) -> Iterator[int]:
    """The lines of a module that read an attribute with a default."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.expr) and _has_default(node):
            yield node.lineno


def test_no_attribute_is_read_with_a_default():
    found: list[str] = []
    for path in sorted(ROOT.rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        text = path.read_text()
        if "attribute" in text and not name.startswith(EXEMPT):
            found += [f"{name}:{line}" for line in restated(text)]
    assert not found


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ('axis = op.attributes.get("axis", -1)', [1]),
        ('axis = attributes_of(op).get("axis", 0)', [1]),
        ('\nmode = context.attribute("mode", "constant")', [2]),
        ('pads = anchor.attributes.get("pads") or [0, 0]', [1]),
        ('axis = op["axis"]', []),
        ('attributes.pop("auto_pad", None)', []),
    ],
)
def test_the_guard_sees_defaults(text: str, lines: list[int]):
    assert list(restated(text)) == lines
