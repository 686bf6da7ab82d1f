"""Exported C++ projects: sizes, start, and on a CUDA device their latency next to Python's.

    python benchmarks/export.py ARTIFACT... [--modes graph] [--runs N] [--json FILE] [--peers]
                                            [--one-compiler]

Every artifact is exported with what it computes on random inputs, and built for CUDA, HIP and the
emulator (or for `--platforms`), as far as there are compilers. Sizes are in MB, of libraries
without their symbols. `start` is a process from its start to its end with one run, in seconds (the
least of five). An artifact of target cpu has no project: its start is a Python process's. With
`--peers`, so are those of torch and onnxruntime for ResNet-50, with the sizes of their installed
packages.

On a device all modes must give the same bits, and be as near to Python as the precision allows;
`error` is 0 for Python's own bits. Times are medians of wall microseconds of one run on buffers
that are on the device already, the wait for its end included: from Python, from Python with its
kernels compiled by the project's nvcc, and from C++. `ratio` is C++ to the second, or to the first
with `--one-compiler`, which leaves the second out. `host` is the part of the latency that is not on
the device.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

import compiler
from compiler.artifact import artifact
from compiler.artifact.artifact import Artifact
from compiler.artifact.generate import StoredCheck, export_project
from compiler.artifact.gpu_part import kernel_headers
from compiler.autotune.bindings import timed_run
from compiler.backends.cuda.device import device
from compiler.errors import DeviceError
from compiler.schedule.choices import MODES
from compiler.schedule.kernels import KernelSpec
from compiler.target.devices import compiled_for
from compiler.target.target import parse_target
from compiler.tensors.dtypes import numpy_dtype
from compiler.tools.tolerance import TOLERANCES
from compiler.verify.seals import sealed_kernel

ROUNDS = 3
"""Python and C++ are timed in turn this often, since a device's clock drifts."""

COMPILERS = {"CUDA": "nvcc", "HIP": "hipcc", "EMU": "g++"}
"""The compiler of a project for each platform."""

PYTHON = """
import sys, numpy, compiler
module = compiler.load(sys.argv[1])
module.run({i.name: numpy.zeros(i.shape, i.dtype) for i in module.inputs})
"""

TORCH = """
import torch, torchvision
device = "cuda" if torch.cuda.is_available() else "cpu"
model = torchvision.models.resnet50().to(device).eval()
with torch.inference_mode():
    print(device, model(torch.zeros(1, 3, 224, 224, device=device)).sum().item())
"""

ONNXRUNTIME = """
import sys, numpy, onnxruntime
session = onnxruntime.InferenceSession(sys.argv[1], providers=onnxruntime.get_available_providers())
given = session.get_inputs()[0]
image = numpy.zeros(given.shape, numpy.float32)
print(session.get_providers(), session.run(None, {given.name: image})[0].sum())
"""


def random_inputs(found: Artifact) -> dict[str, Any]:
    """Normal floats, and integers that are 0 or 1."""
    chance = np.random.default_rng(0)
    arrays: dict[str, Any] = {}
    for allocation in found.schedule.of_kind("input"):
        floats = "float" in allocation.dtype
        values = (
            chance.standard_normal(allocation.shape)
            if floats
            else chance.integers(0, 2, allocation.shape)
        )
        arrays[allocation.name] = values.astype(numpy_dtype(allocation.dtype))
    return arrays


def present() -> str | None:
    """The architecture of the CUDA device, if there is one."""
    with suppress(DeviceError):
        return device().device.architecture
    return None


def build(project: Path, platform: str, architecture: str | None) -> Path:
    """Build a project with CMake, or with nvcc alone where there is none; the folder."""
    folder = project / f"build-{platform}"
    if not shutil.which("cmake"):
        return _build_by_nvcc(project, folder, architecture or "sm_80")
    options = [f"-DFLOWLOOM_GPU={platform}"]
    if platform == "HIP":
        options += ["-DCMAKE_CXX_COMPILER=hipcc"]
    if platform == "CUDA" and architecture:
        options += [f"-DFLOWLOOM_ARCHITECTURES={architecture.removeprefix('sm_')}"]
    command("cmake", "-S", project, "-B", folder, *options)
    command("cmake", "--build", folder, "-j")
    return folder


def _build_by_nvcc(project: Path, folder: Path, architecture: str) -> Path:
    folder.mkdir()
    virtual = architecture.replace("sm_", "compute_")  # -arch=sm_90a would stand for compute_90 too
    code = f"-gencode=arch={virtual},code=[{virtual},{architecture}]"
    common = ["nvcc", "-DFLOWLOOM_CUDA", "-O3", "-std=c++17", code]
    includes = [f"-I{project / path}" for path in ("include", "src", "kernels/cuda", "kernels")]
    sources = [*project.glob("kernels/*.cu"), *project.glob("src/**/*.cpp")]

    def compiled(source: Path) -> Path:
        result = folder / f"{source.parent.name}-{source.name}.o"
        data = f'-DFLOWLOOM_DATA="{project}"'
        command(*common, *includes, data, "-Xcompiler=-fPIC", "-c", source, "-o", result)
        return result

    with ThreadPoolExecutor() as pool:
        objects = list(pool.map(compiled, sources))
    command(*common, *objects, "-o", folder / "flowloom_check")
    parts = [path for path in objects if path.name != "src-main.cpp.o"]
    command(*common, "-shared", *parts, "-o", folder / "libflowloom.so")
    return folder


def command(*words: Any) -> str:
    ran = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if ran.returncode:
        raise SystemExit(f"{words[0]} failed ({ran.returncode}):\n{ran.stdout}{ran.stderr}")
    return ran.stdout


def start_time(*words: Any) -> float:
    """Seconds of a command from start to end, the least of five."""
    times: list[float] = []
    for _ in range(5):
        start = perf_counter()
        command(*words)
        times.append(perf_counter() - start)
    return round(min(times), 3)


def library_size(folder: Path) -> float:
    """Megabytes of the library, stripped as a package would have it."""
    stripped = folder / "stripped.so"
    command("strip", "-o", stripped, folder / "libflowloom.so")
    return round(stripped.stat().st_size / 1e6, 2)


def measure(path: Path, options: argparse.Namespace) -> dict[str, Any]:
    """One row: sizes, and on a device times in each mode."""
    found = artifact.load(path, lambda target, requirements: None)
    row: dict[str, Any] = {"model": found.schedule.name, "target": found.target}
    if not parse_target(found.target).is_gpu:
        row["start_s"] = start_time(sys.executable, "-c", PYTHON, path)
        return row
    architecture = present() if parse_target(found.target).backend == "cuda" else None
    module = compiler.load(path) if architecture else None
    inputs = random_inputs(found)
    check = None
    if module:
        tolerance = TOLERANCES[parse_target(found.target).precision]
        check = StoredCheck(inputs, module.run(inputs), tolerance)
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder) / "project"
        export_project(found, project, version=compiler.__version__, check=check, emulator=True)
        row["weights_mb"] = round((project / "weights.bin").stat().st_size / 1e6, 1)
        for platform in (name for name in options.platforms if shutil.which(COMPILERS[name])):
            start = perf_counter()
            named = compiled_for(architecture) if architecture else None
            built = build(project, platform, named)
            row[f"{platform.lower()}_build_s"] = round(perf_counter() - start, 1)
            row[f"{platform.lower()}_mb"] = library_size(built)
        if module:
            row |= measure_on_device(module, project / "build-CUDA" / "flowloom_check", options)
    return row


def measure_on_device(
    module: compiler.Module, program: Path, options: argparse.Namespace
) -> dict[str, Any]:
    """Start, errors and latencies of a program next to its module's."""
    row: dict[str, Any] = {"start_s": start_time(program, "--check", "no", "--runs", "0")}
    said = command(program, "--runs", "1")
    row["error"] = max(map(float, re.findall(r"relative error ([^,]+),", said)))
    same = module if options.one_compiler else with_kernels_of_nvcc(module)
    if same is not module:
        row["compilers"] = {"python": compiler_of(module), "cpp": compiler_of(same)}
    row["modes"] = {
        mode: compare(module, same, program, mode, options.runs) for mode in options.modes
    }
    return row


def with_kernels_of_nvcc(module: compiler.Module) -> compiler.Module:
    """The module with its kernels' text compiled by nvcc, as in the project."""
    return compiler.Module(
        Artifact(
            target=module.target,
            schedule=module.schedule,
            kernels=compiled_by_nvcc(module.kernels, str(module.requirements["architecture"])),
            weights=module.weights,
            requirements=module.requirements,
            choice=module.choice,
        )
    )


def compiled_by_nvcc(kernels: Mapping[str, KernelSpec], architecture: str) -> dict[str, KernelSpec]:
    """Kernels with cubins for an architecture, which nvcc makes of their texts."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in kernel_headers().items():
            (Path(folder) / name).write_text(text)

        def compiled(kernel: KernelSpec) -> KernelSpec:
            source = Path(folder) / f"{kernel.name}.cu"
            cubin = source.with_suffix(".cubin")
            source.write_text(kernel.source)
            command("nvcc", "-cubin", f"-arch={compiled_for(architecture)}", "-std=c++17", "-w",
                     "-o", cubin, source)  # fmt: skip
            return sealed_kernel(replace(kernel, language="cuda", code=cubin.read_bytes()))

        with ThreadPoolExecutor() as pool:
            return {kernel.name: kernel for kernel in pool.map(compiled, kernels.values())}


def compiler_of(module: compiler.Module) -> str:
    """The release of the CUDA compiler that wrote a module's cubins, as they say themselves."""
    code = next(iter(module.kernels.values())).code
    found = re.search(rb"Cuda compilation tools, release [\d.]+, V([\d.]+)", code)
    return found[1].decode() if found else "unknown"


def python_time(module: compiler.Module, mode: str, runs: int) -> float:
    """Median microseconds of a run from Python."""
    executor: Any = module.executor(mode=mode)
    run = timed_run(executor)
    for _ in range(20):
        run()
    found = median(run() for _ in range(runs)) / 1e3
    executor.close()
    return found


def compare(
    module: compiler.Module, same: compiler.Module, program: Path, mode: str, runs: int
) -> dict[str, float]:
    """Medians of Python, of Python with the project's kernels and of C++, measured in turn."""
    python: list[float] = []
    twin: list[float] = []
    native: list[tuple[float, ...]] = []
    for _ in range(ROUNDS):
        python.append(python_time(module, mode, runs))
        twin.append(python[-1] if same is module else python_time(same, mode, runs))
        text = command(program, "--mode", mode, "--runs", runs)
        native.append(tuple(map(float, re.findall(r"([\d.]+) us", text))))
    latency, on_device, queued = (median(samples) for samples in zip(*native, strict=True))
    others = {} if same is module else {"python_nvcc_us": round(median(twin), 1)}
    return {
        "python_us": round(median(python), 1),
        **others,
        "cpp_us": latency,
        "ratio": round(latency / median(twin), 3),
        "device_us": on_device,
        "queued_us": queued,
        "host": round(max(0.0, latency - on_device) / latency, 3),
    }


def installed_size(distribution: str) -> float:
    """Megabytes of the files of an installed package."""
    files = metadata.files(distribution) or []
    paths = [Path(str(file.locate())) for file in files]
    return round(sum(path.stat().st_size for path in paths if path.is_file()) / 1e6, 1)


def time_peers() -> None:
    """Print how long torch and onnxruntime take to start and to run ResNet-50 once."""
    from importlib import import_module
    from importlib.util import find_spec

    from examples import zoo

    if find_spec("torchvision"):
        said = command(sys.executable, "-c", TORCH).strip()
        print(f"torch start_s={start_time(sys.executable, '-c', TORCH)}",
              f"package_mb={installed_size('torch')} ({said})", flush=True)  # fmt: skip
    with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
        import_module("onnx").save(zoo.load("resnet50"), file.name)
        said = command(sys.executable, "-c", ONNXRUNTIME, file.name).strip()
        found = start_time(sys.executable, "-c", ONNXRUNTIME, file.name)
        model = round(Path(file.name).stat().st_size / 1e6, 1)
    name = next(n for n in ("onnxruntime-gpu", "onnxruntime") if _is_installed(n))
    print(f"onnxruntime start_s={found} package_mb={installed_size(name)} model_mb={model}",
          f"({said})", flush=True)  # fmt: skip


def _is_installed(distribution: str) -> bool:
    with suppress(metadata.PackageNotFoundError):
        return bool(metadata.version(distribution))
    return False


def show(row: Mapping[str, Any]) -> None:
    """Print a row, and a line for each mode."""
    print(*(f"{key}={value}" for key, value in row.items() if key != "modes"), flush=True)
    for mode, figures in row.get("modes", {}).items():
        print(f"  {mode:10}", *(f"{k}={v}" for k, v in figures.items()), flush=True)


def main() -> None:
    """Measure each artifact and print a line for each mode."""
    parser = argparse.ArgumentParser(description="exported projects: sizes, start and latency")
    parser.add_argument("artifacts", type=Path, nargs="*")
    parser.add_argument("--modes", nargs="+", default=list(MODES))
    parser.add_argument("--platforms", nargs="+", default=list(COMPILERS), choices=COMPILERS)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--one-compiler", action="store_true", help="keep Python's own kernels")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--peers", action="store_true", help="time torch and onnxruntime too")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for path in options.artifacts:
        rows.append(measure(path, options))
        show(rows[-1])
        if options.json:
            options.json.write_text(json.dumps(rows, indent=1))
    if options.peers:
        time_peers()


if __name__ == "__main__":
    main()
