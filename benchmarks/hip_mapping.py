"""Projects of kernels for an AMD GPU, built for CUDA through the mapping of their one header.

    python benchmarks/hip_mapping.py [unet bert128 MODEL.onnx ...] [--arch gfx1030] [--runs 100]
                                     [--modes graph] [--json FILE]

It needs a CUDA device, nvcc, and g++ for the kernels' texts, which are those of the emulator.
Models are the zoo's by name (default: all but the largest) or ONNX files of static shapes, in fp32,
by plain instructions: code of matrix cores is AMD's alone, so `--arch` is one without.

Python runs the same kernels, compiled by the same nvcc: `reference` is the largest error of its
outputs against onnxruntime, `error` that of the project's against Python's (0 for the same bits).
Both order kernels by times that are estimated for the AMD GPU, which may not suit this device.
All modes must give the same bits. Times are those of benchmarks/export.py: medians of wall
microseconds of a run on the device's buffers, from Python and from C++ in turn, and their ratio.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

import compiler
from benchmarks.export import build, compiled_by_nvcc, measure_on_device, present, show
from compiler.artifact import artifact
from compiler.artifact.artifact import Artifact
from compiler.artifact.generate import StoredCheck, export_project
from compiler.frontend.load import read_model
from compiler.schedule.choices import MODES
from compiler.scheduling.kernel_time import estimated_time
from compiler.target.devices import compiled_for
from compiler.target.target import parse_target
from compiler.tools.reference import run_onnxruntime
from compiler.tools.tolerance import TOLERANCES
from examples import zoo

TOO_LARGE = ("gpt2large",)
TOLERANCE = TOLERANCES["fp32"]


def load(name: str) -> Any:
    """A model of the zoo, or of a file."""
    return zoo.load(name) if name in zoo.names() else read_model(name)


def compiled(model: Any, arch: str, folder: Path) -> Artifact:
    """A model with the texts of its kernels for an AMD GPU."""
    compiler.compile(model, target="emu", arch=arch, precision="fp32").save(folder)
    return artifact.load(folder, lambda target, requirements: None)


def runnable(found: Artifact, architecture: str | None) -> compiler.Module:
    """The same kernels from Python: on a CUDA device, or on the emulator where there is none."""
    if architecture is None:
        return compiler.Module(replace(found, requirements={}))
    target, kernels = f"cuda:{architecture}:fp32", compiled_by_nvcc(found.kernels, architecture)
    amd = parse_target(found.target).device
    costs = {name: estimated_time(kernel, amd) for name, kernel in found.kernels.items()}
    content = Artifact(target, found.schedule, kernels, found.weights)
    return compiler.Module(content, costs=costs)


def largest_error(outputs: Mapping[str, Any], expected: Mapping[str, Any]) -> float:
    """The largest error of an output, relative in the Euclidean norm."""
    norms = {name: float(np.linalg.norm(array)) or 1.0 for name, array in expected.items()}
    errors = [float(np.linalg.norm(outputs[n] - expected[n])) / norms[n] for n in expected]
    return float(np.max(errors))  # of NaN NaN


def measure(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """One row; times of the emulator, which tests build for, say nothing."""
    model, architecture = load(name), present() if options.platform == "CUDA" else None
    inputs = zoo.random_inputs(model, seed=0)
    with tempfile.TemporaryDirectory() as folder:
        found = compiled(model, options.arch, Path(folder) / "artifact")
        module = runnable(found, architecture)
        outputs = module.run(inputs)
        reference = largest_error(outputs, run_onnxruntime(model, inputs))
        if not reference <= TOLERANCE:
            raise SystemExit(f"Python's outputs differ from onnxruntime's by {reference:.1e}")
        project, check = Path(folder) / "project", StoredCheck(inputs, outputs, TOLERANCE)
        export_project(found, project, version=compiler.__version__, check=check, emulator=True)
        built = build(project, options.platform, architecture and compiled_for(architecture))
        figures = measure_on_device(module, built / "flowloom_check", options)
        module.close()
    return {"model": name, "reference": float(f"{reference:.1e}"), **figures}


def main() -> int:
    """Print a row for each model; exit status 1 if any failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    usual = [name for name in zoo.names() if name not in TOO_LARGE]
    parser.add_argument("models", nargs="*", default=usual)
    parser.add_argument("--arch", default="gfx1030")
    parser.add_argument("--modes", nargs="+", default=list(MODES))
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--platform", choices=("CUDA", "EMU"), default="CUDA")
    parser.add_argument("--json", type=Path)
    parser.set_defaults(one_compiler=True)
    options = parser.parse_args()
    if options.platform == "CUDA" and not present():
        sys.exit("this benchmark needs a CUDA device; --platform EMU runs on the emulator")
    rows: list[dict[str, Any]] = []
    for name in options.models:
        try:
            rows.append(measure(name, options))
        except (SystemExit, compiler.FlowloomError) as error:
            rows.append({"model": name, "failure": str(error)})
        show(rows[-1])
        if options.json:
            options.json.write_text(json.dumps(rows, indent=1))
    return int(any("failure" in row for row in rows))


if __name__ == "__main__":
    sys.exit(main())
