"""The benchmark of kernels in 8 bits prepares pairs of kernels without a device."""

import base64
import json
from pathlib import Path
from typing import Any

import numpy
import pytest

from benchmarks.quantised import kernels as byte_kernels
from compiler.kernels.gpu.cubin import read_resources
from compiler.kernels.group import TensorInfo
from tests.kernels.harness import laid_out

SHAPES: dict[str, Any] = {
    "conv": ("Conv", (2, 64, 8, 8), (64, 64, 3, 3), (2, 64, 8, 8), {"pads": [1] * 4}),
    "gemm": ("MatMul", (32, 128), (128, 64), (32, 64), {}),
}


def test_each_shape_has_kernels_of_both_widths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(byte_kernels, "shapes", lambda: SHAPES)
    byte_kernels.prepare(tmp_path, 2)
    cases = json.loads((tmp_path / "cases.json").read_text())
    found = [(case["name"], case["bits"], case["dtype"]) for case in cases]
    assert {*found} == {(n, *t) for n in SHAPES for t in ((8, "uint8"), (16, "float16"))}
    assert len(found) == 2 * len({*found})
    for case in cases:
        used = read_resources(base64.b64decode(case["cubin"]))
        assert {symbol for symbol, *_ in case["launches"]} <= {*used}
        assert not any(need.stack_bytes for need in used.values())


class Tensor:
    """The methods of PyTorch's tensors that a layout needs, by numpy."""

    def __init__(self, array: numpy.ndarray) -> None:
        self.array, self.shape = array, array.shape

    def unflatten(self, axis: int, sizes: tuple[int, int]) -> "Tensor":
        """Split an axis."""
        return Tensor(self.array.reshape(*self.shape[:axis], *sizes, *self.shape[axis + 1 :]))

    def movedim(self, source: int, destination: int) -> "Tensor":
        """Move an axis."""
        return Tensor(numpy.moveaxis(self.array, source, destination))

    def contiguous(self) -> "Tensor":
        """The same, row-major."""
        return Tensor(numpy.ascontiguousarray(self.array))


def test_images_are_stored_as_kernels_read_them():
    image = numpy.arange(2 * 32 * 3 * 5).reshape(2, 32, 3, 5)
    stored = byte_kernels.laid_out(Tensor(image), 16)
    info = TensorInfo("int64", image.shape, 16)
    assert stored.shape == info.stored_shape
    numpy.testing.assert_array_equal(stored.array, laid_out(image, info))
