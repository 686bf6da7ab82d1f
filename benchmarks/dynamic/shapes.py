"""A BERT of any length from one module: its time at buckets' sizes, its memory and its switches.

    python benchmarks/dynamic/shapes.py [--lengths 64 128 256 512] [--runs 30] [--check 16]
        [--target cpu] [--json FILE]

BERT-base (`examples/exports/bert_base.light.onnx`, batch 1) is compiled once with the lengths as
buckets, and once for each length alone; both run in turns on one thread. `--check` compares that
many random lengths with onnxruntime. A switch is the time that a run takes longer if the run before
had another length, in the same bucket and in another one, measured on a network of one small layer.
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


def switches(runs: int, target: str) -> dict[str, float]:
    """Microseconds of a run of a small layer: of one length, and if lengths alternate."""
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["": 21]>\n'
        "g (float[n, 64] x) => (float[n, 64] y) { s = Mul(x, x)  y = Add(s, x) }"
    )
    module = compiler.compile(model, buckets={"n": [32, 64]}, target=target, **one_thread(target))
    inputs = {n: {"x": np.ones((n, 64), np.float32)} for n in (30, 31, 62)}
    found: dict[str, float] = {}
    for name, (first, second) in {
        "same": (30, 30),
        "other_length": (30, 31),
        "other_bucket": (30, 62),
    }.items():
        times: list[float] = []
        for _ in range(runs):
            seconds(module.run, inputs[second])
            times.append(seconds(module.run, inputs[first]))
        found[name] = round(1e6 * median(times), 2)
    return found


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
    rows = [compare(model, module, n, options.runs, options.target) for n in options.lengths]
    found = {
        "compile_seconds": round(compiled, 1),
        "rows": rows,
        "memory_mb": round((module.memory.weights + module.memory.arena) / 1e6, 1),
        "largest_static_mb": max(row["static_mb"] for row in rows),
        "checked_lengths": lengths,
        "largest_error": errors(model, module, lengths),
        "run_us": switches(2000, options.target),
    }
    print(json.dumps(found, indent=1))
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
