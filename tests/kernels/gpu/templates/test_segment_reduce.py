"""Reductions of segments on the emulator against float64, with what fuses with them."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy
import onnx.parser
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import compiler
from compiler.graph.rewriting.weights import derived_key, weight_array
from compiler.kernels.gpu.templates.segment_reduce.problem import Problem
from compiler.kernels.group import Group, Node, TensorInfo
from compiler.target.target import parse_gpu
from compiler.tensors.dtypes import numpy_dtype
from compiler.tools.reference import run_onnxruntime
from tests.kernels.gpu.emulator import COMPILER, Array, run_twice
from tests.kernels.gpu.of_template import kernel_in, problem_in

pytestmark = pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")

TARGET = parse_gpu("cuda:sm_90:fp16")
COMBINE = {
    "add": numpy.add,
    "mul": numpy.multiply,
    "max": numpy.maximum,
    "min": numpy.minimum,
}
ONNX = {"float32": 1, "float16": 10, "bfloat16": 16}


@dataclass(frozen=True)
class Case:
    """Rows that are gathered, perhaps scaled, added to slots and divided by a number of each."""

    slots: int
    shape: tuple[int, ...]
    updates: int
    dtype: str = "float32"
    gathered: bool = True
    scaled: bool = False
    index: str = "int64"
    most: int = 0
    joined: int = -1
    reduction: str = "add"

    def inputs(self) -> list[Array]:
        """Rows, indices, factors, data, starts, order and divisors."""
        rng = numpy.random.default_rng(self.updates)
        sources = 13 if self.gathered else self.updates
        rows = rng.uniform(-2, 2, (sources, *self.shape)).astype(numpy_dtype(self.dtype))
        named = rng.integers(0, self.most or self.slots, self.updates)
        starts, order = (
            weight_array(
                {"named": named}, derived_key(name, ["named"], {"slots": self.slots}, "int32")
            )
            for name in ("starts", "order")
        )
        ones = (1,) * len(self.shape)
        return [
            rows,
            rng.integers(-14, 15, (self.updates, 1)).astype(self.index),
            rng.uniform(-1, 1, (self.updates, *ones)).astype("float32"),
            rng.uniform(-2, 2, (self.slots, *self.shape)).astype("float32"),
            starts,
            order,
            rng.uniform(1, 2, (self.slots, *ones)).astype("float32"),
        ]

    def group(self) -> Group:
        """The operators around a sum, whose result and quotient are both written."""
        infos = [TensorInfo(a.dtype.name, a.shape) for a in self.inputs()]
        operators, updates = list[Node[int]](), 0

        def add(type: str, inputs: tuple[int, ...], info: TensorInfo, **attributes: Any) -> int:
            infos.append(info)
            operators.append(Node(type, attributes, inputs, (len(infos) - 1,)))
            return len(infos) - 1

        each = (self.updates, *self.shape)
        if self.gathered:
            updates = add("GatherND", (0, 1), TensorInfo(self.dtype, each))
        if self.dtype != "float32":
            updates = add("Cast", (updates,), TensorInfo("float32", each), to=1)
        if self.scaled:
            updates = add("Mul", (updates, 2), TensorInfo("float32", each))
        total = add("SegmentReduce", (updates, 3, 4, 5), infos[3], reduction=self.reduction)
        quotient = add("Div", (total, 6), infos[3])
        results = (total,)
        if self.joined >= 0:
            parts = [3] * self.joined + [quotient] + [6] * (1 - self.joined % 2)
            width = sum(infos[part].shape[1] for part in parts)
            info = TensorInfo("float32", (self.slots, width, *self.shape[1:]))
            quotient, results = add("Concat", tuple(parts), info, axis=1), ()
        narrow = TensorInfo("float16", infos[quotient].shape)
        results = (*results, add("Cast", (quotient,), narrow, to=10))
        reads = len(self.inputs())
        return Group("test", tuple(infos), reads, (False,) * reads, {}, tuple(operators), results)

    def expected(self) -> Array:
        """The reductions in float64."""
        rows, indices, factors, data, starts, order, _ = self.inputs()
        updates = rows.astype("float64")
        if self.gathered:
            wrapped = numpy.where(indices < 0, indices + len(rows), indices)[:, 0]
            updates = updates[wrapped.clip(0, len(rows) - 1)]
        updates = updates * factors if self.scaled else updates
        total, combine = data.astype("float64"), COMBINE[self.reduction]
        for slot, (start, end) in enumerate(pairwise(starts)):
            total[slot] = combine.reduce([total[slot], *updates[order[start:end]]])
        return total


def problem_of(case: Case) -> Problem:
    """The sum of a case's group."""
    problem = problem_in("segment_reduce", case.group(), TARGET)
    assert problem is not None
    return problem


def check(case: Case, offset: int = 0) -> None:
    """Compare the sums and quotients of a case with float64."""
    group = case.group()
    kernel = kernel_in("segment_reduce", group, TARGET)
    assert kernel is not None
    *totals, quotient = run_twice(kernel, group, case.inputs(), offset)
    expected, inputs = case.expected(), case.inputs()
    for total in totals:
        numpy.testing.assert_allclose(total, expected, rtol=1e-5, atol=1e-4)
    divided = expected / inputs[6]
    if case.joined >= 0:
        parts = [inputs[3]] * case.joined + [divided] + [inputs[6]] * (1 - case.joined % 2)
        divided = numpy.concatenate(parts, 1)
    numpy.testing.assert_allclose(quotient.astype("float64"), divided, rtol=2e-3, atol=2e-3)


CASES = (
    Case(40, (24,), 300, "float16", index="int32"),
    Case(30, (264,), 90, "bfloat16"),
    Case(30, (8, 20), 200),
    Case(50, (1,), 200),
    Case(50, (4,), 200, gathered=False),
    Case(20, (70,), 150, "float16", scaled=True),
    Case(9, (300,), 40, scaled=True, gathered=False),
    Case(3, (16,), 900, "float16"),
    Case(2, (5,), 700, scaled=True),
    Case(40, (16,), 300, most=2),
    Case(40, (24,), 300, "float16", joined=0),
    Case(30, (40,), 90, scaled=True, joined=1),
    Case(30, (8,), 200, joined=2),
    Case(40, (24,), 300, "float16", reduction="max"),
    Case(3, (5,), 700, scaled=True, reduction="min"),
    Case(40, (16,), 90, most=30, reduction="mul"),
    Case(30, (40,), 90, scaled=True, joined=1, reduction="max"),
)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_segments_are_combined(case: Case):
    check(case)


@settings(max_examples=4, deadline=None)
@given(
    st.integers(1, 70),
    st.sampled_from([(1,), (3,), (8,), (40,), (3, 24)]),
    st.integers(1, 400),
    st.sampled_from(["float32", "float16"]),
    st.booleans(),
    st.booleans(),
)
def test_rows_of_any_shape(
    slots: int, shape: tuple[int, ...], updates: int, dtype: str, gathered: bool, scaled: bool
):
    check(Case(slots, shape, updates, dtype, gathered, scaled), 2)


def test_rows_in_memory_are_loaded_as_vectors():
    assert problem_of(Case(40, (24,), 300, "float16")).rows
    assert problem_of(Case(40, (24,), 300, gathered=False)).rows
    assert not problem_of(Case(40, (25,), 300, "float16")).rows
    assert not problem_of(Case(40, (24,), 300, scaled=True)).rows


def test_threads_share_long_segments_of_few_rows():
    assert problem_of(Case(5000, (64,), 9000)).parts(TARGET) == 1
    assert problem_of(Case(4, (64,), 4000)).parts(TARGET) == 64


NETWORK = """<ir_version: 10, opset_import: ["": 20]>
    g (float[30,16] x, int64[2,70] edges, float[70,1] weights) => (float[30,16] y, float[30,32] z) {
        zero = Constant <value_int = 0> ()  one = Constant <value_int = 1> ()
        last = Constant <value_ints = [1]> ()  wide = Constant <value_ints = [70, 16]> ()
        sources = Gather (edges, zero)  named = Gather (edges, one)
        targets = Unsqueeze (named, last)  each = Expand (targets, wide)
        rows = Gather (x, sources)  scaled = Mul (rows, weights)
        shape = Constant <value_ints = [30, 16]> ()  zeros = ConstantOfShape (shape)
        sums = ScatterElements <axis = 0, reduction = "add"> (zeros, each, scaled)  y = Relu (sums)
        next = Gather (y, sources)
        means = ScatterND <reduction = "add"> (zeros, targets, next)
        two = Constant <value_float = 2.0> ()  half = Div (means, two)
        z = Concat <axis = 1> (y, half)
    }"""
"""Two layers, as exporters write them: an index for each element, or for each row."""


def test_a_graph_network_has_a_kernel_a_layer():
    model, rng = onnx.parser.parse_model(NETWORK), numpy.random.default_rng(0)
    inputs = {
        "x": rng.uniform(-1, 1, (30, 16)).astype("float32"),
        "edges": rng.integers(-30, 30, (2, 70)),
        "weights": rng.uniform(0, 1, (70, 1)).astype("float32"),
    }
    module = compiler.compile(model, target="emu", precision="fp16", budget=0)
    names = sorted(name.rsplit("_", 1)[0] for name in module.kernels)
    found = module.run(inputs)
    for name, expected in run_onnxruntime(model, inputs).items():
        numpy.testing.assert_allclose(found[name], expected, rtol=2e-3, atol=2e-3)
    assert names == ["Gather_Gather_Mul", "Gather_Gather_SegmentReduce", "Gather_ScatterOrder"]
