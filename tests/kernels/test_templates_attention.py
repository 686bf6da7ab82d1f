"""Attention by the CPU's template against float64 numpy."""

from dataclasses import replace

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.frontend.importing import import_model
from compiler.graph.targets import set_target
from compiler.ir.dataflow import GraphOp
from compiler.kernels.building.kernel import compile_scheduled
from compiler.kernels.cpu.core import Core, core_of
from compiler.kernels.cpu.templates.attention import attention_nest
from compiler.kernels.group import Group, extract_group
from compiler.kernels.tir.attention import attention_of
from compiler.passes.pipeline import parse
from compiler.passes.runner import Runner
from compiler.target.target import parse_cpu
from compiler.tensors.dtypes import numpy_dtype
from tests.kernels.attention_models import FORMS, MASKS, PACKED, Attention
from tests.kernels.harness import Array
from tests.kernels.template_cases import check, targets, template_kernel


def groups_of(case: Attention) -> list[Group]:
    """The groups of a model, of which an attention is one if it is fused."""
    model = import_model(case.model())
    set_target(model.module, "cpu")
    Runner().run(model.module, parse("canonicalize,fuse-attention,fuse-operators"))
    (graph,) = [op for op in model.module.ops if isinstance(op, GraphOp)]
    return [extract_group(group) for group in graph.groups]


def attention_group(case: Attention) -> Group:
    """The only group of a model."""
    (group,) = groups_of(case)
    return group


def arrays(case: Attention, group: Group, inputs: dict[str, Array]) -> list[Array]:
    """The model's inputs in the order of the group's reads."""
    names, attention = ["m"] * group.inputs, attention_of(group)
    assert attention is not None
    for name, operand in zip("qkv", (attention.query, attention.key, attention.value), strict=True):
        names[operand.source] = "qkv" if case.form in PACKED else name
    if attention.value.keep is not None:
        names[attention.value.keep] = "rows"
    return [inputs[name].reshape(t.shape) for name, t in zip(names, group.reads, strict=True)]


def run(case: Attention, target: str = "cpu", inputs: dict[str, Array] | None = None) -> None:
    """Check one attention."""
    inputs, group = inputs or case.inputs(), attention_group(case)
    result = case.expected(inputs).reshape(group.writes[0].shape)
    check(group, arrays(case, group, inputs), [result], target)


UNIT = {"float16": 2.0**-11, "bfloat16": 2.0**-8}
"""The largest relative error of one rounding."""


def run_narrow(case: Attention, dtype: str, target: str = "cpu") -> None:
    """Check one attention all of whose floats have 16 bits: only the result is rounded."""
    group, own = attention_group(case), numpy_dtype(dtype)
    inputs = {n: x if x.dtype == bool else x.astype(own) for n, x in case.inputs().items()}
    values = tuple(
        replace(info, dtype=dtype) if info.dtype == "float32" else info for info in group.values
    )
    with numpy.errstate(over="ignore"):  # -1e9 is -inf in float16
        constants = {i: c.astype(own).astype(c.dtype) for i, c in group.constants.items()}
        masked = float(numpy.array(-1e9).astype(own))
    group = replace(group, values=values, constants=constants)
    exact = {n: x if x.dtype == bool else x.astype("float32") for n, x in inputs.items()}
    result = case.expected(exact, masked).reshape(group.writes[0].shape)
    given = arrays(case, group, inputs)
    check(group, given, [result], target, relative=1.01 * UNIT[dtype])


extents = st.one_of(st.integers(1, 9), st.sampled_from([15, 16, 17, 33, 49, 70]))


@settings(max_examples=8, deadline=None)
@given(
    st.sampled_from(FORMS),
    st.sampled_from(MASKS),
    st.integers(1, 3),
    st.integers(1, 3),
    st.sampled_from([8, 9, 15, 16, 49, 70]),
    *[extents] * 3,
    targets,
)
def test_any_attention(
    form: str,
    mask: str,
    batch: int,
    heads: int,
    rows: int,
    columns: int,
    depth: int,
    width: int,
    target: str,
) -> None:
    run(Attention(form, mask, batch, heads, rows, columns, depth, width), target)


LARGE = {
    "several bands": Attention("heads", "where", 1, 2, 197, 300, 24, 20),
    "runs of keys": Attention("heads", "added", 1, 1, 70, 500, 8, 64),
    "windows": Attention("packed", "each", 4, 3, 49, 49, 32, 32),
    "one key": Attention("heads", "none", 2, 2, 20, 1, 16, 16),
    "keys left out": Attention("merged", "keys", 2, 3, 70, 70, 24, 20),
    "narrow panels of keys left out": Attention("columns", "keys", 1, 2, 33, 150, 16, 70),
}


@pytest.mark.parametrize("name", LARGE)
def test_special_attention(name: str) -> None:
    run(LARGE[name])


@pytest.mark.parametrize("dtype", UNIT)
@pytest.mark.parametrize("name", LARGE)
def test_special_attention_in_16_bits(name: str, dtype: str) -> None:
    run_narrow(LARGE[name], dtype)


@settings(max_examples=6, deadline=None)
@given(
    st.sampled_from(FORMS),
    st.sampled_from(MASKS),
    st.sampled_from([8, 9, 17, 49]),
    *[extents] * 3,
    st.sampled_from(list(UNIT)),
    targets,
)
def test_any_attention_in_16_bits(
    form: str, mask: str, rows: int, columns: int, depth: int, width: int, dtype: str, target: str
) -> None:
    run_narrow(Attention(form, mask, 2, 2, rows, columns, depth, width), dtype, target)


def test_rows_without_a_key_are_nan_and_keys_left_out_have_no_weight() -> None:
    case = Attention("heads", "added", 1, 2, 20, 37, 16, 16)
    inputs = case.inputs()
    inputs["m"][:, :, 3] = -numpy.inf
    inputs["m"][:, :, 5:, ::3] = -numpy.inf
    assert numpy.isnan(case.expected(inputs)[:, 3]).all()
    run(case, inputs=inputs)


def test_scores_far_from_each_other_give_weights_of_zero_and_one() -> None:
    case = Attention("heads", "none", 1, 1, 12, 40, 16, 16)
    run(case, inputs={name: x * 30 for name, x in case.inputs().items()})


def test_vectors_that_the_kernel_would_have_to_divide_are_left_apart() -> None:
    case = Attention("heads", "none", 1, 2, 16, 64, 16, 16, cosine=True)
    assert [group for group in groups_of(case) if attention_of(group)] == []


@pytest.mark.parametrize("cache_bytes", [1 << 12, 1 << 17, 1 << 20, 1 << 24])
@pytest.mark.parametrize("core", [Core(32, 16), Core(16, 8), Core(32, 4)])
def test_bands_fit_the_cache_and_are_whole_tiles(cache_bytes: int, core: Core) -> None:
    case = Attention("heads", "none", 1, 1, 1000, 900, 64, 48)
    group = attention_group(case)
    found = attention_of(group)
    assert found is not None
    nest = attention_nest(group, found, core, cache_bytes)
    assert [nest.band % tile.rows for tile in nest.tiles] == [0, 0]
    assert nest.band * 900 * 4 <= cache_bytes // 4 or nest.band == nest.tiles[0].rows


def test_arm_has_a_kernel_of_its_own_vectors() -> None:
    machine = parse_cpu("cpu:neoverse-n1")
    group = attention_group(LARGE["windows"])
    scheduled = template_kernel(group, machine)
    assert scheduled is not None
    assert core_of(machine).lanes == 4
    spec = compile_scheduled(group, scheduled, machine)
    assert [launch.symbol for launch in spec.launches] == [f"{group.name}_{i}" for i in range(3)]
