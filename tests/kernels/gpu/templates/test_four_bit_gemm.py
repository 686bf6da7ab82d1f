"""Matmuls of a few rows by packed weights of four bits on tensor cores, on the emulator."""

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.kernels.building.select import best
from compiler.kernels.gpu.templates.skinny_gemm.config import SkinnyConfig, candidates
from compiler.kernels.group import Group, Node, TensorInfo
from compiler.net.four_bits import pack_nibbles
from compiler.target.target import parse_gpu
from tests.kernels.gpu.emulator import COMPILER, run_twice
from tests.kernels.gpu.of_template import kernel_in, problem_in
from tests.kernels.harness import Array, single
from tests.strategies import FourBitMatmul, four_bit_operands

pytestmark = pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")
BOUNDS = {"tf32": 2e-5, "fp16": 1e-3, "bf16": 6e-3}
"""Relative errors of the norm: rows are sums of two bfloat16s, or are rounded."""


def group_of(matmul: FourBitMatmul) -> tuple[Group, list[Array]]:
    """A matmul by constant weights, and its inputs."""
    info = TensorInfo("float32", matmul.expected.shape)
    weights = range(1, len(matmul.operands))
    return single("MatMulNBits", matmul.operands, [info], matmul.attributes, weights=weights)


def error(matmul: FourBitMatmul, precision: str, choice: int = 0, offset: int = 0) -> float:
    """The relative error of a kernel's norm, with one of the configs."""
    target, (group, inputs) = parse_gpu(f"cuda:sm_90:{precision}"), group_of(matmul)
    configs = [*candidates(problem_in("four_bit_gemm", group, target), target)]
    kernel = kernel_in("four_bit_gemm", group, target, configs[choice % len(configs)])
    assert kernel is not None
    (result,) = run_twice(kernel, group, inputs, offset)
    wanted = matmul.expected
    return float(numpy.linalg.norm(result - wanted) / numpy.linalg.norm(wanted))


@settings(max_examples=5, deadline=None)
@given(
    st.tuples(st.integers(1, 16), st.integers(1, 400), st.integers(1, 40)),
    st.sampled_from([32, 64, 128, 256]),
    st.sampled_from(["", "uint8", "float32"]),
    st.sampled_from([*BOUNDS]),
    st.integers(0, 99),
)
def test_any_matmul(
    sizes: tuple[int, int, int], block: int, zeros: str, precision: str, choice: int
):
    rows, depth, columns = sizes
    matmul = four_bit_operands([rows], depth, columns, block, zeros)
    assert error(matmul, precision, choice, 16) < BOUNDS[precision]


@pytest.mark.parametrize("precision", [*BOUNDS])
def test_every_integer_in_every_place_is_unpacked(precision: str):
    matmul = four_bit_operands([1], 64, 16, 64)
    _, _, *others = matmul.operands
    packed = pack_nibbles(numpy.add.outer(numpy.arange(16), numpy.arange(64)) % 16)
    x = numpy.arange(-32, 32).reshape(1, 64).astype("float32")  # exact in 16 bits
    matmul = FourBitMatmul((x, packed.reshape(16, 1, 32), *others), matmul.attributes)
    assert error(matmul, precision) < 2e-6


def test_rows_of_16_bits_are_read_as_they_are():
    matmul = four_bit_operands([3], 96, 20, 32, "uint8")
    x, *weights = matmul.operands
    operands = [x.astype("float16"), *weights]
    values = [TensorInfo(a.dtype.name, a.shape) for a in operands]
    values += [TensorInfo("float32", x.shape), TensorInfo("float32", (3, 20))]
    operators = (
        Node("Cast", {"to": 1}, (0,), (4,)),
        Node("MatMulNBits", matmul.attributes, (4, 1, 2, 3), (5,)),
    )
    flags = (False, True, True, True)
    group = Group("narrow", tuple(values), 4, flags, {}, operators, (5,))
    kernel = kernel_in(
        "four_bit_gemm", group, parse_gpu("cuda:sm_90:fp16"), SkinnyConfig(2, 4, 1, 2)
    )
    assert kernel is not None
    (result,) = run_twice(kernel, group, operands)
    narrow = FourBitMatmul((operands[0].astype("float32"), *weights), matmul.attributes)
    wanted = narrow.expected
    assert numpy.linalg.norm(result - wanted) < 1e-5 * numpy.linalg.norm(wanted)


@pytest.mark.parametrize(
    ("rows", "block", "target", "name"),
    [
        (1, 32, "cuda:sm_90:fp16", "four_bit_gemm"),
        (16, 128, "cuda:sm_80:tf32", "four_bit_gemm"),
        (1, 16, "cuda:sm_90:fp16", "four_bit_gemv"),  # a fragment would have several scales
        (1, 32, "cuda:sm_90:fp32", "four_bit_gemv"),  # exact multiplications
        (1, 32, "hip:gfx90a:fp32", "four_bit_gemv"),
    ],
)
def test_tensor_cores_take_what_they_multiply(rows: int, block: int, target: str, name: str):
    group, _ = group_of(four_bit_operands([rows], 1024, 1024, block))
    found = best(group, parse_gpu(target))
    assert found is not None
    assert found.template.name == name
