"""Whether the choice that `compile` measures on a CUDA device is the best one, model by model.

    python benchmarks/gpu_choice.py [--models nasnetmobile resnet50] [--precision tf32]
                                    [--budget 5] [--samples 100] [--json FILE] [--trace DIR]

Every candidate is built and timed again, apart from the choice. A row passes if the chosen one is
within 5 % of the best and 2 % of the one-stream graph, gives the same bits as that graph, and is
what the saved artifact runs. The kernels come from the cache if they are there.
"""

import argparse
import json
import sys
import tempfile
import traceback
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

import compiler
from compiler.artifact.choice_json import choice_to_json
from compiler.autotune.bindings import timed_run
from compiler.backends.cuda.device import device
from compiler.passes.pipeline import default_pipeline
from compiler.schedule.choices import MODES
from compiler.tools.inspection import open_module
from compiler.tools.report import report
from compiler.tools.trace import trace
from examples import zoo

NEAR_BEST, NEAR_BASELINE = 1.05, 1.02
STREAMS = (1, 2, 4, 8)
PARTITIONS = ("policy=none", "policy=ppd max-nodes=2", "policy=ppd max-nodes=8")


def run_time(module: compiler.Module, samples: int, **options: Any) -> float:
    """Median microseconds of a run on the executor's own buffers."""
    executor: Any = module.executor(**options)
    run = timed_run(executor)
    times = [run() for _ in range(5 + samples)][5:]
    executor.close()
    return median(times) / 1e3


def retime(model: Any, options: argparse.Namespace) -> tuple[dict[str, float], compiler.Module]:
    """Microseconds of every pipeline in every mode, and the one-stream module."""
    times: dict[str, float] = {}
    baseline: compiler.Module | None = None
    for partition in PARTITIONS:
        for streams in STREAMS:
            pipeline = default_pipeline(partition, streams)
            module = compiler.compile(
                model, target="cuda", precision=options.precision, pipeline=pipeline, budget=0
            )
            baseline = baseline or module
            for mode in MODES:
                name = f"{mode}/{streams}/{partition}"
                times[name] = run_time(module, options.samples, mode=mode)
            module.close()
    assert baseline is not None
    return times, baseline


def measure(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """One row: what was chosen, how long it took to choose, and all figures again."""
    model = zoo.load(name)
    start = perf_counter()
    module = compiler.compile(
        model, target="cuda", precision=options.precision, budget=options.budget
    )
    seconds = perf_counter() - start
    assert module.choice is not None
    with tempfile.TemporaryDirectory() as folder:
        module.save(Path(folder) / "built")
        print(report(open_module(Path(folder) / "built")), flush=True)
        loaded = compiler.load(Path(folder) / "built")
    inputs = zoo.random_inputs(model, seed=0)
    times, baseline = retime(model, options)
    expected = baseline.executor(mode="graph").run(inputs)
    same = all(
        np.array_equal(array, outputs[key], equal_nan=True)
        for outputs in (module.run(inputs), loaded.run(inputs))
        for key, array in expected.items()
    )
    chosen, again = run_time(module, options.samples), run_time(loaded, options.samples)
    one = run_time(baseline, options.samples, mode="graph")
    if options.trace:
        options.trace.mkdir(parents=True, exist_ok=True)
        (options.trace / f"{name}.json").write_text(json.dumps(trace(module, inputs)[0]))
    best = min(times, key=times.__getitem__)
    row = {
        "model": name,
        "choice": choice_to_json(module.choice.schedule),
        "compile seconds": seconds,
        "times": times,
    }
    row |= {"steps": module.build_seconds, "same bits": same, "best": best, "one stream": one}
    row |= {"chosen us": chosen, "loaded us": again}
    near = max(chosen, again) <= NEAR_BEST * times[best] or max(chosen, again) <= times[best] + 5
    row["passed"] = same and near and chosen <= NEAR_BASELINE * one and loaded.choice is not None
    return row


def describe(row: dict[str, Any]) -> str:
    """One line of the table."""
    return (
        f"{'PASS' if row['passed'] else 'FAIL'} {row['model']:14} {row['choice']['source']} "
        f"{row['choice']['chosen']}: {row['chosen us']:.0f} us, loaded {row['loaded us']:.0f}, "
        f"one-stream graph {row['one stream']:.0f}, best again {row['best']} "
        f"{row['times'][row['best']]:.0f}; same bits {row['same bits']}; compiled in "
        f"{row['compile seconds']:.1f} s"
    )


def main() -> int:
    """Print a report and one line a model; exit status 1 if a choice is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="*", default=["nasnetmobile", "resnet50"])
    parser.add_argument("--precision", default="tf32")
    parser.add_argument("--budget", type=float, default=5.0)
    parser.add_argument("--samples", type=int, default=100)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--trace", type=Path)
    options = parser.parse_args()
    print(device().device)
    rows: list[dict[str, Any]] = []
    failed = 0
    for name in options.models:
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
