"""Exported C++ projects against the same artifacts run from Python, on a CUDA device.

    python benchmarks/export.py ARTIFACT... [--modes graph streams] [--runs N] [--json FILE]

Every artifact is exported with what Python computes on random inputs, and built; all modes must
give the same bits, and be as near to Python as the precision allows. `error` is 0 for Python's own
bits: nvcc and NVRTC of another release may round differently. Times are medians of wall
microseconds of one run on buffers that are on the device already, the wait for its end included:
from Python, and from C++. `host` is the part of the latency that is not on the device; `start` is a
process from its start to its end with one run, in seconds (the least of five); with `--peers`, so
are torch's and onnxruntime's for ResNet-50. Sizes are in MB.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

import compiler
from compiler.backends.cuda.target import device
from compiler.backends.gpu.choose import timed_run
from compiler.backends.memory import numpy_dtype
from compiler.export import artifact
from compiler.export.generate import TOLERANCES, Check, export_project

ROUNDS = 3
"""Python and C++ are timed in turn this often, since a device's clock drifts."""


def random_inputs(module: compiler.Module) -> dict[str, Any]:
    """Normal floats, and integers that are 0 or 1."""
    chance = np.random.default_rng(0)
    arrays: dict[str, Any] = {}
    for each in module.inputs:
        floats = "float" in each.dtype
        values = chance.standard_normal(each.shape) if floats else chance.integers(0, 2, each.shape)
        arrays[each.name] = values.astype(numpy_dtype(each.dtype))
    return arrays


def build(project: Path, architecture: str) -> Path:
    """Build a project with CMake, or with nvcc alone where there is none; the check program."""
    folder = project / "build"
    if shutil.which("cmake"):
        options = ["-DFLOWLOOM_GPU=CUDA", f"-DFLOWLOOM_ARCHITECTURES={architecture}"]
        _command("cmake", "-S", project, "-B", folder, *options)
        _command("cmake", "--build", folder, "-j")
        return folder / "flowloom_check"
    folder.mkdir()
    common = ["nvcc", "-DFLOWLOOM_CUDA", "-O3", "-std=c++17", f"-arch=sm_{architecture}"]
    includes = [f"-I{project / path}" for path in ("include", "kernels/cuda", "kernels")]
    sources = [*(project / "kernels").glob("*.cu"), *(project / "src").glob("*.cpp")]

    def compiled(source: Path) -> Path:
        result = folder / f"{source.name}.o"
        _command(*common, *includes, f'-DFLOWLOOM_DATA="{project}"', "-c", source, "-o", result)
        return result

    with ThreadPoolExecutor() as pool:
        objects = list(pool.map(compiled, sources))
    _command(*common, *objects, "-o", folder / "flowloom_check")
    return folder / "flowloom_check"


def _command(*words: Any) -> str:
    ran = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if ran.returncode:
        raise SystemExit(f"{words[0]} failed ({ran.returncode}):\n{ran.stdout}{ran.stderr}")
    return ran.stdout


def python_time(module: compiler.Module, mode: str, runs: int) -> float:
    """Median microseconds of a run from Python."""
    executor: Any = module.executor(mode=mode)
    run = timed_run(executor)
    for _ in range(20):
        run()
    found = median(run() for _ in range(runs)) / 1e3
    executor.close()
    return found


def measure(path: Path, options: argparse.Namespace) -> dict[str, Any]:
    """One row: sizes, and times in each mode."""
    module = compiler.load(path)
    inputs = random_inputs(module)
    found = artifact.load(path, lambda target, requirements: None)
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder) / "project"
        tolerance = TOLERANCES[module.target.split(":")[-1]]
        check = Check(inputs, module.run(inputs), tolerance)
        export_project(found, project, version=compiler.__version__, check=check)
        architecture = device().device.architecture.removeprefix("sm_").replace("90", "90a")
        start = perf_counter()
        program = build(project, architecture)
        row: dict[str, Any] = {"model": module.schedule.name, "target": module.target}
        row["build_s"] = round(perf_counter() - start, 1)
        row["binary_mb"] = round(program.stat().st_size / 1e6, 2)
        row["weights_mb"] = round((project / "weights.bin").stat().st_size / 1e6, 1)
        row["start_s"] = start_time(program, "--check", "no", "--runs", "0")
        said = _command(program, "--runs", "1")
        row["error"] = max(map(float, re.findall(r"relative error ([^,]+),", said)))
        row["modes"] = {
            mode: compare(module, program, mode, options.runs) for mode in options.modes
        }
    return row


def start_time(*words: Any) -> float:
    """Seconds of a command from start to end, the least of five."""
    times: list[float] = []
    for _ in range(5):
        start = perf_counter()
        _command(*words)
        times.append(perf_counter() - start)
    return round(min(times), 3)


TORCH = """
import torch, torchvision
model = torchvision.models.resnet50().cuda().eval()
with torch.inference_mode():
    print(model(torch.zeros(1, 3, 224, 224, device="cuda")).sum().item())
"""

ONNXRUNTIME = """
import sys, numpy, onnxruntime
session = onnxruntime.InferenceSession(sys.argv[1], providers=onnxruntime.get_available_providers())
given = session.get_inputs()[0]
image = numpy.zeros(given.shape, numpy.float32)
print(session.get_providers(), session.run(None, {given.name: image})[0].sum())
"""


def time_peers() -> None:
    """Print how long torch and onnxruntime take to start and to run ResNet-50 once."""
    from importlib import import_module

    from examples import zoo

    print("torch start_s", start_time(sys.executable, "-c", TORCH), flush=True)
    with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
        import_module("onnx").save(zoo.load("resnet50"), file.name)
        found = start_time(sys.executable, "-c", ONNXRUNTIME, file.name)
        print("onnxruntime", _command(sys.executable, "-c", ONNXRUNTIME, file.name).strip())
    print("onnxruntime start_s", found, flush=True)


def compare(module: compiler.Module, program: Path, mode: str, runs: int) -> dict[str, float]:
    """Medians of Python and C++, measured in turn."""
    python: list[float] = []
    native: list[tuple[float, ...]] = []
    for _ in range(ROUNDS):
        python.append(python_time(module, mode, runs))
        text = _command(program, "--mode", mode, "--runs", runs)
        native.append(tuple(map(float, re.findall(r"([\d.]+) us", text))))
    latency, on_device, queued = (median(each) for each in zip(*native, strict=True))
    return {
        "python_us": round(median(python), 1),
        "cpp_us": latency,
        "ratio": round(latency / median(python), 3),
        "device_us": on_device,
        "queued_us": queued,
        "host": round(max(0.0, latency - on_device) / latency, 3),
    }


def main() -> None:
    """Measure each artifact and print a line for each mode."""
    parser = argparse.ArgumentParser(description="exported projects against Python")
    parser.add_argument("artifacts", type=Path, nargs="+")
    parser.add_argument("--modes", nargs="+", default=["graph", "subgraphs", "streams"])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--peers", action="store_true", help="time torch and onnxruntime too")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for path in options.artifacts:
        rows.append(measure(path, options))
        row = {key: value for key, value in rows[-1].items() if key != "modes"}
        print(*(f"{key}={value}" for key, value in row.items()), flush=True)
        for mode, figures in rows[-1]["modes"].items():
            print(f"  {mode:10}", *(f"{k}={v}" for k, v in figures.items()), flush=True)
        if options.json:
            options.json.write_text(json.dumps(rows, indent=1))
    if options.peers:
        time_peers()


if __name__ == "__main__":
    main()
