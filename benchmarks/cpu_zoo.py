"""Run time over the zoo on the CPU against onnxruntime with the same number of threads.

    python benchmarks/cpu_zoo.py [--models resnet50 unet] [--threads 1 2] [--runs 20] [--json FILE]

Every figure is a median in milliseconds. The two runtimes take turns in rounds within one process;
each ratio is ours over onnxruntime's. `streams=1` is the same kernels in one stream: with two
threads it shares out the blocks of each kernel; more streams also run kernels side by side.
"""

import argparse
import json
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import geometric_mean, median
from time import perf_counter, sleep
from typing import Any

import onnxruntime

sys.path.insert(0, str(Path(__file__).parent.parent))

import compiler
from compiler.tools.reference import compare, session
from examples import zoo


def pipeline(streams: int) -> str:
    """The default pipeline with another number of streams."""
    return compiler.DEFAULT_PIPELINE.replace("streams=4", f"streams={streams}")


def take_turns(runs: dict[str, Callable[[], Any]], count: int, rounds: int) -> dict[str, float]:
    """Median milliseconds of each; `rounds` times each runs a share of `count`, then rests."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            run()
            for _ in range(max(1, count // rounds)):
                start = perf_counter()
                run()
                times[name].append(1e3 * (perf_counter() - start))
            sleep(0.05)  # onnxruntime's threads go on spinning for a while
    return {name: median(each) for name, each in times.items()}


def measure(name: str, threads: int, streams: list[int], runs: int) -> dict[str, Any]:
    """One row: every stream count and onnxruntime, outputs compared first."""
    model = zoo.load(name)
    inputs = zoo.random_inputs(model, seed=0)
    peer = session(model, threads=threads)
    names = [output.name for output in peer.get_outputs()]
    expected = dict(zip(names, peer.run(None, inputs), strict=True))
    contenders: dict[str, Callable[[], Any]] = {"onnxruntime": lambda: peer.run(None, inputs)}
    for count in streams:
        module = compiler.compile(model, pipeline=pipeline(count), threads=threads)
        if not compare(module.run(inputs), expected).passed:
            raise SystemExit(f"{name}: outputs differ from onnxruntime's")
        contenders[f"streams={count}"] = lambda module=module: module.run(inputs)
    figures = take_turns(contenders, runs, rounds=5)
    best = min(value for key, value in figures.items() if key != "onnxruntime")
    return {"model": name, "threads": threads, **figures, "ratio": best / figures["onnxruntime"]}


def main() -> None:
    """Print one line a model and the geometric mean of the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="*")
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--streams", type=int, nargs="*", default=[1, 2, 4])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    models = options.models or [name for name in zoo.names() if name != "gpt2large"]
    rows: list[dict[str, Any]] = []
    for threads in options.threads:
        counts = [c for c in options.streams if threads > 1 or c == 1]
        for name in models:
            rows.append(measure(name, threads, counts, options.runs))
            figures = {k: v for k, v in rows[-1].items() if isinstance(v, float)}
            cells = "  ".join(f"{key} {value:9.3f}" for key, value in figures.items())
            print(f"{name:14} threads={threads}  {cells}", flush=True)
        ratios = [row["ratio"] for row in rows if row["threads"] == threads]
        print(f"geometric mean of ratios, {threads} threads: {geometric_mean(ratios):.3f}")
    if options.json:
        host = {"processor": platform.processor(), "onnxruntime": onnxruntime.__version__}
        options.json.write_text(json.dumps({"host": host, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
