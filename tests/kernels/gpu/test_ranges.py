"""Kernels that write the ranges of what they compute, on the emulator."""

from dataclasses import replace

import numpy as np
import pytest

from compiler.graph.targets import set_target
from compiler.ir.edit import graphs_of
from compiler.kernels.building.cuda_kernel import generate
from compiler.kernels.building.select import candidates_of
from compiler.kernels.gpu.ranges.groups import ranged_results, without_ranges
from compiler.kernels.group import Group, TensorInfo, extract_group
from compiler.kernels.template import KernelSource
from compiler.passes.pipeline import DEFAULT_PIPELINE, parse, split_phases
from compiler.passes.runner import Runner
from compiler.schedule.kernels import Launch
from compiler.target.target import parse_gpu
from tests.frontend import checks
from tests.kernels.gpu.emulator import COMPILER, run_twice
from tests.kernels.gpu.of_template import BY_NAME
from tests.lowered import import_lowered

emulated = pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")
QUANTISE = "q, s, z = DynamicQuantizeLinear(r)"
RANDOM = np.random.default_rng(3)


def floats(*shape: int) -> np.ndarray:
    """Random numbers."""
    return RANDOM.standard_normal(shape, "f4")


PRODUCERS = {
    "gemm": "g (float[77,40] x) => (uint8[77,72] q, float s) { h = MatMul(x, w)  r = Relu(h) ",
    "gemv": "g (float[1,40] x) => (uint8[1,2000] q, float s) { r = MatMul(x, v) ",
    "skinny_gemm": "g (float[8,64] x) => (uint8[8,200] q, float s) { h = Neg(x)  r = MatMul(h, u) ",
    "row_norm": "g (float[21,90] x) => (uint8[21,90] q, float s) {"
    " r = LayerNormalization(x, scale, shift) ",
    "pointwise": "g (float[7,300] x) => (uint8[7,300] q, float s) { h = Tanh(x)  r = Neg(h) ",
    "attention": "g (float[2,45,32] x) => (uint8[2,45,32] q, float s) {"
    " k = Transpose<perm=[0,2,1]>(x)  h = MatMul(x, k)  p = Softmax(h)  r = MatMul(p, x) ",
    "depthwise": "g (float[1,64,9,7] x) => (uint8[1,64,7,5] q, float s) {"
    " h = Conv<group=64>(x, d)  r = Relu(h) ",
}
WEIGHTS = {
    "w": floats(40, 72),
    "v": floats(40, 2000),
    "u": floats(64, 200),
    "c": floats(48, 32, 3, 3),
    "d": floats(64, 1, 3, 3),
    "scale": floats(90),
    "shift": floats(90),
}
CASES = [
    *((name, "cuda:sm_90:fp16") for name in PRODUCERS if name != "depthwise"),
    *((name, "cuda:sm_80:fp32") for name in ("gemm", "gemv", "row_norm", "attention")),
]


def producer_of(text: str, target: str) -> Group:
    """The group of a model that writes ranges."""
    model = checks.parse(text + QUANTISE + "}", 21, **WEIGHTS)
    imported = import_lowered(model)
    set_target(imported.module, target)
    passes, _ = split_phases(parse(DEFAULT_PIPELINE))
    Runner(weights=imported.weights).run(imported.module, passes)
    groups = [extract_group(group) for group in graphs_of(imported.module)[0].groups]
    (found,) = [group for group in groups if ranged_results(group)]
    return found


def check(group: Group, kernel: KernelSource) -> None:
    """Run a kernel: extremes of parts are exact, and other results as without them."""
    inputs = [RANDOM.standard_normal(info.shape).astype(info.dtype) for info in group.reads]
    tensor, lows, highs = run_twice(kernel, group, inputs)
    assert lows.min() == tensor.min()
    assert highs.max() == tensor.max()
    assert not np.isnan([lows, highs]).any()
    bare = replace(without_ranges(group), name="bare")
    (expected,) = run_twice(generate(bare, parse_gpu("cuda:sm_90:fp32")), bare, inputs)
    np.testing.assert_allclose(tensor, expected, rtol=0, atol=0.02 * np.abs(expected).max())


@emulated
@pytest.mark.parametrize(("name", "target"), CASES)
def test_templates_fold_what_they_store(name: str, target: str):
    group = producer_of(PRODUCERS[name], target)
    candidate = next(candidates_of(BY_NAME[name], group, parse_gpu(target)))
    kernel = candidate.emit(candidate.choose()[0])
    assert len(kernel.launches) == 1
    check(group, kernel)


@emulated
def test_a_warp_that_stores_nothing_has_an_empty_part():
    group = producer_of(PRODUCERS["gemm"].replace("77", "19"), "cuda:sm_90:fp16")
    kernel = generate(group, parse_gpu("cuda:sm_90:fp16"))
    inputs = [floats(*info.shape).astype(info.dtype) for info in group.reads]
    _, lows, highs = run_twice(kernel, group, inputs)
    assert np.isposinf(lows).any()
    assert np.isneginf(highs[np.isposinf(lows)]).all()
    check(group, kernel)


@emulated
def test_another_kernel_is_followed_by_a_launch():
    group = producer_of(PRODUCERS["depthwise"], "cuda:sm_90:fp16")
    kernel = generate(group, parse_gpu("cuda:sm_90:fp16"))
    assert len(kernel.launches) == 2
    check(group, kernel)


@emulated
@pytest.mark.parametrize(
    ("warps", "blocks", "count"), [(1, 1, 512), (4, 2, 64), (3, 7, 32), (8, 5, 8), (2, 4, 4)]
)
def test_all_parts_are_written(warps: int, blocks: int, count: int):
    values = (TensorInfo("float32", (2000,)), *[TensorInfo("float32", (count,))] * 2)
    group = Group(
        name="ranges",
        values=values,
        inputs=1,
        weights=(False,),
        constants={},
        operators=(),
        outputs=(1, 2),
    )
    text = (
        '#include "ranges.cuh"\n'
        'extern "C" __global__ void ranges(const float* x, float* lows, float* highs) {\n'
        f"  write_ranges_of<{warps}, {blocks}, {count}>(x, 2000, lows, highs);\n}}\n"
    )
    launch = Launch("ranges", (0, 1, 2), (blocks, 1, 1), (32 * warps, 1, 1))
    x = floats(2000)
    lows, highs = run_twice(KernelSource(text, (launch,)), group, [x])
    assert (lows.min(), highs.max()) == (x.min(), x.max())
    assert (lows <= highs).all()


HEADS = """g (float[2,80,64] x) => (uint8[2,80,64] q, float s) { t = Neg(x)
 k = Transpose<perm=[0,2,1]>(t)  h = MatMul(t, k)  p = Softmax(h)  r = MatMul(p, t) """


@emulated
@pytest.mark.parametrize("form", ["attend<", "attend_staged<", "attend_by_wgmma<"])
def test_every_form_of_attention_folds(form: str):
    target = parse_gpu("cuda:sm_90:fp16")
    group = producer_of(HEADS, str(target))
    candidate = next(candidates_of(BY_NAME["attention"], group, target))
    kernels = (candidate.emit(config) for config in candidate.configs if config.splits <= 1)
    check(group, next(kernel for kernel in kernels if form in kernel.text))


IMAGE = """g (float[1,32,9,7] x) => (uint8[1,48,9,7] q, float s) {
 t = Neg(x)  h = Conv<pads=[1,1,1,1]>(t, c)  r = Relu(h) """


@emulated
def test_images_in_blocks_of_channels_fold():
    target = "cuda:sm_90:fp16"
    group = producer_of(IMAGE, target)
    assert group.writes[0].block > 0
    kernel = generate(group, parse_gpu(target))
    assert "gemm<Problem>" in kernel.text
    assert len(kernel.launches) == 1
    check(group, kernel)
