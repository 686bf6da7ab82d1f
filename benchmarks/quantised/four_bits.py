"""Matmuls of a decoder by weights of four bits: Flowloom against floats and onnxruntime.

    python benchmarks/quantised/four_bits.py [--target cpu] [--shapes 2048x5632 4096x4096]
        [--rows 1 4 16] [--block 32] [--layers 12] [--threads 1] [--runs 15] [--json FILE]

A model is a chain of `layers` MatMulNBits, by K x N and N x K in turns, whose weights do not fit
the caches. On the CPU the contenders are Flowloom with packed weights, Flowloom with the same
weights as float32, and onnxruntime's MatMulNBits with accuracy_level 0 (float32) and 4 (activations
rounded to int8). On another target they are Flowloom with packed weights and with float16 ones:
onnxruntime is not needed then. They take turns; figures are the median and the least time of a run,
divided by the number of layers, in microseconds. Errors are relative to the norm of the result in
float64.
"""

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, cast

sys.path.insert(0, str(Path(__file__).parents[2]))

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

import compiler
from compiler.net.four_bits import four_bit_numbers

Array = NDArray[Any]
Run = Callable[[Array], Array]


@dataclass(frozen=True)
class Layer:
    """The packed weight and the scales of a MatMulNBits of K x N."""

    packed: Array
    scales: Array
    depth: int

    @property
    def numbers(self) -> Array:
        """The weight (K, N) as float32."""
        return np.ascontiguousarray(four_bit_numbers(self.packed, self.scales, None, self.depth).T)


def random_layer(random: np.random.Generator, depth: int, columns: int, block: int) -> Layer:
    """A layer whose results are about as large as its input."""
    blocks = -(-depth // block)
    packed = random.integers(0, 256, (columns, blocks, block // 2)).astype(np.uint8)
    signs = random.choice([-1, 1], (columns, blocks))  # the integers have a mean of -1/2
    scales = signs * random.uniform(0.5, 1.5, (columns, blocks)) / (4.6 * depth**0.5)
    return Layer(packed, scales.astype(np.float32), depth)


def model_of(
    layers: Sequence[Layer], rows: int, floats: bool = False, level: int = 0
) -> onnx.ModelProto:
    """The chain of some layers, by MatMulNBits or by MatMuls of float32."""
    nodes: list[onnx.NodeProto] = []
    given: list[onnx.TensorProto] = []
    for i, layer in enumerate(layers):
        before, after = f"x{i}", f"x{i + 1}"
        columns, _, half = layer.packed.shape
        if floats:
            given.append(numpy_helper.from_array(layer.numbers, f"w{i}"))
            nodes.append(helper.make_node("MatMul", [before, f"w{i}"], [after]))
            continue
        given.append(numpy_helper.from_array(layer.packed, f"w{i}"))
        given.append(numpy_helper.from_array(layer.scales, f"s{i}"))
        sizes: dict[str, Any] = {"K": layer.depth, "N": columns, "block_size": 2 * half}
        sizes |= {"bits": 4, "accuracy_level": level, "domain": "com.microsoft"}
        nodes.append(helper.make_node("MatMulNBits", [before, f"w{i}", f"s{i}"], [after], **sizes))
    shapes = (rows, layers[0].depth), (rows, layers[-1].packed.shape[0])
    first, last = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in zip(("x0", f"x{len(layers)}"), shapes, strict=True)
    )
    graph = helper.make_graph(nodes, "decoder", [first], [last], given)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def ours(model: onnx.ModelProto, **options: Any) -> Run:
    """Flowloom's results of the chain."""
    module = compiler.compile(model, **options)
    return lambda x: next(iter(module.run({"x0": x}).values()))


def theirs(model: onnx.ModelProto, threads: int) -> Run:
    """onnxruntime's results of the chain."""
    import onnxruntime

    runtime = cast(Any, onnxruntime)
    options = runtime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    providers = ["CPUExecutionProvider"]
    session = runtime.InferenceSession(model.SerializeToString(), options, providers)
    return lambda x: session.run(None, {"x0": x})[0]


def contenders(layers: Sequence[Layer], rows: int, target: str, threads: int) -> dict[str, Run]:
    """The contenders of a target by name."""
    packed, floats = model_of(layers, rows), model_of(layers, rows, floats=True)
    if target != "cpu":
        options: dict[str, Any] = {"target": target, "precision": "fp16"}
        return {
            "ours": ours(packed, quantised="bytes", **options),
            "ours fp16": ours(floats, **options),
        }
    return {
        "ours": ours(packed, threads=threads),
        "ours fp32": ours(floats, threads=threads),
        "onnxruntime": theirs(packed, threads),
        "onnxruntime level 4": theirs(model_of(layers, rows, level=4), threads),
    }


def samples(runs: Mapping[str, Run], x: Array, count: int) -> dict[str, list[float]]:
    """The seconds of each, after one run of each, in turns."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(count + 1):
        for name, run in runs.items():
            start = perf_counter()
            run(x)
            times[name] += [perf_counter() - start] if turn else []
    return times


def measure(shape: str, rows: int, options: argparse.Namespace) -> dict[str, Any]:
    """One row: microseconds of a layer and the errors."""
    depth, columns = map(int, shape.split("x"))
    random, turns = np.random.default_rng(rows), ((depth, columns), (columns, depth))
    layers = [random_layer(random, *turns[i % 2], options.block) for i in range(options.layers)]
    x = random.standard_normal((rows, depth)).astype(np.float32)
    runs = contenders(layers, rows, options.target, options.threads)
    expected = x.astype(np.float64)
    for layer in layers:
        expected = expected @ layer.numbers.astype(np.float64)
    size = np.linalg.norm(expected)
    errors = {name: float(np.linalg.norm(run(x) - expected) / size) for name, run in runs.items()}
    times = {
        name: [round(1e6 * f(found) / options.layers) for f in (median, min)]
        for name, found in samples(runs, x, options.runs).items()
    }
    return {"shape": shape, "rows": rows, "us": times, "errors": errors}


def main() -> None:
    """Measure all shapes and rows, and print a table."""
    parser = argparse.ArgumentParser(description="Matmuls by weights of four bits")
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--shapes", nargs="+", default=["2048x5632", "4096x4096"])
    parser.add_argument("--rows", nargs="+", type=int, default=[1, 4, 16])
    parser.add_argument("--block", type=int, default=32)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    results: list[dict[str, Any]] = []
    for shape in options.shapes:
        for rows in options.rows:
            row = measure(shape, rows, options)
            results.append(row)
            if len(results) == 1:
                print("| shape | rows | " + " | ".join(row["us"]) + " |")
            cells = [f"{middle} ({least})" for middle, least in row["us"].values()]
            print(f"| {shape} | {rows} | " + " | ".join(cells) + " |")
            print("  errors: " + ", ".join(f"{e:.1e}" for e in row["errors"].values()), flush=True)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
