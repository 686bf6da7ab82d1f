"""TopK, sorts and running sums on the CPU against onnxruntime, in turns.

    python benchmarks/sorting/cpu.py [--seconds 1]

Each row is one operator: a kernel for us, whose blocks run in order on one thread, and a model for
onnxruntime, on one thread. Figures are the least CPU time of a call in milliseconds, the two taking
turns. Results are compared first: positions must be equal, sums within rounding.
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.cpu_kernels import least_times
from benchmarks.sorting.cases import Sorting
from compiler.backends.cpu.bound import BoundKernel
from compiler.backends.memory import aligned_copy
from compiler.kernels.building.kernel import build_kernel
from compiler.target.target import parse_target


class Case(Sorting):
    """An operator along an axis, on floats."""

    def model(self) -> onnx.ModelProto:
        """The operator as a model."""
        names = [f"y{i}" for i in range(len(self.results))]
        attributes: dict[str, Any] = {"axis": self.axis} if self.count else {}
        type = self.operator.type
        node = helper.make_node(type, ["x", "constant"], names, **attributes)
        kinds = {"float32": TensorProto.FLOAT, "int64": TensorProto.INT64}
        results = [
            helper.make_tensor_value_info(name, kinds[info.dtype], info.shape)
            for name, info in zip(names, self.results, strict=True)
        ]
        read = helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)
        constant = numpy.array([self.count]) if self.count else numpy.array(self.axis)
        constants = [numpy_helper.from_array(constant, "constant")]
        graph = helper.make_graph([node], "operator", [read], results, constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


CASES = (
    Case((8, 2000), 1, 2000),
    Case((8, 8000), 1, 8000),
    Case((8, 32_000), 1, 32_000),
    Case((8, 32_000), 1, 50),
    Case((1, 1_000_000), 1, 10),
    Case((1, 1_000_000), 1, 100),
    Case((1, 1_000_000), 1, 1_000_000),
    Case((1024, 1024), 1, 20),
    Case((1, 8400), 1, 300),
    Case((10_000, 32), 1, 32),
    Case((64, 500, 64), 1, 10),
    Case((1, 1_000_000), 1),
    Case((64, 4096), 1),
    Case((1, 1024, 1024), 1),
    Case((8, 512, 1024), 1),
    Case((4096, 64), 1),
)
"""Sorts of logits, candidates of detectors, neighbours in point clouds; scans along any axis."""


def runs_of(case: Case) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """A run of ours and of onnxruntime, which give the same."""
    x = aligned_copy(numpy.random.default_rng(0).standard_normal(case.shape, numpy.float32))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        case.model().SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    results = [aligned_copy(numpy.full(info.shape, -1, info.dtype)) for info in case.results]
    kernel = BoundKernel(build_kernel(case.group(), parse_target("cpu")), [x], results)
    kernel.run()
    mine, theirs = results[-1], numpy.asarray(session.run(None, {"x": x})[-1])
    same = numpy.array_equal(mine, theirs)
    if not case.count:
        same = numpy.allclose(mine, theirs, rtol=1e-4, atol=1e-6 * float(numpy.abs(x).sum()))
    if not same:
        raise SystemExit(f"{case.title}: the results differ from onnxruntime's")
    return kernel.run, lambda: session.run(None, {"x": x})


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=1.0, help="of each row")
    options = parser.parse_args()
    ratios: list[float] = []
    print("| operator | ours, ms | onnxruntime, ms | ratio |\n|---|---|---|---|")
    for case in CASES:
        mine, theirs = (x / 1e3 for x in least_times(runs_of(case), options.seconds))
        ratios.append(mine / theirs)
        print(f"| {case.title} | {mine:.3f} | {theirs:.3f} | {ratios[-1]:.2f} |", flush=True)
    print(f"\ngeometric mean of ratios: {geometric_mean(ratios):.2f}")


if __name__ == "__main__":
    main()
