"""Graphs that an exported project hands to CUDA, beside those of Python for the same artifact."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from compiler.artifact.artifact import Artifact
from compiler.artifact.generate import export_project
from compiler.artifact.gpu_part import symbols
from compiler.artifact.library import host_sources
from compiler.backends.gpu.driver import FunctionInfo, Handle
from compiler.backends.gpu.executable import GpuExecutable
from compiler.backends.gpu.graph import SETTLED
from compiler.schedule.choices import SCHEDULE, ScheduleChoice
from compiler.schedule.kernels import KernelSpec
from compiler.scheduling import graph_plan
from tests.artifact.projects import export, read_artifact, run, vision_model
from tests.backends.gpu.recording import Node, RecordingDriver
from tests.tools import needs

PROJECT = Path(__file__).parents[2] / "compiler" / "artifact" / "project"
MAIN = PROJECT / "src" / "main.cpp"
STATIC_SHARED = 1024
OPTIONS = (
    "-std=c++17",
    "-DFLOWLOOM_CUDA",
    f"-DSTATIC_SHARED={STATIC_SHARED}",
    f"-I{Path(__file__).parent / 'recorder'}",
    f"-I{PROJECT / 'include'}",
    f"-I{PROJECT / 'src'}",
)
MOVED = 12
"""Runs that moving.cpp does at each place but the first."""
SHARED = (0, 46 << 10, 47 << 10, 48 << 10, 49 << 10)
"""Dynamic shared memory of the launches in turn: within what all kernels have, at it, beyond it."""


class Driver(RecordingDriver):
    """Knows every kernel, and what it has of static shared memory."""

    def function(self, module: Handle, symbol: str) -> Handle:
        return symbol, None

    def function_info(self, function: Handle) -> FunctionInfo:
        return replace(super().function_info(function), shared_bytes=STATIC_SHARED)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    """A network on two streams whose kernels differ in all that graphs depend on."""
    folder = tmp_path_factory.mktemp("graphs")
    export(vision_model(), folder / "project", "emu:sm_90:fp32")
    made = read_artifact(folder / "project-artifact")
    kernels: dict[str, KernelSpec] = {}
    for number, (name, kernel) in enumerate(made.kernels.items()):
        shared, waits = SHARED[number % len(SHARED)], number % 3 > 0
        launches = [replace(x, shared_bytes=shared, programmatic=waits) for x in kernel.launches]
        code: dict[str, Any] = {"language": "cuda", "code": b"\x7fELF"}
        kernels[name] = replace(kernel, launches=tuple(launches), **code)
    return replace(made, kernels=kernels, target="cuda:sm_90:fp32")


@pytest.fixture(scope="module")
def fixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is the same in all projects but for the program, compiled for the recorder."""
    result = tmp_path_factory.mktemp("fixed") / "o"
    run("g++", *OPTIONS, "-r", "-o", result, *host_sources())
    return result


@needs("g++")
@pytest.mark.parametrize(
    ("branch", "priority", "crowded"), [(500.0, -5, 1.7), (3000.0, -4, 1.7), (500.0, -5, 0.5)]
)
def test_projects_make_the_graphs_that_python_makes(
    found: Artifact,
    fixed: Path,
    tmp_path: Path,
    branch: float,
    priority: int,
    crowded: float,
    monkeypatch: pytest.MonkeyPatch,
):
    """`branch` is the cost of a kernel beside the critical path, when others take 1000."""
    monkeypatch.setattr(graph_plan, "CROWDED", crowded)
    (beside,) = {task.kernel for task in found.schedule.tasks if task.stream == 1}
    costs = dict.fromkeys(found.kernels, 1000.0) | {beside: branch}
    found = replace(found, choice=chosen(costs, early=True))
    said = said_by_project(found, fixed, tmp_path)
    expected = [*said_by_python(found), "instantiate by priority", "launch"]
    assert any(line.startswith("early") for line in expected)
    assert any(line.startswith("after") for line in expected)
    assert {line.split()[-1] for line in expected if "priority " in line} == {"-5", f"{priority}"}
    assert len({line for line in expected if line.startswith("allow_shared")}) > 1
    assert any(line.startswith("set_smem_carveout") for line in expected) == (crowded < 1)
    assert set(said) == set(expected)
    nodes = [[line for line in lines if line.startswith("node")] for lines in (said, expected)]
    assert nodes[0] == nodes[1]


@needs("g++")
@pytest.mark.parametrize("early", [True, False])
def test_settled_places_get_a_graph_of_their_own(
    found: Artifact, fixed: Path, tmp_path: Path, early: bool
):
    """Updated graphs run slowly where kernels start early, so one that stays is made anew."""
    choice = chosen(dict.fromkeys(found.kernels, 1000.0), early=early)
    program = Path(__file__).parent / "programs" / "moving.cpp"
    program = built(replace(found, choice=choice), fixed, tmp_path, program)
    runs = run(program, tmp_path / "project" / "weights.bin").split("launch\n")[:-1]
    assert len(runs) == 1 + 2 * MOVED
    for number, lines in enumerate(runs):
        moved, settled = (
            number in (1, 1 + MOVED),
            early and number in (1 + SETTLED, 1 + MOVED + SETTLED),
        )
        assert ("update" in lines) == moved
        assert ("instantiate" in lines) == (number == 0 or settled)


def chosen(costs: dict[str, float], *, early: bool) -> ScheduleChoice:
    """A choice of one graph, with programmatic edges or without."""
    return ScheduleChoice(question=SCHEDULE, mode="graph", costs=costs, chosen="graph", pdl=early)


def said_by_project(found: Artifact, fixed: Path, folder: Path) -> list[str]:
    """What a project's program asks of CUDA in one run on memory of its own."""
    data = ["--data", folder / "project", "--check", "no", "--runs", "0"]
    return run(built(found, fixed, folder, MAIN), *data).splitlines()


def built(found: Artifact, fixed: Path, folder: Path, program: Path) -> Path:
    """A program with a project for the recorder."""
    export_project(found, folder / "project", version="0", check=None)
    names = symbols(found.schedule, found.kernels)
    lines = [f'void* flowloom_{name}() {{ return const_cast<char*>("{name}"); }}' for name in names]
    (folder / "names.cpp").write_text("\n".join(lines) + "\n")
    sources = [folder / "project" / "src" / "plan.cpp", folder / "names.cpp", fixed, program]
    run("g++", *OPTIONS, *sources, "-o", folder / "program")
    return folder / "program"


def said_by_python(found: Artifact) -> Iterator[str]:
    """The same of Python: what it asks of kernels, and the graph of a run on buffers of its own."""
    driver = Driver({})
    assert found.choice is not None
    costs = found.choice.schedule.costs
    options: dict[str, Any] = {"mode": "graph", "pdl": True, "costs": costs}
    loaded = GpuExecutable.load(driver, found.schedule, found.kernels, found.weights, **options)
    asked = (line for line in driver.log if line.startswith(("allow_shared", "set_smem_carveout")))
    yield from (line for line in asked if "_indirect" not in line)
    executor = loaded.executor()
    executor.submit(executor.in_place("input"), outputs=executor.in_place("output"))
    assert "update_call" not in driver.log
    (graph,) = driver.graphs
    numbers = {id(node): number for number, node in enumerate(graph.nodes)}
    for number, node in enumerate(graph.nodes):
        yield node_text(node)
        yield f"priority {number} {node.priority}"
        yield from (f"after {numbers[id(other)]} {number}" for other in node.after)
        yield from (f"early {numbers[id(other)]} {number}" for other in node.early)


def node_text(node: Node) -> str:
    """A kernel's node on one line."""
    assert node.call is not None
    call = node.call
    return f"node {call.symbol} {call.grid} {call.block} {call.shared_bytes}"
