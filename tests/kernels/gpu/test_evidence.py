"""Every template on shapes that Hypothesis draws: close to float64, the same bits every time.

Results and scratch memory are poisoned, and warps run in random orders. Attention, grouped and
separable convolutions, normalised rows and webs draw their shapes in other files.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy
import onnx
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from onnx import helper

from compiler.kernels.building import kernel as _lowerings
from compiler.kernels.building.cuda_kernel import generate
from compiler.kernels.gpu.compilers.nvrtc import compile_cubin
from compiler.kernels.gpu.cubin import check_resources
from compiler.kernels.gpu.source import complete_text
from compiler.kernels.gpu.templates.gemm.candidates import candidates
from compiler.kernels.gpu.templates.gemm.config import Tile
from compiler.kernels.group import Group, TensorInfo
from compiler.kernels.template import KernelSource
from compiler.target.target import parse_gpu
from tests.kernels.gpu.emulator import COMPILER, run_twice
from tests.kernels.gpu.of_template import gemm_kernel, gemm_problems
from tests.kernels.gpu.templates.test_contraction import draw, evaluate
from tests.kernels.gpu.templates.test_grouped import NASNET, convolution
from tests.kernels.gpu.templates.test_pointwise import web
from tests.kernels.gpu.templates.test_rows import residual_group
from tests.kernels.harness import single
from tests.tools import needs_nvrtc

assert _lowerings
Array = numpy.ndarray
BOUNDS = {"fp32": 2e-6, "tf32": 2e-3, "fp16": 2e-3, "bf16": 1e-2}


@dataclass(frozen=True)
class Case:
    """A group of one operator, its inputs and results in float64; `choice` picks a tile."""

    group: Group
    inputs: Sequence[Array]
    expected: Sequence[Array]
    target: str = "cuda:sm_90:fp32"
    choice: int = 0

    @property
    def kernel(self) -> KernelSource:
        """The kernel of the chosen tile, or of the template that takes it."""
        target = parse_gpu(self.target)
        problems = gemm_problems(self.group, target)
        if not problems:
            return generate(self.group, target)
        problem = problems[self.choice % len(problems)]
        tiles = [t for t in candidates(problem, target) if t.threads <= 128 and not t.wgmma]
        tile = tiles[self.choice % len(tiles)]
        kernel = gemm_kernel(self.group, target, tile, problem=problem)
        assert kernel is not None
        return kernel


def exact(
    type: str, inputs: Sequence[Array], attributes: Mapping[str, Any], results: int = 1
) -> list[Array]:
    """The operator's results with floats in float64."""
    wide = [x.astype("float64") if x.dtype == numpy.float32 else x for x in inputs]
    given = [helper.make_tensor_value_info(f"x{i}", helper.np_dtype_to_tensor_dtype(x.dtype), None)
             for i, x in enumerate(wide)]  # fmt: skip
    outputs = [f"y{i}" for i in range(results)]
    node = helper.make_node(type, [f"x{i}" for i in range(len(wide))], outputs, **attributes)
    values = [helper.make_tensor_value_info(n, onnx.TensorProto.UNDEFINED, None) for n in outputs]
    model = helper.make_model(helper.make_graph([node], "one", given, values))
    return evaluate(model, {f"x{i}": x for i, x in enumerate(wide)})


def case(
    type: str,
    inputs: Sequence[Array],
    attributes: Mapping[str, Any] | None = None,
    constants: Sequence[int] = (),
    weights: Sequence[int] = (),
    expected: Sequence[Array] = (),
    **more: Any,
) -> Case:
    """A group of one operator with its result."""
    results = 2 if type == "TopK" else 1
    expected = expected or exact(type, inputs, attributes or {}, results)
    if any(x.size == 0 for x in expected):
        reject()
    infos = [
        TensorInfo("int64" if x.dtype == numpy.int64 else "float32", x.shape) for x in expected
    ]
    group, arrays = single(type, inputs, infos, attributes, constants, weights)
    return Case(group, arrays, expected, **more)


def in_blocks(found: Case, image: bool, result: bool) -> Case:
    """The same with channels in blocks of four where they fill them."""
    values = list(found.group.values)
    for number, wanted in ((0, image), (found.group.outputs[0], result)):
        if wanted and values[number].shape[1] % 4 == 0:
            values[number] = replace(values[number], block=4)
    return replace(found, group=replace(found.group, values=tuple(values)))


numbers = st.integers(0, 1 << 20)
sizes = st.one_of(st.integers(1, 9), st.integers(10, 80))
arches = st.sampled_from(["sm_80", "sm_90"])
precisions = st.sampled_from(sorted(BOUNDS))


@st.composite
def matmuls(draws: st.DrawFn) -> Case:
    """MatMuls of any size; split-K slices are added by a cluster or by a second launch."""
    m, n, k = draws(st.integers(5, 70)), draws(sizes), draws(st.integers(1, 300))
    batch = draws(st.sampled_from([(), (), (2,), (2, 3)]))
    constant = draws(st.booleans()) and not batch
    target = f"cuda:{draws(arches)}:{draws(precisions)}"
    inputs = [draw(*batch, m, k), draw(*batch[-1:], k, n)]
    return case("MatMul", inputs, weights=(1,) * constant, target=target, choice=draws(numbers))


@st.composite
def few_rows(draws: st.DrawFn) -> Case:
    """One to four rows by a matrix, transposed or not."""
    m, n, k = draws(st.integers(1, 4)), draws(sizes), draws(st.integers(1, 300))
    flip = draws(st.booleans())
    inputs = [draw(m, k), draw(n, k) if flip else draw(k, n), draw(n)]
    attributes = {"transB": int(flip), "alpha": 0.5}
    return case("Gemm", inputs, attributes, weights=(1, 2))


@st.composite
def convolutions(draws: st.DrawFn, type: str = "Conv") -> Case:
    """Convolutions of one to three axes with padding that may be wider than the image."""
    rank = draws(st.sampled_from([1, 2, 2, 2, 3]))

    def axes(least: int, most: int) -> list[int]:
        return [draws(st.integers(least, most)) for _ in range(rank)]

    transposed = type == "ConvTranspose"
    image, kernel, strides, dilations = axes(1, 7), axes(1, 4), axes(1, 3), axes(1, 2)
    pads = axes(0, 2 if transposed else 5) + axes(0, 2 if transposed else 5)
    sides = zip(pads[:rank], pads[rank:], strict=True)
    rows = zip(image, sides, kernel, strides, dilations, strict=True)
    reach = [(n - 1) * s + (k - 1) * d + 1 - sum(p) if transposed else n + sum(p) - (k - 1) * d
             for n, p, k, s, d in rows]  # fmt: skip
    if min(reach) < 1:
        reject()
    channels, filters = draws(st.integers(1, 40)), draws(st.integers(8, 40))
    shape = (channels, filters) if transposed else (filters, channels)
    inputs = [
        draw(draws(st.integers(1, 2)), channels, *image),
        draw(*shape, *kernel),
        draw(filters),
    ]
    attributes = {"strides": strides, "dilations": dilations, "pads": pads}
    target = f"cuda:{draws(arches)}:{draws(precisions)}"
    found = case(type, inputs, attributes, weights=(1, 2), target=target, choice=draws(numbers))
    return in_blocks(found, draws(st.booleans()), draws(st.booleans()))


@st.composite
def reductions(draws: st.DrawFn) -> Case:
    """Softmax, sums, means and largest elements along any axes."""
    shape = [draws(st.integers(1, 9)), draws(st.integers(1, 9)), draws(st.integers(1, 70))]
    type = draws(st.sampled_from(["Softmax", "ReduceMean", "ReduceMax", "ReduceSumSquare"]))
    axis = draws(st.integers(0, 2))
    if type == "Softmax":
        return case(type, [draw(*shape)], {"axis": axis})
    axes = numpy.array(sorted({axis, draws(st.integers(0, 2))}))
    return case(type, [draw(*shape), axes], {"keepdims": draws(st.integers(0, 1))}, constants=(1,))


def pooled(type: str, x: Array, attributes: Mapping[str, Any]) -> Array:
    """MaxPool or AveragePool in float64, without the padding."""
    (a, b, c, d), (down, along) = attributes["pads"], attributes["strides"]
    wide = numpy.pad(
        x.astype("float64"), [(0, 0), (0, 0), (a, c), (b, d)], constant_values=numpy.nan
    )
    windows = numpy.lib.stride_tricks.sliding_window_view(wide, attributes["kernel_shape"], (2, 3))
    reduce = numpy.nanmax if type == "MaxPool" else numpy.nanmean
    return reduce(windows[:, :, ::down, ::along], (-2, -1))


@st.composite
def poolings(draws: st.DrawFn) -> Case:
    """MaxPool and AveragePool; no window is entirely padding."""
    kernel = [draws(st.integers(1, 4)) for _ in range(2)]
    pads = [draws(st.integers(0, k - 1)) for k in [*kernel, *kernel]]
    image = [draws(st.integers(max(1, k - a - b), 9))
             for k, a, b in zip(kernel, pads[:2], pads[2:], strict=True)]  # fmt: skip
    strides = [draws(st.integers(1, 3)) for _ in range(2)]
    type = draws(st.sampled_from(["MaxPool", "AveragePool"]))
    attributes = {"kernel_shape": kernel, "pads": pads, "strides": strides}
    x = draw(1, draws(st.integers(1, 8)), *image)
    found = case(type, [x], attributes, expected=[pooled(type, x, attributes)])
    return in_blocks(found, draws(st.booleans()), draws(st.booleans()))


@st.composite
def scans(draws: st.DrawFn) -> Case:
    """Running sums, selections of the largest, and scattered sums with repeated places."""
    shape = [draws(st.integers(1, 5)), draws(st.integers(1, 40)), draws(st.integers(1, 5))]
    axis = draws(st.integers(0, 2))
    data = draw(*shape)
    type = draws(st.sampled_from(["CumSum", "TopK", "ScatterElements"]))
    if type == "CumSum":
        flags = {name: draws(st.integers(0, 1)) for name in ("exclusive", "reverse")}
        return case(type, [data, numpy.array(axis)], flags, constants=(1,))
    if type == "TopK":
        count = numpy.array([draws(st.integers(1, shape[axis]))])
        largest = draws(st.integers(0, 1))
        return case(type, [data, count], {"axis": axis, "largest": largest}, constants=(1,))
    places = numpy.random.default_rng(draws(numbers)).integers(0, shape[axis], shape)
    added = {"axis": axis, "reduction": "add"}
    return case(type, [data, places, draw(*shape, seed=1)], added)


TEMPLATES: dict[str, tuple[st.SearchStrategy[Case], str]] = {
    "matmul": (matmuls(), "gemm<Problem>"),
    "few rows": (few_rows(), "gemv<Problem"),
    "convolution": (convolutions(), "gemm<Problem>"),
    "transposed convolution": (convolutions("ConvTranspose"), "gemm<Problem>"),
    "reduction": (reductions(), "__global__"),
    "pooling": (poolings(), "__global__"),
    "opaque": (scans(), "__global__"),
}
"""The cases of each template, and the function that its kernels call."""


@pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")
@pytest.mark.parametrize("name", TEMPLATES)
def test_any_shape(name: str):
    cases, called = TEMPLATES[name]

    @settings(max_examples=6, deadline=None)
    @given(cases)
    def check(found: Case) -> None:
        kernel = found.kernel
        assert called in kernel.text
        results = run_twice(kernel, found.group, found.inputs)
        bound = BOUNDS[parse_gpu(found.target).precision]
        for result, expected in zip(results, found.expected, strict=True):
            error = numpy.linalg.norm(result - expected)
            assert error <= bound * max(float(numpy.linalg.norm(expected)), 1.0)

    check()


def large(type: str, shapes: Sequence[tuple[int, ...]], attributes: Mapping[str, Any],
          result: tuple[int, ...]) -> Group:  # fmt: skip
    """A group of a model's size, with constant weights."""
    inputs = [numpy.zeros(shape, "float32") for shape in shapes]
    infos = [TensorInfo("float32", result)]
    return single(type, inputs, infos, attributes, weights=range(1, len(inputs)))[0]


LARGE: dict[str, Callable[[], Group]] = {
    "matmul": lambda: large("MatMul", [(128, 768), (768, 768)], {}, (128, 768)),
    "few rows": lambda: large("MatMul", [(1, 2048), (2048, 1000)], {}, (1, 1000)),
    "transposed": lambda: large(
        "ConvTranspose", [(1, 128, 28, 28), (128, 64, 2, 2)], {"strides": [2, 2]}, (1, 64, 56, 56)
    ),
    "stem": lambda: large(
        "Conv", [(1, 3, 224, 224), (64, 3, 7, 7)], {"strides": [2, 2], "pads": [3] * 4},
        (1, 64, 112, 112),
    ),
    "grouped": lambda: convolution(NASNET),
    "rows": lambda: residual_group((1, 197, 768), 2),
    "web": lambda: web([("Add", 0, 3), ("Tanh", 4, 0), ("Sub", 5, 4)], [0, 1, 2]),
    "softmax": lambda: large("Softmax", [(12, 197, 197)], {"axis": 2}, (12, 197, 197)),
    "pooling": lambda: large("GlobalAveragePool", [(1, 2048, 7, 7)], {}, (1, 2048, 1, 1)),
}  # fmt: skip
"""Kernels of models, which no other test compiles for a GPU."""


@needs_nvrtc
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("name", LARGE)
def test_nothing_spills(name: str, arch: str):
    target = parse_gpu(f"cuda:{arch}:tf32")
    kernel = generate(LARGE[name](), target)
    code = compile_cubin(complete_text(kernel.text), target)
    found = check_resources(code, kernel.launches, target)
    assert {resources.stack_bytes for resources in found.values()} == {0}


@needs_nvrtc
@pytest.mark.parametrize("tile", [
    Tile(64, 32, 16, 32, 1, 8, wgmma=True), Tile(128, 128, 16, 128, 2, 4, wgmma=True),
    Tile(128, 256, 16, 256, 1, 4, wgmma=True), Tile(256, 128, 16, 128, 1, 4, wgmma=True),
    Tile(128, 128, 16, 128, 1, 3, wgmma=True),
])  # fmt: skip
def test_wgmma_does_not_spill(tile: Tile):
    """Wide tiles, whose instructions the emulator does not know."""
    target = parse_gpu("cuda:sm_90:tf32")
    kernel = gemm_kernel(LARGE["matmul"](), target, tile)
    assert kernel is not None
    code = compile_cubin(complete_text(kernel.text), target)
    (found,) = check_resources(code, kernel.launches, target).values()
    assert found.stack_bytes == 0
