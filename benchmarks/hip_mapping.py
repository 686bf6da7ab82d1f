"""Projects of kernels for an AMD GPU, built for CUDA through the mapping of their one header.

    python benchmarks/hip_mapping.py [unet bert128 MODEL.onnx ...] [--arch gfx1030] [--runs 100]
                                     [--json FILE]

It needs a CUDA device, nvcc, and g++ for the kernels' texts, which are those of the emulator.
Models are the zoo's by name (default: all but the largest) or ONNX files of static shapes, in fp32,
by plain instructions: code of matrix cores is AMD's alone, so `--arch` is one without. Every mode
must give onnxruntime's outputs and the same bits; `error` is the largest. Times are medians of wall
microseconds of a run on the device's buffers: of the project in each mode, and of Python's module
in fp32 for the CUDA device, whose kernels are others (`python`).
"""

import argparse
import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

import compiler
from benchmarks.export import build, command, present, python_time
from compiler.analysis.devices import compiled_for
from compiler.export import artifact
from compiler.export.generate import TOLERANCES, Check, export_project
from compiler.frontend.load import read_model
from compiler.tools.reference import run_onnxruntime
from examples import zoo

MODES = ("graph", "subgraphs", "streams")
TOO_LARGE = ("gpt2large",)


def load(name: str) -> Any:
    """A model of the zoo, or of a file."""
    return zoo.load(name) if name in zoo.names() else read_model(name)


def exported(model: Any, arch: str, project: Path) -> None:
    """Export the project of a model's kernels for an AMD GPU, with onnxruntime's outputs."""
    saved = project.with_name("artifact")
    compiler.compile(model, target="emu", arch=arch, precision="fp32").save(saved)
    found = artifact.load(saved, lambda target, requirements: None)
    inputs = zoo.random_inputs(model, seed=0)
    check = Check(inputs, run_onnxruntime(model, inputs), TOLERANCES["fp32"])
    export_project(found, project, version=compiler.__version__, check=check)


def run(program: Path, runs: int) -> dict[str, Any]:
    """The largest error of any mode, and each mode's microseconds; SystemExit if one is wrong."""
    row: dict[str, Any] = {"error": 0.0}
    for mode in MODES:
        said = command(program, "--mode", mode, "--runs", runs)
        errors = re.findall(r"relative error ([^,]+),", said)
        row["error"] = max(row["error"], *map(float, errors))
        row[mode] = float(re.findall(r"latency ([\d.]+) us", said)[0])
    return row


def measure(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """One row; times of the emulator, which tests build for, say nothing."""
    model, architecture = load(name), present()
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder) / "project"
        exported(model, options.arch, project)
        built = build(
            project, options.platform, compiled_for(architecture) if architecture else None
        )
        row: dict[str, Any] = {"model": name, **run(built / "flowloom_check", options.runs)}
    if architecture:
        module = compiler.compile(model, target="cuda", precision="fp32", budget=0)
        row["python"] = round(python_time(module, "graph", options.runs), 1)
    return row


def main() -> int:
    """Print a row for each model; exit status 1 if any failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    usual = [name for name in zoo.names() if name not in TOO_LARGE]
    parser.add_argument("models", nargs="*", default=usual)
    parser.add_argument("--arch", default="gfx1030")
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--platform", choices=("CUDA", "EMU"), default="CUDA")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.platform == "CUDA" and not present():
        sys.exit("this benchmark needs a CUDA device; --platform EMU runs on the emulator")
    rows: list[dict[str, Any]] = []
    for name in options.models:
        try:
            rows.append(measure(name, options))
        except (SystemExit, compiler.FlowloomError) as error:
            rows.append({"model": name, "failure": str(error)})
        print(*(f"{key}={value}" for key, value in rows[-1].items()), flush=True)
        if options.json:
            options.json.write_text(json.dumps(rows, indent=1))
    return int(any("failure" in row for row in rows))


if __name__ == "__main__":
    sys.exit(main())
