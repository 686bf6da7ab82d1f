"""Models quantised by onnxruntime's tools on a GPU: bytes, two ways of floats, the model before.

    python benchmarks/quantised/gpu.py [--models resnet50 bert128] [--ways static dynamic]
        [--precision fp16] [--budget 5] [--samples 200] [--json FILE]
        [--quantised FOLDER] [--prepare] [--kernels]

Without quantising and compiling, which take minutes on few cores, a run takes seconds: with
`--quantised` the quantised models are read from a folder, or written to it; `--prepare` writes them
and compiles for `cuda:sm_90` without a device, after which the kernel cache (FLOWLOOM_CACHE) has
the kernels of a run with a budget of 0. Both may be copied to the device's machine.

`static` and `dynamic` are those of `models.py`. `16 bits` is the model that was quantised, in the
precision; the others are the quantised one with `quantised=` so. Each is compiled as by default and
runs on its own buffers in turns with the others; a figure is the median in microseconds of the wall
clock. Errors are relative to the norm of onnxruntime's float32 output.
With `--kernels` a second table has the device times of each model's kernels, each timed alone, by
what they compute: 12 attentions of bytes next to 12 of 16 bits.
"""

import argparse
import json
import sys
import tempfile
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import onnx  # noqa: E402

import compiler  # noqa: E402
from benchmarks.gpu_zoo import relative_error  # noqa: E402
from benchmarks.quantised.models import quantised  # noqa: E402
from benchmarks.quantised.places import measured_places, table  # noqa: E402
from compiler.autotune.bindings import timed_run  # noqa: E402
from compiler.backends.cuda.device import device  # noqa: E402
from compiler.tools.reference import run_onnxruntime  # noqa: E402
from examples import zoo  # noqa: E402

CONTENDERS = ("16 bits", "floats", "unrounded", "bytes", "operands")


def in_turns(modules: dict[str, compiler.Module], samples: int) -> dict[str, float]:
    """Median microseconds of each module's runs."""
    executors: dict[str, Any] = {name: module.executor() for name, module in modules.items()}
    runs = {name: timed_run(executor) for name, executor in executors.items()}
    taken: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(samples + 20):
        for name, run in runs.items():
            nanoseconds = run()
            if turn >= 20:
                taken[name].append(nanoseconds / 1e3)
    for executor in executors.values():
        executor.close()
    return {name: round(median(times), 1) for name, times in taken.items()}


def quantised_once(model: onnx.ModelProto, way: str, folder: Path | None) -> onnx.ModelProto:
    """The quantised model of a folder, to which it is written where it is not there yet."""
    file = None if folder is None else folder / f"{model.graph.name}-{way}.onnx"
    if file is not None and file.exists():
        return onnx.load(file)
    with tempfile.TemporaryDirectory() as scratch:
        narrow = quantised(model, way, Path(scratch))
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        onnx.save(narrow, file)
    return narrow


def contenders(
    model: onnx.ModelProto, narrow: onnx.ModelProto, options: argparse.Namespace
) -> dict[str, compiler.Module]:
    """The compiled modules."""
    common: dict[str, Any] = {
        "target": "cuda:sm_90" if options.prepare else "cuda",
        "precision": options.precision,
        "budget": 0.0 if options.prepare else options.budget,
    }
    modules = {"16 bits": compiler.compile(model, **common)}
    for how in CONTENDERS[1:]:
        modules[how] = compiler.compile(narrow, quantised=how, **common)
    return modules


def prepared(name: str, way: str, options: argparse.Namespace) -> str:
    """A line on a model that is quantised and compiled."""
    model = zoo.load(name)
    modules = contenders(model, quantised_once(model, way, options.quantised), options)
    counts = (f"{how} {len(module.schedule.tasks)}" for how, module in modules.items())
    return f"{name} {way} is prepared; kernels: {', '.join(counts)}"


def measured(name: str, way: str, options: argparse.Namespace) -> dict[str, Any]:
    """The row of a model that is quantised in one way."""
    model = zoo.load(name)
    inputs = zoo.random_inputs(model, 0)
    narrow = quantised_once(model, way, options.quantised)
    modules = contenders(model, narrow, options)
    expected = run_onnxruntime(model, inputs)
    errors = {how: relative_error(module.run(inputs), expected) for how, module in modules.items()}
    errors["onnxruntime"] = relative_error(run_onnxruntime(narrow, inputs), expected)
    row = {
        "model": name,
        "way": way,
        "us": in_turns(modules, options.samples),
        "kernels": {how: len(module.schedule.tasks) for how, module in modules.items()},
        "errors": {how: round(error, 5) for how, error in errors.items()},
    }
    if options.kernels:
        places = {how: measured_places(device(), module) for how, module in modules.items()}
        row["places"] = table(places)
    for module in modules.values():
        module.close()
    return row


def described(row: dict[str, Any]) -> str:
    """One line of the table."""
    times, errors = row["us"], row["errors"]
    best = min(times[how] for how in CONTENDERS[1:])
    figures = " | ".join(f"{times[how]:.0f} ({row['kernels'][how]})" for how in CONTENDERS)
    erring = ", ".join(f"{how} {error:.4f}" for how, error in errors.items())
    return (
        f"| {row['model']} | {row['way']} | {figures} | {times['16 bits'] / best:.2f} | {erring} |"
    )


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description="quantised models on a GPU")
    parser.add_argument("--models", nargs="+", default=["resnet50", "bert128"])
    parser.add_argument("--ways", nargs="+", default=["static", "dynamic"])
    parser.add_argument("--precision", default="fp16")
    parser.add_argument("--budget", type=float, default=5.0)
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--quantised", type=Path, metavar="FOLDER")
    parser.add_argument("--prepare", action="store_true")
    parser.add_argument("--kernels", action="store_true", help="time each kernel alone, too")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.prepare:
        for name, way in product(options.models, options.ways):
            print(prepared(name, way, options), flush=True)
        return
    print(f"{device().device.name}; times in us (kernels)")
    print(f"| model | way | {' | '.join(CONTENDERS)} | times 16 bits | errors |")
    print(f"|---|---|{'---|' * len(CONTENDERS)}---|---|")
    rows: list[dict[str, Any]] = []
    for name, way in product(options.models, options.ways):
        rows.append(measured(name, way, options))
        print(described(rows[-1]), flush=True)
        if options.kernels:
            print(f"\n{rows[-1]['places']}\n", flush=True)
        if options.json:
            options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
