"""Every distinct convolution and GEMM of the zoo or the field: our kernel against onnxruntime's.

    python benchmarks/cpu_kernels.py [--models resnet50 field:s3d | --field] [--limit 20]

Each operator is one model for onnxruntime (one thread, weights constant), and one
group for us, its blocks run in order on one thread. Figures are the least CPU time of
a call in microseconds, the two taking turns; results are compared first. `ratio` is ours over
onnxruntime's, `GF` our 10^9 operations a second, `build` our seconds to schedule and compile.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from statistics import geometric_mean
from time import perf_counter, process_time, thread_time_ns
from typing import Any

import numpy
import onnx
import onnxruntime
from onnx import helper, numpy_helper

sys.path.insert(0, str(Path(__file__).parent.parent))

from compiler.backends.cpu.bound import BoundKernel
from compiler.backends.memory import aligned_copy
from compiler.frontend.importing import import_model
from compiler.graph.packing import apply_packing
from compiler.ir.dataflow import ConstantOp, NoneOp, OperatorOp, WeightOp
from compiler.ir.types import dtype_of, shape_of
from compiler.ir.values import attributes_of
from compiler.kernels.building.kernel import build_kernel
from compiler.kernels.group import Group, Node, TensorInfo
from compiler.schedule.kernels import KernelSpec
from compiler.target.target import parse_target
from examples import named

TYPES = ("Conv", "ConvTranspose", "Gemm", "MatMul")


@dataclass(frozen=True)
class Problem:
    """An operator with the types of its operands and whether each is a weight."""

    type: str
    attributes: str
    operands: tuple[TensorInfo, ...]
    weights: tuple[bool, ...]
    result: TensorInfo

    @property
    def category(self) -> str:
        """The kind of its work."""
        if self.type == "ConvTranspose":
            return "transposed"
        if self.type in ("Gemm", "MatMul"):
            if not self.weights[1]:
                return "attention"
            columns = self.result.shape[-1]
            return "gemv" if self.result.elements == columns else "gemm"
        groups = json.loads(self.attributes).get("group", 1)
        if groups > 1:
            return "depthwise" if self.operands[1].shape[1] == 1 else "grouped"
        kernel = self.operands[1].shape[2:]
        if len(kernel) != 2:
            return f"{len(kernel)}-D"
        if max(json.loads(self.attributes).get("dilations", [1])) > 1:
            return "dilated"
        return "x".join(map(str, kernel)) if prod(kernel) in (1, 9) else "other kernels"

    @property
    def title(self) -> str:
        """The operands' shapes."""
        strides = json.loads(self.attributes).get("strides", [1])
        shapes = " ".join("x".join(map(str, o.shape)) for o in self.operands[:2])
        return f"{self.type} {shapes}" + (f" /{strides[0]}" if max(strides) > 1 else "")


def problems(name: str) -> Counter[Problem]:
    """The contractions of a network, and how often each occurs."""
    found: Counter[Problem] = Counter()
    for op in import_model(named.load(name)).module.walk():
        if isinstance(op, OperatorOp) and op.type_name in TYPES:
            operands = [v for v in op.inputs if not isinstance(v.owner, NoneOp)]
            found[
                Problem(
                    op.type_name,
                    json.dumps(attributes_of(op), sort_keys=True),
                    tuple(TensorInfo(dtype_of(v.type), tuple(shape_of(v.type))) for v in operands),
                    tuple(isinstance(v.owner, WeightOp | ConstantOp) for v in operands),
                    TensorInfo(dtype_of(op.outputs[0].type), tuple(shape_of(op.outputs[0].type))),
                )
            ] += 1
    return found


def peer(problem: Problem, arrays: Sequence[numpy.ndarray]) -> Callable[[], numpy.ndarray]:
    """The operator as a model that onnxruntime runs on one thread."""
    names = [f"x{i}" for i in range(len(arrays))]
    attributes = json.loads(problem.attributes)
    node = helper.make_node(problem.type, names, ["y"], **attributes)

    def info(name: str, tensor: TensorInfo) -> onnx.ValueInfoProto:
        kind = helper.np_dtype_to_tensor_dtype(numpy.dtype(tensor.dtype))
        return helper.make_tensor_value_info(name, kind, tensor.shape)

    given = list(zip(names, problem.operands, arrays, problem.weights, strict=True))
    graph = helper.make_graph(
        [node],
        "operator",
        [info(name, operand) for name, operand, _, weight in given if not weight],
        [info("y", problem.result)],
        [numpy_helper.from_array(array, name) for name, _, array, weight in given if weight],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    feed = {name: array for name, _, array, weight in given if not weight}
    return lambda: numpy.asarray(session.run(None, feed)[0])


def group_of(problem: Problem) -> Group:
    """The operator as a group."""
    count = len(problem.operands)
    operator = Node(
        problem.type, json.loads(problem.attributes), tuple(range(count)), (count,), "node"
    )
    values = (*problem.operands, problem.result)
    return Group("kernel", values, count, problem.weights, {}, (operator,), (count,))


class Kernel:
    """A built kernel, bound to its buffers."""

    def __init__(self, spec: KernelSpec, arrays: Sequence[numpy.ndarray], result: TensorInfo):
        packed = zip(arrays, spec.packings, strict=True)
        reads = [aligned_copy(apply_packing(array, packing)) for array, packing in packed]
        self.result = aligned_copy(numpy.full(result.shape, numpy.nan, result.dtype))
        self._bound = BoundKernel(spec, reads, [self.result])

    def __call__(self) -> numpy.ndarray:
        """Run all launches."""
        self._bound.run()
        return self.result


def least_times(runs: Sequence[Callable[[], Any]], budget: float) -> list[float]:
    """The least CPU time of each in microseconds, taking turns for `budget` seconds."""
    best = [float("inf")] * len(runs)
    end = perf_counter() + budget
    while perf_counter() < end or best[0] == float("inf"):
        for i, run in enumerate(runs):
            for _ in range(3):
                start = thread_time_ns()
                run()
                best[i] = min(best[i], (thread_time_ns() - start) / 1e3)
    return best


def measure(problem: Problem, budget: float) -> dict[str, Any]:
    """One row of the table."""
    generator = numpy.random.default_rng(0)
    arrays = [
        aligned_copy(generator.standard_normal(o.shape, numpy.float32).astype(o.dtype))
        for o in problem.operands
    ]
    theirs = peer(problem, arrays)
    start = process_time()
    spec = build_kernel(group_of(problem), parse_target("cpu"))
    build = process_time() - start
    ours = Kernel(spec, arrays, problem.result)
    expected = theirs()
    scale = max(1e-6, float(numpy.abs(expected).max()))
    if not numpy.allclose(ours(), expected, rtol=1e-3, atol=1e-4 * scale):
        raise SystemExit(f"{problem.title}: the results differ from onnxruntime's")
    mine, reference = least_times([ours, theirs], budget)
    return {
        "category": problem.category,
        "operator": problem.title,
        "attributes": json.loads(problem.attributes),
        "ours": mine,
        "onnxruntime": reference,
        "ratio": mine / reference,
        "GF": spec.flops / mine / 1e3,
        "build": build,
        "blocks": [launch.grid[0] for launch in spec.launches],
    }


def table(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """The rows as text, then the geometric means."""
    yield f"{'ours':>9} {'onnxrt':>9} {'ratio':>6} {'GF':>6} {'build':>6} {'times':>5}  operator"
    for row in sorted(rows, key=lambda r: (r["category"], r["ratio"])):
        figures = f"{row['ours']:9.1f} {row['onnxruntime']:9.1f} {row['ratio']:6.2f}"
        counts = f"{row['GF']:6.1f} {row['build']:6.2f} {sum(row['counts'].values()):5d}"
        yield f"{figures} {counts}  {row['category']}: {row['operator']}"
    for category in sorted({row["category"] for row in rows}):
        ratios = [row["ratio"] for row in rows if row["category"] == category]
        yield f"{category:>16}: {geometric_mean(ratios):.2f} over {len(ratios)} operators"
    yield f"{'all':>16}: {geometric_mean(row['ratio'] for row in rows):.2f}"


def per_model(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """The sums over each model's operators, each as often as it occurs there."""
    for name in sorted({name for row in rows for name in row["counts"]}):
        mine, reference = (
            sum(row[key] * row["counts"].get(name, 0) for row in rows) / 1e3
            for key in ("ours", "onnxruntime")
        )
        yield f"{name:>16}: {mine:8.2f} ms, onnxruntime {reference:8.2f} ms: {mine / reference:.2f}"


def main() -> None:
    """Measure what the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--models", nargs="+", help="zoo or field:NAME (default: all of the zoo)")
    parser.add_argument("--field", action="store_true", help="the networks of examples/field")
    parser.add_argument("--limit", type=int, help="measure only so many operators, spread evenly")
    parser.add_argument("--budget", type=float, default=0.1, help="seconds of timing an operator")
    parser.add_argument("--category", help="only this kind of operator")
    parser.add_argument("--json", type=Path, help="write the rows there too")
    options = parser.parse_args()
    counts: dict[Problem, Counter[str]] = {}
    for name in options.models or named.usual(options.field):
        for problem, count in problems(name).items():
            if options.category in (None, problem.category):
                counts.setdefault(problem, Counter())[name] += count
    chosen = list(counts)
    if options.limit and options.limit < len(chosen):
        chosen = [chosen[i * len(chosen) // options.limit] for i in range(options.limit)]
    rows: list[dict[str, Any]] = []
    for i, problem in enumerate(chosen):
        if sys.stderr.isatty():
            print(f"\r{i + 1}/{len(chosen)} {problem.title:60.60s}", end="", file=sys.stderr)
        rows.append({**measure(problem, options.budget), "counts": dict(counts[problem])})
    print("\n".join([*table(rows), "", *per_model(rows)]))
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
