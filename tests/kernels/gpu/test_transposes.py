"""Transposed tensors by tiles in shared memory, on the emulator."""

from dataclasses import dataclass

import numpy
import pytest

from compiler.kernels.building.cuda_kernel import generate
from compiler.kernels.gpu.transposes import MOST_READS
from compiler.kernels.group import Group, Node, TensorInfo
from compiler.target.target import parse_gpu
from tests.kernels.gpu.emulator import COMPILER, emulate_all, run_twice

pytestmark = pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")

TARGET = parse_gpu("cuda:sm_90:fp32")


@dataclass(frozen=True)
class Case:
    """transpose(a + b) * c + row; the results are that and, with two, its negative too.

    `tiled` says whether tiles are of use.
    """

    shape: tuple[int, ...]
    order: tuple[int, ...]
    tiled: bool = True
    dtype: str = "float32"
    results: int = 1

    def group(self, name: str) -> Group:
        """The group, which adds in float32."""
        shape = tuple(self.shape[axis] for axis in self.order)
        own, wide = TensorInfo(self.dtype, self.shape), TensorInfo("float32", self.shape)
        moved, row = TensorInfo("float32", shape), TensorInfo("float32", shape[-1:])
        operators = (
            Node("Cast", {"to": 1}, (0,), (4,)),
            Node("Add", {}, (4, 1), (5,)),
            Node("Transpose", {"perm": list(self.order)}, (5,), (6,)),
            Node("Mul", {}, (6, 2), (7,)),
            Node("Add", {}, (7, 3), (8,)),
            Node("Transpose", {"perm": list(self.order)}, (1,), (9,)),
        )
        values = (own, wide, moved, row, wide, wide, moved, moved, moved, moved)
        outputs = (8, 9)[: self.results]
        kept = operators[: 4 + self.results]
        return Group(name, values, 4, (False,) * 4, {}, kept, outputs)

    def inputs(self) -> list[numpy.ndarray]:
        """Normal numbers."""
        rng = numpy.random.default_rng(self.shape)
        return [rng.standard_normal(t.shape).astype(t.dtype) for t in self.group("x").reads]

    def expected(self, inputs: list[numpy.ndarray]) -> list[numpy.ndarray]:
        """The results in float64."""
        a, b, c, row = (x.astype("float64") for x in inputs)
        results = [(a + b).transpose(self.order) * c + row, b.transpose(self.order)]
        return results[: self.results]


CASES = (
    Case((40, 70), (1, 0)),
    Case((3, 33, 64), (0, 2, 1), dtype="float16"),
    Case((2, 20, 3, 17), (2, 0, 3, 1)),
    Case((16, 5, 49), (2, 1, 0)),
    Case((1, 36, 1, 41), (3, 0, 2, 1)),
    Case((30, 8), (1, 0), tiled=False),
    Case((20, 30, 40), (1, 0, 2), tiled=False),
)


def test_tiles_are_transposed():
    groups = [case.group(f"case{i}") for i, case in enumerate(CASES)]
    kernels = [generate(group, TARGET) for group in groups]
    drawn = [case.inputs() for case in CASES]
    results = emulate_all([*zip(kernels, groups, drawn, strict=True)])
    for case, kernel, inputs, found in zip(CASES, kernels, drawn, results, strict=True):
        assert ("__shared__" in kernel.text) is case.tiled
        for result, expected in zip(found, case.expected(inputs), strict=True):
            numpy.testing.assert_allclose(result, expected, atol=2e-5, err_msg=str(case))


def test_each_result_has_tiles():
    case = Case((50, 60), (1, 0), results=2)
    group, inputs = case.group("two"), case.inputs()
    for result, expected in zip(
        run_twice(generate(group, TARGET), group, inputs), case.expected(inputs), strict=True
    ):
        numpy.testing.assert_allclose(result, expected, atol=2e-5)


def test_tiles_fit_shared_memory():
    """Nine transposed tensors of float64, of which not all have tiles."""
    x, y = TensorInfo("float64", (33, 20)), TensorInfo("float64", (20, 33))
    turned = [Node("Transpose", {"perm": [1, 0]}, (i,), (9 + i,)) for i in range(9)]
    largest = Node("Max", {}, tuple(range(9, 18)), (18,))
    group = Group("largest", (*[x] * 9, *[y] * 10), 9, (False,) * 9, {}, (*turned, largest), (18,))
    inputs = [numpy.random.default_rng(i).standard_normal((33, 20)) for i in range(9)]
    kernel = generate(group, TARGET)
    assert kernel.text.count("__shared__") == MOST_READS
    (result,) = run_twice(kernel, group, inputs)
    numpy.testing.assert_array_equal(result, numpy.max(inputs, 0).T)
