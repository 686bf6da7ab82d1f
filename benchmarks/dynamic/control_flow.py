"""The time of one iteration of small loops: Flowloom's schedule, its program with the loop on the
host, and onnxruntime on one thread of the CPU.

`python benchmarks/dynamic/control_flow.py [--target cuda] [--runs N]`. A loop runs for two trip
counts; the difference of the medians over that of the counts is the time of an iteration, without
a run's.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any
from unittest.mock import patch

import numpy as np
import onnx
from onnx import helper, parser

import compiler
from compiler.target.target import parse_target

FEW, MANY = 1_000, 51_000
"""The trip counts whose times are compared, on the emulator a hundredth, as on the host."""

SLOWER = 100
"""The part of the trip counts that loops on the host run."""

COUNTER = """g (int64 trips, int64 x) => (int64 y) {
    yes = Constant<value = bool {1}>()
    y = Loop (trips, yes, x) <
        body = step (int64 i, bool c, int64 v) => (bool d, int64 w) {
            d = Identity(c)
            w = Add(v, i)
        }
    >
}"""

NEWTON = """g (int64 trips, float[16] x) => (float[16] y) {
    yes = Constant<value = bool {1}>()
    y = Loop (trips, yes, x) <
        body = step (int64 i, bool c, float[16] v) => (bool d, float[16] w) {
            q = Div(x, v)
            s = Add(q, v)
            half = Constant<value = float {0.5}>()
            w = Mul(s, half)
            all = ReduceMax<keepdims = 0>(w)
            zero = Constant<value = float {-1.0}>()
            d = Less(zero, all)
        }
    >
}"""

LAYER = """g (int64 trips, float[1, 64] x, float[64, 64] w) => (float[1, 64] y) {
    yes = Constant<value = bool {1}>()
    y = Loop (trips, yes, x) <
        body = step (int64 i, bool c, float[1, 64] v) => (bool d, float[1, 64] u) {
            d = Identity(c)
            a = MatMul(v, w)
            u = Tanh(a)
        }
    >
}"""

LOOPS = {
    "one Add of a number": COUNTER,
    "Newton's step on 16 numbers, condition computed": NEWTON,
    "a dense layer of 64 with Tanh": LAYER,
}

Run = Callable[[Mapping[str, Any]], object]


def model_of(text: str) -> onnx.ModelProto:
    """The model of a graph in ONNX's text form."""
    opsets = [helper.make_opsetid("", 21)]
    return helper.make_model(parser.parse_graph(text), opset_imports=opsets, ir_version=10)


def peer(model: onnx.ModelProto) -> Run:
    """Onnxruntime on one thread."""
    runtime: Any = import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = runtime.InferenceSession(model.SerializeToString(), options)
    return lambda feeds: session.run(None, dict(feeds))


def feeds_of(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    """Inputs that keep values small; the trip count is set for each run."""
    random, feeds = np.random.default_rng(0), dict[str, np.ndarray]()
    for info in model.graph.input:
        tensor = info.type.tensor_type
        shape = [dim.dim_value for dim in tensor.shape.dim]
        dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        values = random.uniform(0.1, 0.9, shape) / max(shape, default=1)
        feeds[info.name] = np.asarray(values, dtype)
    return feeds


def microseconds_an_iteration(
    run: Run, feeds: Mapping[str, Any], runs: int, part: int = 1
) -> float:
    """The slope between few and many iterations, of which a part is run."""
    medians: list[float] = []
    for trips in (FEW // part, MANY // part):
        given = {**feeds, "trips": np.array(trips)}
        run(given)
        times: list[float] = []
        for _ in range(runs):
            start = time.perf_counter()
            run(given)
            times.append(time.perf_counter() - start)
        medians.append(statistics.median(times))
    return 1e6 * (medians[1] - medians[0]) / (MANY // part - FEW // part)


def on_the_host(model: onnx.ModelProto, target: str, options: Mapping[str, Any]) -> Run:
    """The model as a program, for a target whose schedules have no loops."""
    with patch.object(type(parse_target(target)), "runs_control_flow", False):
        return compiler.compile(model, target=target, **options).run


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description="the time of one iteration of small loops")
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--target", default="cpu")
    given = parser.parse_args()
    runs, target = given.runs, given.target
    options: dict[str, Any] = {"threads": 1} if target == "cpu" else {}
    part = SLOWER if parse_target(target).backend == "emu" else 1
    print("| body | schedule, us | on the host, us | onnxruntime, us |\n|---|---|---|---|")
    for name, text in LOOPS.items():
        model = model_of(text)
        feeds = feeds_of(model)
        module = compiler.compile(model, target=target, dynamic=False, **options)
        ours = microseconds_an_iteration(module.run, feeds, runs, part)
        host = microseconds_an_iteration(on_the_host(model, target, options), feeds, runs, SLOWER)
        other = microseconds_an_iteration(peer(model), feeds, runs)
        print(f"| {name} | {ours:.4f} | {host:.2f} | {other:.2f} |", flush=True)


if __name__ == "__main__":
    main()
