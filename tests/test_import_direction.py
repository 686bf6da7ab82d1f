"""Rooms import only what docs/architecture.md says; one room each touches onnx, TVM and PyTorch."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Set
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parent.parent / "compiler"
PAGE = ROOT.parent / "docs" / "architecture.md"

EVERYWHERE = {"errors", "progress", "support", "tensors"}
"""Rooms that all those above them in the page's table may import."""

TOP = {"__init__", "__main__", "tools"}
"""Rooms that may import everything."""

ONLY_IMPORTER = {
    "onnx": {"backend", "frontend", "interfaces", "program", "tools"},
    "torch": {"interfaces"},
    "onnxscript": {"interfaces"},
    "tvm": {"kernels"},
    "tvm_ffi": {"kernels"},
    "cryptography": {"artifact"},
}

WITHOUT_XDSL = {
    *("errors", "progress", "support", "tensors", "target", "schedule", "display", "choice", "net"),
    *("verify", "scheduling", "emulator", "backends", "artifact"),
}

DEFERRED = {
    "__init__.py": "speed: `load` needs no compiler",
    "artifact/module.py": "a loaded module runs without xDSL, which its prediction needs",
    "autotune/kernels/kernel_tuner.py": "speed: TVM, only where kernels are measured",
    "autotune/substitution/costs.py": "speed: TVM, only where a graph has an attention",
    "autotune/substitution/kernels.py": "speed: TVM, only where the cache has not the kernel",
    "driver/build.py": "speed: TVM, only where a GPU's kernels are dumped",
    "frontend/interpreter/suppression.py": "speed: llvmlite, only where boxes are suppressed",
    "interfaces/torch/entry.py": "PyTorch is an extra",
    "kernels/building/kernel.py": "speed: how GPUs' kernels are built, only for them",
    "kernels/building/module.py": "speed: TVM, only where the cache has not the kernel",
    "kernels/building/select.py": "speed: GPUs' templates, only for them",
    "kernels/building/workers.py": "speed: TVM, only in workers",
    "scheduling/inner_loops.py": "speed: llvmlite, only where something is simulated",
    "tools/cli/commands/check.py": "speed: a saved module is checked without xDSL",
    "tools/cli/main.py": "speed: only where the user has operators",
    "tools/api/compilation.py": "speed: only where a model is a program, or checks itself",
    "tools/api/keeping.py": "speed: a model that is compiled again is read without the compiler",
    "tools/cli/opening.py": "speed: the driver of GPUs, only where a model is compiled for one",
    "tools/explore/sources.py": "speed: TVM, only where the page shows it",
}
"""The files that import modules of ours inside functions, with the reason."""


def module_of(path: Path) -> str:
    """The dotted name of a file's module."""
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


FILES = {module_of(path): path for path in sorted(ROOT.rglob("*.py")) if path.stat().st_size}


@cache
def statements(path: Path) -> tuple[list[ast.stmt], list[ast.stmt]]:
    """The imports of a file at run time: those of the module, and those in its functions."""
    tree = ast.parse(path.read_text())
    checked = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for statement in node.body
        for inner in ast.walk(statement)
    }
    inside = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for inner in ast.walk(node)
    }
    imports = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom) and node not in checked
    ]
    return [n for n in imports if n not in inside], [n for n in imports if n in inside]


def names(statement: ast.stmt) -> Iterator[str]:
    """The modules that a statement imports: not the package of an imported module of ours."""
    if isinstance(statement, ast.Import):
        yield from (alias.name for alias in statement.names)
    elif isinstance(statement, ast.ImportFrom):
        assert statement.level == 0, f"relative import in line {statement.lineno}"
        for alias in statement.names:
            full = f"{statement.module}.{alias.name}"
            yield full if full in FILES else statement.module or ""


def imported(path: Path) -> set[str]:
    """The modules that a file imports at run time, also inside functions."""
    above, inside = statements(path)
    return {name for statement in [*above, *inside] for name in names(statement)}


def table(heading: str) -> list[tuple[list[str], list[str]]]:
    """The first and the last column of the table of a page that begins with a heading."""
    lines = PAGE.read_text().split(f"| {heading} |")[1].split("\n\n")[0].splitlines()[2:]
    cells = [line.removeprefix("|").removesuffix("|").split("|") for line in lines]
    rows = [(re.findall(r"`([\w/]+)", first), last) for first, *_, last in cells]
    return [([r.strip("/") for r in rooms], re.findall(r"[\w/]+", last)) for rooms, last in rows]


ROWS = table("room")
ALLOWED = {room: set(imports) for rooms, imports in ROWS for room in rooms}
ORDER = {room: number for number, (rooms, _) in enumerate(ROWS) for room in rooms}
PARTS = {part: set(siblings) for parts, siblings in table("part of a room") for part in parts}


def room_of(module: str, rooms: Set[str] | Mapping[str, object] = ALLOWED) -> str:
    """The room of a module: a folder with a row in a table, the innermost one, or a module."""
    parts = module.split(".")[1:] or ["__init__"]
    nested = "/".join(parts[:2])
    return nested if nested in rooms else parts[0]


def arrows() -> Iterator[tuple[str, str]]:
    """Each module and a module of ours that it imports."""
    for module, path in FILES.items():
        yield from ((module, name) for name in sorted(imported(path) & FILES.keys()))


def test_the_page_lists_every_room_lowest_first():
    rooms = {room_of(module) for module in FILES}
    assert rooms == ALLOWED.keys()
    upward = [
        f"{room}: {other} is not above it in the table"
        for room, others in ALLOWED.items()
        if room not in TOP
        for other in others - {"__init__"}
        if ORDER[other] >= ORDER[room]
    ]
    assert not upward, "\n".join(upward)


def test_rooms_import_only_what_the_page_says():
    wrong = [
        f"{module} imports {name}: {room} may import {', '.join(sorted(ALLOWED[room]))}"
        for module, name in arrows()
        if (room := room_of(module)) not in TOP
        and (other := room_of(name)).split("/")[0] != room.split("/")[0]
        and other not in ALLOWED[room]
        and (other not in EVERYWHERE or ORDER[other] >= ORDER[room])
    ]
    assert not wrong, "\n".join(wrong)


def test_parts_of_a_room_import_only_what_the_page_says():
    wrong = [
        f"{module} imports {name}: {part} may import {', '.join(sorted(PARTS[part]))}"
        for module, name in arrows()
        if (part := room_of(module, PARTS)) in PARTS
        and (other := room_of(name, PARTS)).split("/")[0] == part.split("/")[0]
        and other not in {part, *PARTS[part]}
    ]
    assert not wrong, "\n".join(wrong)


def test_one_room_imports_each_heavy_library():
    wrong: list[str] = []
    for module, path in FILES.items():
        room = room_of(module).split("/")[0]
        used = {name.split(".")[0] for name in imported(path)}
        wrong += [
            f"{module} imports {library}"
            for library, rooms in ONLY_IMPORTER.items()
            if library in used and room not in rooms
        ]
        if room in WITHOUT_XDSL and "xdsl" in used:
            wrong.append(f"{module} imports xdsl")
    assert not wrong, "\n".join(wrong)


def test_deferred_imports_have_a_reason():
    found: dict[str, list[str]] = defaultdict(list)
    for path in FILES.values():
        for name in (name for statement in statements(path)[1] for name in names(statement)):
            if name in FILES:
                found[path.relative_to(ROOT).as_posix()].append(name)
    unexplained = {path: names for path, names in found.items() if path not in DEFERRED}
    assert not unexplained
    assert not DEFERRED.keys() - found.keys()


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
    assert cycle({name: imported(path) & FILES.keys() for name, path in FILES.items()}) == []


def folder_of(module: str, depth: int) -> str:
    """The folder of a module down to a depth below `compiler`; a module at the top is itself."""
    parts = FILES[module].relative_to(ROOT).with_suffix("").parts
    return "/".join(parts[:-1][:depth]) or parts[0]


def folder_cycle(imports: Iterable[tuple[str, str]], depth: int) -> list[str]:
    """Folders, down to a depth, that form an import cycle; empty where there are none."""
    folders: dict[str, set[str]] = defaultdict(set)
    for module, name in imports:
        one, other = folder_of(module, depth), folder_of(name, depth)
        if one != other and not {one, other} & {"__init__", "__main__"}:
            folders[one].add(other)
    return cycle(folders)


def test_a_cycle_of_a_folder_and_its_sub_folder_is_found():
    down = ("compiler.passes.pipeline", "compiler.passes.base.kinds")
    up = ("compiler.passes.base.kinds", "compiler.passes.runner")
    assert folder_cycle([down], 2) == []
    assert folder_cycle([down, up], 1) == []
    assert set(folder_cycle([down, up], 2)) == {"passes", "passes/base"}


def test_no_folders_import_each_other_at_any_depth():
    deepest = max(len(path.relative_to(ROOT).parts) for path in FILES.values())
    circles = {depth: folder_cycle(arrows(), depth) for depth in range(1, deepest)}
    assert not any(circles.values()), circles
