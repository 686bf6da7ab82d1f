"""`import flowloom` and `import compiler` give the same public names, and import as little."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import compiler
import flowloom


def test_both_packages_have_the_same_names():
    assert flowloom.__all__ == compiler.__all__
    for name in [*flowloom.__all__, "__version__", "backend"]:
        assert getattr(flowloom, name) is getattr(compiler, name), name


def test_type_checkers_find_each_name_where_it_is_imported_from():
    """Names imported when they are first used have the home that the types say."""
    tree = ast.parse(Path(compiler.__file__).read_text())
    (typed,) = [node for node in tree.body if isinstance(node, ast.If)]
    assert ast.unparse(typed.test) == "TYPE_CHECKING"
    homes = {
        alias.name: node.module
        for node in typed.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    lazy = [name for name in compiler.__all__ if name not in vars(compiler)]
    assert len(lazy) > 15
    for name in lazy:
        assert getattr(compiler, name) is getattr(import_module(str(homes[name])), name), name


def test_a_name_that_is_not_public_is_refused():
    with pytest.raises(AttributeError, match="module 'flowloom' has no attribute 'Path'"):
        _ = flowloom.Path  # pyright: ignore


@pytest.mark.parametrize("name", ["errors", "progress", "backend"])
def test_submodules_have_what_those_of_compiler_have(name: str):
    ours, theirs = import_module(f"flowloom.{name}"), import_module(f"compiler.{name}")
    public = [key for key in vars(theirs) if not key.startswith("_")]
    assert len(public) > 5
    assert all(getattr(ours, key) is getattr(theirs, key) for key in public)


def test_importing_loads_nothing_that_running_does_not_need():
    program = """if True:
        import sys
        import flowloom
        print(*(n for n in ("onnx", "tvm", "xdsl", "llvmlite", "torch") if n in sys.modules))
    """
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == ""


def test_the_package_is_the_command():
    done = subprocess.run(
        [sys.executable, "-m", "flowloom", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"flowloom {flowloom.__version__}\n"
