"""Every zoo model on a CUDA device, in every precision and mode: `python3 tests/gpu_models.py`.

Outputs are compared with onnxruntime, and bit for bit between modes, numbers of streams, early and
plain launches, runs with random tasks delayed, replays with changing inputs, and two threads.

    python3 tests/gpu_models.py [--models resnet50 ...] [--precisions tf32 ...] [--large]
                                [--replays 1000] [--replayed squeezenet ...] [--brief]
                                [--json FILE]

Other processes prepare rows ahead (`--jobs`), so that the device does not wait for the compiler.
To check a device on a machine without TVM, build the kernels elsewhere and carry them there:

    python3 tests/gpu_models.py --prepare DIR [--arch sm_90] ...    then    --kernels DIR ...

The sources must be the same on both machines; kernels of others are not taken.
"""

import argparse
import json
import os
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parent.parent))

from compiler.backends.cuda.device import device
from compiler.backends.gpu.arrays import DeviceArray
from compiler.backends.gpu.executable import GpuExecutable
from compiler.backends.gpu.executor import GpuExecutor
from compiler.backends.gpu.memory import as_bytes, reserve, upload
from compiler.driver.build import full_target
from compiler.errors import DeviceError
from compiler.tools.comparison import compare
from examples import zoo
from tests.prepared import STREAMS, Failed, Prepared, build, cache_of, prepare_all

Array = NDArray[Any]
Arrays = dict[str, Array]

BOUNDS = {"fp32": 1e-4, "tf32": 5e-3, "fp16": 5e-3, "bf16": 5e-2}
"""Largest error of an output against onnxruntime, relative in the Euclidean norm."""

THREAD_RUNS = 50
"""Runs of each of two threads."""

REPLAYED = ("googlenet", "inception_v3", "bert128")
WAYS: dict[str, dict[str, Any]] = {
    "graph": {"mode": "graph"},
    "graph, plain launches": {"mode": "graph", "pdl": False},
    "child graphs": {"mode": "graph", "children": True},
    "subgraphs": {"mode": "subgraphs"},
    "streams": {"mode": "streams"},
    "graph, delays": {"mode": "graph", "delays": 1},
    "graph, plain launches, delays": {"mode": "graph", "pdl": False, "delays": 2},
    "subgraphs, delays": {"mode": "subgraphs", "delays": 3},
    "streams, delays": {"mode": "streams", "delays": 4},
}
"""The options of executors that must agree in every bit, by what they are called in messages."""


@dataclass(frozen=True)
class Case:
    """A prepared model on the device, as a schedule on each number of streams."""

    model: Prepared
    executables: Mapping[int, GpuExecutable]

    @property
    def inputs(self) -> Arrays:
        """The inputs of most checks."""
        return self.model.inputs[0]

    @property
    def ways(self) -> Iterator[tuple[str, GpuExecutor]]:
        """A new executor for each number of streams and each way, whose buffers are poisoned."""
        for streams, executable in self.executables.items():
            for way, options in WAYS.items():
                executor = executable.executor(poison=True, **options)
                yield f"{way} on {streams} streams", executor
                executor.close()


def load(model: Prepared) -> Case:
    """Load a model on the device."""
    first = GpuExecutable.load(device(), model.schedules[1], model.kernels, model.weights)
    others = {n: first.alternative(schedule) for n, schedule in model.schedules.items()}
    return Case(model, others)


def same(found: Mapping[str, Array], expected: Mapping[str, Array], what: str) -> None:
    """Raise AssertionError unless every output has the expected bits."""
    for name, array in expected.items():
        if array.tobytes() != found[name].tobytes():
            differ = np.count_nonzero(array != found[name])
            raise AssertionError(f"{what}: {differ} of {array.size} elements of {name} differ")


def check_values(case: Case, outputs: Arrays) -> float:
    """The largest relative error against onnxruntime; AssertionError if it is beyond the bound."""
    expected, precision = case.model.expected, case.model.precision
    error = max(
        float(np.linalg.norm(outputs[n].astype(np.float64) - array) / (np.linalg.norm(array) or 1))
        for n, array in expected.items()
    )
    assert error <= BOUNDS[precision], f"relative error {error:.1e} above {BOUNDS[precision]:.0e}"
    if precision == "fp32":
        report = compare(outputs, expected, "fp32")
        assert report.passed, str(report)
    return error


def check_ways(case: Case, first: Arrays) -> int:
    """Every way gives the same bits, twice; the number of runs."""
    runs = 0
    for way, executor in case.ways:
        for _ in range(2):
            same(executor.run(case.inputs), first, way)
            runs += 1
    return runs


def check_replays(case: Case, replays: int) -> int:
    """Runs with changing inputs on one executor give what each input gave at first."""
    drawn = case.model.inputs
    calm = case.executables[1].executor(mode="streams")
    expected = [calm.run(inputs) for inputs in drawn]
    executor = case.executables[STREAMS[-1]].executor()
    for run in range(replays):
        turn = run % len(drawn)
        same(executor.run(drawn[turn]), expected[turn], f"replay {run}")
    calm.close()
    executor.close()
    return replays


def check_bindings(case: Case, first: Arrays) -> int:
    """Device arrays that move between runs, bound in every way; the number of runs."""
    runs = 0
    for way in ("copy", "update", "indirection"):
        executor = case.executables[STREAMS[-1]].executor(updates=10**6)
        for name in executor.bindings:
            if way in executor.ways(name):
                executor.bind_by(name, way)
        for _ in range(3):
            inputs, outputs = moved(executor, "input"), moved(executor, "output")
            for name, array in inputs.items():
                upload(device(), [(array.address, as_bytes(case.inputs[name]))])
            executor.run(inputs, outputs=outputs)
            found = {name: array.numpy() for name, array in outputs.items()}
            same(found, first, f"device arrays bound by {way}")
            runs += 1
            executor.run(case.inputs)
            for array in (*inputs.values(), *outputs.values()):
                device().free(array.address)
        executor.close()
    return runs


def moved(executor: GpuExecutor, kind: Literal["input", "output"]) -> dict[str, DeviceArray]:
    """Device arrays like an executor's, in other memory."""
    return {
        name: DeviceArray(device(), own.allocation, reserve(device(), own.nbytes, name), None)
        for name, own in executor.in_place(kind).items()
    }


def check_threads(case: Case, first: Arrays) -> int:
    """Two threads, each with an executor and other inputs; the number of runs."""
    other = case.model.inputs[1]
    executor = case.executables[1].executor()
    second = executor.run(other)
    executor.close()
    errors: list[Exception] = []

    def work(inputs: Arrays, expected: Arrays) -> None:
        try:
            own = case.executables[STREAMS[-1]].executor()
            for run in range(THREAD_RUNS):
                same(own.run(inputs), expected, f"run {run} of two threads")
            own.close()
        except Exception as error:
            errors.append(error)

    pairs = ((case.inputs, first), (other, second))
    threads = [threading.Thread(target=work, args=pair) for pair in pairs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return 2 * THREAD_RUNS


def check(model: Prepared, options: argparse.Namespace) -> dict[str, Any]:
    """One row: the error and how many runs had the same bits; raises if anything is wrong."""
    case = load(model)
    executor = case.executables[1].executor(mode="streams", poison=True)
    first = executor.run(case.inputs)
    executor.close()
    row: dict[str, Any] = {"error": check_values(case, first)}
    row["tasks"] = len(case.executables[1].plan.schedule.tasks)
    row["runs"] = 0
    if not options.brief:
        row["runs"] += check_ways(case, first) + check_bindings(case, first)
        row["runs"] += check_threads(case, first)
    if model.name in options.replayed and not options.brief:
        row["runs"] += check_replays(case, options.replays)
    for executable in case.executables.values():
        executable.close()
    return row


def prepare(names: list[str], options: argparse.Namespace) -> int:
    """Build the kernels of models into a directory to carry; needs no device."""
    for name in names:
        for precision in options.precisions:
            target = full_target("cuda", options.arch, precision)
            specs, _, _ = build(zoo.load(name), target, cache_of(options.prepare))
            size = sum(len(spec.code) for spec in specs.values())
            print(f"{name} {precision}: {len(specs)} kernels, {size / 1e6:.1f} MB", flush=True)
    return 0


def arguments() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="*", choices=zoo.names(), help="default: all")
    parser.add_argument("--precisions", nargs="*", default=list(BOUNDS), choices=list(BOUNDS))
    parser.add_argument("--large", action="store_true", help="GPT-2-large too, which takes 10 GB")
    parser.add_argument("--replays", type=int, default=1000, help="of each model in --replayed")
    parser.add_argument("--replayed", nargs="*", default=list(REPLAYED))
    parser.add_argument("--brief", action="store_true", help="one run a row: for racecheck")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no row after")
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    parser.add_argument("--kernels", type=Path, help="take kernels from this directory")
    parser.add_argument("--prepare", type=Path, help="only build kernels into this directory")
    parser.add_argument("--arch", default="sm_90", help="what --prepare builds for")
    half = max(1, len(os.sched_getaffinity(0)) // 2)
    parser.add_argument("--jobs", type=int, default=half, help="rows prepared at once")
    options = parser.parse_args()
    options.models = options.models or [
        name for name in zoo.names() if options.large or name != "gpt2large"
    ]
    return options


def attempt(model: Prepared | Failed, options: argparse.Namespace) -> dict[str, Any]:
    """One row, failed or not."""
    start = perf_counter()
    row = {"model": model.name, "precision": model.precision, "prepared": model.seconds}
    try:
        row |= {**check(model.checked(), options), "failure": ""}
    except Exception as error:
        traceback.print_exc()
        row["failure"] = f"{type(error).__name__}: {str(error)[:300]}"
    return {**row, "seconds": round(perf_counter() - start, 1)}


def describe(row: Mapping[str, Any]) -> str:
    """One line of the table."""
    head = f"{'FAIL' if row['failure'] else 'PASS'}  {row['model']:14} {row['precision']}"
    if row["failure"]:
        return f"{head}  {row['failure']}"
    figures = f"error {row['error']:.1e}  {row['tasks']:4} tasks  {row['runs']:4} runs equal"
    return f"{head}  {figures}  {row['seconds']:5.1f} s"


def main() -> int:
    """Print a row for each model and precision; exit status 1 if any failed or none was run."""
    options = arguments()
    if options.prepare:
        return prepare(options.models, options)
    try:
        print(device().device, flush=True)
    except DeviceError as error:
        sys.exit(f"these checks need a CUDA device: {error}")
    rows: list[dict[str, Any]] = []
    start = perf_counter()
    wanted = [
        (name, full_target("cuda", None, precision))
        for name in options.models
        for precision in options.precisions
    ]
    for model in prepare_all(wanted, options.kernels, options.jobs):
        if perf_counter() - start >= options.seconds:
            break
        rows.append(attempt(model, options))
        print(describe(rows[-1]), flush=True)
    failed = sum(bool(row["failure"]) for row in rows)
    left = len(wanted) - len(rows)
    seconds = perf_counter() - start
    print(f"{len(rows) - failed} passed, {failed} failed, {left} not run as time was over")
    print(f"{seconds:.0f} s, of which {sum(row['seconds'] for row in rows):.0f} on the device")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    return 1 if failed or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
