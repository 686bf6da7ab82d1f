"""Zoo models on a CUDA device: outputs against onnxruntime, and time by mode and streams.

    python benchmarks/gpu_zoo.py [--models resnet50 field:swin_tiny | --field] [--precision tf32]
                                 [--streams 1 2 4 8] [--modes graph subgraphs streams]
                                 [--samples 50] [--json FILE]

`--field` measures the networks of `examples/field` instead.
Times are medians of wall microseconds of one run on buffers that are on the device already. The
kernels come from the cache if they are there; then neither TVM nor a compiler is needed.
"""

import argparse
import json
import sys
import traceback
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

import compiler
from compiler.autotune.bindings import timed_run
from compiler.backends.cuda.device import device
from compiler.schedule.choices import MODES
from compiler.tools.reference import run_onnxruntime
from examples import named

BOUNDS = {"fp32": 1e-4, "tf32": 1e-2, "fp16": 1e-2, "bf16": 8e-2}
"""Largest error of an output against onnxruntime, relative in the Euclidean norm."""


def relative_error(outputs: dict[str, Any], expected: dict[str, Any]) -> float:
    """The largest of the outputs' relative errors in the Euclidean norm; NaN if any is."""
    errors = [
        np.linalg.norm(outputs[name].astype(np.float64) - array) / (np.linalg.norm(array) or 1)
        for name, array in expected.items()
    ]
    return float(np.max(errors))


def time_modes(module: compiler.Module, modes: list[str], samples: int) -> dict[str, float]:
    """Median microseconds of a run in each mode."""
    figures: dict[str, float] = {}
    for mode in modes:
        executor: Any = module.executor(mode=mode)
        run = timed_run(executor)
        for _ in range(5):
            run()
        figures[mode] = median(run() for _ in range(samples)) / 1e3
        executor.close()
    return figures


def measure(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """One row: error, and times by streams and mode; all modes must agree in every bit."""
    model = named.load(name)
    inputs = named.random_inputs(name, model, seed=0)
    expected = run_onnxruntime(model, inputs)
    row: dict[str, Any] = {"model": name, "precision": options.precision, "times": {}}
    for streams in options.streams:
        pipeline = compiler.DEFAULT_PIPELINE.replace("streams=4", f"streams={streams}")
        module = compiler.compile(
            model, target="cuda", precision=options.precision, pipeline=pipeline, budget=0
        )
        outputs = [module.executor(mode=mode, poison=True).run(inputs) for mode in options.modes]
        same = all(
            np.array_equal(first, other[key])
            for other in outputs[1:]
            for key, first in outputs[0].items()
        )
        row["error"] = max(row.get("error", 0.0), relative_error(outputs[0], expected))
        row["same bits"] = row.get("same bits", True) and same
        row["kernels"] = len(module.schedule.tasks)
        row["times"][streams] = time_modes(module, options.modes, options.samples)
        module.close()
    row["passed"] = row["same bits"] and row["error"] <= BOUNDS[options.precision]
    return row


def describe(row: dict[str, Any]) -> str:
    """One line of the table."""
    times = "  ".join(
        f"{streams}x{mode} {value:.0f}"
        for streams, modes in row["times"].items()
        for mode, value in modes.items()
    )
    verdict = "PASS" if row["passed"] else "FAIL"
    return (
        f"{verdict} {row['model']:14} {row['precision']} error {row['error']:.1e} "
        f"tasks {row['kernels']:4}  {times} us"
    )


def main() -> int:
    """Print one line a model; exit status 1 if an output is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="*")
    parser.add_argument("--field", action="store_true", help="the networks of examples/field")
    parser.add_argument("--precision", default="tf32", choices=tuple(BOUNDS))
    parser.add_argument("--streams", type=int, nargs="*", default=[1, 2, 4, 8])
    parser.add_argument("--modes", nargs="*", default=list(MODES))
    parser.add_argument("--samples", type=int, default=50)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    models = options.models or named.usual(options.field)
    rows: list[dict[str, Any]] = []
    failed = 0
    print(f"{device().device}")
    for name in models:
        try:
            rows.append(measure(name, options))
            failed += not rows[-1]["passed"]
            print(describe(rows[-1]), flush=True)
        except Exception as error:
            failed += 1
            traceback.print_exc()
            print(f"FAIL {name}: {type(error).__name__}: {str(error)[:300]}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
