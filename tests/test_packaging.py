"""An installed Flowloom has every file and every package that it uses, and no other."""

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "compiler"
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
DISTRIBUTIONS = {
    "cuda": "cuda-bindings",
    "PIL": "pillow",
    "google": "protobuf",
    "re2": "google-re2",
    "tvm": "apache-tvm",
    "tvm_ffi": "apache-tvm-ffi",
}
"""The distribution of each import name that differs from it."""

SOURCES_OF_A_PAGE = PACKAGE / "tools" / "explore" / "web"
"""`npm run build` makes page.html of these, which is packaged instead."""


def names(requirements: list[str]) -> set[str]:
    """The distributions of requirements such as `numpy>=2.0` or `pyright[nodejs]`."""
    return {r.partition(">")[0].partition("=")[0].partition("[")[0] for r in requirements}


def imports(path: Path) -> Iterator[str]:
    """The top-level names that a file imports, in functions too."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]


def test_dependencies_are_what_is_imported():
    found = {name for path in PACKAGE.rglob("*.py") for name in imports(path)}
    foreign = found - set(sys.stdlib_module_names) - {"compiler"}
    used = {DISTRIBUTIONS.get(name, name) for name in foreign}
    needed = names(PROJECT["project"]["dependencies"])
    extras: dict[str, list[str]] = PROJECT["project"]["optional-dependencies"]
    optional = {
        name for extra in ("cuda", "images", "torch", "sign") for name in names(extras[extra])
    }
    assert needed <= used
    assert used <= needed | optional


def test_every_dependency_has_its_reason():
    reasons = (ROOT / "docs" / "dependencies.md").read_text()
    project = PROJECT["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    missing = {name for group in groups for name in names(group) if f"`{name}" not in reasons}
    assert not missing


def test_every_data_file_is_packaged():
    patterns: dict[str, list[str]] = PROJECT["tool"]["setuptools"]["package-data"]
    packaged = {
        path
        for package, globs in patterns.items()
        for glob in globs
        for path in (ROOT / package.replace(".", "/")).glob(glob)
    }
    folders = (PACKAGE, ROOT / "flowloom")
    inside = [path for folder in folders for path in folder.rglob("*")]
    files = {p for p in inside if p.is_file() and "__pycache__" not in p.parts}
    files = {p for p in files if SOURCES_OF_A_PAGE not in p.parents}
    assert {p for p in files if p.suffix != ".py"} == packaged


IMPORTED = """
import dataclasses, sys
made, process = [], dataclasses._process_class
dataclasses._process_class = lambda cls, *options: made.append(cls) or process(cls, *options)
import compiler
ours = [name for name in sys.modules if name.partition(".")[0] == "compiler"]
print(len(ours), len(made), *(set(sys.argv[1:]) & set(sys.modules)))
"""
"""Prints how many modules are ours, how many dataclasses were made, and modules not wanted."""

SLOW_IMPORTS = (
    *("onnx", "onnxruntime", "tvm", "xdsl", "llvmlite", "google.protobuf", "cryptography"),
    *("asyncio", "email", "importlib.metadata", "multiprocessing", "ssl", "subprocess", "unittest"),
)
MOST_MODULES, MOST_DATACLASSES = 62, 50
"""With these `import compiler` takes 45 ms and numpy 40: to make a dataclass takes 0.6."""


def test_importing_the_package_imports_no_compiler_and_little_else():
    command = [sys.executable, "-c", IMPORTED, *SLOW_IMPORTS]
    result = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    modules, dataclasses, *slow = result.stdout.split()
    assert slow == []
    assert int(modules) <= MOST_MODULES
    assert int(dataclasses) <= MOST_DATACLASSES
