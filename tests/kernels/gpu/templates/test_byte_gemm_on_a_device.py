"""GEMMs and convolutions of bytes on a CUDA device, against exact integers and float64."""

import numpy
import pytest

from compiler.backends.cuda.driver import CudaDriver
from compiler.kernels.gpu.templates.byte_gemm.template import ByteGemm
from compiler.target.target import parse_gpu
from tests.kernels.gpu.on_a_device import present, run
from tests.kernels.gpu.templates import test_float8_gemm as float8
from tests.kernels.gpu.templates.test_byte_gemm import Case, expected, group_of

CASES = (
    Case((200, 300), (300, 136), zero=117),
    Case((130, 768), (768, 768), ("int8", "int8"), result="int8"),
    Case((2, 128, 14, 14), (72, 128, 3, 3), attributes={"pads": [1] * 4}, blocks=(16, 0)),
    Case((2, 64, 9, 9), (64, 64, 1, 1), zero=3, blocks=(16, 16), result="uint8"),
)


@pytest.fixture
def driver() -> CudaDriver:
    """The driver of the first device."""
    return present()


@pytest.mark.gpu
@pytest.mark.parametrize("case", CASES)
def test_all_tiles_are_exact(driver: CudaDriver, case: Case):
    target = parse_gpu(f"cuda:{driver.device.architecture}:fp16")
    x, w, scales = case.inputs
    sums = case.sums(x, w)
    group, template = group_of(case, sums.shape), ByteGemm()
    (problem,) = template.match(group, target)
    for tile in template.configs(problem, target):
        kernel = template.emit(group, problem, tile, target)
        result = run(driver, kernel, group, [x, w, scales][: group.inputs])
        numpy.testing.assert_array_equal(result, expected(case, sums, scales), str(tile))


@pytest.mark.gpu
@pytest.mark.parametrize(("left", "right"), float8.PAIRS)
@pytest.mark.parametrize("image", [False, True])
def test_sums_of_float8s(driver: CudaDriver, left: str, right: str, image: bool):
    target = parse_gpu(f"cuda:{driver.device.architecture}:fp16")
    if not target.has_float8_mma:
        pytest.skip(f"{driver.device.architecture} does not multiply float8s")
    shapes = ((2, 128, 9, 9), (72, 128, 3, 3)) if image else ((130, 3000), (3000, 136))
    x, w = float8.numbers(left, shapes[0]), float8.numbers(right, shapes[1])
    group, template = float8.group_of(x, w, (16, 0) if image else (0, 0)), ByteGemm()
    sums, sizes = float8.exact(x, w), float8.exact(abs(x.astype("f8")), abs(w.astype("f8")))
    (problem,) = template.match(group, target)
    for tile in template.configs(problem, target):
        kernel = template.emit(group, problem, tile, target)
        result = run(driver, kernel, group, [x.view("u1"), w.view("u1")])
        # 13 bits below the largest number of a k-step, as tensor cores of sm_89 and sm_90 have
        assert (abs(result - sums) <= 2.0**-12 * sizes).all(), str(tile)
