"""Attention whose warps share keys in shared memory: on the emulator, and when it is chosen."""

from collections.abc import Sequence
from dataclasses import replace
from unittest.mock import Mock, patch

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.autotune.kernels.prepare import CANDIDATES
from compiler.errors import KernelError
from compiler.frontend.importing import import_model
from compiler.graph.targets import set_target
from compiler.ir.dataflow import GraphOp
from compiler.kernels import database
from compiler.kernels.building.select import measurable
from compiler.kernels.database import Entry, Measured
from compiler.kernels.database.fields import config_fields
from compiler.kernels.gpu.compilers.nvrtc import compile_cubin
from compiler.kernels.gpu.cubin import check_resources
from compiler.kernels.gpu.source import complete_text
from compiler.kernels.gpu.templates.attention import config as config
from compiler.kernels.gpu.templates.attention.config import Config as Block
from compiler.kernels.gpu.templates.attention.config import candidates, likeliest
from compiler.kernels.group import Group, extract_group
from compiler.kernels.template import KernelSource
from compiler.kernels.tir.attention import attention_of
from compiler.passes.pipeline import DEFAULT_PIPELINE, parse, split_phases
from compiler.passes.runner import Runner
from compiler.target.target import GpuTarget, parse_gpu
from compiler.tensors.dtypes import numpy_dtype
from tests.kernels.attention_models import FORMS, MASKS, PACKED, Attention
from tests.kernels.gpu.emulator import COMPILER, run_twice
from tests.kernels.gpu.of_template import chosen, kernel_in, key_text, problem_in
from tests.kernels.gpu.templates.test_attention import (
    BOUNDS,
    attention_group,
    with_negated_operands,
)
from tests.tools import needs_nvrtc

Array = numpy.ndarray
VIT = Attention("packed", "none", 16, 12, 197, 197, 64, 64)
SMALL = Attention("heads", "each", 1, 2, 40, 70, 32, 24)

emulated = pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")


def short_group(case: Attention, precision: str = "fp16") -> Group:
    """The group of an attention whose operands other kernels store in 16 bits."""
    module = import_model(with_negated_operands(case)).module
    set_target(module, f"cuda:sm_90:{precision}")
    Runner().run(module, split_phases(parse(DEFAULT_PIPELINE))[0])
    (graph,) = [op for op in module.ops if isinstance(op, GraphOp)]
    (group,) = [g for g in map(extract_group, graph.groups) if attention_of(g) is not None]
    return group


def arrays(case: Attention, group: Group) -> dict[str, Array]:
    """The model's inputs by name, as the group reads them and in that order."""
    names, attention = ["m"] * group.inputs, attention_of(group)
    assert attention is not None
    for name, operand in zip("qkv", (attention.query, attention.key, attention.value), strict=True):
        names[operand.source] = "qkv" if case.form in PACKED else name
    if attention.value.keep is not None:
        names[attention.value.keep] = "rows"
    inputs = case.inputs()
    types = [numpy_dtype(info.dtype) for info in group.reads]
    return {name: inputs[name].astype(t) for name, t in zip(names, types, strict=True)}


def expected(case: Attention, inputs: dict[str, Array]) -> Array:
    """The result in float64."""
    return case.expected(
        {n: x if x.dtype == bool else x.astype("float32") for n, x in inputs.items()}
    )


def staged_kernel(
    group: Group, block: Block, precision: str = "fp16", ahead: int = 2
) -> KernelSource:
    """The kernel of a block; without room for all keys unless `ahead` is 0."""
    with patch.object(config, "STAGED_BYTES", 0 if ahead else 1 << 20):
        kernel = kernel_in("attention", group, parse_gpu(f"cuda:sm_90:{precision}"), block)
    assert kernel is not None, "the kernel does not take it"
    return kernel


def result(group: Group, kernel: KernelSource, inputs: Sequence[Array], offset: int = 0) -> Array:
    """The result of the emulated kernel."""
    (found,) = run_twice(kernel, group, inputs, offset)
    return found.astype("float64")


def difference(found: Array, wanted: Array) -> float:
    """The error relative to the result's norm."""
    return float(
        numpy.linalg.norm(found.reshape(wanted.shape) - wanted) / numpy.linalg.norm(wanted)
    )


sizes = st.integers(1, 70)
heads = st.one_of(st.integers(1, 40), st.integers(1, 16).map(lambda n: n * 8))
cases = st.builds(
    Attention, st.sampled_from(FORMS), st.sampled_from(MASKS), st.integers(1, 2),
    st.integers(1, 3), sizes, st.integers(1, 150), heads, heads,
).filter(lambda case: min(case.depth, case.width) > 1)  # fmt: skip
"""Without operands of one element, which stay float32."""

blocks = st.builds(
    Block, st.integers(1, 2), st.integers(1, 3), st.integers(1, 4), st.sampled_from((16, 32, 64))
)


@emulated
@settings(max_examples=8, deadline=None)
@given(
    case=cases,
    block=blocks,
    precision=st.sampled_from(("fp16", "bf16")),
    ahead=st.sampled_from((0, 2)),
    odd=st.booleans(),
)
def test_any_size(case: Attention, block: Block, precision: str, ahead: int, odd: bool):
    group = short_group(case, precision)
    inputs = arrays(case, group)
    kernel = staged_kernel(group, block, precision, ahead)
    found = result(group, kernel, [*inputs.values()], 2 * odd)
    assert difference(found, expected(case, inputs)) < BOUNDS[precision]


@emulated
@pytest.mark.parametrize("mask", ["none", "each"])
def test_scores_that_grow(mask: str):
    """Later keys have much larger scores, so that the state is rescaled, in some rows only."""
    case = replace(SMALL, mask=mask)
    group = short_group(case)
    inputs = arrays(case, group)
    inputs["k"] = inputs["k"] * numpy.linspace(0, 12, case.columns, dtype="float16")[:, None]
    found = result(group, staged_kernel(group, Block(2, 1, 2, 16)), [*inputs.values()])
    assert difference(found, expected(case, inputs)) < BOUNDS["fp16"]


@emulated
def test_masked_rows():
    """A row that minus infinity masks out is NaN, as a softmax of it is; the others are not."""
    group = short_group(SMALL)
    inputs = arrays(SMALL, group)
    inputs["m"][0, 0, 3] = -numpy.inf
    inputs["m"][0, 0, 5, 4:] = -numpy.inf
    inputs["m"][0, 0, 6, :50] = -numpy.inf
    inputs["m"][0, 0, 16] = numpy.finfo("float32").min
    inputs["m"][0, 0, 17] = numpy.finfo("float32").max
    wanted = expected(SMALL, inputs)
    found = result(group, staged_kernel(group, Block(1, 1, 3, 16)), [*inputs.values()])
    found = found.reshape(wanted.shape)
    assert numpy.isnan(found[0, 3]).any()
    assert not numpy.isnan(found[0, 16]).any()
    numpy.testing.assert_array_equal(numpy.isnan(found), numpy.isnan(wanted))
    numpy.testing.assert_allclose(found, wanted, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize(
    ("case", "early"),
    [
        (SMALL, True),
        (replace(SMALL, mask="where"), False),  # not a sum
        (replace(SMALL, mask="none"), False),
        (replace(SMALL, heads=300), False),  # so many blocks hide the latency
    ],
)
def test_masks_are_loaded_before_keys_arrive(case: Attention, early: bool):
    text = staged_kernel(short_group(case), Block(1, 1, 3, 16)).text
    assert f"SHIFTED = {int(early)};" in text


def test_many_rows_share_keys():
    target = parse_gpu("cuda:sm_90:fp16")
    problem = problem_in("attention", group := short_group(VIT), target)
    assert problem is not None
    assert problem.chunks
    first = likeliest(problem, target)
    assert first == Block(2, 1, 4, 32) == next(candidates(problem, target))
    assert Block(1, 1, 7, 64) in candidates(problem, target), "rows are shared out"
    (found,) = measurable(group, target)
    configs = found.shortlist(CANDIDATES)
    assert next(config for config in configs if not config.wgmma) == first


def block_of(case: Attention) -> Block:
    """The config that is chosen without measurements."""
    target = parse_gpu("cuda:sm_90:fp16")
    problem = problem_in("attention", short_group(case), target)
    assert problem is not None
    return likeliest(problem, target)


def test_fewer_rows_share_keys_if_these_are_many():
    few = replace(VIT, batch=1)
    assert block_of(few) == Block(1, 1, 4, 64)
    assert not block_of(replace(few, rows=128, columns=128)).staged
    assert not block_of(replace(few, heads=1, rows=32, columns=512)).staged
    more = replace(few, batch=5, rows=128, columns=128)
    assert block_of(more) == Block(1, 1, 4, 64)


@pytest.mark.parametrize(
    ("case", "target"),
    [
        (VIT, parse_gpu("hip:gfx90a:fp16")),
        (replace(VIT, depth=60), parse_gpu("cuda:sm_90:fp16")),
        (replace(VIT, form="columns"), parse_gpu("cuda:sm_90:fp16")),
        (VIT, parse_gpu("cuda:sm_90:tf32")),
        (VIT, parse_gpu("cuda:sm_90:bf16")),
    ],
)
def test_others_keep_their_kernel(case: Attention, target: GpuTarget):
    """HIP, heads and keys in no chunks of 16 bytes, and operands of another type."""
    problem = problem_in("attention", group := short_group(case), target)
    assert problem is not None
    assert not problem.chunks
    kernel = kernel_in("attention", group, target)
    assert kernel is not None
    assert "staged" not in kernel.text
    assert all(not block.staged for block in candidates(problem, target))


def test_four_byte_operands_are_not_staged():
    group, _ = attention_group(SMALL)
    with pytest.raises(KernelError, match="cannot copy to shared memory"):
        kernel_in("attention", group, parse_gpu("cuda:sm_90:fp16"), Block(1, 1, 2, 32))


@pytest.mark.parametrize("tile", [(2, 2, 2), (1, 4, 1, 0), (1, 1, 4, 64)])
def test_recorded_blocks(tile: tuple[int, ...], monkeypatch: pytest.MonkeyPatch):
    """Those of unstaged blocks may have three values; those that are not offered are left out."""
    target = parse_gpu("cuda:sm_90:fp16")
    problem = problem_in("attention", short_group(VIT), target)
    assert problem is not None
    configs = [config_fields(Block(*values)) for values in ((2, 1, 4), tile)]
    measured = tuple(Measured(config, 1.0 + i) for i, config in enumerate(configs))
    entry = Entry(key_text("attention", problem, target), "", "", measured)
    known = {entry.key: entry}
    monkeypatch.setattr(database, "known", Mock(return_value=known))
    assert chosen("attention", problem, target) == Block(*tile)
    odd = chosen("attention", replace(problem, chunks=False), target)
    assert not odd.staged, "of operands that cannot be copied in chunks"


@needs_nvrtc
@pytest.mark.parametrize(
    ("case", "precision"),
    [
        (replace(VIT, batch=1, heads=2), "fp16"),
        (Attention("heads", "each", 1, 2, 300, 77, 80, 80), "bf16"),
        (Attention("heads", "added", 1, 2, 200, 500, 128, 128), "bf16"),
        (Attention("heads", "where", 1, 2, 512, 512, 64, 64), "fp16"),
    ],
)
def test_nothing_spills(case: Attention, precision: str):
    target = parse_gpu(f"cuda:sm_90:{precision}")
    problem = problem_in("attention", group := short_group(case, precision), target)
    assert problem is not None
    whole = case.form == "packed"
    for block in [x for x in candidates(problem, target) if whole or x.staged]:
        kernel = kernel_in("attention", group, target, block)
        assert kernel is not None
        code = compile_cubin(complete_text(kernel.text), target)
        (found,) = check_resources(code, kernel.launches, target).values()
        assert found.stack_bytes == 0, block
