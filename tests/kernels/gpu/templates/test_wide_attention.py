"""Attention of heads that registers do not hold at once: V in slices of columns, deep Q and K."""

from dataclasses import replace

import numpy as np
import pytest
from onnx import numpy_helper, parser

import compiler
from compiler.graph.attention import AttentionSizes, width_slices
from compiler.kernels.gpu.compilers.nvrtc import compile_cubin
from compiler.kernels.gpu.cubin import check_resources
from compiler.kernels.gpu.source import complete_text
from compiler.kernels.gpu.templates.attention.config import Config
from compiler.target.target import parse_gpu
from compiler.tools.reference import run_onnxruntime
from tests.kernels.attention_models import Attention
from tests.kernels.gpu.of_template import kernel_in, problem_in
from tests.kernels.gpu.templates.test_attention import BOUNDS, attention_group, emulated, error
from tests.kernels.gpu.templates.test_attention_operands import attentions
from tests.kernels.gpu.templates.test_staged_attention import (
    arrays,
    difference,
    expected,
    result,
    short_group,
    staged_kernel,
)
from tests.tools import needs_nvrtc

WIDE = Attention("heads", "each", 2, 2, 20, 37, 160, 160)


@pytest.mark.parametrize(
    ("width", "slices"), [(128, 1), (160, 2), (196, 7), (256, 4), (131, 0), (2048, 0)]
)
def test_slices_are_of_whole_vectors(width: int, slices: int):
    assert width_slices(width) == slices


def test_large_heads_of_long_sequences_keep_their_gemms():
    sizes = AttentionSizes(rows=128, columns=128, depth=160, width=160)
    assert sizes.are_supported
    assert not replace(sizes, depth=257).are_supported
    assert not replace(sizes, width=131).are_supported
    assert not replace(sizes, rows=4096, columns=4096).are_supported


@emulated
@pytest.mark.parametrize(
    ("case", "precision"),
    [
        (WIDE, "tf32"),
        (replace(WIDE, form="columns", mask="windows", width=196), "fp32"),
        (replace(WIDE, form="packed", mask="keys", batch=1), "fp16"),
        (replace(WIDE, form="plain", mask="windows", depth=24, width=256), "bf16"),
    ],
)
def test_four_byte_operands(case: Attention, precision: str):
    assert error(case, precision) < BOUNDS[precision]


@emulated
@pytest.mark.parametrize("block", [Config(1, 4), Config(1, 2, 2, 16)])
def test_two_byte_operands(block: Config):
    group = short_group(WIDE)
    inputs = arrays(WIDE, group)
    found = result(group, staged_kernel(group, block), [*inputs.values()])
    assert difference(found, expected(WIDE, inputs)) < BOUNDS["fp16"]


CHANNELS = """
<ir_version: 10, opset_import: ["" : 20]>
channels (float[1,136,48] x) => (float[1,136,16] y)
{
    packed = Tanh (x)
    split = Reshape (packed, five)
    moved = Transpose <perm = [2,0,3,4,1]> (split)
    q5, k5, v5 = Split <axis = 0, num_outputs = 3> (moved)
    q = Squeeze (q5, first)
    k0 = Squeeze (k5, first)
    v = Squeeze (v5, first)
    k = Transpose <perm = [0,1,3,2]> (k0)
    raw = MatMul (q, k)
    weights = Softmax <axis = -1> (raw)
    seen = MatMul (weights, v)
    rows = Transpose <perm = [0,3,1,2]> (seen)
    y = Reshape (rows, lines)
}
"""


@emulated
def test_channels_attend_to_channels():
    """Q, K and V have a row for each channel, and a column for each token."""
    model = parser.parse_model(CHANNELS)
    shapes = {"five": [1, 136, 3, 2, 8], "first": [0], "lines": [1, 136, 16]}
    model.graph.initializer.extend(
        numpy_helper.from_array(np.array(shape), name) for name, shape in shapes.items()
    )
    assert len(attentions(model, "fp16")) == 1
    inputs = {"x": np.random.default_rng(3).standard_normal((1, 136, 48), np.float32)}
    (wanted,) = run_onnxruntime(model, inputs).values()
    found = compiler.compile(model, target="emu", precision="fp16").run(inputs)["y"]
    assert difference(found, wanted) < 2 * BOUNDS["fp16"]


@needs_nvrtc
@pytest.mark.parametrize(("depth", "precision"), [(256, "fp16"), (196, "fp16"), (160, "tf32")])
def test_nothing_spills(depth: int, precision: str):
    case, target = replace(WIDE, depth=depth, width=depth), parse_gpu(f"cuda:sm_90:{precision}")
    group = short_group(case) if precision == "fp16" else attention_group(case)[0]
    assert problem_in("attention", group, target) is not None
    kernel = kernel_in("attention", group, target)
    assert kernel is not None
    code = compile_cubin(complete_text(kernel.text), target)
    (found,) = check_resources(code, kernel.launches, target).values()
    assert found.stack_bytes == 0
