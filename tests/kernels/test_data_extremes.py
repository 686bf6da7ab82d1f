"""Indices, lengths and NaN among the data: nothing outside the tensors, and defined results."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import compiler
from compiler.kernels.building.cuda_kernel import generate
from compiler.kernels.group import Group, TensorInfo
from compiler.kernels.template import KernelSource
from compiler.target.target import parse_gpu
from tests.guard import run_guarded
from tests.kernels.gpu.emulator import COMPILER, emulate_all, run
from tests.kernels.harness import Array, single

NAN, INF = np.nan, np.inf
WILD = np.array([1 << 33, -1 << 63, -1 << 33, (1 << 63) - 1, -1, 4, 5, -5, -6, 1 << 31, 0, 1 << 32])
"""Indices of which few name one of five elements."""


class Case:
    """One operator with its inputs by position, attributes and expected results."""

    def __init__(
        self, type: str, inputs: list[Array | None], results: list[Array], **attributes: Any
    ):
        self.type, self.inputs, self.results, self.attributes = type, inputs, results, attributes
        self.constants: tuple[int, ...] = ()

    def with_constants(self, *positions: int) -> "Case":
        """The same, where some inputs are constants."""
        self.constants = positions
        return self


def inside(index: Array, extent: int) -> Array:
    """Indices as the kernels' documentation says: from the end if negative, then clamped."""
    counted = [int(i) + extent if i < 0 else int(i) for i in index.reshape(-1)]
    return np.clip(np.array(counted, object), 0, extent - 1).astype(int).reshape(index.shape)


def gathers() -> list[Case]:
    """Operators that read or write where their data say."""
    x = np.arange(15, dtype=np.float32).reshape(5, 3)
    at, column = inside(WILD, 5), np.tile(WILD[:, None], 3)
    narrow = np.array([1 << 30, -1 << 31, (1 << 31) - 1, -5, -6, 3], np.int32)
    pairs = np.stack([WILD, WILD[::-1]], 1)
    written, added = x.copy(), x.copy()
    for row, value in zip(at, range(len(at)), strict=True):
        written[row] = value
        added[row, 0] += 1
    updates = np.repeat(np.arange(len(at), dtype=np.float32)[:, None], 3, 1)
    ones = np.ones((len(at), 1), np.float32)
    nothing = np.zeros((0, 3), np.float32)
    return [
        Case("Gather", [x, WILD], [x[at]]),
        Case("Gather", [x, narrow], [x[inside(narrow, 5)]]),
        Case("Gather", [nothing, WILD], [np.zeros((len(at), 3), np.float32)]),
        Case("GatherElements", [x, column], [x[at]], axis=0),
        Case("GatherND", [x, pairs], [x[at, inside(pairs[:, 1], 3)]]),
        Case("ScatterND", [x, WILD[:, None], updates], [written]),
        Case("ScatterElements", [x, WILD[:, None], ones], [added], axis=0, reduction="add"),
    ]


def reversals() -> list[Case]:
    """Sequences of five steps whose lengths make no sense."""
    lengths = np.array([2, 99, 5, 0, -3, 1 << 30, 1 << 33, -1 << 63, (1 << 63) - 1])
    x = np.arange(5 * len(lengths), dtype=np.float32).reshape(5, -1)
    expected = x.copy()
    for column, length in enumerate(np.clip(lengths, 0, 5)):
        expected[:length, column] = x[:length, column][::-1]
    attributes = {"time_axis": 0, "batch_axis": 1}
    return [Case("ReverseSequence", [x, lengths], [expected], **attributes)]


ROWS = np.array(
    [[3, NAN, 2, 9], [NAN, NAN, 1, 1], [1, NAN, INF, -INF], [0.0, -0.0, NAN, 0],
     [-INF, -1, NAN, NAN], [NAN, NAN, NAN, NAN], [5, 5, 4, 5]],
    np.float32,
)  # fmt: skip


def order(x: Array, largest: int) -> Array:
    """Positions in order, first of equals first; NaN counts as the largest, as numpy sorts."""
    if not largest:
        return np.argsort(x, 1, kind="stable")
    return x.shape[1] - 1 - np.argsort(x[:, ::-1], 1, kind="stable")[:, ::-1]


def selections() -> list[Case]:
    """TopK of rows with NaN."""
    made: list[Case] = []
    for k, largest in ((3, 1), (4, 1), (4, 0), (1, 0)):
        for x in (ROWS, ROWS.astype(np.float16)):
            places = order(x, largest)[:, :k]
            results = [np.take_along_axis(x, places, 1), places]
            made.append(
                Case("TopK", [x, np.array([k])], results, largest=largest).with_constants(1)
            )
    return made


def square_root(x: float) -> float:
    """C's pow(x, 0.5)."""
    return NAN if x < 0 and x > -INF else math.pow(x, 0.5)


def conversions() -> list[Case]:
    """NaN as a truth value, and powers at their edges, as C has them."""
    root = np.array([[square_root(x) for x in row] for row in ROWS.tolist()], np.float32)
    bases, exponents = np.array([1, -1, -1, 2, 0, -2, 3]), np.array([-5, -3, -2, -1, -1, 3, 0])
    powers = np.array([1, -1, 1, 0, 0, -8, 1])
    half = np.array(0.5, np.float32)
    return [
        Case("Cast", [ROWS], [ROWS != 0], to=9),
        Case("Cast", [ROWS.astype(np.float16)], [ROWS != 0], to=9),
        Case("Pow", [ROWS, half], [root]).with_constants(1),
        Case("Pow", [bases, exponents], [powers]),
    ]


def limits() -> list[Case]:
    """Clip without a bound: what is infinite becomes the type's largest or least number."""
    made: list[Case] = []
    for dtype in (np.float32, np.float16, np.float64):
        x, zero, most = ROWS.astype(dtype), np.array(0, dtype), np.finfo(dtype).max
        for low, high in ((None, None), (zero, None), (None, zero)):
            least, largest = (-most if low is None else low), (most if high is None else high)
            made.append(Case("Clip", [x, low, high], [np.clip(x, least, largest)]))
    return made


def resizes() -> list[Case]:
    """Integers that interpolation takes beyond their range, or between two of them."""
    made: list[Case] = []
    row = np.array([0, 255, 0, 255, 255, 0])
    for dtype, most in (
        ("uint8", 255),
        ("int8", 127),
        ("int32", (1 << 31) - 1),
        ("int64", 1 << 53),
    ):
        low, high = (0 if dtype == "uint8" else -most - 1), min(most, (1 << 31) - 1)
        x = np.where(row > 0, high, low).astype(dtype)
        exact = x.astype(np.float64)
        for mode, taps in (("linear", [0.25, 0.75, 0.0]), ("cubic", CUBIC)):
            wanted = np.rint(doubled(exact, taps))
            if np.dtype(dtype).itemsize < 8:
                wanted = np.clip(wanted, np.iinfo(dtype).min, np.iinfo(dtype).max)
            inputs: list[Array | None] = [x, None, np.array([2], np.float32)]
            made.append(Case("Resize", inputs, [wanted.astype(dtype)], mode=mode).with_constants(2))
    return made


CUBIC = [-0.03515625, 0.26171875, 0.87890625, -0.10546875]
"""Weights of four neighbours at a quarter, for the coefficient -0.75."""


def doubled(x: Array, taps: list[float]) -> Array:
    """A row enlarged twice: positions are a quarter before and after each element."""
    width = len(taps) // 2
    padded = np.pad(x, width, mode="edge")
    steps = range(-width, width) if len(taps) == 4 else range(-1, 2)
    before = [
        sum(w * padded[i + width + s] for w, s in zip(taps, steps, strict=True))
        for i in range(len(x))
    ]
    mirrored = np.pad(x[::-1], width, mode="edge")
    after = [
        sum(w * mirrored[i + width + s] for w, s in zip(taps, steps, strict=True))
        for i in range(len(x))
    ]
    return np.stack([before, after[::-1]], 1).reshape(-1)


ALL = [*gathers(), *reversals(), *selections(), *conversions(), *limits(), *resizes()]


def onnx_type(array: Array) -> int:
    """ONNX's number of an array's type."""
    return helper.np_dtype_to_tensor_dtype(array.dtype)


def model(cases: list[Case]) -> tuple[Any, dict[str, Array]]:
    """One model of all cases, and its inputs."""
    nodes: list[onnx.NodeProto] = []
    inputs: list[onnx.ValueInfoProto] = []
    outputs: list[onnx.ValueInfoProto] = []
    constants: list[onnx.TensorProto] = []
    feeds: dict[str, Array] = {}
    for i, case in enumerate(cases):
        names = ["" if a is None else f"x{i}_{j}" for j, a in enumerate(case.inputs)]
        results = [f"y{i}_{j}" for j in range(len(case.results))]
        nodes.append(helper.make_node(case.type, names, results, **case.attributes))
        outputs += [
            helper.make_tensor_value_info(n, onnx_type(r), r.shape)
            for n, r in zip(results, case.results, strict=True)
        ]
        for j, (name, array) in enumerate(zip(names, case.inputs, strict=True)):
            if array is None:
                continue
            if j in case.constants:
                constants.append(onnx.numpy_helper.from_array(array, name))
            else:
                feeds[name] = array
                inputs.append(helper.make_tensor_value_info(name, onnx_type(array), array.shape))
    graph = helper.make_graph(nodes, "extremes", inputs, outputs, constants)
    opset = helper.make_opsetid("", 21)
    return helper.make_model(graph, opset_imports=[opset], ir_version=10), feeds


def check(case: Case, results: list[Array]) -> None:
    """Compare results in every bit but NaN's."""
    for result, wanted in zip(results, case.results, strict=True):
        dtypes = [array.dtype for array in case.inputs if array is not None]
        message = f"{case.type} {case.attributes} of {dtypes[0]}"
        np.testing.assert_array_equal(result, wanted, err_msg=message)
        assert result.dtype == wanted.dtype, message


def test_on_the_cpu_between_guard_pages():
    onnx_model, feeds = model(ALL)
    module = compiler.compile(onnx_model)
    for results in (run_guarded(module, feeds, "after"), run_guarded(module, feeds, "before")):
        found = iter(results.values())
        for case in ALL:
            check(case, [next(found) for _ in case.results])


@pytest.mark.skipif(COMPILER is None, reason="needs a C++ compiler")
def test_on_the_emulator():
    target = parse_gpu("cuda")
    kernels: list[tuple[KernelSource, Group, list[Array]]] = []
    chosen = [*gathers(), *reversals(), *selections(), *conversions(), *limits(), *resizes()[:4]]
    for i, case in enumerate(chosen):
        infos = [TensorInfo(r.dtype.name, r.shape) for r in case.results]
        group, arrays = single(case.type, case.inputs, infos, case.attributes, case.constants)
        group = replace(group, name=f"case{i}")
        kernels.append((generate(group, target), group, arrays))
    alone = [i for i, (kernel, _, _) in enumerate(kernels) if "struct Problem" in kernel.text]
    together = [i for i in range(len(kernels)) if i not in alone]
    for i, results in zip(together, emulate_all([kernels[i] for i in together]), strict=True):
        check(chosen[i], results)
    for i in alone:
        check(chosen[i], run(*kernels[i]))


@pytest.mark.parametrize("target", ["cpu", *["emu:sm_90:fp32"] * (COMPILER is not None)])
def test_terms_that_cancel_in_numbers_keep_infinities_and_nan(target: str):
    made = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["": 21]>
        g (float[6] x, float[6] y) => (float[6] a, float[6] b, float[6] c, float[6] d, bool[6] e)
        <float zero = {0}> {
            a = Sub(x, x) s = Add(x, y) b = Sub(s, x) c = Mul(x, zero) d = Div(zero, x)
            e = Equal(x, x) }"""
    )
    x, y = np.array([INF, -INF, NAN, 0, -0.0, 2], np.float32), np.full(6, INF, np.float32)
    results = compiler.compile(made, target=target).run({"x": x, "y": y})
    with np.errstate(all="ignore"):
        wanted = [x - x, x + y - x, x * 0, np.float32(0) / x, x == x]
    for result, right in zip(results.values(), wanted, strict=True):
        np.testing.assert_array_equal(result, right)


@pytest.mark.parametrize("target", ["cpu", *["emu:sm_90:fp32"] * (COMPILER is not None)])
def test_attributes_of_zero_keep_nan(target: str):
    made = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["": 21]>
        g (float[2, 3] x, float[3, 4] w, float[4] c) => (float[2, 4] y, float[2, 3] z) {
            y = Gemm <alpha = 0.0> (x, w, c) z = LeakyRelu <alpha = 0.0> (x) }"""
    )
    x = np.array([[-INF, 1, 2], [-1, 0, 3]], np.float32)
    w, c = np.ones((3, 4), np.float32), np.arange(4, dtype=np.float32)
    results = compiler.compile(made, target=target).run({"x": x, "w": w, "c": c})
    np.testing.assert_array_equal(results["y"], [[NAN] * 4, c])
    np.testing.assert_array_equal(results["z"], [[NAN, 1, 2], [0, 0, 3]])


@pytest.mark.parametrize("target", ["cpu", *["emu:sm_90:fp32"] * (COMPILER is not None)])
def test_neither_of_two_opposite_comparisons_holds_for_nan(target: str):
    made = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["": 21]>
        g (float[6] x, float[6] y) => (bool[6] a, bool[6] b, float[6] c, bool[6] d)
        <float one = {1}, float two = {2}, float three = {3}> {
            g = Greater(x, y) a = Not(g) l = Less(x, y) m = GreaterOrEqual(x, y) b = Or(l, m)
            n = LessOrEqual(x, y) w = Where(n, two, three) c = Where(g, one, w)
            e = Equal(x, y) d = Not(e) }"""
    )
    x = np.array([INF, NAN, 1, 2, NAN, -0.0], np.float32)
    y = np.array([NAN, NAN, 2, 1, 0, 0], np.float32)
    results = compiler.compile(made, target=target).run({"x": x, "y": y})
    higher, lower = x > y, x <= y
    wanted = [~higher, (x < y) | (x >= y), np.where(higher, 1, np.where(lower, 2, 3)), x != y]
    for result, right in zip(results.values(), wanted, strict=True):
        np.testing.assert_array_equal(result, right)


@pytest.mark.parametrize("target", ["cpu", *["emu:sm_90:fp32"] * (COMPILER is not None)])
def test_constants_of_float64_keep_every_digit(target: str):
    made = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["": 21]> g (double[3] x) => (double[3] y, double[3] z)
        <double c = {-1.6198298317307263}, double tiny = {1e-300}> {
            y = Mul(x, c) z = Add(x, tiny) }"""
    )
    x = np.array([1, 3, 0], np.float64)
    results = compiler.compile(made, target=target).run({"x": x})
    np.testing.assert_array_equal(results["y"], x * -1.6198298317307263)
    np.testing.assert_array_equal(results["z"], x + 1e-300)


@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_a_constant_zero_divides(zero: float):
    """TVM refuses a quotient of which it sees that the divisor is zero."""
    node = helper.make_node("Div", ["x", "zero"], ["y"])
    tensors = [helper.make_tensor_value_info(name, 1, [4]) for name in "xy"]
    weight = onnx.numpy_helper.from_array(np.array(zero, np.float32), "zero")
    graph = helper.make_graph([node], "g", tensors[:1], tensors[1:], [weight])
    opset = [helper.make_opsetid("", 21)]
    module = compiler.compile(helper.make_model(graph, opset_imports=opset, ir_version=10))
    x = np.array([-1, 0, 2, NAN], np.float32)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(module.run({"x": x})["y"], x / np.float32(zero))
