"""Models quantised by onnxruntime's tools, in bytes and in float32: Flowloom against onnxruntime.

    python benchmarks/quantised/models.py [--models resnet50 bert128] [--ways static dynamic]
        [--runs 15] [--json FILE]

`static` is `quantize_static`: QDQ pairs, uint8 activations calibrated on three random inputs, int8
weights by channel. `dynamic` is `quantize_dynamic` with int8 weights, which leaves convolutions in
float32. All four contenders run on one thread of the CPU and take turns; a figure is the median of
that thread's CPU time in milliseconds, `least` the least one: other processes count only in that
they share the caches. Errors are relative to the norm of onnxruntime's float32 output.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter, thread_time
from typing import Any, cast

sys.path.insert(0, str(Path(__file__).parents[2]))

import numpy as np
import onnx
import onnxruntime
from onnxruntime import quantization

import compiler
from examples import zoo

Arrays = dict[str, np.ndarray]
Run = Callable[[Arrays], Sequence[np.ndarray]]
tools = cast(Any, quantization)


class Calibration(tools.CalibrationDataReader):
    """Random inputs, one set after another."""

    def __init__(self, model: onnx.ModelProto, count: int = 3) -> None:
        self._left = [zoo.random_inputs(model, seed) for seed in range(100, 100 + count)]

    def get_next(self) -> Arrays | None:
        """The next set; None at the end."""
        return self._left.pop() if self._left else None


def quantised(model: onnx.ModelProto, way: str, folder: Path) -> onnx.ModelProto:
    """A model quantised by onnxruntime's tools."""
    plain, prepared, found = (folder / f"{way}-{part}.onnx" for part in ("plain", "shaped", "int8"))
    onnx.save(model, plain)
    tools.shape_inference.quant_pre_process(plain, prepared, skip_symbolic_shape=True)
    if way == "dynamic":
        tools.quantize_dynamic(prepared, found, weight_type=tools.QuantType.QInt8)
    else:
        tools.quantize_static(
            prepared,
            found,
            Calibration(model),
            quant_format=tools.QuantFormat.QDQ,
            per_channel=True,
            activation_type=tools.QuantType.QUInt8,
            weight_type=tools.QuantType.QInt8,
        )
    return onnx.load(found)


def ours(model: onnx.ModelProto) -> Run:
    """Flowloom on one thread."""
    module = compiler.compile(model, threads=1)
    return lambda inputs: [*cast(Arrays, module.run(inputs)).values()]


def theirs(model: onnx.ModelProto) -> Run:
    """onnxruntime on one thread, with all its optimisations."""
    runtime = cast(Any, onnxruntime)
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = runtime.InferenceSession(model.SerializeToString(), options)
    return lambda inputs: session.run(None, inputs)


def timed(contenders: Mapping[str, Run], inputs: Arrays, runs: int) -> dict[str, list[float]]:
    """Milliseconds of CPU time of each contender's runs; they take turns."""
    taken: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(runs + 2):
        for name, run in contenders.items():
            start = thread_time()
            run(inputs)
            if turn >= 2:
                taken[name].append(1e3 * (thread_time() - start))
    return taken


def measured(name: str, way: str, runs: int) -> dict[str, Any]:
    """The row of a model that is quantised in one way."""
    model = zoo.load(name)
    inputs = zoo.random_inputs(model, 0)
    with tempfile.TemporaryDirectory() as folder:
        narrow = quantised(model, way, Path(folder))
    start = perf_counter()
    contenders = {"int8": ours(narrow)}
    seconds = round(perf_counter() - start, 1)
    contenders |= {"fp32": ours(model), "ort_int8": theirs(narrow), "ort_fp32": theirs(model)}
    outputs = {name: run(inputs)[0].astype("f8") for name, run in contenders.items()}
    exact = outputs["ort_fp32"]
    errors = {
        name: round(float(np.linalg.norm(outputs[name] - exact) / np.linalg.norm(exact)), 5)
        for name in ("int8", "ort_int8")
    }
    taken = timed(contenders, inputs, runs)
    times, least = (
        {name: round(of(spans), 2) for name, spans in taken.items()} for of in (median, min)
    )
    return {
        "model": name,
        "way": way,
        "ms": times,
        "least": least,
        "times_fp32": round(times["fp32"] / times["int8"], 2),
        "times_ort_int8": round(times["ort_int8"] / times["int8"], 2),
        "errors": errors,
        "compile_seconds": seconds,
    }


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--models", nargs="+", default=["resnet50", "bert128"])
    parser.add_argument("--ways", nargs="+", default=["static", "dynamic"])
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--json", type=Path, help="a line a row, written as it is measured")
    options = parser.parse_args()
    for name in options.models:
        for way in options.ways:
            row = measured(name, way, options.runs)
            print(json.dumps(row), flush=True)
            if options.json is not None:
                with options.json.open("a") as file:
                    print(json.dumps(row), file=file)


if __name__ == "__main__":
    main()
