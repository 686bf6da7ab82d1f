"""Inputs at any element of memory, against the same inputs at a multiple of 64 bytes.

    python benchmarks/cpu/unaligned_inputs.py [NAME...] [--seconds 4]

numpy's arrays begin at a multiple of 16 bytes. A run can read such an input where it is, or copy it
first. One thread; the contenders take turns; figures are the tenth percentile of the process's
time: microseconds of aligned inputs, then the other two over it.
"""

import argparse
import sys
from itertools import pairwise
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
import onnx.parser

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

import compiler
from compiler.artifact.module import Module
from compiler.backends.memory import aligned_array, aligned_copy

MODELS = {
    "matmul": "(float[128, 768] x, float[768, 768] w) => (float[128, 768] y) { y = MatMul(x, w) }",
    "wide": "(float[512, 512] x, float[512, 2048] w) => (float[512, 2048] y) { y = MatMul(x, w) }",
    "heads": "(float[12, 128, 64] x, float[12, 64, 128] w) => (float[12, 128, 128] y)"
    " { y = MatMul(x, w) }",
    "conv3": "(float[1, 64, 56, 56] x, float[64, 64, 3, 3] w) => (float[1, 64, 56, 56] y)"
    " { y = Conv<pads = [1, 1, 1, 1]>(x, w) }",
    "conv1": "(float[1, 64, 56, 56] x, float[64, 64, 1, 1] w) => (float[1, 64, 56, 56] y)"
    " { y = Conv(x, w) }",
    "depthwise": "(float[1, 64, 56, 56] x, float[64, 1, 3, 3] w) => (float[1, 64, 56, 56] y)"
    " { y = Conv<pads = [1, 1, 1, 1], group = 64>(x, w) }",
    "pool": "(float[1, 64, 112, 112] x) => (float[1, 64, 56, 56] y)"
    " { y = MaxPool<kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]>(x) }",
    "softmax": "(float[12, 128, 128] x) => (float[12, 128, 128] y) { y = Softmax(x) }",
    "transpose": "(float[512, 1024] x) => (float[1024, 512] y) { y = Transpose<perm = [1, 0]>(x) }",
    "mean": "(float[512, 1024] x) => (float[512, 1] y) { y = ReduceMean<axes = [1]>(x) }",
    "add": "(float[512, 1024] x, float[512, 1024] z) => (float[512, 1024] y) { y = Add(x, z) }",
}


def at(element: int, shape: list[int]) -> np.ndarray[Any, np.dtype[Any]]:
    """Random floats that begin so many elements after a multiple of 64 bytes."""
    count = int(np.prod(shape))
    array = aligned_array((count + element,), np.float32)[element:].reshape(shape)
    array[...] = np.random.default_rng(0).random(shape, np.float32)
    return array


def main() -> None:
    """Print a row for each model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(MODELS)}")
    parser.add_argument("--seconds", type=float, default=4.0, help="for each model (default: 4)")
    arguments = parser.parse_args()
    print(f"{'model':10} {'aligned us':>10} {'in place':>9} {'copied':>7}")
    for name in arguments.names or MODELS:
        header = '<ir_version: 8, opset_import: ["" : 17]> g '
        model = onnx.parser.parse_model(header + MODELS[name])
        module = compiler.compile(model, target="cpu", threads=1)
        assert isinstance(module, Module)
        shapes = {i.name: list(i.shape) for i in module.inputs}
        aligned = {name: at(0, shape) for name, shape in shapes.items()}
        other = {name: at(4, shape) for name, shape in shapes.items()}
        times: list[list[float]] = []
        end = perf_counter() + arguments.seconds
        while perf_counter() < end:
            points = [process_time()]
            module.run(aligned)
            points.append(process_time())
            module.run(other)
            points.append(process_time())
            module.run({name: aligned_copy(array) for name, array in other.items()})
            points.append(process_time())
            times.append([after - before for before, after in pairwise(points)])
        best, in_place, copied = np.percentile(times, 10, axis=0) * 1e6
        print(f"{name:10} {best:10.1f} {in_place / best:9.3f} {copied / best:7.3f}", flush=True)


if __name__ == "__main__":
    main()
