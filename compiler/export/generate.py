"""A compiled model as a C++17 project that needs nothing but the CUDA or HIP runtime, or a CPU.

The own files of a GPU's project are in `project/`; what depends on the model is generated:
`src/plan.cpp`, a file for each kernel, `model.cmake`, `weights.bin`, and inputs and outputs to
check against. `cpu_project.py` writes a CPU's.
"""

import os
import re
import shutil
from collections.abc import Mapping
from functools import partial
from importlib import resources
from pathlib import Path
from string import Template

from compiler.backends.gpu.image import weights_layout, write_weights_image
from compiler.errors import ArtifactError
from compiler.export.artifact import Artifact
from compiler.export.cpu_project import runs_on_cpu, write_cpu_project
from compiler.export.ownership import keep, own_files, write_list
from compiler.export.plan_text import URGENCY, plan_text
from compiler.export.project_parts import (
    CMAKE_HEAD,
    StoredCheck,
    label_of,
    signature_rows,
    write_check,
)
from compiler.export.replacing import contents, replacing
from compiler.schedule import KernelSpec, Schedule
from compiler.scheduling.graph_plan import GraphPlan, plan_graph
from compiler.target.devices import only_architecture
from compiler.target.target import parse_gpu
from compiler.verify.control import refuse_control

OTHER_ARCHITECTURES = "gfx90a;gfx1030"
"""AMD's architectures that a project of a CUDA module is built for by default."""

MARK = "model.cmake"
"""The file by which a directory is known to be an exported project."""

PLATFORM_HEADERS = (
    *("arrivals.cuh", "bytes.cuh", "half.cuh", "instructions.cuh"),
    *("warpgroups.cuh", "byte_warpgroups.cuh", "wgmma_registers.cuh"),
)
"""Headers of kernels that each platform has; on AMD there are half and instructions alone."""


def export_project(
    artifact: Artifact,
    directory: str | os.PathLike[str],
    *,
    version: str,
    check: StoredCheck | None,
) -> None:
    """Write the project to a temporary directory, then move it; an older project is replaced.

    Files in that project which no export wrote are kept. Raises ArtifactError if kernels have no
    source (compile for a GPU), the place is taken, or a file of the older project was edited.
    """
    place = Path(os.path.abspath(directory))
    _check_artifact(artifact)
    with replacing(place) as new:
        own = _own_files(place)
        write = write_cpu_project if runs_on_cpu(artifact) else write_project
        write(artifact, new, version, check)
        write_list(new)
        keep(own, place, new)


def _own_files(place: Path) -> list[str]:
    """The user's own files in an older project; raises ArtifactError for anything else."""
    if place.is_symlink():
        raise ArtifactError(f"{place} is a link: name the directory that it leads to")
    if not place.exists() or (place.is_dir() and not contents(place)):
        return []
    mark = place / MARK
    if not mark.is_file() or not mark.read_bytes().startswith(CMAKE_HEAD.encode()):
        raise ArtifactError(
            f"{place} exists and is not an exported project: choose another directory"
        )
    return own_files(place)


def _check_artifact(artifact: Artifact) -> None:
    if runs_on_cpu(artifact):
        return
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


def write_project(artifact: Artifact, place: Path, version: str, check: StoredCheck | None) -> None:
    """Write all files of a project into a new directory."""
    schedule, kernels = artifact.schedule, artifact.kernels
    planned = planned_for(artifact)
    label = label_of(artifact, version)
    tolerance = float(check.tolerance) if check else 0.0
    shutil.copytree(Path(str(resources.files("compiler.export") / "project")), place)
    _write_headers(place / "kernels")
    _write_emulator(place)
    files = {
        "src/plan.cpp": plan_source(artifact, planned, label, tolerance),
        MARK: _model_cmake(artifact),
        "README.md": _readme(artifact, planned, label),
    }
    nodes = nodes_of(schedule)
    for name, kernel in kernels.items():
        files[f"kernels/{name}.cu"] = kernel_text(kernel, nodes.get(name, []))
    for name, text in files.items():
        (place / name).write_text(text, encoding="utf-8")
    write_weights_image(place / "weights.bin", schedule, artifact.weights)
    if check is not None:
        write_check(place / "check", schedule, check)


def planned_for(artifact: Artifact) -> GraphPlan:
    """The edges, order and priorities of an artifact's graphs."""
    costs: Mapping[str, float] = {} if artifact.choice is None else artifact.choice.schedule.costs
    device = parse_gpu(artifact.target).device
    return plan_graph(artifact.schedule, artifact.kernels, costs, device, URGENCY)


def plan_source(artifact: Artifact, planned: GraphPlan, label: str, tolerance: float) -> str:
    """The text of plan.cpp."""
    choice = None if artifact.choice is None else artifact.choice.schedule
    return plan_text(
        planned,
        artifact.kernels,
        version=label,
        mode="graph" if choice is None else choice.mode,
        early=choice is not None and choice.pdl,
        weights_layout=weights_layout(artifact.schedule),
        tolerance=tolerance,
    )


def _write_headers(place: Path) -> None:
    """The headers that kernels include: CUDA's own in a folder for CUDA, the others for all."""
    (place / "cuda").mkdir(parents=True, exist_ok=True)
    for name, text in kernel_headers().items():
        where = place / "cuda" if name in PLATFORM_HEADERS else place
        (where / name).write_text(text, encoding="utf-8")


def _write_emulator(place: Path) -> None:
    """The emulator's sources, and the headers that kernels include with it."""
    sources = Path(str(resources.files("compiler.emulator")))
    only_cpp = shutil.ignore_patterns("*.py", "__pycache__", "include")
    shutil.copytree(sources, place / "emulator", ignore=only_cpp)
    shutil.copytree(sources / "include", place / "kernels" / "emu")


def kernel_headers() -> dict[str, str]:
    """The headers that kernels include, by name, in their CUDA form."""
    folder = Path(str(resources.files("compiler"))) / "kernels" / "gpu"
    return {path.name: path.read_text() for path in sorted(folder.rglob("*.cuh"))}


def nodes_of(schedule: Schedule) -> dict[str, list[str]]:
    """The ONNX nodes that each kernel computes, a line a task."""
    found: dict[str, list[str]] = {}
    for index, task in enumerate(schedule.tasks):
        found.setdefault(task.kernel, []).append(f"task {index}: {' '.join(task.nodes)}")
    return found


_SPECIALISED = re.compile(
    r"^template <>\nstruct \w+<Problem> \{\n.*?^\};\n", re.MULTILINE | re.DOTALL
)


def kernel_text(kernel: KernelSpec, nodes: list[str]) -> str:
    """A file of one kernel: includes, then everything else in the kernel's namespace."""
    lines = kernel.source.splitlines()
    includes = [line for line in lines if line.startswith("#include")]
    body = "\n".join(line for line in lines if not line.startswith("#include"))
    body = _SPECIALISED.sub(partial(_outside, kernel.name), body)
    comment = "".join(f"//   {_printable(line)}\n" for line in nodes)
    exports = "".join(f"GPU_EXPORT({launch.symbol})\n" for launch in kernel.launches)
    return (
        f"// {kernel.name}: {kernel.flops} FLOPs, {kernel.traffic_bytes} bytes moved.\n{comment}"
        '#include "flowloom/kernel.h"\n' + "\n".join(includes) + f"\n\nnamespace {kernel.name} {{\n"
        f"{body}\n}}  // namespace {kernel.name}\n\nusing namespace {kernel.name};\n{exports}"
    )


def _outside(name: str, found: re.Match[str]) -> str:
    """A specialisation of a header's template, which must follow the kernel's namespace."""
    text = found[0].replace("<Problem>", f"<{name}::Problem>", 1)
    return f"}}  // namespace {name}\n\n{text}\nnamespace {name} {{\n"


def _printable(text: str) -> str:
    """Text on one line of a comment that no backslash continues."""
    return "".join(c if c.isprintable() and c != "\\" else "?" for c in text)


def _model_cmake(artifact: Artifact) -> str:
    """The model's part of CMakeLists.txt."""
    launches = [launch for kernel in artifact.kernels.values() for launch in kernel.launches]
    shared = max((launch.shared_bytes for launch in launches), default=0)
    values = {**_architectures(artifact), "SHARED_BYTES": str(shared)}
    lines = [f'set(FLOWLOOM_{name} "{value}")\n' for name, value in values.items()]
    files = "".join(f"  kernels/{name}.cu\n" for name in artifact.kernels)
    return CMAKE_HEAD + "".join(lines) + f"set(FLOWLOOM_KERNELS\n{files})\n"


def _architectures(artifact: Artifact) -> dict[str, str]:
    """Which architectures the kernels are built for by default, and which they can run on."""
    target = parse_gpu(artifact.target)
    oldest = str(target.capability)
    named = ";".join(target.architectures)
    only = {name: only_architecture(k.source) for name, k in artifact.kernels.items()}
    kernel = next((name for name, architecture in only.items() if architecture), "")
    alone = (only.get(kernel) or "").removeprefix("sm_")
    return {
        "CUDA_ARCHITECTURES": alone or oldest,
        "CUDA_OLDEST": oldest,
        "CUDA_ONLY": alone,
        "CUDA_ONLY_KERNEL": kernel,
        "HIP_ARCHITECTURES": named if target.kind == "hip" else OTHER_ARCHITECTURES,
        "EMU_ARCHITECTURES": "",
    }


def _readme(artifact: Artifact, planned: GraphPlan, label: str) -> str:
    template = (resources.files("compiler.export") / "project" / "README.md").read_text()
    values = _architectures(artifact)
    alone, oldest = values["CUDA_ONLY"], values["CUDA_OLDEST"]
    several = f"{oldest};90a" if int(oldest) < 90 else oldest
    return Template(template).substitute(
        label=label,
        cuda=alone or several,
        runs_on=f"sm_{alone} alone" if alone else f"sm_{oldest} and newer",
        tensors=signature_rows(artifact.schedule),
        tasks=len(planned.schedule.tasks),
        streams=planned.schedule.streams,
        kernels=len(artifact.kernels),
    )
