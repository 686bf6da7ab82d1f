"""Kernels of every template that waits for something, small enough to run without each wait."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import numpy

from compiler.kernels.building.cuda_kernel import generate
from compiler.kernels.gpu.templates.attention.config import Config as Block
from compiler.kernels.gpu.templates.cumulative.template import Config as ScanConfig
from compiler.kernels.gpu.templates.gemm.config import Tile
from compiler.kernels.gpu.templates.grouped_conv.template import Config as Work
from compiler.kernels.gpu.templates.scatter_order import template as order_emit
from compiler.kernels.gpu.templates.skinny_gemm.config import SkinnyConfig
from compiler.kernels.gpu.templates.stem_conv.config import Config as Turns
from compiler.kernels.gpu.templates.tensor_range.emit import Config as Parts
from compiler.kernels.gpu.templates.top_k.template import Config as SortConfig
from compiler.kernels.group import Group, TensorInfo
from compiler.kernels.template import KernelSource
from compiler.target.target import parse_gpu
from tests.kernels.attention_models import Attention
from tests.kernels.gpu import test_vectors as vectors
from tests.kernels.gpu.of_template import gemm_kernel, kernel_in
from tests.kernels.gpu.templates import test_attention as attentions
from tests.kernels.gpu.templates import test_blocked_contraction as blocked
from tests.kernels.gpu.templates import test_cumulative as scans
from tests.kernels.gpu.templates import test_depthwise_conv as large_windows
from tests.kernels.gpu.templates import test_four_bits as packed
from tests.kernels.gpu.templates import test_group_norm as channels
from tests.kernels.gpu.templates import test_grouped as grouped
from tests.kernels.gpu.templates import test_recurrence as steps
from tests.kernels.gpu.templates import test_rows as rows
from tests.kernels.gpu.templates import test_scatter_order as orders
from tests.kernels.gpu.templates import test_segment_reduce as segments
from tests.kernels.gpu.templates import test_selected_gemv as chosen
from tests.kernels.gpu.templates import test_skinny_gemm as few
from tests.kernels.gpu.templates import test_softmax as long_rows
from tests.kernels.gpu.templates import test_squeeze_excite as excite
from tests.kernels.gpu.templates import test_staged_attention as staged
from tests.kernels.gpu.templates import test_stem as stem
from tests.kernels.gpu.templates import test_tensor_range as ranges
from tests.kernels.gpu.templates import test_top_k as sorts
from tests.kernels.gpu.templates.test_contraction import draw, exact
from tests.kernels.harness import single

Array = numpy.ndarray
SMALL = Tile(32, 32, 16, 16, 1)
WIDE = Tile(64, 32, 16, 32, 1, 4, wgmma=True)


@dataclass(frozen=True)
class Case:
    """A kernel, its inputs, and the expected result in float64."""

    group: Group
    inputs: list[Array]
    kernel: KernelSource
    expected: Array


def matmul(
    tile: Tile | None, rows: int = 40, depth: int = 100, target: str = "cuda:sm_90:tf32",
    weight: bool = True,
) -> Case:  # fmt: skip
    """A MatMul with a kernel of a tile, or a GEMV."""
    arrays = [draw(rows, depth), draw(depth, 48)]
    info = TensorInfo("float32", (rows, 48))
    group, inputs = single("MatMul", arrays, [info], {}, weights=(1,) if weight else ())
    kernel = gemm_kernel(group, parse_gpu(target), tile)
    assert kernel is not None
    return Case(group, inputs, kernel, inputs[0].astype("float64") @ inputs[1])


def four_bits() -> Case:
    """A GEMV by packed weights whose warps each have a part of the sums."""
    kernel, group, inputs = packed.kernel_of(packed.operands_of_two_warps())
    return Case(group, inputs, kernel, packed.operands_of_two_warps().expected)


def skinny(splits: int) -> Case:
    """A GEMM of a few rows whose warps, and blocks of a cluster, each have a part of the sums."""
    group, inputs, expected = few.floats(3, 200, 40)
    kernel = kernel_in("skinny_gemm", group, few.TF32, SkinnyConfig(2, 4, splits, 2))
    assert kernel is not None
    return Case(group, inputs, kernel, expected)


def first_convolution() -> Case:
    """A convolution whose blocks compute two tiles one after another."""
    shape = replace(stem.SMALL, members=3)
    group = stem.convolution(shape, "float32", 4)
    kernel = kernel_in("stem_conv", group, parse_gpu("cuda"), Turns(4, 16, 16, 32, 2))
    assert kernel is not None
    inputs = stem.draw_inputs(group)
    return Case(group, inputs, kernel, stem.reference(shape, inputs))


def softmax() -> Case:
    """A softmax of rows that blocks of several warps reduce."""
    group, inputs = single("Softmax", [draw(3, 300)], [TensorInfo("float32", (3, 300))])
    powers = numpy.exp(inputs[0].astype("float64"))
    kernel = generate(group, parse_gpu("cuda"))
    return Case(group, inputs, kernel, powers / powers.sum(-1, keepdims=True))


def window() -> Case:
    """A convolution of a plain image, whose taps are in a table."""
    arrays, attributes = [draw(1, 3, 9, 9), draw(24, 3, 3, 3)], {"pads": [1] * 4}
    info = TensorInfo("float32", (1, 24, 9, 9))
    group, inputs = single("Conv", arrays, [info], attributes, weights=(1,))
    kernel = gemm_kernel(group, parse_gpu("cuda"), SMALL)
    assert kernel is not None
    return Case(group, inputs, kernel, exact("Conv", inputs, attributes))


def blocks(tile: Tile = SMALL) -> Case:
    """A convolution with one step of k in channel blocks, which adds a residual and a bias."""
    group = blocked.group_of("Conv", (1, 8, 5, 7), (24, 8, 1, 1), (1, 24, 5, 7), {}, (4, 4))
    inputs = [draw(*read.shape, seed=i) for i, read in enumerate(group.reads)]
    kernel = gemm_kernel(group, parse_gpu("cuda"), tile)
    assert kernel is not None
    assert kernel.text.count("copy_block(") == 2
    expected = numpy.maximum(exact("Conv", inputs[:3], {}) + inputs[3], 0)
    return Case(group, inputs, kernel, expected)


def late() -> Case:
    """A GEMM whose bias and residual are prefetched after its main loop."""
    group = vectors.matmul("float32", (20, 70), (70, 48), (48,), (20, 48))
    inputs = vectors.inputs_of(group)
    kernel = gemm_kernel(group, parse_gpu("cuda"), replace(SMALL, stages=25))
    assert kernel is not None
    assert vectors.constant(kernel, "LATE") == 1
    left, right, bias, residual = inputs
    expected = numpy.maximum(left.astype("float64") @ right + bias + residual, 0)
    return Case(group, inputs, kernel, expected)


def attention() -> Case:
    """An attention whose keys are divided among warps."""
    case = Attention("heads", "added", 1, 1, 20, 70, 16, 16)
    group, names = attentions.attention_group(case)
    inputs = case.inputs()
    kernel = kernel_in("attention", group, parse_gpu("cuda"), Block(1, 4))
    assert kernel is not None
    expected = case.expected(inputs).reshape(group.writes[0].shape)
    return Case(group, [inputs[name] for name in names], kernel, expected)


def staged_attention(ahead: int, warps: int = 1) -> Case:
    """An attention whose warps read keys from shared memory, and may divide them."""
    case = Attention("heads", "added", 1, 1, 60, 75, 16, 16)
    group = staged.short_group(case)
    inputs = staged.arrays(case, group)
    expected = staged.expected(case, inputs).reshape(group.writes[0].shape)
    kernel = staged.staged_kernel(group, Block(1, warps, 4, 16), ahead=ahead)
    return Case(group, [*inputs.values()], kernel, expected)


def wgmma_attention(splits: int) -> Case:
    """An attention by warpgroups, whose blocks may divide the keys."""
    case = Attention("heads", "added", 1, 1, 70, 110, 16, 16)
    group = staged.short_group(case)
    inputs = staged.arrays(case, group)
    expected = staged.expected(case, inputs).reshape(group.writes[0].shape)
    kernel = kernel_in("attention", group, parse_gpu("cuda:sm_90:fp16"), Block(1, 1, 8, 16, splits))
    assert kernel is not None
    return Case(group, [*inputs.values()], kernel, expected)


def normalization() -> Case:
    """A LayerNormalization of a sum, by several warps a row."""
    shape = (2, 1, 300)
    group = rows.residual_group(shape, 2)
    inputs = [draw(*s, seed=i) for i, s in enumerate((shape, shape, (300,), (300,)))]
    kernel = kernel_in("row_norm", group, parse_gpu("cuda"))
    assert kernel is not None
    a, b, scale, bias = inputs
    expected = numpy.maximum(rows.standard(a + b, (2,), True, 1e-3) * scale + bias, 0)
    return Case(group, inputs, kernel, expected)


def groups_of_channels(name: str) -> Case:
    """A GroupNormalization by blocks that exchange moments."""
    case, config = channels.CASES[name]
    group, inputs = case.group(), case.inputs()
    kernel = kernel_in("group_norm", group, channels.TARGET, config)
    assert kernel is not None
    return Case(group, inputs, kernel, case.expected(inputs))


def excited(name: str) -> Case:
    """A squeeze-and-excitation by blocks that exchange sums."""
    case, config = excite.CASES[name]
    group, inputs = case.group(), case.inputs()
    kernel = kernel_in("squeeze_excite", group, excite.TARGET, config)
    assert kernel is not None
    return Case(group, inputs, kernel, case.expected(inputs))


def recurrent(name: str) -> Case:
    """A recurrence whose blocks exchange states."""
    case = steps.CASES[name]
    group, inputs, expected = case.build()
    target = parse_gpu(f"cuda:sm_90:{case.precision}")
    kernel = kernel_in("recurrence", group, target, case.config)
    assert kernel is not None
    return Case(group, inputs, kernel, expected[-1])


def quantised(config: Parts, sums: bool = False) -> Case:
    """A dynamic quantisation, its integers as numbers again or the sums of their rows."""
    group, inputs, expected = ranges.summed() if sums else ranges.followed()
    kernel = kernel_in("tensor_range", group, ranges.TARGET, config)
    assert kernel is not None
    return Case(group, inputs, kernel, expected)


def sorted_updates(updates: int, slots: int, most: int = 0, few: int = 8) -> Case:
    """The order of updates by blocks of 64 threads, beyond 400 in buckets."""
    indices = orders.indices_of(updates, slots, most=most)
    group = orders.group_of(indices, slots)
    small: dict[str, Any] = {"MOST_THREADS": 64, "MOST_ITEMS": 2, "MOST_READ": 400, "BUCKETS": 16}
    with patch.multiple(orders.problems, **small), patch.object(order_emit, "FEW", few):
        kernel = kernel_in("scatter_order", group, orders.TARGET)
    assert kernel is not None
    named = numpy.clip(numpy.where(indices < 0, indices + slots, indices), 0, slots - 1)
    return Case(group, [indices], kernel, numpy.argsort(named, kind="stable"))


def sorted_rows(length: int, count: int) -> Case:
    """A TopK by blocks of two warps."""
    x = sorts.draw((2, length), "float32")
    group = sorts.group_of(x, count)
    kernel = kernel_in("top_k", group, sorts.TARGET, SortConfig(64))
    assert kernel is not None
    return Case(group, [x], kernel, sorts.expected(x, count, 1, True)[1])


def clustered_softmax() -> Case:
    """A Softmax by clusters of two blocks of four warps."""
    x = numpy.random.default_rng(3).normal(0, 1, (2, long_rows.LONG)).astype("float32")
    group = long_rows.group_of("Softmax", x.shape)
    kernel = kernel_in("softmax", group, long_rows.TARGET, long_rows.Config(128, 2))
    assert kernel is not None
    return Case(group, [x], kernel, long_rows.expected("Softmax", x))


def selected() -> Case:
    """Vectors by selected matrices, in blocks of four warps."""
    group = chosen.group_of("td,tedh->teh", (3, 37), (5, 37, 72), (3, 2))
    inputs = chosen.arrays_of(group)
    kernel = kernel_in("selected_gemv", group, chosen.TARGET, chosen.Config(4, 2))
    assert kernel is not None
    return Case(group, inputs, kernel, chosen.expected(group, inputs))


def running_sums(*shape: int) -> Case:
    """A CumSum by blocks of two warps."""
    x = scans.draw(shape, "float32")
    group = scans.group_of(x, 1)
    kernel = kernel_in("cumulative", group, scans.TARGET, ScanConfig(64, 2))
    assert kernel is not None
    return Case(group, [x], kernel, numpy.cumsum(x.astype("float64"), 1))


def summed_segments(number: int) -> Case:
    """A sum of segments."""
    case = segments.CASES[number]
    group, inputs = case.group(), case.inputs()
    kernel = kernel_in("segment_reduce", group, segments.TARGET)
    assert kernel is not None
    return Case(group, inputs, kernel, case.expected() / inputs[-1])


def grouped_sums() -> Case:
    """A grouped convolution with split-K by three threads."""
    shape = grouped.Shape(16, (5, 6), (3, 3), (1, 1), (1, 1), (1, 1, 1, 1), 1, 8, 8)
    group = grouped.convolution(shape)
    inputs = grouped.draw_inputs(group)
    kernel = kernel_in("grouped_conv", group, parse_gpu("cuda"), Work(4, 32, 3))
    assert kernel is not None
    return Case(group, inputs, kernel, grouped.reference(shape, inputs))


def depthwise(name: str) -> Case:
    """A depthwise convolution on tensor cores."""
    shape, config = large_windows.CASES[name]
    group = grouped.convolution(shape, "float16")
    inputs = grouped.draw_inputs(group)
    kernel = kernel_in("depthwise_conv", group, large_windows.TARGET, config)
    assert kernel is not None
    return Case(group, inputs, kernel, grouped.reference(shape, inputs))


FAMILIES: dict[str, tuple[Callable[[], Case], ...]] = {
    "tiles": (
        lambda: matmul(SMALL),
        lambda: matmul(Tile(32, 32, 16, 16, 4)),
        lambda: matmul(SMALL, target="cuda:sm_90:fp32", weight=False),
        lambda: matmul(replace(SMALL, prefetch=True)),
        window,
        blocks,
        late,
    ),
    "wgmma tiles": (
        lambda: matmul(WIDE, 70, 280),
        lambda: matmul(Tile(64, 32, 16, 32, 2, 4, wgmma=True), 70, 330),
        lambda: blocks(WIDE),
    ),
    "gemv": (lambda: matmul(None, 3, target="cuda:sm_90:fp32"), four_bits),
    "skinny": (lambda: skinny(1), lambda: skinny(2)),
    "attention": (attention,),
    "staged attention": (
        lambda: staged_attention(0),
        lambda: staged_attention(2),
        lambda: staged_attention(2, 2),
    ),
    "wgmma attention": (lambda: wgmma_attention(1), lambda: wgmma_attention(2)),
    "normalization": (normalization,),
    "group normalization": (
        lambda: groups_of_channels("groups across blocks"),
        lambda: groups_of_channels("whole blocks"),
    ),
    "squeeze and excitation": (
        lambda: excited("parts of both"),
        lambda: excited("alone with several threads a row"),
    ),
    "recurrence": (
        lambda: recurrent("alone, k split"),
        lambda: recurrent("one warp of cells"),
        lambda: recurrent("both directions"),
    ),
    "range": (
        lambda: quantised(Parts(512, 1, 1)),
        lambda: quantised(Parts(64, 2, 3)),
        lambda: quantised(Parts(64, 2, 30), sums=True),
    ),
    "order of updates": (
        lambda: sorted_updates(60, 300, few=60),
        lambda: sorted_updates(300, 132 * 70, 40),
        lambda: sorted_updates(600, 16 * 70, 40),
    ),
    "sorted rows": (
        lambda: sorted_rows(900, 5),
        lambda: sorted_rows(1600, 1600),
        lambda: sorted_rows(7200, 7200),
    ),
    "long softmax": (clustered_softmax,),
    "selected matrices": (selected,),
    "running sums": (lambda: running_sums(1, 20_000), lambda: running_sums(2, 500, 3)),
    "segments": (lambda: summed_segments(0), lambda: summed_segments(7)),
    "grouped": (grouped_sums,),
    "depthwise": (lambda: depthwise("two blocks"), lambda: depthwise("dilations")),
    "softmax": (softmax,),
    "stem": (first_convolution,),
}
"""Cases by template."""
