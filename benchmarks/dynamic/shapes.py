"""A BERT of any length from one module: its time at buckets' sizes, its memory and its switches.

    python benchmarks/dynamic/shapes.py [--lengths 64 128 256 512] [--runs 30] [--check 16]
        [--target cpu] [--json FILE]

BERT-base (`examples/exports/bert_base.light.onnx`, batch 1) is compiled once with the lengths as
buckets, and once for each length alone; both run in turns on one thread. `--check` compares that
many random lengths with onnxruntime. `run_us` are runs of one small layer: of its module alone, of
a bucket's size, of a smaller length, and after a run of another length, in the same bucket or in
another one. `host_us` is what the program around the module adds: the host's own time.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, cast

sys.path.insert(0, str(Path(__file__).parents[2]))

import numpy as np
import onnx
import onnxruntime

import compiler
from compiler.backends.memory import aligned_array
from compiler.program.model import DynamicModule
from compiler.target.target import parse_target
from examples.zoo import load_file

MODEL = Path(__file__).parents[2] / "examples" / "exports" / "bert_base.light.onnx"
VOCABULARY = 30_000
Arrays = dict[str, np.ndarray]


def tokens(length: int, seed: int = 0) -> Arrays:
    """One sequence without padding."""
    ids = np.random.default_rng(seed).integers(0, VOCABULARY, (1, length))
    return {"input_ids": ids, "attention_mask": np.ones((1, length), np.int64)}


def seconds(run: Any, inputs: Arrays) -> float:
    """The seconds of a run."""
    start = perf_counter()
    run(inputs)
    return perf_counter() - start


def one_thread(target: str) -> dict[str, Any]:
    """The option of one thread, which GPUs do not have."""
    return {"threads": 1} if parse_target(target).backend == "cpu" else {}


def compare(
    model: onnx.ModelProto, module: DynamicModule, length: int, runs: int, target: str
) -> dict[str, float]:
    """The medians of a static module and of the dynamic one at a length, in milliseconds."""
    inputs = tokens(length)
    shapes = {name: array.shape for name, array in inputs.items()}
    static = compiler.compile(model, input_shapes=shapes, target=target, **one_thread(target))
    pairs = [(seconds(static.run, inputs), seconds(module.run, inputs)) for _ in range(runs + 3)]
    alone, dynamic = (1e3 * median(times) for times in zip(*pairs[3:], strict=True))
    report = static.memory
    return {
        "length": length,
        "static_ms": round(alone, 3),
        "bucket_ms": round(dynamic, 3),
        "ratio": round(median(b / a for a, b in pairs[3:]), 3),
        "static_mb": round((report.weights + report.arena) / 1e6, 1),
    }


def errors(model: onnx.ModelProto, module: DynamicModule, lengths: Sequence[int]) -> float:
    """The largest difference from onnxruntime, relative to the largest output."""
    session = cast(Any, onnxruntime).InferenceSession(model.SerializeToString())
    worst = 0.0
    for length in lengths:
        inputs = tokens(length, seed=length)
        found = module.run(inputs).values()
        for ours, theirs in zip(found, session.run(None, inputs), strict=True):
            worst = max(worst, float(abs(ours - theirs).max() / abs(theirs).max()))
    return worst


def small_layer(runs: int, target: str) -> dict[str, float]:
    """Microseconds of a run of a small layer with BERT's inputs, by the length of the run before.

    Inputs are aligned, so that the module alone copies none.
    """
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["": 21]>\n'
        "g (int64[1, n] ids, int64[1, n] mask) => (int64[1, n] y)"
        "{ s = Mul(ids, mask)  y = Add(s, mask) }"
    )
    module = compiler.compile(model, buckets={"n": [128, 256]}, target=target, **one_thread(target))
    assert isinstance(module, DynamicModule)
    modules = module.compiler.modules.values()
    alone = next(bucket for bucket in modules if bucket.inputs[0].shape == (1, 128))
    inputs = {n: aligned_tokens(n) for n in (100, 101, 128, 200)}
    cases = {
        "module": (alone.run, 128, 128),
        "bucket_size": (module.run, 128, 128),
        "same_length": (module.run, 100, 100),
        "other_length": (module.run, 100, 101),
        "other_bucket": (module.run, 100, 200),
    }
    times: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(runs):
        for name, (run, length, before) in cases.items():
            seconds(run, inputs[before])
            times[name].append(seconds(run, inputs[length]))
    return {name: round(1e6 * median(found), 2) for name, found in times.items()}


def aligned_tokens(length: int) -> Arrays:
    """The inputs of the small layer where kernels can read them."""
    arrays = {name: aligned_array((1, length), np.int64) for name in ("ids", "mask")}
    for array in arrays.values():
        array.fill(1)
    return arrays


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--lengths", type=int, nargs="+", default=[64, 128, 256, 512])
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--check", type=int, default=16)
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    model = load_file(MODEL)
    start = perf_counter()
    buckets = {"batch": [1], "length": options.lengths}
    target = options.target
    module = compiler.compile(model, buckets=buckets, target=target, **one_thread(target))
    assert isinstance(module, DynamicModule)
    compiled = perf_counter() - start
    generator = np.random.default_rng(0)
    lengths = sorted(generator.integers(1, max(options.lengths) + 1, options.check).tolist())
    run_us = small_layer(2000, target)
    rows = [compare(model, module, n, options.runs, options.target) for n in options.lengths]
    found = {
        "compile_seconds": round(compiled, 1),
        "rows": rows,
        "memory_mb": round((module.memory.weights + module.memory.arena) / 1e6, 1),
        "largest_static_mb": max(row["static_mb"] for row in rows),
        "checked_lengths": lengths,
        "largest_error": errors(model, module, lengths),
        "run_us": run_us,
        "host_us": {name: round(us - run_us["module"], 2) for name, us in run_us.items()},
    }
    print(json.dumps(found, indent=1))
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
