"""Models of one operator with an open axis: the first run at a new size, and later runs.

    python benchmarks/dynamic/operators.py [CASE ...] [--json FILE]

For each case, in milliseconds on one thread: the median first run at sizes that the module has not
seen, after one that it was compiled for; then at the largest size the least run of the module, of
one that is compiled for that size alone, and of onnxruntime, in turns.
"""

import argparse
import json
import logging
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, cast

sys.path.insert(0, str(Path(__file__).parents[2]))

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper, parser

import compiler

SIZES = (300, 410, 365, 333, 470, 305, 900)
"""Of the open axis, the first of them for the compilation, the largest last."""

TURNS = 30

Arrays = dict[str, np.ndarray]


def model_of(text: str, weights: Mapping[str, tuple[int, ...]] | None = None) -> onnx.ModelProto:
    """A model from its text, with random weights by name."""
    random = np.random.default_rng(1)
    model = parser.parse_model(f'<ir_version: 10, opset_import: ["": 21]> {text}')
    for name, shape in (weights or {}).items():
        array = 0.1 * random.standard_normal(shape).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    return model


def recurrence(kind: str, gates: int) -> onnx.ModelProto:
    """256 features and as many states over an open number of steps of a batch of two."""
    shape = (1, gates * 256, 256)
    return model_of(
        "g (float[n, 2, 256] x) => (float[n, 1, 2, 256] y)"
        f" {{ y = {kind}<hidden_size=256>(x, w, r) }}",
        {"w": shape, "r": shape},
    )


CASES: dict[str, Callable[[], onnx.ModelProto]] = {
    "cumsum": lambda: model_of(
        "g (float[n, 1000] x) => (float[n, 1000] y) <int64 axis = {0}> { y = CumSum(x, axis) }"
    ),
    "cumsum of open rows": lambda: model_of(
        "g (float[1000, n] x) => (float[1000, n] y) <int64 axis = {1}> { y = CumSum(x, axis) }"
    ),
    "topk": lambda: model_of(
        "g (float[100, n] x) => (float[100, 5] y, int64[100, 5] i) <int64[1] k = {5}>"
        " { y, i = TopK(x, k) }"
    ),
    "sort": lambda: model_of(
        "g (float[100, n] x) => (float[100, n] y, int64[100, n] i) <int64[1] last = {-1}>"
        " { s = Shape<start=1>(x) y, i = TopK(x, s) }"
    ),
    "einsum": lambda: model_of(
        'g (float[n, 4, 64] x) => (float[4, n, n] y) { y = Einsum<equation="ihd,jhd->hij">(x, x) }'
    ),
    "lstm": lambda: recurrence("LSTM", 4),
    "gru": lambda: recurrence("GRU", 3),
    "resize": lambda: model_of(
        "g (float[1, 8, n, 300] x) => (float[1, 8, a, b] y) <float[4] s = {1.0, 1.0, 0.7, 0.7}>"
        ' { y = Resize<mode="linear">(x, , s) }'
    ),
}


def inputs_of(model: onnx.ModelProto, size: int) -> Arrays:
    """Random inputs whose open axis has a size."""
    random = np.random.default_rng(size)
    return {
        value.name: random.standard_normal(
            [dim.dim_value or size for dim in value.type.tensor_type.shape.dim]
        ).astype(np.float32)
        for value in model.graph.input
    }


def milliseconds(run: Callable[[], Any]) -> float:
    """The time of one run."""
    start = perf_counter()
    run()
    return 1e3 * (perf_counter() - start)


def measured(model: onnx.ModelProto) -> dict[str, float]:
    """The columns of a model, in milliseconds."""
    module = compiler.compile(model, threads=1)
    first, *others = (inputs_of(model, size) for size in SIZES)
    module.run(first)
    firsts = [milliseconds(lambda feeds=feeds: module.run(feeds)) for feeds in others]
    feeds = others[-1]
    shapes = {name: array.shape for name, array in feeds.items()}
    fixed = compiler.compile(model, threads=1, input_shapes=shapes)
    settings = cast(Any, onnxruntime).SessionOptions()
    settings.log_severity_level = 3  # its float32 rounds 0.7 of 300 to 209 here and to 210 there
    settings.intra_op_num_threads = 1
    peer: Any = onnxruntime.InferenceSession(model.SerializeToString(), settings)
    runs: dict[str, Callable[[], Any]] = {
        "symbolic": lambda: module.run(feeds),
        "fixed": lambda: fixed.run(feeds),
        "onnxruntime": lambda: peer.run(None, feeds),
    }
    for name, expected in zip(fixed.run(feeds), peer.run(None, feeds), strict=False):
        np.testing.assert_allclose(module.run(feeds)[name], expected, rtol=1e-3, atol=1e-3)
    turns = [{name: milliseconds(run) for name, run in runs.items()} for _ in range(TURNS)]
    return {"new size": median(firsts)} | {name: min(t[name] for t in turns) for name in runs}


def main() -> None:
    """The command line."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    arguments.add_argument("cases", nargs="*", default=[*CASES], metavar="CASE")
    arguments.add_argument("--json", type=Path)
    options = arguments.parse_args()
    logging.getLogger("compiler").setLevel(logging.ERROR)
    rows = {case: measured(CASES[case]()) for case in options.cases}
    print("| case | " + " | ".join(next(iter(rows.values()))) + " |\n|---|---|---|---|---|")
    for case, row in rows.items():
        print(f"| {case} | " + " | ".join(f"{value:.2f}" for value in row.values()) + " |")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
