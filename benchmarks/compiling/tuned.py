"""The gain of measuring kernels while a model compiles, and its cost, network by network.

    python benchmarks/compiling/tuned.py [--models field:pvt_v2_b1 field:llama_decode | --field]
                                       [--budgets untuned default] [--precision fp16]
                                       [--seconds 150] [--target cuda|cpu] [--json FILE]

A budget is `default`, some seconds, or `untuned`: as by default, but kernels are not measured. Each
compilation has a new kernel cache and a new user's database, as on a machine that compiles for the
first time; a small model is compiled before, so that libraries are loaded. The modules of a network
then run in turns. Lines are printed one by one; no network is begun after `--seconds`. On the CPU a
run has one thread, and its time is the process's, which other work on the machine hardly changes.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from time import perf_counter, process_time_ns
from typing import Any
from unittest.mock import patch

import numpy as np
import onnx

sys.path.insert(0, str(Path(__file__).parents[2]))

import compiler
from compiler.autotune.bindings import timed_run
from compiler.autotune.kernels.kernel_tuner import KernelTuner
from compiler.choice.timing import Timing, time_all
from compiler.schedule.choices import TuningRecord
from examples import named

USUAL = ("field:pvt_v2_b1", "field:llama_decode", "field:latent_unet")
RUN_SECONDS = 3.0
"""Seconds in which the modules of a network run in turns."""

WARM_UP_MODEL = """
<ir_version: 10, opset_import: ["" : 18]>
main (float[64,64] x) => (float[64,64] y) { z = MatMul (x, x) y = Softmax (z) }
"""


@contextmanager
def new_machine() -> Generator[None]:
    """A kernel cache and a user's database that are empty, and go away."""
    with tempfile.TemporaryDirectory() as folder:
        places = {"FLOWLOOM_CACHE": f"{folder}/cache", "FLOWLOOM_TUNING": f"{folder}/tuning"}
        with patch.dict(os.environ, places):
            yield


def compiled(model: Any, budget: str, options: argparse.Namespace) -> dict[str, Any]:
    """The module of a model with a budget, the seconds it took, and the record of tuning."""
    given = None if budget in ("default", "untuned") else float(budget)
    with ExitStack() as stack:
        stack.enter_context(new_machine())
        if budget == "untuned":
            nothing = patch.object(KernelTuner, "tune", lambda *_: TuningRecord())
            stack.enter_context(nothing)
        start = perf_counter()
        module = compiler.compile(
            model,
            target=options.target,
            precision=None if options.target == "cpu" else options.precision,
            budget=given,
            threads=1 if options.target == "cpu" else None,
        )
        seconds = perf_counter() - start
    return {"module": module, "seconds": seconds, "tuning": module.tuning}


def cpu_runs(modules: Mapping[str, Any], inputs: Mapping[str, Any]) -> dict[str, Timing]:
    """Nanoseconds of the process for a run of each module on one thread, in turns."""

    def run(module: Any) -> float:
        start = process_time_ns()
        module.run(inputs)
        return float(process_time_ns() - start)

    runs = {name: partial(run, module) for name, module in modules.items()}
    return time_all(runs, RUN_SECONDS, perf_counter, keep=[*runs])


def in_turns(modules: Mapping[str, Any]) -> dict[str, Timing]:
    """Nanoseconds of a run of each module on its own buffers, in turns."""
    executors = {name: module.executor() for name, module in modules.items()}
    try:
        runs = {name: timed_run(executor) for name, executor in executors.items()}
        return time_all(runs, RUN_SECONDS, perf_counter, keep=[*runs])
    finally:
        for executor in executors.values():
            executor.close()


def difference(modules: Mapping[str, Any], inputs: Mapping[str, Any]) -> float:
    """The largest relative difference of any module's outputs from the first one's."""
    first, *others = [module.run(inputs) for module in modules.values()]
    found = [
        np.linalg.norm(other[name].astype(np.float64) - array) / (np.linalg.norm(array) or 1)
        for other in others
        for name, array in first.items()
    ]
    return float(max(found, default=0.0))


def measure(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """One network: compiled with each budget, run in turns, all of it printed."""
    model = named.load(name)
    modules: dict[str, Any] = {}
    row: dict[str, Any] = {"model": name, "precision": options.precision, "budgets": {}}
    for budget in options.budgets:
        found = compiled(model, budget, options)
        modules[budget] = found["module"]
        print(f"{name} {budget}: compiled in {found['seconds']:.1f} s", flush=True)
        if found["tuning"] is not None:
            print(f"    {found['tuning']}", flush=True)
        row["budgets"][budget] = {"seconds": found["seconds"], "tuning": str(found["tuning"])}
    inputs = named.random_inputs(name, model, seed=0)
    timings = cpu_runs(modules, inputs) if options.target == "cpu" else in_turns(modules)
    row["difference"] = difference(modules, inputs)
    first = timings[options.budgets[0]].median
    for budget, timing in timings.items():
        row["budgets"][budget]["us"] = timing.median / 1e3
        print(
            f"{name} {budget}: {timing.median / 1e3:.1f} us"
            f" [{timing.low / 1e3:.1f}, {timing.high / 1e3:.1f}], {first / timing.median:.3f} times"
            f" as fast as {options.budgets[0]}; outputs differ by {row['difference']:.1e}",
            flush=True,
        )
    for module in modules.values():
        module.close()
    return row


def main() -> int:
    """Print the figures of each network; exit status 1 if one failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="*")
    parser.add_argument("--field", action="store_true", help="all networks of examples/field")
    parser.add_argument("--budgets", nargs="*", default=["untuned", "default"])
    parser.add_argument("--target", default="cuda")
    parser.add_argument("--precision", default="fp16")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    start, rows, failed = perf_counter(), list[dict[str, Any]](), 0
    compiled(onnx.parser.parse_model(WARM_UP_MODEL), "0.1", options)
    print(f"libraries loaded in {perf_counter() - start:.1f} s", flush=True)
    for name in options.models or (named.usual(with_field=True) if options.field else USUAL):
        if perf_counter() - start > options.seconds:
            print(f"{name}: time is over", flush=True)
            continue
        try:
            rows.append(measure(name, options))
        except compiler.FlowloomError as error:
            failed += 1
            print(f"FAIL {name}: {type(error).__name__}: {str(error)[:300]}", flush=True)
        if options.json:
            options.json.write_text(json.dumps(rows, indent=1))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
