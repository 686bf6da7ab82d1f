"""Convolutions and MatMuls on the emulator against float64."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper
from onnx.reference import ReferenceEvaluator

from compiler.kernels.building.cuda_kernel import generate
from compiler.kernels.gpu.templates.gemm.config import Tile
from compiler.kernels.group import Group, Node, TensorInfo
from compiler.net.operators.contractions import FLOAT_CONTRACTIONS
from compiler.target.target import PRECISIONS, parse_gpu
from tests.kernels.gpu.emulator import COMPILER, emulate, run
from tests.kernels.gpu.of_template import gemm_kernel
from tests.kernels.harness import single
from tests.kernels.template_cases import AXES, with_other_axes

pytestmark = pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")

BOUNDS = {"fp32": 1e-6, "tf32": 2e-3, "fp16": 2e-3, "bf16": 1e-2}


def draw(*shape: int, seed: int = 0) -> numpy.ndarray:
    """Normal numbers."""
    return numpy.random.default_rng([seed, *shape]).standard_normal(shape).astype("float32")


def evaluate(model: onnx.ModelProto, feeds: Mapping[str, numpy.ndarray]) -> list[numpy.ndarray]:
    """The results of ONNX's reference evaluator."""
    return cast(Any, ReferenceEvaluator(model)).run(None, feeds)


def exact(type: str, inputs: list[numpy.ndarray], attributes: Mapping[str, Any]) -> numpy.ndarray:
    """The operator's result in float64; others than those of ONNX are for kernels."""
    known = onnx.defs.get_schema(type).attributes
    attributes = {name: value for name, value in attributes.items() if name in known}
    names = [f"x{i}" for i in range(len(inputs))]
    values = [helper.make_tensor_value_info(n, onnx.TensorProto.DOUBLE, None) for n in names]
    result = helper.make_tensor_value_info("y", onnx.TensorProto.DOUBLE, None)
    node = helper.make_node(type, names, ["y"], **attributes)
    model = helper.make_model(helper.make_graph([node], "one", values, [result]))
    feeds = {n: x.astype("float64") for n, x in zip(names, inputs, strict=True)}
    return evaluate(model, feeds)[0]


def error(type: str, inputs: list[numpy.ndarray], attributes: Mapping[str, Any],
          weights: Sequence[int] = (),
          target: str = "cuda", offset: int = 0) -> float:  # fmt: skip
    """The emulated kernel's error relative to the result's norm."""
    expected = exact(type, inputs, attributes)
    info = TensorInfo("float32", expected.shape)
    group, arrays = single(type, inputs, [info], attributes, weights=weights)
    text = generate(group, parse_gpu(target)).text
    assert "struct Problem" in text, "the generic schedule took it"
    (result,) = emulate(group, arrays, target, offset)
    return float(numpy.linalg.norm(result - expected) / max(numpy.linalg.norm(expected), 1e-6))


CASES: dict[str, tuple[list[tuple[int, ...]], dict[str, Any]]] = {
    "pointwise": ([(2, 20, 8, 8), (24, 20, 1, 1), (24,)], {}),
    "pointwise-odd": ([(2, 20, 7, 7), (24, 20, 1, 1), (24,)], {}),
    "window": ([(1, 32, 9, 9), (24, 32, 3, 3), (24,)], {"pads": [1] * 4}),
    "padded-channels": ([(1, 30, 7, 9), (24, 30, 3, 1)], {"pads": [1, 0, 1, 0]}),
    "strided": ([(2, 20, 9, 9), (24, 20, 3, 3)], {"pads": [1] * 4, "strides": [2, 2]}),
    "stem": ([(1, 3, 17, 17), (24, 3, 7, 7)], {"pads": [3] * 4, "strides": [2, 2]}),
    "dilated": ([(1, 16, 11, 11), (8, 16, 3, 3)], {"dilations": [2, 3]}),
    "padding-wider": ([(1, 4, 2, 2), (8, 4, 3, 3)], {"pads": [5, 4, 3, 6]}),
    "grouped": ([(1, 32, 6, 6), (32, 16, 3, 3)], {"pads": [1] * 4, "group": 2}),
    "line": ([(2, 16, 30), (24, 16, 3)], {}),
    "volume": ([(1, 16, 5, 4, 6), (8, 16, 3, 2, 3)], {"strides": [1, 2, 1]}),
}


@pytest.mark.parametrize("name", CASES)
def test_convolution(name: str):
    shapes, attributes = CASES[name]
    inputs = [draw(*shape) for shape in shapes]
    weights = tuple(range(1, len(inputs)))
    assert error("Conv", inputs, attributes, weights) < BOUNDS["tf32"]


def test_convolution_with_computed_weights_at_odd_addresses():
    inputs = [draw(1, 16, 9, 9), draw(24, 16, 3, 3)]
    assert error("Conv", inputs, {}, offset=4) < BOUNDS["tf32"]


@pytest.mark.parametrize("attributes", [
    {"pads": [1] * 4, "strides": [2, 2], "output_padding": [1, 1]},
    {"strides": [2, 3]},
    {"dilations": [2, 1]},
])  # fmt: skip
def test_transposed_convolution(attributes: dict[str, object]):
    inputs = [draw(1, 20, 5, 5), draw(20, 24, 3, 3), draw(24)]
    assert error("ConvTranspose", inputs, attributes, (1, 2)) < BOUNDS["tf32"]


@pytest.mark.parametrize("precision", PRECISIONS)
def test_precisions(precision: str):
    target = f"cuda:sm_90:{precision}"
    size = error("MatMul", [draw(70, 100), draw(100, 72)], {}, target=target)
    assert size < BOUNDS[precision]
    assert precision == "fp32" or size > BOUNDS["fp32"], "nothing was rounded"


@pytest.mark.parametrize("shapes", [
    [(1, 133), (133, 50)],
    [(33,), (33, 20)],
    [(20, 33), (33,)],
    [(3, 1, 20, 64), (2, 64, 36)],
    [(2, 5, 33), (33, 17)],
])  # fmt: skip
def test_matmul(shapes: list[tuple[int, ...]]):
    assert error("MatMul", [draw(*shape) for shape in shapes], {}) < BOUNDS["tf32"]


def test_gemm():
    attributes = {"transB": 1, "alpha": 0.5, "beta": 2.0}
    inputs = [draw(20, 64), draw(36, 64), draw(36)]
    assert error("Gemm", inputs, attributes, (1,)) < BOUNDS["tf32"]


def test_split_k_by_a_second_launch():
    group, inputs = single(
        "MatMul", [draw(16, 1600), draw(1600, 36)], [TensorInfo("float32", (16, 36))]
    )
    kernel = generate(group, parse_gpu("cuda:sm_80:fp32"))
    assert len(kernel.launches) == 2
    assert kernel.workspaces[0] % (16 * 36 * 4) == 0
    (result,) = run(kernel, group, inputs)
    expected = inputs[0].astype("float64") @ inputs[1]
    assert numpy.abs(result - expected).max() < 1e-3


@pytest.mark.parametrize("slices", [2, 3, 8])
def test_split_k_in_a_cluster(slices: int):
    left, right, last = draw(70, 800), draw(800, 36), draw(70, 36)
    info = TensorInfo("float32", last.shape)
    values = (*(TensorInfo("float32", x.shape) for x in (left, right, last)), info, info)
    operators = (Node("MatMul", {}, (0, 1), (3,)), Node("Add", {}, (3, 2), (4,)))
    group = Group("shared", values, 3, (False,) * 3, {}, operators, (4,))
    target = parse_gpu("cuda:sm_90:fp32")
    kernel = gemm_kernel(group, target, Tile(64, 32, 32, 16, slices))
    assert kernel is not None
    assert len(kernel.launches) == 1
    assert not kernel.workspaces
    (result,) = run(kernel, group, [left, right, last])
    expected = left.astype("float64") @ right + last
    assert numpy.abs(result - expected).max() < 1e-3


def test_epilogues_are_fused_and_broadcast():
    image, residual = TensorInfo("float32", (2, 8, 5, 5)), TensorInfo("float32", (1, 1, 5, 5))
    weight, scale = TensorInfo("float32", (8, 8, 1, 1)), TensorInfo("float32", (8, 1, 1))
    values = (image, weight, residual, scale, image, image, image, image)
    operators = (
        Node("Conv", {}, (0, 1), (4,)),
        Node("Add", {}, (4, 2), (5,)),
        Node("Mul", {}, (5, 3), (6,)),
        Node("Relu", {}, (6,), (7,)),
    )
    group = Group("chain", values, 4, (False, True, False, True), {}, operators, (5, 7))
    inputs = [draw(*v.shape, seed=i) for i, v in enumerate(values[:4])]
    kernel = generate(group, parse_gpu("cuda:sm_90:fp32"))
    assert len(kernel.launches) == 1
    added, last = run(kernel, group, inputs)
    expected = exact("Conv", inputs[:2], {}) + inputs[2]
    numpy.testing.assert_allclose(added, expected, atol=1e-4)
    numpy.testing.assert_allclose(last, numpy.maximum(expected * inputs[3], 0), atol=1e-4)


@pytest.mark.parametrize("target", ["cuda:sm_90:fp32", "cuda:sm_90:tf32"])
@pytest.mark.parametrize("name", AXES)
def test_a_result_may_have_other_axes_of_one_element(name: str, target: str):
    group, inputs, expected = with_other_axes(name)
    kernel = generate(group, parse_gpu(target))
    assert "struct Problem" in kernel.text, "the generic schedule took it"
    (result,) = run(kernel, group, inputs)
    difference = numpy.linalg.norm(result - expected) / numpy.linalg.norm(expected)
    assert difference < BOUNDS[parse_gpu(target).precision]


@settings(max_examples=3, deadline=None)
@given(
    st.tuples(*[st.integers(1, 9)] * 2), st.integers(1, 40), st.integers(8, 24),
    st.tuples(*[st.integers(1, 3)] * 4), st.integers(0, 2),
)  # fmt: skip
def test_any_convolution(
    plane: tuple[int, ...], channels: int, rows: int, window: tuple[int, ...], pad: int
):
    kernel, strides = window[:2], window[2:]
    size = [(p + 2 * pad - k) // s + 1 for p, k, s in zip(plane, kernel, strides, strict=True)]
    if min(size) < 1:
        return
    attributes = {"pads": [pad] * 4, "strides": list(strides)}
    inputs = [draw(1, channels, *plane), draw(rows, channels, *kernel)]
    assert error("Conv", inputs, attributes, (1,), "cuda:sm_90:fp32") < 1e-5


def test_contractions_are_those_of_the_operator_table():
    from compiler.net.operators import KINDS, Kind

    known = {name for name, kind in KINDS.items() if kind is Kind.CONTRACTION}
    others = {"ConvFloat8", "ConvInteger", "Einsum", "MatMulFloat8", "MatMulInteger", "MatMulNBits"}
    assert known - set(FLOAT_CONTRACTIONS) == others
