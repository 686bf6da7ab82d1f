from typing import Any

import ml_dtypes
import numpy
import pytest

from compiler.backends.cpu.driver import BACKEND
from compiler.backends.cpu.inputs import prepare_inputs
from compiler.backends.memory import ALIGNMENT, address, aligned_array
from compiler.errors import ShapeError
from compiler.schedule.tasks import Allocation
from compiler.tensors.dtypes import numpy_dtype
from tests.backends.objects import LANES, chain, kernels, reference, values

SPECS = (Allocation("input", "x", "float32", (2, 3)), Allocation("input", "n", "int64", ()))


def good() -> dict[str, Any]:
    return {"x": numpy.ones((2, 3), numpy.float32), "n": numpy.int64(4)}


@pytest.mark.parametrize(
    "change",
    [
        {"x": numpy.ones((2, 3))},
        {"x": numpy.ones((3, 2), numpy.float32)},
        {"x": [[1.0, 2.0, 3.0]] * 2},
        {"extra": numpy.ones(1)},
    ],
    ids=["dtype", "shape", "list", "extra"],
)
def test_what_does_not_fit_lists_what_is_expected(change: dict[str, Any]) -> None:
    with pytest.raises(ShapeError, match=r"'x'"):
        prepare_inputs(SPECS, good() | change)


def test_a_missing_input_lists_what_is_expected() -> None:
    with pytest.raises(ShapeError, match=r"'x' float32\[2, 3\], 'n' int64\[\]"):
        prepare_inputs(SPECS, {"x": good()["x"]})


@pytest.mark.parametrize("inputs", [[1, 2], ["x", "n"], None])
def test_inputs_without_names_are_refused(inputs: Any) -> None:
    with pytest.raises(ShapeError, match=r"pass arrays by name; the model takes 'x' float32"):
        prepare_inputs(SPECS, inputs)


@pytest.mark.parametrize("element", [0, 1, 4])
def test_arrays_at_any_element_are_used_in_place(element: int) -> None:
    x = aligned_array((6 + element,), numpy.float32)[element:].reshape(2, 3)
    assert numpy.shares_memory(prepare_inputs(SPECS, good() | {"x": x})[0], x)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float8_e4m3fn", "bool"])
def test_the_address_of_an_array_is_that_of_its_first_element(dtype: str) -> None:
    whole = aligned_array((4, 6), numpy_dtype(dtype))
    frozen = whole.view()
    frozen.flags.writeable = False
    for array in (whole, whole[1:], whole[::2, 1:], whole.T, whole[0, 0], whole[:0], frozen):
        expected = numpy.asarray(array).__array_interface__["data"][0]
        assert address(numpy.asarray(array)) == expected
    assert address(whole) % ALIGNMENT == 0


def unusual() -> dict[str, Any]:
    flat = aligned_array((6 * 4 + 1,), numpy.uint8)[1:].view(numpy.float32)
    strided = numpy.zeros((4, 6), numpy.float32)[::2, ::2]
    turned = numpy.zeros((3, 2), numpy.float32).T
    constant = numpy.broadcast_to(numpy.float32(2), (2, 3))
    return {"odd": flat.reshape(2, 3), "strided": strided, "turned": turned, "constant": constant}


@pytest.mark.parametrize("kind", ["odd", "strided", "turned", "constant"])
def test_other_arrays_are_copied_to_where_kernels_can_read(kind: str) -> None:
    x = unusual()[kind]
    if x.flags.writeable:
        x[...] = numpy.arange(6).reshape(2, 3)
    found = prepare_inputs(SPECS, good() | {"x": x})[0]
    assert found.ctypes.data % 64 == 0
    assert found.flags.c_contiguous
    numpy.testing.assert_array_equal(found, x)


class Exported:
    """An array that only DLPack can read."""

    def __init__(self, array: Any):
        self._array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()


class OnAnotherDevice(Exported):
    def __dlpack__(self, **options: Any) -> Any:
        raise BufferError("on cuda:0")


def test_dlpack() -> None:
    x = aligned_array((2, 3), numpy.float32)
    x[:] = 7
    found = prepare_inputs(SPECS, good() | {"x": Exported(x)})[0]
    assert numpy.shares_memory(found, x)
    with pytest.raises(ShapeError, match="cuda:0"):
        prepare_inputs(SPECS, good() | {"x": OnAnotherDevice(x)})


def test_bfloat16() -> None:
    specs = (Allocation("input", "x", "bfloat16", (2,)),)
    x = numpy.array([1.5, 2], ml_dtypes.bfloat16)
    numpy.testing.assert_array_equal(prepare_inputs(specs, {"x": x})[0], x)


def test_unaligned_and_strided_inputs_give_the_same_outputs() -> None:
    executable = BACKEND.load(chain(), kernels(), {"w": values(1)}, threads=2)
    x = values(9)
    expected = reference(chain(), {"x": x, "w": values(1)})["y"]
    strided = numpy.repeat(x, 2)[::2]
    odd = numpy.empty(8 * LANES + 1, numpy.uint8)[1:].view(numpy.int64)
    odd[:] = x
    for given in (x, strided, odd, x[::-1].copy()[::-1]):
        numpy.testing.assert_array_equal(executable.run({"x": given})["y"], expected)
    with pytest.raises(ShapeError):
        executable.run({"x": x[1:]})
    numpy.testing.assert_array_equal(executable.run({"x": x})["y"], expected)
