"""Fourier transforms of rows on the emulator against float64."""

from dataclasses import dataclass
from math import prod

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.graph.fusion.whole import MOST_TRANSFORMED
from compiler.kernels.group import Group, Node, TensorInfo
from compiler.net.operators.fourier import radices_of
from compiler.target.target import parse_gpu
from tests.kernels.gpu.emulator import COMPILER, Array, run_twice
from tests.kernels.gpu.of_template import kernel_in, problem_in

pytestmark = pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")

TARGET = parse_gpu("cuda:sm_90:tf32")


@dataclass(frozen=True)
class Case:
    """Rows of a transform, in which parts may be missing."""

    rows: int
    length: int
    have: int
    bins: int
    inverse: bool = False
    half: bool = False
    imaginary: bool = True
    wanted: tuple[int, ...] = (0, 1)

    def inputs(self) -> list[Array]:
        """The parts of the rows."""
        rng = numpy.random.default_rng(self.length)
        parts = rng.uniform(-1, 1, (1 + self.imaginary, self.rows, self.have))
        return [*parts.astype("float32")]

    @property
    def operator(self) -> Node[int]:
        """The transform of the inputs."""
        count = 1 + self.imaginary
        flags = {"inverse": int(self.inverse), "half": int(self.half)}
        attributes = {"length": self.length, "bins": self.bins, **flags}
        return Node("FourierTransform", attributes, (*range(count),), (count, count + 1))

    def group(self) -> Group:
        """The transform alone."""
        infos = [TensorInfo("float32", part.shape) for part in self.inputs()]
        count, result = len(infos), TensorInfo("float32", (self.rows, self.bins))
        outputs = tuple(count + part for part in self.wanted)
        values = (*infos, result, result)
        return Group("test", values, count, (False,) * count, {}, (self.operator,), outputs)

    def expected(self) -> list[Array]:
        """The bins by numpy, in float64."""
        real, *others = (part.astype("float64") for part in self.inputs())
        x = real + 1j * (others[0] if others else 0)
        if self.half:
            rest = [x[:, self.length - j].conj() for j in range(self.have, self.length)]
            x = numpy.concatenate([x, *[column[:, None] for column in rest]], axis=1)
        sign = 2j if self.inverse else -2j
        roots = numpy.exp(sign * numpy.pi * numpy.arange(self.length) / self.length)
        powers = [roots[(j * numpy.arange(self.bins)) % self.length] for j in range(x.shape[1])]
        bins = x @ numpy.array(powers)
        return [(bins.real, bins.imag)[part] for part in self.wanted]


def check(case: Case) -> None:
    """Compare a kernel with float64."""
    group = case.group()
    kernel = kernel_in("fourier", group, TARGET)
    assert kernel is not None
    expected = case.expected()
    bound = 1e-6 * max(1, numpy.abs(expected).max())
    for result, wanted in zip(run_twice(kernel, group, case.inputs()), expected, strict=True):
        numpy.testing.assert_allclose(result, wanted, rtol=0, atol=bound)


@pytest.mark.parametrize(
    "case",
    [
        Case(5, 2, 1, 2),
        Case(3, 6, 6, 6),
        Case(9, 64, 64, 64, inverse=True),
        Case(5, 400, 400, 201, imaginary=False),
        Case(3, 128, 65, 128, inverse=True, half=True, wanted=(0,)),
        Case(2, 105, 53, 100, inverse=True, half=True),
        Case(2, 2048, 1024, 1025, imaginary=False),
        Case(1, 1001, 900, 1001, wanted=(1,)),
        Case(1, MOST_TRANSFORMED, MOST_TRANSFORMED, 9),
    ],
    ids=str,
)
def test_transforms(case: Case):
    check(case)


@settings(max_examples=4, deadline=None)
@given(
    st.integers(1, 9),
    st.lists(st.sampled_from([2, 2, 3, 4, 5, 7, 11, 13]), min_size=1, max_size=3),
    st.floats(0, 1),
    st.booleans(),
)
def test_any_length_of_small_factors(rows: int, factors: list[int], share: float, inverse: bool):
    length = prod(factors)
    some = max(1, int(share * length))
    check(Case(rows, length, some, length + 1 - some, inverse))


def test_lengths_of_large_primes_have_no_kernel():
    assert radices_of(34) == ()
    assert prod(radices_of(3600)) == 3600
    assert problem_in("fourier", Case(2, 34, 34, 34).group(), TARGET) is None
