"""A compiled model as a C++17 project that needs nothing but the CUDA or HIP runtime.

The project's own files are in `project/`; what depends on the model is generated: `src/plan.cpp`,
a file for each kernel, `model.cmake`, `weights.bin`, and inputs and outputs to check against.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

import numpy

from compiler.analysis.devices import device_of, only_architecture
from compiler.backends.base import Array
from compiler.backends.gpu.image import weights_layout, write_weights_image
from compiler.backends.gpu.plan import Plan, plan
from compiler.errors import ArtifactError
from compiler.export.artifact import Artifact
from compiler.export.plan_text import URGENCY, plan_text
from compiler.schedule import KernelSpec, Schedule

MARK = "model.cmake"
"""The file by which a directory is known to be an exported project."""

PLATFORM_HEADERS = ("instructions.cuh", "half.cuh", "warpgroups.cuh")
"""Headers of kernels that platforms have of their own; warpgroups are not on AMD."""

TOLERANCES = {"fp32": 1e-4, "tf32": 5e-3, "fp16": 5e-3, "bf16": 4e-2}
"""Allowed relative error of outputs in the Euclidean norm, by the precision of contractions."""


@dataclass(frozen=True)
class Check:
    """Inputs, what the model makes of them, and how far a run may be from that.

    `tolerance` bounds each output's relative error in the Euclidean norm; 0 asks for equal bits.
    """

    inputs: Mapping[str, Array]
    outputs: Mapping[str, Array]
    tolerance: float


def export_project(
    artifact: Artifact, directory: str | os.PathLike[str], *, version: str, check: Check | None
) -> None:
    """Write the project beside its place, then move it there; an older project is replaced.

    Raises ArtifactError if kernels have no source (compile for a GPU) or the place is taken.
    """
    place = Path(os.path.abspath(directory))
    _check_artifact(artifact)
    if place.exists() and any(place.iterdir()) and not (place / MARK).is_file():
        raise ArtifactError(f"{place} exists and is no exported project: choose another directory")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{place.name}.", dir=place.parent) as temporary:
            new = Path(temporary) / "new"
            write_project(artifact, new, version, check)
            if place.exists():
                place.rename(Path(temporary) / "old")
            new.rename(place)
    except OSError as error:
        raise ArtifactError(f"cannot write {place}: {error.strerror}") from error


def _check_artifact(artifact: Artifact) -> None:
    lacking = [name for name, kernel in artifact.kernels.items() if not kernel.source]
    if lacking:
        raise ArtifactError(
            f"the kernels of target {artifact.target} have no C++ source (such as {lacking[0]}): "
            "compile the model with --target cuda, hip or emu"
        )


def write_project(artifact: Artifact, place: Path, version: str, check: Check | None) -> None:
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
        _write_check(place / "check", schedule, check)


def planned_for(artifact: Artifact) -> Plan:
    """The edges, order and priorities of an artifact's graphs."""
    costs: Mapping[str, float] = (artifact.choice or {"costs": {}})["costs"]
    device = device_of(artifact.target.split(":")[1].partition(",")[0])
    return plan(artifact.schedule, artifact.kernels, costs, device, URGENCY)


def label_of(artifact: Artifact, version: str) -> str:
    """What a library says that it was built for."""
    return f"{artifact.schedule.name} {version} {artifact.target}"


def plan_source(artifact: Artifact, planned: Plan, label: str, tolerance: float) -> str:
    """The text of plan.cpp."""
    choice: Mapping[str, Any] = artifact.choice or {"mode": "graph"}
    return plan_text(
        planned,
        artifact.kernels,
        version=label,
        mode=choice["mode"],
        early=choice.get("pdl", False),
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
    folder = resources.files("compiler") / "kernels" / "cuda"
    return {f.name: f.read_text() for f in folder.iterdir() if f.name.endswith(".cuh")}


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
    """A file of one kernel: includes, then everything else in a namespace of its own."""
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
    """A specialisation of a header's template where C++ takes it: behind the kernel's namespace."""
    text = found[0].replace("<Problem>", f"<{name}::Problem>", 1)
    return f"}}  // namespace {name}\n\n{text}\nnamespace {name} {{\n"


def _printable(text: str) -> str:
    """Text on one line of a comment that no backslash continues."""
    return "".join(c if c.isprintable() and c != "\\" else "?" for c in text)


def _write_check(place: Path, schedule: Schedule, check: Check) -> None:
    place.mkdir()
    for kind, arrays in (("input", check.inputs), ("output", check.outputs)):
        with (place / f"{kind}s.bin").open("wb") as file:
            for allocation in schedule.of_kind("input" if kind == "input" else "output"):
                file.write(numpy.ascontiguousarray(arrays[allocation.name]).tobytes())


def _model_cmake(artifact: Artifact) -> str:
    """What CMakeLists.txt needs to know of the model."""
    launches = [launch for kernel in artifact.kernels.values() for launch in kernel.launches]
    shared = max((launch.shared_bytes for launch in launches), default=0)
    values = {**_architectures(artifact), "SHARED_BYTES": str(shared)}
    lines = [f'set(FLOWLOOM_{name} "{value}")\n' for name, value in values.items()]
    files = "".join(f"  kernels/{name}.cu\n" for name in artifact.kernels)
    return "# Generated by Flowloom.\n" + "".join(lines) + f"set(FLOWLOOM_KERNELS\n{files})\n"


def _architectures(artifact: Artifact) -> dict[str, str]:
    """Which architectures the kernels are built for by default, and which they can run on."""
    named = artifact.target.split(":")[1]
    amd = named.startswith("gfx")
    oldest = "80" if amd else named.removeprefix("sm_").rstrip("af")
    only = {name: only_architecture(k.source) for name, k in artifact.kernels.items()}
    kernel = next((name for name, architecture in only.items() if architecture), "")
    alone = (only.get(kernel) or "").removeprefix("sm_")
    return {
        "CUDA_ARCHITECTURES": alone or oldest,
        "CUDA_OLDEST": oldest,
        "CUDA_ONLY": alone,
        "CUDA_ONLY_KERNEL": kernel,
        "HIP_ARCHITECTURES": named.replace(",", ";") if amd else "gfx90a;gfx1030",
        "EMU_ARCHITECTURES": "",
    }


def _readme(artifact: Artifact, planned: Plan, label: str) -> str:
    tensors = "".join(
        f"| {a.kind} | {a.name} | {a.dtype} | {list(a.shape)} |\n"
        for a in artifact.schedule.allocations
        if a.kind in ("input", "output")
    )
    template = (resources.files("compiler.export") / "project" / "README.md").read_text()
    values = _architectures(artifact)
    alone, oldest = values["CUDA_ONLY"], values["CUDA_OLDEST"]
    several = f"{oldest};90a" if int(oldest) < 90 else oldest
    return Template(template).substitute(
        label=label,
        cuda=alone or several,
        runs_on=f"sm_{alone} alone" if alone else f"sm_{oldest} and newer",
        tensors=tensors,
        tasks=len(planned.schedule.tasks),
        streams=planned.schedule.streams,
        kernels=len(artifact.kernels),
    )
