"""Only compiler/target knows the text form of targets and their classes."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = [
    path
    for room in ("compiler", "benchmarks", "tests", "examples")
    for path in sorted((ROOT / room).rglob("*.py"))
    if path.is_relative_to(ROOT / room) and "target" not in path.relative_to(ROOT).parts[1:2]
]
SPLITTERS = {"split", "rsplit", "partition", "rpartition", "startswith", "removeprefix"}
BEGINNING = re.compile(r"(cpu|cuda|hip|emu|gfx):?")


SPLITS = rf"\.({'|'.join(SPLITTERS)})\("


def trees(needed: str) -> dict[str, ast.Module]:
    """The syntax tree of each file that has a match of a pattern, by its path."""
    texts = {str(path.relative_to(ROOT)): path.read_text() for path in SOURCES}
    return {name: ast.parse(text) for name, text in texts.items() if re.search(needed, text)}


def splits(tree: ast.AST) -> list[str]:
    """The calls that take a target's text apart."""
    return [
        ast.unparse(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in SPLITTERS
        and _is_target(node)
    ]


def _is_target(call: ast.Call) -> bool:
    """Whether a call's text is named a target, or is compared with a target's first word."""
    assert isinstance(call.func, ast.Attribute)
    named = "target" in ast.unparse(call.func.value)
    texts = [node.value for node in ast.walk(call) if isinstance(node, ast.Constant)]
    words = [text for text in texts if isinstance(text, str) and BEGINNING.fullmatch(text)]
    return bool(words) or (named and ":" in texts)


def class_checks(tree: ast.AST) -> list[str]:
    """The checks of a target's class, also by type() and by patterns."""
    checks = [
        node
        for node in ast.walk(tree)
        if (isinstance(node, ast.Call) and _name(node.func) in ("isinstance", "type"))
        or isinstance(node, ast.MatchClass)
    ]
    classes = re.compile(r"\b(Cpu|Gpu|Cuda|Hip|Emulated)?Target\b|\btype\(target\)")
    return [text for text in map(ast.unparse, checks) if classes.search(text)]


def _name(function: ast.expr) -> str:
    return function.id if isinstance(function, ast.Name) else ""


@pytest.mark.parametrize(
    "text",
    [
        "kind, _, rest = target.partition(':')",
        "module.target.split(':')[1]",
        "str(target).rpartition(':')",
        "settings.target.startswith('hip:')",
        "arch.startswith('gfx')",
    ],
)
def test_a_text_taken_apart_is_found(text: str):
    assert splits(ast.parse(text))


def test_a_class_that_is_asked_for_is_found():
    text = "isinstance(x, CudaTarget | Spec)\ntype(target) is GpuTarget\nisinstance(x, str)"
    assert len(class_checks(ast.parse(text))) == 2


def test_targets_are_taken_apart_in_one_room():
    found = {name: splits(tree) for name, tree in trees(SPLITS).items()}
    assert {name: calls for name, calls in found.items() if calls} == {}


def test_nothing_asks_for_the_class_of_a_target():
    found = {name: class_checks(tree) for name, tree in trees("Target|type\\(target").items()}
    assert {name: calls for name, calls in found.items() if calls} == {}
