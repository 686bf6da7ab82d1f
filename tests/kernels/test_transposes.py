"""Transpositions on CPUs, which walk along few cache lines at a time."""

import numpy
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.kernels.building.kernel import compile_scheduled
from compiler.kernels.cpu.generic import schedule_cpu
from compiler.target.target import parse_cpu
from tests.kernels.template_cases import fused, random_array, run_guarded

EXTENTS = st.sampled_from([1, 2, 5, 7, 13, 16, 28, 49, 64])


@settings(max_examples=30, deadline=None)
@given(
    st.lists(EXTENTS, min_size=2, max_size=4).flatmap(
        lambda shape: st.tuples(st.just(shape), st.permutations(range(len(shape))))
    ),
    st.booleans(),
    st.booleans(),
)
def test_any_transposition(
    case: tuple[list[int], list[int]], prologue: bool, residual: bool
) -> None:
    shape, order = case
    data = random_array(1, tuple(shape))
    wanted = (numpy.maximum(data, 0) if prologue else data).transpose(order)
    group = fused("Transpose", [data], wanted.shape, {"perm": order}, 0, prologue, residual)
    addend = random_array(2, wanted.shape)
    results = [wanted, numpy.maximum(wanted + addend, 0)] if residual else [wanted]
    arrays = [data, addend] if residual else [data]
    target = parse_cpu("cpu")
    spec = compile_scheduled(group, schedule_cpu(group, target), target)
    for after in (True, False):
        for got, want in zip(run_guarded(spec, group, arrays, after), results, strict=True):
            numpy.testing.assert_array_equal(got, want)
