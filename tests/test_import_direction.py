"""Rooms import only what the architecture allows; only one room each touches onnx and TVM."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "compiler"
LEAVES = {"schedule", "errors", "nvrtc", "caches", "arguments"}
MAY_IMPORT: dict[str, set[str]] = {
    "ir": set(),
    "analysis": {"ir"},
    "passes": {"ir", "analysis", "export"},
    "frontend": {"ir", "analysis"},
    "emulator": set(),
    "kernels": {"ir", "analysis", "emulator"},
    "backends": {"ir", "analysis", "emulator"},
    "profile": {"ir", "analysis", "backends"},
    "export": {"ir", "analysis", "backends", "emulator"},
    "user_passes": {"analysis", "passes"},
    "pipeline": {"ir", "analysis", "passes", "user_passes"},
    "module": {"analysis", "backends", "export"},
    "choice": {"ir", "analysis", "backends", "passes", "pipeline", "profile"},
    "build": {"ir", "analysis", "frontend", "kernels", "pipeline", "backends", "choice", "export"},
    "tuning": {
        *("ir", "analysis", "backends", "profile"),
        *("build", "choice", "frontend", "kernels", "pipeline"),
    },
    "schedule": set(),
    "errors": set(),
    "nvrtc": set(),
    "caches": set(),
    "arguments": set(),
}
ONLY_IMPORTER = {"onnx": {"frontend", "tools"}, "tvm": {"kernels"}, "tvm_ffi": {"kernels"}}
WITHOUT_XDSL = (
    "schedule",
    "errors",
    "nvrtc",
    "caches",
    "arguments",
    "emulator",
    "backends",
    "profile",
    "export",
    "module",
)


def imports(path: Path) -> set[str]:
    """Every module that a file imports at run time, also inside functions."""
    tree = ast.parse(path.read_text())
    checked = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for statement in node.body
        for inner in ast.walk(statement)
    }
    found: set[str] = set()
    for node in ast.walk(tree):
        if node in checked:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found |= {node.module or ""} | {f"{node.module}.{a.name}" for a in node.names}
    return found


def room_of(path: Path) -> str:
    """The room of a file: a folder of the package, or a module at its top."""
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


FILES = sorted(p for p in ROOT.rglob("*.py") if p.stat().st_size)


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_a_room_imports_only_what_it_may(path: Path):
    room = room_of(path)
    if room in ("__init__", "tools"):
        pytest.skip("may import everything")
    used = {name.split(".")[1] for name in imports(path) if name.startswith("compiler.")}
    assert used <= MAY_IMPORT[room] | LEAVES | {room}


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_one_room_imports_each_heavy_library(path: Path):
    room = room_of(path)
    used = {name.split(".")[0] for name in imports(path)}
    for library, rooms in ONLY_IMPORTER.items():
        assert library not in used or room in rooms, f"{library} in {room}"
    if room in WITHOUT_XDSL:
        assert "xdsl" not in used
