"""A model of open dimensions at sizes that it has not seen: the first run and the later ones.

    python benchmarks/dynamic/new_sizes.py MODEL.onnx --sizes length=64,100,37 [batch=1]
        [--runs 20] [--fixed] [--turns 200] [--target cpu] [--json FILE]
    python benchmarks/dynamic/new_sizes.py examples/zoo/models/resnet50.light.onnx
        --open x=1,3,height,width --sizes height,width=224x224,256x320,160x192

`--open` names axes of an input of a model that is exported for one size. For each size of the
symbols that are listed first, the others at their first size: the milliseconds of the first run
and the least of later ones, next to onnxruntime's in the same process, one thread each; on a CPU
also those of the first run besides its kernels (`besides_ms`). `--fixed` compiles the model for
each size alone, too, and runs all listed sizes one after the other by both. `--turns` runs that
many random sizes in turns. Without a model, BERT-base at several lengths.
"""

import argparse
import json
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any, cast

sys.path.insert(0, str(Path(__file__).parents[2]))

import numpy as np
import onnx
import onnxruntime

import compiler
from compiler.backends.cpu.executable import CpuExecutor
from compiler.program.model import DynamicModule
from compiler.target.target import parse_target
from examples.light import load_file

MODEL = Path(__file__).parents[2] / "examples" / "exports" / "bert_base.light.onnx"
SIZES = ("length=64,100,37,128,200", "batch=1")
MOST_INTEGER = 50
"""Integers are drawn below this: they are indices of words as a rule."""

RUN = "_run"
"""The method of an executor on a CPU that runs the kernels."""

Arrays = dict[str, np.ndarray]


def inputs_of(module: DynamicModule, sizes: Mapping[str, int]) -> Arrays:
    """Random inputs for sizes by symbol; integers are at least 1, as masks are."""
    random = np.random.default_rng(sum(sizes.values()))
    arrays: Arrays = {}
    for value in module.inputs:
        assert value.shape is not None, f"{value.name} has any rank"
        shape: list[int] = []
        for axis, extent in enumerate(value.shape):
            shape.append(
                extent if isinstance(extent, int) else sizes[extent or f"{value.name}.{axis}"]
            )
        dtype = np.dtype(value.dtype)
        if dtype.kind in "iub":
            arrays[value.name] = random.integers(1, MOST_INTEGER, shape).astype(dtype)
        else:
            arrays[value.name] = random.standard_normal(shape).astype(dtype)
    return arrays


def with_open_axes(model: onnx.ModelProto, texts: Sequence[str]) -> None:
    """Name axes of inputs, each as in `x=1,3,height,width`, and forget the shapes that follow."""
    inputs = {value.name: value for value in model.graph.input}
    for name, _, axes in (text.partition("=") for text in texts):
        dimensions = inputs[name].type.tensor_type.shape.dim
        for dimension, axis in zip(dimensions, axes.split(","), strict=True):
            if not axis.isdecimal():
                dimension.dim_param = axis
    if texts:
        del model.graph.value_info[:]
        for value in model.graph.output:
            value.type.tensor_type.ClearField("shape")


def sizes_listed(texts: Sequence[str]) -> list[list[dict[str, int]]]:
    """The sizes of each list, by symbol: `length=64,100` or `height,width=224x224,256x320`."""
    return [
        [dict(zip(names.split(","), map(int, n.split("x")), strict=True)) for n in sizes.split(",")]
        for names, _, sizes in (text.partition("=") for text in texts)
    ]


def milliseconds(run: Any, inputs: Arrays, runs: int = 1) -> float:
    """The least time of some runs."""
    times: list[float] = []
    for _ in range(runs):
        start = perf_counter()
        run(inputs)
        times.append(1e3 * (perf_counter() - start))
    return min(times)


@contextmanager
def kernels_timed() -> Generator[list[float]]:
    """Within it, the milliseconds that each run's kernels take on a CPU."""
    times: list[float] = []
    run: Any = getattr(CpuExecutor, RUN)

    def timed(*arguments: Any) -> None:
        start = perf_counter()
        run(*arguments)
        times.append(1e3 * (perf_counter() - start))

    setattr(CpuExecutor, RUN, timed)
    try:
        yield times
    finally:
        setattr(CpuExecutor, RUN, run)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("model", nargs="?", type=Path, default=MODEL)
    parser.add_argument("--sizes", nargs="+", default=SIZES, metavar="SYMBOL=N,N,...")
    parser.add_argument("--open", nargs="+", default=(), metavar="INPUT=AXIS,...")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--turns", type=int, default=0)
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    every, *others = sizes_listed(options.sizes)
    common = {symbol: size for sizes in others for symbol, size in sizes[0].items()}
    model = load_file(options.model)
    with_open_axes(model, options.open)
    start = perf_counter()
    target = options.target
    threads: dict[str, Any] = {"threads": 1} if parse_target(target).backend == "cpu" else {}
    module = compiler.compile(model, target=target, **threads)
    opened = perf_counter() - start
    assert isinstance(module, DynamicModule), "the model has no open dimension"
    settings = cast(Any, onnxruntime).SessionOptions()
    settings.intra_op_num_threads = 1
    session = cast(Any, onnxruntime).InferenceSession(model.SerializeToString(), settings)

    def peer(inputs: Arrays) -> Any:
        return session.run(None, inputs)

    rows: list[dict[str, float]] = []
    fixed: list[tuple[Arrays, Any]] = []
    for size in every:
        inputs = inputs_of(module, common | size)
        row: dict[str, float] = {**size}
        with kernels_timed() as kernels:
            row["first_ms"] = milliseconds(module.run, inputs)
        if kernels:
            row["besides_ms"] = row["first_ms"] - sum(kernels)
        row["onnxruntime_first_ms"] = milliseconds(peer, inputs)
        pairs = [(milliseconds(module.run, inputs), milliseconds(peer, inputs))
                 for _ in range(options.runs)]  # fmt: skip
        row["later_ms"], row["onnxruntime_ms"] = (min(t) for t in zip(*pairs, strict=True))
        row["to_onnxruntime"] = row["later_ms"] / row["onnxruntime_ms"]
        if options.fixed:
            shapes = {name: array.shape for name, array in inputs.items()}
            alone = compiler.compile(model, input_shapes=shapes, target=target, **threads)
            turns = [(milliseconds(module.run, inputs), milliseconds(alone.run, inputs))
                     for _ in range(options.runs + 2)]  # fmt: skip
            ours, theirs = (min(t) for t in zip(*turns[2:], strict=True))
            row |= {"fixed_ms": theirs, "to_fixed": ours / theirs}
            fixed.append((inputs, alone))
        rows.append({name: round(value, 3) for name, value in row.items()})
        print(json.dumps(rows[-1]), flush=True)
    result: dict[str, Any] = {"open_s": round(opened, 2), "rows": rows}
    if fixed:
        result["alternating"] = alternating(module, fixed, options.runs)
        print(json.dumps(result["alternating"]))
    if options.turns:
        result["turns"] = in_turns(module, peer, common, every, options.turns)
        print(json.dumps(result["turns"]))
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")


def alternating(
    module: DynamicModule, fixed: list[tuple[Arrays, Any]], runs: int
) -> dict[str, float]:
    """The least milliseconds in which all sizes run once, by the module and by one of each size."""
    ours = min(sum(milliseconds(module.run, arrays) for arrays, _ in fixed) for _ in range(runs))
    theirs = min(sum(milliseconds(own.run, arrays) for arrays, own in fixed) for _ in range(runs))
    return {"ms": round(ours, 3), "fixed_ms": round(theirs, 3), "to_fixed": round(ours / theirs, 3)}


def in_turns(
    module: DynamicModule,
    peer: Any,
    common: dict[str, int],
    sizes: Sequence[Mapping[str, int]],
    n: int,
) -> dict[str, float]:
    """Seconds of runs at random sizes between the least and the largest, nearly all of them new."""
    random = np.random.default_rng(0)
    ranges = {s: (min(x[s] for x in sizes), max(x[s] for x in sizes) + 1) for s in sizes[0]}
    drawn = [{s: int(random.integers(*ends)) for s, ends in ranges.items()} for _ in range(n)]
    every = [inputs_of(module, common | size) for size in drawn]
    ours = sum(milliseconds(module.run, inputs) for inputs in every) / 1e3
    theirs = sum(milliseconds(peer, inputs) for inputs in every) / 1e3
    return {"runs": n, "seconds": round(ours, 3), "onnxruntime_seconds": round(theirs, 3)}


if __name__ == "__main__":
    main()
