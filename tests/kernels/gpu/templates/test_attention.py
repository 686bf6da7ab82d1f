"""Fused attention on the emulator against float64, and its resources."""

from itertools import cycle
from typing import Any

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import ModelProto, helper

import compiler
from compiler.frontend.importing import import_model
from compiler.graph.targets import set_target
from compiler.ir.dataflow import GraphOp
from compiler.kernels.building import kernel as _lowerings
from compiler.kernels.gpu.compilers.nvrtc import compile_cubin
from compiler.kernels.gpu.cubin import check_resources
from compiler.kernels.gpu.source import complete_text
from compiler.kernels.gpu.templates.attention.config import Config, likeliest
from compiler.kernels.group import Group, extract_group
from compiler.passes.pipeline import parse
from compiler.passes.runner import Runner
from compiler.target.target import PRECISIONS, parse_gpu
from tests.kernels.attention_models import FORMS, MASKS, Attention
from tests.kernels.gpu.emulator import COMPILER, run_twice
from tests.kernels.gpu.of_template import estimated, kernel_in, problem_in
from tests.tools import needs_nvrtc

BOUNDS = {"fp32": 2e-6, "tf32": 2e-3, "fp16": 2e-3, "bf16": 1e-2}

emulated = pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")
assert _lowerings


def attention_group(case: Attention) -> tuple[Group, list[str]]:
    """The only group of a model of one attention, and the model's inputs that it reads."""
    module = import_model(case.model()).module
    set_target(module, "cuda:sm_90:tf32")
    Runner().run(module, parse("canonicalize,fuse-attention,fuse-operators"))
    (graph,) = module.ops
    assert isinstance(graph, GraphOp)
    (group,) = graph.groups
    indices: dict[Any, int] = {value: i for i, value in enumerate(graph.body.block.args)}
    names = [graph.input_names.data[indices[value]].data for value in group.inputs]
    return extract_group(group), names


def result(case: Attention, inputs: dict[str, numpy.ndarray], precision: str = "tf32",
           block: Config | None = None, offset: int = 0) -> numpy.ndarray:  # fmt: skip
    """The result of the emulated kernel."""
    group, names = attention_group(case)
    kernel = kernel_in("attention", group, parse_gpu(f"cuda:sm_90:{precision}"), block)
    assert kernel is not None, "the kernel does not take it"
    (found,) = run_twice(kernel, group, [inputs[name] for name in names], offset)
    return found.reshape(case.expected(inputs).shape)


def error(case: Attention, precision: str = "tf32", block: Config | None = None,
          offset: int = 0) -> float:  # fmt: skip
    """The error relative to the result's norm."""
    inputs = case.inputs()
    expected = case.expected(inputs)
    found = result(case, inputs, precision, block, offset)
    return float(numpy.linalg.norm(found - expected) / numpy.linalg.norm(expected))


@emulated
@pytest.mark.parametrize(("form", "mask"), list(zip(cycle(FORMS), MASKS, strict=False)))
def test_forms(form: str, mask: str):
    assert error(Attention(form, mask, 2, 3, 20, 37, 24, 40)) < BOUNDS["tf32"]


@emulated
@pytest.mark.parametrize("precision", PRECISIONS)
def test_precisions(precision: str):
    size = error(Attention("heads", "each", 1, 2, 33, 150, 64, 64), precision)
    assert size < BOUNDS[precision]
    assert precision == "fp32" or size > BOUNDS["fp32"], "nothing was rounded"


sizes = st.integers(1, 40)
cases = st.builds(
    Attention, st.sampled_from(FORMS), st.sampled_from(MASKS), st.integers(1, 2),
    st.integers(1, 3), sizes, sizes, sizes, sizes,
)  # fmt: skip


@emulated
@settings(max_examples=5, deadline=None)
@given(
    case=cases,
    block=st.builds(
        Config, st.integers(1, 2), st.integers(1, 4), st.integers(1, 3), splits=st.integers(0, 4)
    ),
    odd=st.booleans(),
)
def test_any_size(case: Attention, block: Config, odd: bool):
    assert error(case, "tf32", block, 4 * odd) < BOUNDS["tf32"]


@pytest.mark.parametrize(("case", "bands"), [
    (Attention("heads", "each", 16, 12, 128, 128, 64, 64), 8),
    (Attention("heads", "windows", 64, 6, 49, 49, 10, 10), 4),
])  # fmt: skip
def test_many_rows_give_each_warp_its_own(case: Attention, bands: int):
    """No warp is without rows, as those of small windows."""
    group, _ = attention_group(case)
    target = parse_gpu("cuda:sm_90:fp16")
    problem = problem_in("attention", group, target)
    assert problem is not None
    assert likeliest(problem, target) == Config(1, 1, bands)


@emulated
@pytest.mark.parametrize(("rows", "columns", "precision", "splits"), [
    (1, 512, "fp16", 4), (4, 300, "tf32", 3), (17, 1000, "fp32", 8), (1, 129, "bf16", 0),
])  # fmt: skip
def test_blocks_share_the_keys_of_few_rows(rows: int, columns: int, precision: str, splits: int):
    """As those of a decoder's step: a cluster divides the keys."""
    case = Attention("heads", "each", 1, 2, rows, columns, 64, 40)
    target = parse_gpu(f"cuda:sm_90:{precision}")
    problem = problem_in("attention", attention_group(case)[0], target)
    assert estimated("attention", problem, target).splits == splits
    assert error(case, precision) < BOUNDS[precision]


def test_blocks_that_fill_the_device_have_keys_of_their_own():
    case = Attention("heads", "each", 16, 12, 4, 512, 64, 64)
    target = parse_gpu("cuda:sm_90:fp16")
    problem = problem_in("attention", attention_group(case)[0], target)
    assert estimated("attention", problem, target).splits == 0


@emulated
@pytest.mark.parametrize("splits", [0, 3])
def test_masked_rows(splits: int):
    """A row that minus infinity masks out is NaN, as a softmax of it is; the others are not."""
    case = Attention("heads", "added", rows=17, columns=35)
    inputs = case.inputs()
    inputs["m"][0, 0, 3] = -numpy.inf
    inputs["m"][0, 0, 5, 4:] = -numpy.inf
    inputs["m"][0, 0, 16] = numpy.finfo("float32").min
    expected = case.expected(inputs)
    found = result(case, inputs, block=Config(1, 4, splits=splits))
    assert numpy.isnan(found[0, 3]).all()
    numpy.testing.assert_array_equal(numpy.isnan(found), numpy.isnan(expected))
    numpy.testing.assert_allclose(found, expected, rtol=1e-2, atol=1e-2)


@needs_nvrtc
@pytest.mark.parametrize(
    ("depth", "precision"), [(64, "tf32"), (64, "fp32"), (80, "fp16"), (128, "tf32")]
)
def test_nothing_spills(depth: int, precision: str):
    for rows in (197, 1000):
        group, _ = attention_group(Attention("heads", "added", 1, 12, rows, 197, depth, depth))
        target = parse_gpu(f"cuda:sm_90:{precision}")
        kernel = kernel_in("attention", group, target)
        assert kernel is not None
        code = compile_cubin(complete_text(kernel.text), target)
        (found,) = check_resources(code, kernel.launches, target).values()
        assert found.stack_bytes == 0


def with_negated_operands(case: Attention) -> ModelProto:
    """The model with its operands negated first, so that kernels store them."""
    model = case.model()
    given = [value.name for value in model.graph.input]
    for operand in [name for name in given if name not in ("m", "rows")]:
        kept = f"{operand}_kept"
        for node in model.graph.node:
            node.input[:] = [kept if name == operand else name for name in node.input]
        model.graph.node.insert(0, helper.make_node("Neg", [operand], [kept]))
    return model


@emulated
@pytest.mark.parametrize(
    ("form", "precision"), [*((form, "fp16") for form in FORMS), ("plain", "bf16")]
)
def test_operands_of_two_bytes(form: str, precision: str):
    """Whole models, whose tensors between kernels have 16 bits; odd sizes are read one by one."""
    for sizes in ((2, 3, 21, 37, 24, 40), (2, 2, 20, 19, 7, 9)):
        case = Attention(form, "each", *sizes)
        inputs = case.inputs()
        negated = {name: x if name in ("m", "rows") else -x for name, x in inputs.items()}
        expected = case.expected(negated)
        module = compiler.compile(with_negated_operands(case), target="emu", precision=precision)
        (found,) = module.run(inputs).values()
        difference = numpy.linalg.norm(found - expected) / numpy.linalg.norm(expected)
        assert difference < 2 * BOUNDS[precision]
