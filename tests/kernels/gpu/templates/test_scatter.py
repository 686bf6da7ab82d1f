"""Scatters on the emulator against a loop over the updates."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.kernels.group import Group, TensorInfo
from compiler.target.target import parse_gpu
from compiler.tensors.dtypes import numpy_dtype
from tests.kernels.gpu.emulator import COMPILER, run_twice
from tests.kernels.gpu.of_template import BY_NAME, kernel_in, problem_in
from tests.kernels.harness import single

pytestmark = pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")

TARGET = parse_gpu("cuda:sm_90:fp32")


def _replaced(old: Any, new: Any) -> Any:
    return new


COMBINE: dict[str, Callable[..., Any]] = {
    "none": _replaced,
    "add": numpy.add,
    "mul": numpy.multiply,
    "max": numpy.maximum,
    "min": numpy.minimum,
}


@dataclass(frozen=True)
class Case:
    """A scatter of random updates; indices are drawn from both ends, and some outside."""

    type: str
    shape: tuple[int, ...]
    places: tuple[int, ...]
    reduction: str = "add"
    dtype: str = "float32"
    axis: int = 0
    index: str = "int64"

    def inputs(self) -> list[numpy.ndarray]:
        """Data, indices and updates."""
        rng = numpy.random.default_rng(self.places)
        depth = self.places[-1] if self.type == "ScatterND" else 1
        along = self.shape[:depth] if self.type == "ScatterND" else (self.shape[self.axis],)
        indices = numpy.empty(self.places, self.index)
        for k, extent in enumerate(along):
            where = (..., k) if self.type == "ScatterND" else ...
            indices[where] = rng.integers(-extent - 1, extent + 2, indices[where].shape)
        updated = self.places
        if self.type == "ScatterND":
            updated = (*self.places[:-1], *self.shape[depth:])
        drawn = [rng.uniform(-2, 2, s).round(2) for s in (self.shape, updated)]
        data, updates = (x.astype(numpy_dtype(self.dtype)) for x in drawn)
        return [data, indices, updates]

    def group(self, inputs: Sequence[numpy.ndarray]) -> Group:
        """The group of one operator."""
        attributes: dict[str, str | int] = {"reduction": self.reduction}
        if self.type == "ScatterElements":
            attributes["axis"] = self.axis
        return single(self.type, inputs, [TensorInfo(self.dtype, self.shape)], attributes)[0]

    def expected(self, inputs: Sequence[numpy.ndarray]) -> numpy.ndarray:
        """The updates one after another."""
        data, indices, updates = inputs
        out, combine = data.copy(), COMBINE[self.reduction]
        lead = self.places[:-1] if self.type == "ScatterND" else self.places
        for place in numpy.ndindex(*lead):
            if self.type == "ScatterND":
                target = tuple(map(_inside, indices[place].tolist(), self.shape))
            else:
                at = [*place]
                at[self.axis] = _inside(int(indices[place]), self.shape[self.axis])
                target = tuple(at)
            out[target] = combine(out[target], updates[place])
        return out


def _inside(index: int, extent: int) -> int:
    return min(max(index + extent if index < 0 else index, 0), extent - 1)


CASES = (
    Case("ScatterND", (50, 24), (300, 1)),
    Case("ScatterND", (300, 3), (700, 1), "none"),
    Case("ScatterND", (6, 5, 7), (2500, 3), "mul", "float16"),
    Case("ScatterND", (600,), (5, 500, 1), "min", "int32"),
    Case("ScatterND", (7, 700), (40, 1), "add", "bfloat16"),
    Case("ScatterND", (4, 130), (5300, 1), "add", "float16"),
    Case("ScatterND", (2, 2, 33), (1100, 2), "none", "int8"),
    Case("ScatterElements", (5, 40, 9), (4, 90, 7), "add", axis=1, index="int32"),
    Case("ScatterElements", (700,), (2100,), "none", "int8"),
    Case("ScatterElements", (300, 11), (300, 30), "max", "float16", axis=1),
)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_updates_are_combined_in_their_order(case: Case):
    inputs = case.inputs()
    group = case.group(inputs)
    kernel = kernel_in("scatter", group, TARGET)
    assert kernel is not None
    (result,) = run_twice(kernel, group, inputs)
    assert numpy.array_equal(_bits(result), _bits(case.expected(inputs)))


def _bits(array: numpy.ndarray) -> numpy.ndarray:
    return array.astype("float32") if array.dtype == ml_dtypes.bfloat16 else array


def test_single_indices_and_updates_may_be_constants():
    data, index = numpy.arange(600, dtype="float32").reshape(3, 200), numpy.array([[-1]])
    update = numpy.ones((1, 200), "float32")
    info, attributes = TensorInfo("float32", (3, 200)), {"reduction": "add"}
    group, inputs = single("ScatterND", [data, index, update], [info], attributes, constants=(1,))
    kernel = kernel_in("scatter", group, TARGET)
    assert kernel is not None
    (result,) = run_twice(kernel, group, inputs)
    data[2] += 1
    assert numpy.array_equal(result, data)


@given(
    st.integers(1, 400),
    st.sampled_from([(), (1,), (31,), (65,), (3, 90)]),
    st.integers(1, 1500),
    st.sampled_from([*COMBINE]),
)
@settings(max_examples=5, deadline=None)
def test_slices_of_any_width_and_number(
    slots: int, slice_shape: tuple[int, ...], updates: int, kind: str
):
    test_updates_are_combined_in_their_order(
        Case("ScatterND", (slots, *slice_shape), (updates, 1), kind, "float16")
    )


def test_an_estimate_grows_with_the_updates_of_a_block():
    few, many = (
        problem_in("scatter", case.group(case.inputs()), TARGET)
        for case in (Case("ScatterND", (8, 64), (1000, 1)), Case("ScatterND", (8, 64), (5000, 1)))
    )
    template = BY_NAME["scatter"]
    assert template.estimate_ns(many, None, TARGET) > template.estimate_ns(few, None, TARGET)
