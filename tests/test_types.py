"""The type checker is relaxed only where a library leaves types unknown."""

import re
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PYRIGHT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pyright"]
UNTYPED = {"benchmarks", "examples", "compiler/interfaces/torch", "tests/interfaces/torch"}
"""Folders of code that uses PyTorch, which we do not depend on, or is an extra."""

MODULES = [e for e in PYRIGHT["executionEnvironments"] if e["root"] not in UNTYPED]
LIBRARY = re.compile(r"^\s*(import|from) (onnx|tvm|tvm_ffi|z3)\b", re.M)
SOURCES = [path for folder in ("compiler", "tests") for path in (ROOT / folder).rglob("*.py")]
DIRECTIVE = re.compile(r"^# pyright:", re.M)
"""A comment that changes the rules of a whole file."""


def test_everything_is_checked_strictly():
    assert PYRIGHT["typeCheckingMode"] == "strict"
    assert {"compiler", "tests"} <= set(PYRIGHT["include"])
    relaxed = {rule for rule, value in PYRIGHT.items() if rule.startswith("report") and not value}
    assert relaxed == {"reportMissingTypeStubs"}


def test_only_modules_of_untyped_libraries_are_relaxed():
    wrong: list[str] = []
    for module in MODULES:
        root = ROOT / module["root"]
        files = [root] if root.is_file() else sorted(root.glob("*.py"))
        rules = module.keys() - {"root", "extraPaths"}
        wrong += [f"{root}: {r}" for r in rules if not r.startswith("reportUnknown")]
        if not any(LIBRARY.search(file.read_text()) for file in files):
            wrong.append(f"{root}: imports no library without types")
    assert not wrong, "\n".join(wrong)


def test_no_file_relaxes_itself():
    assert [path for path in SOURCES if DIRECTIVE.search(path.read_text())] == []
