"""Poolings of images in blocks of channels on the emulator against numpy."""

from dataclasses import dataclass, replace
from typing import Any

import numpy
import pytest

from compiler.kernels.group import Group, Node, TensorInfo
from compiler.target.target import parse_gpu
from compiler.tensors.dtypes import numpy_dtype
from tests.kernels.gpu.emulator import COMPILER, run_twice
from tests.kernels.gpu.of_template import kernel_in

emulated = pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")
TARGET = parse_gpu("cuda:sm_90:fp16")
BLOCKS = {"float32": 4, "float16": 8, "bfloat16": 8}
NUMBERS = {"float32": 1, "float16": 10, "bfloat16": 16}


@dataclass(frozen=True)
class Case:
    """relu(pool(x)) + y, stored as the image is or row-major."""

    shape: tuple[int, ...]
    window: tuple[int, ...]
    stride: int = 1
    pad: int = 0
    dilation: int = 1
    dtype: str = "float16"
    blocked: bool = True

    @property
    def result(self) -> tuple[int, ...]:
        """The result's shape."""
        reach = [(k - 1) * self.dilation + 1 for k in self.window]
        spatial = zip(self.shape[2:], reach, strict=True)
        return (*self.shape[:2], *((n + 2 * self.pad - r) // self.stride + 1 for n, r in spatial))

    def group(self) -> Group:
        """The group."""
        image = TensorInfo(self.dtype, self.shape, BLOCKS[self.dtype])
        wide, pooled = TensorInfo("float32", self.shape), TensorInfo("float32", self.result)
        stored = TensorInfo(self.dtype, self.result, image.block if self.blocked else 0)
        rank = len(self.window)
        attributes = {
            "kernel_shape": list(self.window),
            "strides": [self.stride] * rank,
            "dilations": [self.dilation] * rank,
            "pads": [self.pad] * 2 * rank,
        }
        operators = (
            Node("Cast", {"to": 1}, (0,), (2,)),
            Node("MaxPool", attributes, (2,), (3,)),
            Node("Relu", {}, (3,), (4,)),
            Node("Cast", {"to": 1}, (1,), (5,)),
            Node("Add", {}, (4, 5), (6,)),
            Node("Cast", {"to": NUMBERS[self.dtype]}, (6,), (7,)),
        )
        values = (image, stored, wide, *[pooled] * 4, stored)
        return Group("pool", values, 2, (False,) * 2, {}, operators, (7,))

    def expected(self, x: numpy.ndarray, y: numpy.ndarray) -> numpy.ndarray:
        """The result in float32."""
        pads = [(0, 0)] * 2 + [(self.pad, self.pad)] * len(self.window)
        padded = numpy.pad(x, pads, constant_values=-numpy.inf)
        reach = [(k - 1) * self.dilation + 1 for k in self.window]
        axes = tuple(range(2, x.ndim))
        windows = numpy.lib.stride_tricks.sliding_window_view(padded, reach, axes)
        step: Any = [slice(None, None, self.stride)] * len(axes)
        tap: Any = [slice(None, None, self.dilation)] * len(axes)
        windows = windows[(slice(None), slice(None), *step, *tap)]
        return numpy.maximum(windows.max(tuple(range(-len(axes), 0))), 0) + y


CASES = (
    Case((2, 16, 9, 7), (3, 3), stride=2, pad=1),
    Case((1, 24, 4, 5, 6), (3, 3, 3), pad=1, dtype="bfloat16"),
    Case((1, 12, 8, 8), (2, 3), dilation=2, dtype="float32"),
    Case((2, 8, 1, 30), (1, 5), pad=0, stride=3, blocked=False),
)


@emulated
@pytest.mark.parametrize("case", CASES, ids=str)
def test_results_are_exact(case: Case):
    group, rng = case.group(), numpy.random.default_rng(3)
    drawn = [rng.standard_normal(t.shape).astype(numpy_dtype(t.dtype)) for t in group.reads]
    drawn[0].reshape(-1)[::97] = numpy.nan
    kernel = kernel_in("max_pool", group, TARGET)
    assert kernel is not None
    (result,) = run_twice(kernel, group, drawn)
    x, y = (array.astype("float32") for array in drawn)
    expected = case.expected(x, y).astype(drawn[0].dtype).astype("float32")
    numpy.testing.assert_array_equal(result.astype("float32"), expected)


def test_row_major_images_and_large_windows_are_left():
    case = CASES[0]
    group = case.group()
    values = (replace(group.values[0], block=0), *group.values[1:])
    assert kernel_in("max_pool", replace(group, values=values), TARGET) is None
    assert kernel_in("max_pool", Case((1, 8, 20, 20), (9, 9)).group(), TARGET) is None
