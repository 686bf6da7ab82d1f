"""Depthwise and pointwise convolutions in one kernel on the emulator, against float64."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.errors import DeviceError
from compiler.kernels.building import kernel as _lowerings
from compiler.kernels.gpu.compilers.nvrtc import compile_cubin
from compiler.kernels.gpu.cubin import check_resources
from compiler.kernels.gpu.source import complete_text
from compiler.kernels.gpu.templates.depthwise_pointwise.template import (
    KEPT,
    DepthwisePointwise,
)
from compiler.kernels.gpu.templates.depthwise_pointwise.template import (
    Config as Choice,
)
from compiler.kernels.gpu.templates.gemm.config import Tile
from compiler.kernels.group import Group, Node, TensorInfo
from compiler.kernels.template import KernelSource
from compiler.target.target import PRECISIONS, parse_gpu
from compiler.tensors.dtypes import numpy_dtype
from tests.kernels.gpu.emulator import COMPILER, Order, Program, run_twice
from tests.kernels.gpu.of_template import estimated, kernel_in
from tests.kernels.gpu.test_mutations import SEEDS, WAITS, inlined
from tests.tools import needs_nvrtc

assert _lowerings
emulated = pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")
BLOCKS = {"float32": 4, "float16": 8, "bfloat16": 8}
BOUNDS = {"fp32": 2e-6, "tf32": 2e-3, "fp16": 2e-3, "bf16": 1e-2}
STORED = {"float32": 0.0, "float16": 1e-3, "bfloat16": 8e-3}
"""The error that rounding results to a stored type adds."""


@dataclass(frozen=True)
class Shape:
    """A separable convolution by an entry an axis; `pads` are those before, then those after."""

    channels: int
    rows: int
    image: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...] = (1, 1)
    dilations: tuple[int, ...] = (1, 1)
    pads: tuple[int, ...] = (1, 1, 1, 1)
    batch: int = 1

    @property
    def output(self) -> tuple[int, ...]:
        """The spatial extents of the result; not positive where the window does not fit."""
        rank = len(self.image)
        pads = zip(self.pads[:rank], self.pads[rank:], strict=True)
        rows = zip(self.image, pads, self.kernel, self.dilations, self.strides, strict=True)
        return tuple((n + sum(p) - (k - 1) * d - 1) // s + 1 for n, p, k, d, s in rows)


def separable(
    shape: Shape,
    dtype: str = "float32",
    blocks: tuple[bool, bool] = (True, True),
    relu: bool = True,
    weights: str = "float32",
) -> Group:
    """relu(conv1x1(depthwise(relu?(x)), w) + bias + y), borders cast to float32 and back.

    The image and the result may have their channels in blocks; `weights` is what w is stored as.
    """
    block = [BLOCKS[dtype] * (b and n % BLOCKS[dtype] == 0)
             for b, n in zip(blocks, (shape.channels, shape.rows), strict=True)]  # fmt: skip
    image = (shape.batch, shape.channels, *shape.image)
    middle = (shape.batch, shape.channels, *shape.output)
    result = (shape.batch, shape.rows, *shape.output)
    values = [
        TensorInfo(dtype, image, block[0]),
        TensorInfo("float32", (shape.channels, 1, *shape.kernel)),
        TensorInfo(weights, (shape.rows, shape.channels, *[1] * len(shape.image))),
        TensorInfo("float32", (shape.rows,)),
        TensorInfo(dtype, result, block[1]),
    ]
    operators: list[Node[int]] = []

    def add(type: str, inputs: Sequence[int], info: TensorInfo, **attributes: object) -> int:
        values.append(info)
        operators.append(Node(type, attributes, tuple(inputs), (len(values) - 1,)))
        return len(values) - 1

    def wide(value: int) -> int:
        return add("Cast", [value], TensorInfo("float32", values[value].shape), to=1)

    x, w, y = wide(0), wide(2), wide(4)
    x = add("Relu", [x], values[x]) if relu else x
    attributes = {"group": shape.channels, "strides": list(shape.strides),
                  "dilations": list(shape.dilations), "pads": list(shape.pads)}  # fmt: skip
    deep = add("Conv", [x, 1], TensorInfo("float32", middle), **attributes)
    full = TensorInfo("float32", result)
    sums = add("Conv", [deep, w, 3], full, kernel_shape=[1] * len(shape.image))
    last = add("Relu", [add("Add", [sums, y], full)], full)
    to = {"float32": 1, "float16": 10, "bfloat16": 16}[dtype]
    last = add("Cast", [last], TensorInfo(dtype, result, block[1]), to=to)
    flags = (False, True, True, True, False)
    return Group("separable", tuple(values), 5, flags, {}, tuple(operators), (last,))


def draw_inputs(group: Group, seed: int = 3) -> list[numpy.ndarray]:
    """Normal numbers in each read's type."""
    rng = numpy.random.default_rng(seed)
    return [rng.standard_normal(t.shape).astype(numpy_dtype(t.dtype)) for t in group.reads]


def reference(shape: Shape, inputs: Sequence[numpy.ndarray], relu: bool = True) -> numpy.ndarray:
    """The same in float64, tap by tap."""
    x, window, w, bias, y = (array.astype("float64") for array in inputs)
    rank = len(shape.image)
    pads = [(0, 0), (0, 0), *zip(shape.pads[:rank], shape.pads[rank:], strict=True)]
    x = numpy.pad(numpy.maximum(x, 0) if relu else x, pads)
    total = numpy.zeros((shape.batch, shape.channels, *shape.output))
    for tap in itertools.product(*map(range, shape.kernel)):
        at = [slice(t * d, t * d + (n - 1) * s + 1, s) for t, d, n, s in
              zip(tap, shape.dilations, shape.output, shape.strides, strict=True)]  # fmt: skip
        own = window[(slice(None), 0, *tap)]
        total += own.reshape(-1, *[1] * rank) * x[(slice(None), slice(None), *at)]
    product = numpy.einsum("mk,nk...->nm...", w.reshape(w.shape[:2]), total)
    return numpy.maximum(product + bias.reshape(-1, *[1] * rank) + y, 0)


def kernel_of(group: Group, target: str, choice: Choice | None = None) -> KernelSource:
    """The kernel of the template."""
    kernel = kernel_in("depthwise_pointwise", group, parse_gpu(target), choice)
    assert kernel is not None
    assert "separable_gemm" in kernel.text
    return kernel


def check(shape: Shape, choice: Choice | None, target: str = "cuda:sm_90:fp32", relu: bool = True,
          **form: Any) -> None:  # fmt: skip
    """Run on the emulator and compare."""
    group = separable(shape, relu=relu, **form)
    inputs = draw_inputs(group)
    (result,) = run_twice(kernel_of(group, target, choice), group, inputs)
    expected = reference(shape, inputs, relu)
    error = numpy.linalg.norm(result.astype("float64") - expected)
    bound = (
        BOUNDS[parse_gpu(target).precision]
        + STORED[group.reads[0].dtype]
        + STORED[group.reads[2].dtype]
    )
    assert error <= bound * max(float(numpy.linalg.norm(expected)), 1e-3)


CASES = {
    "nasnet": Shape(44, 44, (7, 8), (5, 5), pads=(2, 2, 2, 2)),
    "halved": Shape(24, 40, (9, 8), (7, 7), (2, 2), pads=(2, 2, 3, 3)),
    "odd": Shape(11, 11, (5, 7), (5, 5), pads=(2, 2, 2, 2), batch=2),
    "pairs": Shape(54, 50, (4, 6), (3, 3)),
    "line": Shape(36, 20, (30,), (3,), (1,), (2,), (2, 2)),
    "volume": Shape(8, 12, (3, 4, 5), (1, 2, 3), (1, 2, 1), (1, 1, 1), (0, 1, 1, 0, 0, 1)),
    "padding-wider": Shape(4, 9, (2, 1), (3, 3), pads=(5, 4, 3, 6)),
}  # fmt: skip


@emulated
@pytest.mark.parametrize("name", CASES)
def test_cases(name: str):
    check(CASES[name], None)


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    """Small shapes whose windows fit at least once: single rows and channels, wide padding."""
    rank = draw(st.sampled_from([2, 2, 2, 1, 3]))

    def axes(least: int, most: int) -> tuple[int, ...]:
        return tuple(draw(st.integers(least, most)) for _ in range(rank))

    channels = draw(st.one_of(st.integers(2, 12), st.sampled_from([8, 16, 32, 36, 72])))
    pads = axes(0, 3) + axes(0, 3)
    shape = Shape(channels, draw(st.integers(1, 40)), axes(1, 8), axes(1, 5), axes(1, 2),
                  axes(1, 2), pads, draw(st.integers(1, 2)))  # fmt: skip
    return replace(shape, pads=(8,) * (2 * rank)) if min(shape.output) < 1 else shape


@emulated
@settings(max_examples=5, deadline=None)
@given(
    shapes(), st.sampled_from(PRECISIONS), st.sampled_from(sorted(BLOCKS)), st.booleans(),
    st.tuples(st.booleans(), st.booleans()), st.integers(0, 1 << 20),
)  # fmt: skip
def test_any_shape(shape: Shape, precision: str, dtype: str, relu: bool,
                   blocks: tuple[bool, bool], number: int):  # fmt: skip
    """With any of the choices that the tuner may take."""
    target, template = f"cuda:sm_90:{precision}", DepthwisePointwise()
    found = template.problem(separable(shape, dtype, blocks, relu), parse_gpu(target))
    assert found is not None
    configs = template.configs(found, parse_gpu(target))
    choices = [c for c in configs if c.tile.threads <= 128]
    check(shape, choices[number % len(choices)], target, relu, dtype=dtype, blocks=blocks)


@emulated
@pytest.mark.parametrize(
    ("precision", "dtype", "weights"),
    [("tf32", "float32", "float32"), ("fp16", "float16", "float16"),
     ("bf16", "bfloat16", "bfloat16"), ("fp16", "float16", "float32")],
)  # fmt: skip
def test_precisions(precision: str, dtype: str, weights: str):
    """Several k-steps, the last one partial, and split-K."""
    shape = Shape(104, 40, (6, 6), (3, 3))
    choice = Choice(Tile(32, 32, 16, 16, 2, 2), 2)
    check(shape, choice, f"cuda:sm_90:{precision}", dtype=dtype, weights=weights)


def mutants(text: str, functions: Sequence[str]) -> list[tuple[str, str]]:
    """Each wait of some functions in turn, and the text without it."""
    found: list[tuple[str, str]] = []
    for name in functions:
        start = text.index(f"void {name}(")
        for match in WAITS.finditer(text, start, text.index("\n}\n", start)):
            found.append((match[0], text[: match.start()] + ";" + text[match.end() :]))
    return found


@emulated
@pytest.mark.parametrize(("slices", "functions", "waits"), [
    (1, ["store_accumulators"], 1), (2, ["separable_mainloop", "store_tile"], 5),
])  # fmt: skip
def test_every_wait_is_needed(slices: int, functions: list[str], waits: int):
    shape = Shape(68, 20, (4, 5), (3, 3))
    group = separable(shape)
    inputs = draw_inputs(group)
    expected = reference(shape, inputs)
    kernel = kernel_of(group, "cuda:sm_90:tf32", Choice(Tile(32, 32, 16, 16, slices, 2), 1))
    text = inlined(kernel.text)

    def survives(mutant: str) -> bool:
        changed = replace(kernel, text=mutant)
        program = Program(changed)
        try:
            results = [program.run(changed, group, inputs, order=Order(s))[0] for s in SEEDS]
        except DeviceError:
            return False
        limit = 5e-3 * numpy.linalg.norm(expected)
        return all(numpy.linalg.norm(r - expected) < limit for r in results)

    assert survives(text)
    assert len(mutants(text, functions)) == waits
    assert not [wait for wait, mutant in mutants(text, functions) if survives(mutant)]


@needs_nvrtc
@pytest.mark.parametrize("target", ["cuda:sm_80:fp32", "cuda:sm_80:tf32", "cuda:sm_90:tf32",
                                    "cuda:sm_90:fp16"])  # fmt: skip
def test_nothing_spills(target: str):
    """Of NASNet-mobile's and PNASNet's cells, whose strips, blocks and tiles differ."""
    machine = parse_gpu(target)
    dtype = "float16" if machine.precision == "fp16" else "float32"
    for shape in (Shape(44, 44, (28, 28), (5, 5)), Shape(216, 216, (42, 42), (7, 7))):
        kernel = kernel_of(separable(shape, dtype, weights=dtype), target)
        code = compile_cubin(complete_text(kernel.text), machine)
        (found,) = check_resources(code, kernel.launches, machine).values()
        assert found.stack_bytes == 0


def test_groups_that_do_not_match():
    target, shape = parse_gpu("cuda"), CASES["nasnet"]
    group = separable(shape)
    convolutions = [op for op in group.operators if op.type == "Conv"]

    def changed(**fields: object) -> Group:
        return replace(group, **fields)

    def with_first(**fields: object) -> Group:
        first = replace(convolutions[0], **fields)
        operators = tuple(first if op is convolutions[0] else op for op in group.operators)
        return changed(operators=operators)

    image, window = convolutions[0].inputs
    biased = with_first(inputs=(image, window, 3))
    grouped = with_first(attributes={**convolutions[0].attributes, "group": 22})
    for other in (biased, grouped, changed(weights=(False,) * 5),
                  changed(outputs=(*group.outputs, *convolutions[0].outputs))):  # fmt: skip
        assert kernel_in("depthwise_pointwise", other, target) is None
    assert kernel_in("depthwise_pointwise", group, parse_gpu("hip:gfx90a:fp32")) is None


def test_choices_keep_rows_whole_and_few_numbers():
    target, template = parse_gpu("cuda:sm_90:tf32"), DepthwisePointwise()
    shape = Shape(8, 8, (6, 12), (7, 7), pads=(3, 3, 3, 3))
    found = template.problem(separable(shape), target)
    assert found is not None
    pixels = {choice.pixels for choice in template.configs(found, target)}
    assert pixels == {1, 2, 4}
    assert found.window.kept(4) <= KEPT
    assert estimated("depthwise_pointwise", found, target).pixels in pixels
    odd = template.problem(separable(Shape(8, 8, (6, 7), (3, 3))), target)
    assert odd is not None
    assert {choice.pixels for choice in template.configs(odd, target)} == {1}
