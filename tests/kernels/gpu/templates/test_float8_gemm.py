"""GEMMs and convolutions of float8s on the emulator, against float64."""

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy
import pytest

from compiler.kernels.building.select import best
from compiler.kernels.gpu.compilers.nvrtc import compile_cubin
from compiler.kernels.gpu.cubin import read_resources
from compiler.kernels.gpu.source import complete_text
from compiler.kernels.gpu.templates.byte_gemm.template import ByteGemm, ByteProblem
from compiler.kernels.gpu.templates.gemm.config import Tile
from compiler.kernels.group import Group, Node, TensorInfo
from compiler.kernels.template import KernelSource
from compiler.target.target import parse_gpu
from tests.kernels.gpu.emulator import COMPILER, Array, run, run_twice
from tests.kernels.gpu.templates.test_byte_gemm import convolved
from tests.kernels.test_float8 import largest

pytestmark = pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")

TARGET = parse_gpu("cuda:sm_90:fp16")
SMALL = Tile(32, 32, 16, 16, 1)
E4M3, E5M2 = "float8_e4m3fn", "float8_e5m2"
PAIRS = [(a, b) for a in (E4M3, E5M2) for b in (E4M3, E5M2)]


def numbers(kind: str, shape: tuple[int, ...]) -> Array:
    """Random float8s of many sizes, each time others."""
    seed = numpy.random.SeedSequence().entropy
    print(f"seed {seed} for {kind}{list(shape)}")
    random = numpy.random.default_rng(seed)
    values = random.standard_normal(shape) * 2.0 ** random.integers(-5, 6, shape)
    return values.astype(getattr(ml_dtypes, kind))


def group_of(
    x: Array, w: Array, blocks: tuple[int, int] = (0, 0), result: str = "", **attributes: Any
) -> Group:
    """The contraction of x by weights; a `result` of float8 is scaled by channel and rounded."""
    kinds = [str(value.dtype) for value in (x, w)]
    values = [
        TensorInfo("uint8", x.shape, blocks[0], kinds[0]),
        TensorInfo("uint8", w.shape, 0, kinds[1]),
    ]
    image = w.ndim == 4
    shape = exact(x, w, **attributes).shape
    reads, weights, constants = 2, [False, True], dict[int, Array]()
    if result:
        column = (w.shape[0], 1, 1) if image else (w.shape[1],)
        values.append(TensorInfo("float32", column))
        reads, weights = 3, [*weights, True]
    values.append(TensorInfo("float32", shape))
    operators = [Node("ConvFloat8" if image else "MatMulFloat8", attributes, (0, 1), (reads,))]
    if result:
        values += [TensorInfo("float32", shape), TensorInfo("uint8", shape, 0, result)]
        operators += [
            Node("Mul", {}, (reads, 2), (reads + 1,)),
            Node("Cast", {"to": 17 if result == E4M3 else 19}, (reads + 1,), (reads + 2,)),
        ]
    last = len(values) - 1
    values[last] = replace(values[last], block=blocks[1])
    own = tuple(operators)
    return Group("float8", tuple(values), reads, tuple(weights), constants, own, (last,))


def exact(x: Array, w: Array, **attributes: Any) -> Array:
    """The sums in float64."""
    x, w = x.astype("f8"), w.astype("f8")
    return convolved(x, w, attributes) if w.ndim == 4 else x @ w


def problem_of(group: Group) -> ByteProblem:
    """The problem that the template finds."""
    (found,) = ByteGemm().match(group, TARGET)
    assert isinstance(found, ByteProblem)
    return found


def check(
    group: Group, inputs: list[Array], tile: Tile = SMALL, twice: bool = False
) -> KernelSource:
    """Compare a kernel's sums with float64, relative to the sum of absolute values."""
    kernel = ByteGemm().emit(group, problem_of(group), tile, TARGET)
    (found,) = (run_twice if twice else run)(kernel, group, [a.view("u1") for a in inputs])
    attributes = group.operators[0].attributes
    sizes = exact(*(numpy.abs(a.astype("f8")) for a in inputs), **attributes)
    assert (numpy.abs(found - exact(*inputs, **attributes)) <= 2.0**-20 * sizes).all()
    return kernel


@pytest.mark.parametrize(("left", "right"), PAIRS)
def test_kinds(left: str, right: str):
    x, w = numbers(left, (37, 200)), numbers(right, (200, 40))
    check(group_of(x, w), [x, w])
    x, w = numbers(left, (1, 32, 5, 7)), numbers(right, (24, 32, 1, 1))
    check(group_of(x, w, (16, 0)), [x, w])


@pytest.mark.parametrize(
    "attributes", [{"pads": [1] * 4}, {"pads": [1, 0, 1, 2], "strides": [2, 2]}]
)
def test_windows(attributes: dict[str, Any]):
    x, w = numbers(E4M3, (2, 48, 7, 6)), numbers(E5M2, (40, 48, 3, 3))
    check(group_of(x, w, (16, 4), **attributes), [x, w])


@pytest.mark.parametrize("tile", [Tile(16, 64, 16, 16, 1), Tile(128, 128, 64, 32, 1, 3),
                                  replace(SMALL, prefetch=True, release=True)])  # fmt: skip
def test_tiles_in_any_order_of_warps(tile: Tile):
    x, w = numbers(E4M3, (130, 260)), numbers(E4M3, (260, 136))
    check(group_of(x, w), [x, w], tile, twice=True)


@pytest.mark.parametrize("result", [E4M3, E5M2])
@pytest.mark.parametrize("shapes", [((50, 160), (160, 48)), ((2, 48, 4, 4), (32, 48, 1, 1))])
def test_results_are_rounded_to_float8(result: str, shapes: tuple[tuple[int, ...], ...]):
    x, w = numbers(E4M3, shapes[0]), numbers(E4M3, shapes[1])
    group = group_of(x, w, (16, 16) if x.ndim == 4 else (0, 0), result)
    scales = numpy.random.default_rng(3).uniform(0.5, 2, group.values[2].shape).astype("f4")
    kernel = ByteGemm().emit(group, problem_of(group), SMALL, TARGET)
    (found,) = run(kernel, group, [x.view("u1"), w.view("u1"), scales])
    dtype = getattr(ml_dtypes, result)
    limit = largest(result)
    expected = (exact(x, w) * scales).clip(-limit, limit)
    error = numpy.abs(found.view(dtype).astype("f8") - expected)
    step = {E4M3: 2.0**-4, E5M2: 2.0**-3}[result]
    assert (error <= numpy.abs(expected) * step * 1.001 + 2.0**-10).all()


@pytest.mark.parametrize(("left", "right"), PAIRS)
@pytest.mark.parametrize("target", ["cuda:sm_89:fp16", "cuda:sm_90:tf32"])
def test_tensor_cores_without_local_memory(target: str, left: str, right: str):
    x, w = numbers(left, (1, 128, 14, 14)), numbers(right, (128, 128, 3, 3))
    selected = best(group_of(x, w, (16, 16), E4M3, pads=[1] * 4), parse_gpu(target))
    assert selected is not None
    kernel = selected.emit()
    assert "byte_gemm<Problem>" in kernel.text
    cubin = compile_cubin(complete_text(kernel.text), parse_gpu(target))
    assert [need.stack_bytes for need in read_resources(cubin).values()] == [0]


@pytest.mark.parametrize("target", ["cuda:sm_80:fp16", "hip:gfx942:fp16"])
def test_older_and_other_tensor_cores_decline(target: str):
    group = group_of(numbers(E4M3, (64, 64)), numbers(E4M3, (64, 64)))
    assert not ByteGemm().match(group, parse_gpu(target))
    assert ByteGemm().match(group, parse_gpu("cuda:sm_89:fp16"))
