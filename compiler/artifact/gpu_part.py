"""The part of an exported project that runs a model on GPUs: kernels as text, tasks as tables."""

import re
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from importlib import resources
from pathlib import Path

from compiler.artifact.artifact import Artifact
from compiler.artifact.plan_text import braced, cpp_record, cpp_table
from compiler.artifact.project_parts import ProjectPart
from compiler.backends.gpu.functions import SMEM_CARVEOUT
from compiler.errors import ArtifactError
from compiler.schedule.kernels import KernelSpec, Launch
from compiler.schedule.tasks import Schedule, Task
from compiler.scheduling.graph_plan import GraphPlan, plan_graph
from compiler.scheduling.subflows import subflows
from compiler.support.caches import included_headers
from compiler.target.devices import only_architecture
from compiler.target.target import parse_gpu
from compiler.verify.control import refuse_control

GPU_HEADER = "gpu/tasks.h"
"""The header of the project's `src` that declares the tables."""

URGENCY = (0, 1000)
"""The least and the greatest priority in the tables, which the project scales to its device's."""

OTHER_ARCHITECTURES = "gfx90a;gfx1030"
"""AMD's architectures that a project of a CUDA module is built for by default."""

PLATFORM_HEADERS = (
    *("arrivals.cuh", "bytes.cuh", "half.cuh", "instructions.cuh"),
    *("warpgroups.cuh", "byte_warpgroups.cuh", "wgmma_registers.cuh"),
)
"""Headers of kernels that each platform has; on AMD there are half and instructions alone."""

_PACKAGE = Path(str(resources.files("compiler")))
GPU_KERNELS = _PACKAGE / "kernels" / "gpu"
"""The folder of the headers that kernels include."""
HIP_HEADERS = _PACKAGE / "artifact" / "project" / "kernels" / "hip"
"""The headers that replace some of them on AMD's GPUs."""
EMULATOR = _PACKAGE / "emulator"
EMULATED = EMULATOR / "include"
"""The headers that replace some of them in the emulator."""

CONFIGURATIONS = """\
    cmake -B build -DFLOWLOOM_GPU=CUDA [-DFLOWLOOM_ARCHITECTURES="{cuda}"]
    cmake -B build -DFLOWLOOM_GPU=HIP -DCMAKE_CXX_COMPILER=hipcc [-DFLOWLOOM_ARCHITECTURES="{hip}"]
"""
"""How a project is configured for each platform."""

CONFIGURED_EMULATOR = "    cmake -B build -DFLOWLOOM_GPU=EMU\n"
"""How it is for the emulator, where the project has it."""


def gpu_part(artifact: Artifact, emulator: bool) -> ProjectPart:
    """The part of a project for CUDA, HIP and, if asked for, the emulator.

    It has the headers that its kernels include, and no others. Raises ArtifactError if kernels have
    no source, or a run decides what is launched.
    """
    refuse_control(
        artifact.schedule,
        "a C++ project",
        "run the module instead, or compile the model for hip, which divides it there",
    )
    lacking = [name for name, kernel in artifact.kernels.items() if not kernel.source]
    if lacking:
        raise ArtifactError(
            f"the kernels of target {artifact.target} have no C++ source (such as {lacking[0]}): "
            "compile the model again"
        )
    architectures = _architectures(artifact)
    exclusive = architectures["CUDA_ONLY"]
    oldest = architectures["CUDA_OLDEST"]
    cuda = exclusive or (f"{oldest};90a" if int(oldest) < 90 else oldest)
    launches = [launch for kernel in artifact.kernels.values() for launch in kernel.launches]
    shared = max((launch.shared_bytes for launch in launches), default=0)
    kernels = _kernel_texts(artifact)
    included = _included(kernels.values())
    on_amd = {path.name for path in HIP_HEADERS.iterdir()}
    emulated = CONFIGURED_EMULATOR if emulator else ""
    return ProjectPart(
        name="gpu",
        foreign=(
            *("cpu*", "aarch64.cmake"),
            *(on_amd - included),
            *(() if emulator else ("gpu_emulator.h",)),
        ),
        header=GPU_HEADER,
        plan=gpu_plan(artifact),
        files=kernels | _headers(included) | (_emulator(included) if emulator else {}),
        sources=[f"kernels/{name}.cu" for name in artifact.kernels],
        variables={**architectures, "SHARED_BYTES": str(shared)},
        readme={
            "files": "a file for each kernel",
            "needs": "The CUDA or HIP runtime is the only dependency.",
            "configure": CONFIGURATIONS.format(cuda=cuda, hip=OTHER_ARCHITECTURES) + emulated,
            "ways": "all modes",
            "runs_on": "On NVIDIA its kernels run on "
            + (f"sm_{exclusive} alone." if exclusive else f"sm_{oldest} and newer."),
        },
    )


def _kernel_texts(artifact: Artifact) -> dict[str, bytes]:
    """A file of each kernel."""
    nodes = nodes_of(artifact.schedule)
    return {
        f"kernels/{name}.cu": kernel_text(kernel, nodes.get(name, [])).encode()
        for name, kernel in artifact.kernels.items()
    }


def _included(texts: Iterable[bytes]) -> set[str]:
    """The names of the headers that kernels include on any platform."""
    variants = dict[str, str]()
    for path in (*GPU_KERNELS.rglob("*.cuh"), *HIP_HEADERS.iterdir(), *EMULATED.iterdir()):
        variants[path.name] = variants.get(path.name, "") + path.read_text()
    return {*included_headers(b"\n".join(texts).decode(), variants)}


def kernel_headers() -> dict[str, str]:
    """The headers that kernels include, by name, in their CUDA form."""
    return {path.name: path.read_text() for path in sorted(GPU_KERNELS.rglob("*.cuh"))}


def _headers(included: Collection[str]) -> dict[str, bytes]:
    return {
        f"kernels/{'cuda/' if name in PLATFORM_HEADERS else ''}{name}": text.encode()
        for name, text in kernel_headers().items()
        if name in included
    }


def _emulator(included: Collection[str]) -> dict[str, bytes]:
    """The emulator's sources, and its form of the headers of kernels."""
    sources = [*EMULATOR.glob("*.cpp"), *EMULATOR.glob("*.h")]
    headers = [p for p in EMULATED.iterdir() if p.suffix == ".h" or p.name in included]
    return {
        **{f"emulator/{path.name}": path.read_bytes() for path in sources},
        **{f"kernels/emu/{path.name}": path.read_bytes() for path in headers},
    }


def gpu_plan(artifact: Artifact) -> str:
    """The tables of plan.cpp that `gpu/tasks.h` declares.

    With `early`, kernels in graphs that wait themselves start before their predecessors have ended.
    """
    schedule = artifact.schedule
    kernels = artifact.kernels
    choice = None if artifact.choice is None else artifact.choice.schedule
    costs: Mapping[str, float] = {} if choice is None else choice.costs
    device = parse_gpu(artifact.target).device
    planned = plan_graph(schedule, kernels, costs, device, URGENCY)
    early = choice is not None and choice.pdl
    works = (_work(planned, i, kernels[t.kernel]) for i, t in enumerate(schedule.tasks))
    partitions = [
        f"{{{u.stream}, {braced(u.tasks)}, {braced(u.after)}}}" for u in subflows(schedule)
    ]
    return (
        "".join(f"void* flowloom_{symbol}();\n" for symbol in symbols(schedule, kernels))
        + "\nnamespace flowloom {\nnamespace {\n\n"
        + cpp_table("Work", "work", works,
                columns="urgency, after, launches: {function, grid, block, shared, waits itself, "
                "arguments: {allocation, offset}}")
        + cpp_table("Partition", "partitions", partitions, columns="stream, tasks, after")
        + cpp_table("size_t", "insertion", map(str, planned.order),
                columns="tasks in the order in which a graph gets them")
        + "}  // namespace\n\n"
        + cpp_record("GpuPlan", "gpu_plan", [str(early).lower(),
                 str(SMEM_CARVEOUT if planned.crowded else -1), str(schedule.streams),
                 f"{{work, {len(schedule.tasks)}}}", f"{{partitions, {len(partitions)}}}",
                 f"{{insertion, {len(planned.order)}}}"])
        + "}  // namespace flowloom\n"
    )  # fmt: skip


def symbols(schedule: Schedule, kernels: Mapping[str, KernelSpec]) -> list[str]:
    """The functions that a schedule launches, once each."""
    names = dict.fromkeys(task.kernel for task in schedule.tasks)
    return [launch.symbol for name in names for launch in kernels[name].launches]


def _work(plan: GraphPlan, index: int, kernel: KernelSpec) -> str:
    task = plan.schedule.tasks[index]
    launches = ",\n      ".join(_launch(task, launch) for launch in kernel.launches)
    return f"{{{plan.priorities[index]}, {braced(plan.before[index])},\n     {{{launches}}}}}"


def _launch(task: Task, launch: Launch) -> str:
    buffers = (*task.reads, *task.writes)
    views = (f"{{{buffers[i].allocation}, {buffers[i].offset}}}" for i in launch.args)
    sizes = f"{braced(launch.grid)}, {braced(launch.block)}, {launch.shared_bytes}"
    sizes += f", {str(launch.programmatic).lower()}"
    return f"{{flowloom_{launch.symbol}, {sizes}, {braced(views)}}}"


def nodes_of(schedule: Schedule) -> dict[str, list[str]]:
    """The ONNX nodes that each kernel computes, a line a task."""
    lines_of: dict[str, list[str]] = {}
    for index, task in enumerate(schedule.tasks):
        lines_of.setdefault(task.kernel, []).append(f"task {index}: {' '.join(task.nodes)}")
    return lines_of


_SPECIALISED = re.compile(
    r"^template <>\nstruct \w+<Problem> \{\n.*?^\};\n", re.MULTILINE | re.DOTALL
)


def kernel_text(kernel: KernelSpec, nodes: list[str]) -> str:
    """A file of one kernel: includes, then everything else in the kernel's namespace."""
    lines = kernel.source.splitlines()
    includes = [line for line in lines if line.startswith("#include")]
    body = "\n".join(line for line in lines if not line.startswith("#include"))
    # C++ allows a specialisation only in a namespace around its template: outside the kernel's.
    body = _SPECIALISED.sub(partial(_outside, kernel.name), body)
    comment = "".join(f"//   {_printable(line)}\n" for line in nodes)
    exports = "".join(f"GPU_EXPORT({launch.symbol})\n" for launch in kernel.launches)
    return (
        f"// {kernel.name}: {kernel.flops} FLOPs, {kernel.traffic_bytes} bytes moved.\n{comment}"
        '#include "flowloom/kernel.h"\n' + "\n".join(includes) + f"\n\nnamespace {kernel.name} {{\n"
        f"{body}\n}}  // namespace {kernel.name}\n\nusing namespace {kernel.name};\n{exports}"
    )


def _outside(name: str, match: re.Match[str]) -> str:
    """A specialisation of a header's template, which must follow the kernel's namespace."""
    text = match[0].replace("<Problem>", f"<{name}::Problem>", 1)
    return f"}}  // namespace {name}\n\n{text}\nnamespace {name} {{\n"


def _printable(text: str) -> str:
    """Text on one line of a comment that no backslash continues."""
    return "".join(c if c.isprintable() and c != "\\" else "?" for c in text)


def _architectures(artifact: Artifact) -> dict[str, str]:
    """Which architectures the kernels are built for by default, and which they can run on."""
    target = parse_gpu(artifact.target)
    oldest = str(target.capability)
    named = ";".join(target.architectures)
    only = {name: only_architecture(k.source) for name, k in artifact.kernels.items()}
    kernel = next((name for name, architecture in only.items() if architecture), "")
    exclusive = (only.get(kernel) or "").removeprefix("sm_")
    return {
        "CUDA_ARCHITECTURES": exclusive or oldest,
        "CUDA_OLDEST": oldest,
        "CUDA_ONLY": exclusive,
        "CUDA_ONLY_KERNEL": kernel,
        "HIP_ARCHITECTURES": named if target.kind == "hip" else OTHER_ARCHITECTURES,
        "EMU_ARCHITECTURES": "",
    }
