"""Attention by warpgroups: on the emulator, the text for the compiler, and when it is chosen."""

import re
from dataclasses import replace

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.errors import KernelError
from compiler.kernels.gpu.compilers.nvrtc import compile_cubin
from compiler.kernels.gpu.cubin import check_resources
from compiler.kernels.gpu.source import complete_text
from compiler.kernels.gpu.templates.attention.config import Config as Block
from compiler.kernels.gpu.templates.attention.wgmma import wgmma_configs
from compiler.target.target import GpuTarget, parse_gpu
from compiler.tools.explore.sources import disassembler, sass_of
from tests.kernels.attention_models import FORMS, MASKS, Attention
from tests.kernels.gpu.of_template import estimated, kernel_in, problem_in
from tests.kernels.gpu.templates.test_attention import BOUNDS, emulated
from tests.kernels.gpu.templates.test_staged_attention import (
    arrays,
    difference,
    expected,
    result,
    short_group,
)
from tests.tools import needs_nvrtc

WHISPER = Attention("heads", "none", 1, 6, 1500, 1500, 64, 64)
SMALL = Attention("heads", "each", 1, 1, 70, 100, 32, 24)
TARGET = parse_gpu("cuda:sm_90:fp16")


def warpgroups(groups: int, keys: int, splits: int = 1) -> Block:
    """A block of some warpgroups."""
    return Block(1, 1, 4 * groups, keys, splits)


def error(case: Attention, block: Block, precision: str = "fp16", offset: int = 0) -> float:
    """The error of the emulated kernel relative to the result's norm."""
    group = short_group(case, precision)
    inputs = arrays(case, group)
    kernel = kernel_in("attention", group, parse_gpu(f"cuda:sm_90:{precision}"), block)
    assert kernel is not None
    assert "attend_by_wgmma<Problem>" in kernel.text
    return difference(result(group, kernel, [*inputs.values()], offset), expected(case, inputs))


heads = st.integers(1, 16).map(lambda n: n * 8)
cases = st.builds(
    Attention, st.sampled_from([form for form in FORMS if form != "columns"]),
    st.sampled_from(MASKS), st.just(1), st.integers(1, 2), st.integers(1, 130), st.integers(1, 150),
    heads, heads,
)  # fmt: skip


@emulated
@settings(max_examples=4, deadline=None)
@given(
    case=cases,
    groups=st.integers(1, 2),
    keys=st.sampled_from((16, 32, 64)),
    splits=st.integers(1, 3),
    precision=st.sampled_from(("fp16", "bf16")),
    odd=st.booleans(),
)
def test_any_size(case: Attention, groups: int, keys: int, splits: int, precision: str, odd: bool):
    splits = min(splits, -(-case.sizes[3] // keys))
    size = error(case, warpgroups(groups, keys, splits), precision, 2 * odd)
    assert size < BOUNDS[precision]


@emulated
@pytest.mark.parametrize(
    ("case", "block"),
    [
        (SMALL, warpgroups(2, 32)),
        (replace(SMALL, mask="none", depth=40, width=80), warpgroups(1, 32, 2)),
        (replace(SMALL, mask="keys", depth=80, width=128), warpgroups(1, 64)),
        (replace(SMALL, mask="where", form="plain"), warpgroups(2, 16, 3)),
    ],
)
def test_forms(case: Attention, block: Block):
    assert error(case, block) < BOUNDS["fp16"]


@emulated
@pytest.mark.parametrize("splits", [1, 3])
def test_scores_that_grow(splits: int):
    """Later keys have much larger scores, so that the state is rescaled, in some rows only."""
    case = replace(SMALL, mask="none")
    group = short_group(case)
    inputs = arrays(case, group)
    inputs["k"] = inputs["k"] * numpy.linspace(0, 12, case.columns, dtype="float16")[:, None]
    kernel = kernel_in("attention", group, TARGET, warpgroups(2, 16, splits))
    assert kernel is not None
    found = result(group, kernel, [*inputs.values()])
    assert difference(found, expected(case, inputs)) < BOUNDS["fp16"]


@emulated
@pytest.mark.parametrize("block", [warpgroups(2, 16, 3), warpgroups(1, 32), Block(1, 4, 2, 32)])
def test_rows_masked_by_a_large_number(block: Block):
    """Products of -1e9 are rounded by 18: in fp16 a weight of 2^18 would be infinite."""
    case = replace(SMALL, mask="where")
    group = short_group(case)
    inputs = arrays(case, group)
    inputs["m"][3] = False
    inputs["m"][5] = numpy.arange(case.columns) >= 50
    kernel = kernel_in("attention", group, TARGET, block)
    assert kernel is not None
    found = result(group, kernel, [*inputs.values()])
    assert difference(found, expected(case, inputs)) < BOUNDS["fp16"]


@emulated
def test_masked_rows():
    """A row that minus infinity masks out is NaN, also where one split of several sees no key."""
    group = short_group(SMALL)
    inputs = arrays(SMALL, group)
    inputs["m"][0, 0, 3] = -numpy.inf
    inputs["m"][0, 0, 5, 4:] = -numpy.inf
    inputs["m"][0, 0, 6, :50] = -numpy.inf
    inputs["m"][0, 0, 66] = numpy.finfo("float32").min
    kernel = kernel_in("attention", group, TARGET, warpgroups(2, 32, 2))
    assert kernel is not None
    wanted = expected(SMALL, inputs)
    found = result(group, kernel, [*inputs.values()]).reshape(wanted.shape)
    assert numpy.isnan(found[0, 3]).all()
    numpy.testing.assert_array_equal(numpy.isnan(found), numpy.isnan(wanted))
    numpy.testing.assert_allclose(found, wanted, rtol=1e-2, atol=1e-2)


def test_operands_that_wgmma_cannot_read_are_refused():
    group = short_group(replace(SMALL, depth=30))
    assert kernel_in("attention", group, TARGET) is not None
    with pytest.raises(KernelError, match="without splits"):
        kernel_in("attention", group, TARGET, warpgroups(1, 32))


@pytest.mark.parametrize(
    ("case", "target"),
    [
        (WHISPER, parse_gpu("cuda:sm_80:fp16")),
        (WHISPER, parse_gpu("cuda:sm_90:tf32")),
        (replace(WHISPER, cosine=True), TARGET),
        (replace(WHISPER, form="columns"), TARGET),
    ],
)
def test_others_keep_their_kernel(case: Attention, target: GpuTarget):
    """Other architectures and precisions, norms of vectors, keys in no chunks."""
    problem = problem_in("attention", short_group(case, target.precision), target)
    assert problem is not None
    assert not [*wgmma_configs(problem, target)]


def test_many_keys_are_multiplied_by_wgmma():
    """Blocks of more rows where these fill the device, and splits where blocks do not."""
    few, many = (
        problem_in("attention", short_group(replace(WHISPER, batch=n)), TARGET) for n in (1, 16)
    )
    assert few is not None
    assert many is not None
    assert estimated("attention", few, TARGET).wgmma
    assert estimated("attention", many, TARGET).splits == 1
    assert {config.splits for config in wgmma_configs(many, TARGET)} == {1}
    assert {1, 2, 3} <= {config.splits for config in wgmma_configs(few, TARGET)}


def test_few_rows_are_not():
    case = replace(WHISPER, rows=16, columns=64)
    problem = problem_in("attention", short_group(case), TARGET)
    assert problem is not None
    assert not estimated("attention", problem, TARGET).wgmma


@needs_nvrtc
@pytest.mark.parametrize(
    ("case", "precision", "block"),
    [
        (replace(WHISPER, heads=2), "fp16", warpgroups(2, 64)),
        (replace(WHISPER, rows=300, columns=300), "fp16", warpgroups(3, 48, 2)),
        (replace(WHISPER, mask="each"), "bf16", warpgroups(2, 48)),
        (replace(WHISPER, depth=128, width=128), "fp16", warpgroups(2, 64)),
    ],
)
def test_powers_are_computed_while_tiles_are_multiplied(
    case: Attention, precision: str, block: Block
):
    """Nothing spills, and the assembler neither serialises MMAs nor moves powers after them."""
    target = parse_gpu(f"cuda:sm_90:{precision}")
    problem = problem_in("attention", group := short_group(case, precision), target)
    kernel = kernel_in("attention", group, target, block)
    assert block in wgmma_configs(problem, target)
    assert kernel is not None
    code = compile_cubin(complete_text(kernel.text), target)
    (found,) = check_resources(code, kernel.launches, target).values()
    assert found.stack_bytes == 0
    if disassembler() is not None:
        codes = re.findall(r"(HGMMA|WARPGROUP.DEPBAR|MUFU.EX2)", sass_of(code))
        waits = [i for i, name in enumerate(codes) if name == "WARPGROUP.DEPBAR"]
        assert 3 * len(waits) < codes.count("HGMMA")
        assert all(codes[i + 1] != "MUFU.EX2" for i in waits[:-1])
