"""Rooms import only what the architecture allows; only one room each touches onnx and TVM."""

import ast
from collections.abc import Iterator, Mapping, Set
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "compiler"
LEAVES = {
    *("schedule", "control", "errors", "nvrtc", "caches", "arguments", "user_files", "dag"),
    *("child_process", "collector", "display", "native_code", "progress"),
}
MAY_IMPORT: dict[str, set[str]] = {
    **{leaf: set[str]() for leaf in LEAVES},
    "target": set(),
    "emulator": set(),
    "ir": {"target"},
    "graph": {"ir", "target"},
    "verify": set(),
    "autotune/timing": set(),
    "choice": {"autotune/timing"},
    "scheduling": {"target", "verify"},
    "scheduling/adapter": {"scheduling", "ir", "graph"},
    "frontend": {"ir", "graph"},
    "passes": {"passes/graph", "passes/schedule", "ir", "graph"},
    "passes/graph": {"passes", "choice", "ir", "graph"},
    "passes/schedule": {"passes", "ir", "graph", "scheduling", "scheduling/adapter", "verify"},
    "kernels/database": set(),
    "kernels/ops": {"kernels", "ir"},
    "kernels/tir": {"kernels", "kernels/ops", "ir", "graph"},
    "kernels/cpu": {
        *("ir", "graph", "target"),
        *("kernels", "kernels/ops", "kernels/tir", "kernels/database"),
    },
    "kernels/gpu": {
        *("choice", "ir", "graph", "target", "emulator"),
        *("kernels", "kernels/ops", "kernels/tir", "kernels/database"),
    },
    "kernels": {
        *("ir", "graph", "target", "emulator", "kernels/database"),
        *("kernels/ops", "kernels/tir", "kernels/cpu", "kernels/gpu"),
        "verify",  # the seal that every built kernel gets
    },
    "backends": {"target"},
    "backends/cpu": {"backends", "target", "verify"},
    "backends/gpu": {
        *("backends", "backends/cpu", "scheduling", "target", "verify"),
    },
    "backends/cuda": {"backends", "backends/gpu", "target"},
    "backends/hip": {"backends", "backends/cpu", "backends/gpu", "target", "verify"},
    "backends/emu": {"backends", "backends/gpu", "emulator", "target"},
    "export": {"backends", "backends/cpu", "backends/gpu", "scheduling", "target", "verify"},
    "prediction": {"autotune/schedule", "graph", "scheduling", "target"},
    "module": {"backends", "export", "prediction", "verify"},
    "user_passes": {"passes"},
    "pipeline": {"ir", "graph", "passes", "verify", "user_passes"},
    "autotune": {"autotune/timing", "backends", "backends/gpu", "choice", "verify"},
    "autotune/schedule": {
        *("autotune", "backends", "backends/gpu", "backends/cuda", "choice"),
        *("ir", "graph", "scheduling", "target", "verify", "pipeline"),
        "scheduling/adapter",
    },
    "autotune/substitution": {
        *("autotune", "autotune/timing", "backends", "backends/gpu", "choice", "passes"),
        "pipeline",
        *("ir", "graph", "kernels", "scheduling", "scheduling/adapter", "target"),
    },
    "requirements": {"backends/cpu", "kernels/cpu", "target"},
    "hip_library": {"backends/hip", "export", "kernels/gpu", "target"},
    "packed_weights": {"graph", "ir"},
    # the semantics that are chosen for a model are the frontend's
    "settings": {
        *("autotune", "autotune/schedule", "backends", "frontend", "kernels", "pipeline"),
        "target",
    },
    "decide": {
        "choice",
        *("autotune/schedule", "autotune/substitution", "backends/gpu", "ir", "kernels"),
        *("packed_weights", "pipeline", "settings", "target"),
    },
    "build": {
        *("autotune", "autotune/schedule", "autotune/substitution", "choice"),
        *("backends", "backends/gpu", "backends/cuda", "backends/hip", "requirements"),
        "hip_library",
        *("ir", "graph", "scheduling", "target", "verify", "frontend", "pipeline"),
        *("kernels", "kernels/cpu", "kernels/gpu", "export", "packed_weights"),
        *("decide", "settings"),
    },
    "program": {
        *("backends", "backends/cuda", "backends/emu", "backends/gpu", "settings"),
        *("build", "export", "frontend", "graph", "kernels", "module", "pipeline", "target"),
    },
    "session": {
        *("backends", "backends/cuda", "backends/emu", "backends/gpu", "backends/hip"),
        *("frontend", "module"),
    },
    "backend": {"session"},
    "interop": {"backends", "frontend", "module", "target"},  # PyTorch's semantics
    "autotune/kernels": {
        *(
            "autotune",
            "autotune/schedule",
            "autotune/substitution",
            "autotune/timing",
            "backends",
            "backends/cpu",
            "backends/gpu",
            "build",
            "choice",
            "frontend",
            "settings",
        ),
        *("ir", "graph", "target", "pipeline"),
        *("kernels", "kernels/cpu", "kernels/database", "kernels/gpu"),
    },
}
"""The imports that each room, sub-room or file may have besides itself and the leaves."""
SUBROOMS = {room for room in MAY_IMPORT if "/" in room}
ONLY_IMPORTER = {
    "onnx": {"backend", "frontend", "program", "session", "tools"},
    "torch": {"interop"},
    "onnxscript": {"interop"},
    "tvm": {"kernels"},
    "tvm_ffi": {"kernels"},
    "cryptography": {"export"},
}
WITHOUT_XDSL = (
    "schedule",
    "errors",
    "nvrtc",
    "caches",
    "arguments",
    "child_process",
    "dag",
    "progress",
    "target",
    "emulator",
    "verify",
    "choice",
    "scheduling",
    "backends",
    "export",
    "display",
    "module",
)


def import_statements(path: Path) -> Iterator[ast.Import | ast.ImportFrom]:
    """The imports of a file at run time, also inside functions."""
    tree = ast.parse(path.read_text())
    checked = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for statement in node.body
        for inner in ast.walk(statement)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom) and node not in checked:
            yield node


def imports(path: Path) -> set[str]:
    """The names that a file imports, and the modules that they come from."""
    found: set[str] = set()
    for node in import_statements(path):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        else:
            assert node.level == 0, f"{path}: relative import"
            found |= {node.module or ""} | {f"{node.module}.{a.name}" for a in node.names}
    return found


def imported(path: Path, modules: Set[str]) -> set[str]:
    """Those of some modules that a file imports: not the package of an imported module."""
    found: set[str] = set()
    for node in import_statements(path):
        origin = "" if isinstance(node, ast.Import) else node.module or ""
        full = (f"{origin}.{alias.name}".removeprefix(".") for alias in node.names)
        found |= {name if name in modules else origin for name in full}
    return found & modules


def room_of(name: str) -> str:
    """The room of a module: a folder or a folder in it that has its own rule, or a module."""
    parts = name.split(".")[1:]
    nested = "/".join(parts[:2])
    return nested if nested in SUBROOMS else parts[0] if parts else "__init__"


def module_of(path: Path) -> str:
    """The dotted name of a file's module."""
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


FILES = sorted(p for p in ROOT.rglob("*.py") if p.stat().st_size)


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_a_room_imports_only_what_it_may(path: Path):
    room = room_of(module_of(path))
    if room in ("__init__", "__main__", "tools"):
        pytest.skip("may import everything")
    used = {room_of(name) for name in imports(path) if name.startswith("compiler.")}
    assert used <= MAY_IMPORT[room] | LEAVES | {room}


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_one_room_imports_each_heavy_library(path: Path):
    room = room_of(module_of(path)).split("/")[0]
    used = {name.split(".")[0] for name in imports(path)}
    for library, rooms in ONLY_IMPORTER.items():
        assert library not in used or room in rooms, f"{library} in {room}"
    if room in WITHOUT_XDSL and room_of(module_of(path)) != "scheduling/adapter":
        assert "xdsl" not in used


def cycle(modules: Mapping[str, set[str]]) -> list[str]:
    """Modules that form an import cycle; empty where there are none."""
    try:
        TopologicalSorter(modules).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def test_a_cycle_is_found():
    assert cycle({"a": {"b"}, "b": {"c"}, "c": set[str]()}) == []
    assert set(cycle({"a": {"b"}, "b": {"c"}, "c": {"b"}})) == {"b", "c"}


def test_no_modules_import_each_other_also_inside_functions():
    files = {module_of(path): path for path in FILES}
    assert cycle({name: imported(path, files.keys()) for name, path in files.items()}) == []
