"""A depthwise convolution and the pointwise one after it, as one CUDA kernel."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod

from compiler.graph.separable import ConvolutionShapes, are_separable
from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.gpu.epilogue import Parameter, c_type, is_fusible
from compiler.kernels.gpu.operands import find_operand
from compiler.kernels.gpu.templates.gemm.candidates import candidates as tiles
from compiler.kernels.gpu.templates.gemm.config import (
    Tile,
    resident_blocks,
    shared_bytes,
    shared_room,
)
from compiler.kernels.gpu.templates.gemm.emit import TILE_HEADERS, Mainloop, tiled_kernel
from compiler.kernels.gpu.templates.gemm.estimate import estimate
from compiler.kernels.gpu.templates.gemm.image import pointwise_problem
from compiler.kernels.gpu.templates.gemm.problem import Problem as GemmProblem
from compiler.kernels.gpu.templates.grouped_conv.template import (
    FMAS,
    LOADS,
    ROW_US,
    conv_constants,
    read_grouped,
)
from compiler.kernels.gpu.templates.grouped_conv.template import (
    Config as WindowConfig,
)
from compiler.kernels.gpu.templates.grouped_conv.template import (
    Problem as WindowProblem,
)
from compiler.kernels.group import Group, Node
from compiler.kernels.template import KernelSource, Template
from compiler.target.target import GpuTarget

HEADERS = (*TILE_HEADERS, "grouped_conv", "depthwise_pointwise")

STAGES = 2
"""Pipeline stages: one tile is filled while the other is multiplied."""

KEPT = 48
"""Most elements of an image row that a thread keeps in registers, besides MMA fragments."""


@dataclass(frozen=True)
class Problem:
    """The two convolutions of a group: `window` reads an image, `gemm` multiplies its results.

    `rest` is the group from the pointwise convolution on, which is `anchor` there. With `relu` the
    image is read through a Relu.
    """

    window: WindowProblem
    gemm: GemmProblem
    relu: bool
    rest: Group
    anchor: Node[int]


@dataclass(frozen=True)
class Config:
    """A tile of the GEMM, and how many pixels of a row a thread convolves at once."""

    tile: Tile
    pixels: int


class DepthwisePointwise(Template[Problem, Config, GpuTarget]):
    """A depthwise convolution and the pointwise one after it, with constant weights.

    Sums are in float32, in an order that depends on the config only: the same bits every time.
    Configs are estimated, not measured.
    """

    name = "depthwise_pointwise"

    def problem(self, group: Group, target: GpuTarget) -> Problem | None:
        """The depthwise and pointwise convolution of a group, with constant weights; else None."""
        convolutions = [op for op in group.operators if op.type == "Conv"]
        if len(convolutions) != 2 or not target.fuses_depthwise_pointwise:
            return None
        depthwise, pointwise = convolutions
        middle = depthwise.output
        alone = group.users(middle) == [pointwise] and middle not in group.outputs
        if pointwise.inputs[0] != middle or not alone or None not in (*depthwise.inputs, None)[2:3]:
            return None
        if not are_separable(_shapes(group, depthwise), _shapes(group, pointwise)):
            return None
        relu = _relu(group, depthwise)
        image = relu.inputs[0] if relu else depthwise.inputs[0]
        before = replace(depthwise, inputs=(image, *depthwise.inputs[1:]))
        window = read_grouped(group, before)
        weight = find_operand(group, pointwise.inputs[1])
        if window is None or weight is None or not weight.constant:
            return None
        gemm = pointwise_problem(group, pointwise, weight, window.image)
        anchor = replace(pointwise, inputs=(window.image.read, *pointwise.inputs[1:]))
        gone = (depthwise, pointwise, relu)
        rest = tuple(anchor if op is pointwise else op for op in group.operators
                     if op is pointwise or not any(op is other for other in gone))  # fmt: skip
        own = replace(group, operators=rest)
        if not is_fusible(own, anchor):
            return None
        return Problem(window, gemm, relu is not None, own, anchor)

    def configs(self, problem: Problem, target: GpuTarget) -> Iterator[Config]:
        """The tiles without WGMMA and of one launch, with strips that fit rows and registers."""
        columns = problem.window.result[-1]
        strips = [p for p in (1, 2, 4)
                  if columns % p == 0 and (p == 1 or problem.window.kept(p) <= KEPT)]  # fmt: skip
        for tile in tiles(problem.gemm, target):
            tile = replace(tile, stages=STAGES)
            fits = shared_bytes(problem.gemm, tile, target) <= shared_room(problem.gemm, target)
            plain = not tile.wgmma and not tile.overlaps
            if plain and tile.launches(target) == 1 and fits:
                yield from (Config(tile, pixels) for pixels in strips)

    def estimate_ns(self, problem: Problem, config: Config, target: GpuTarget) -> float:
        """The estimated nanoseconds: of the GEMM, and the depthwise part of all k-steps."""
        gemm, tile, window = problem.gemm, config.tile, problem.window
        units = ceil_div(gemm.step, window.block) * tile.columns // config.pixels
        taps = prod(window.window.kernel)
        loads = window.items * window.kept(config.pixels) / window.block + taps
        fmas = taps * window.block * config.pixels
        resident = resident_blocks(gemm, tile, target)
        busy = resident * units * (fmas / FMAS + loads / LOADS)
        latency = ceil_div(units, tile.threads) * window.items * ROW_US
        steps = ceil_div(ceil_div(gemm.k, gemm.step), tile.split_k)
        return 1e3 * (estimate(gemm, tile, target) + steps * max(busy, latency))

    def emit(
        self, group: Group, problem: Problem, config: Config, target: GpuTarget
    ) -> KernelSource:
        window = problem.window
        mainloop = _mainloop(problem, config)
        rest, anchor = problem.rest, problem.anchor
        kernel = tiled_kernel(rest, anchor, problem.gemm, config.tile, target, mainloop=mainloop)
        packings = list(kernel.packings)
        packings[window.weight.read] = window.packing
        flops = kernel.flops + 2 * prod(window.result) * prod(window.window.kernel)
        return replace(kernel, packings=tuple(packings), flops=flops)


def _shapes(group: Group, conv: Node[int]) -> ConvolutionShapes:
    image, weight, result = (group.values[i or 0].shape for i in (*conv.inputs[:2], conv.output))
    return ConvolutionShapes(image, weight, result, conv.attributes)


def _relu(group: Group, depthwise: Node[int]) -> Node[int] | None:
    """The Relu whose only user is the depthwise convolution."""
    image = depthwise.inputs[0]
    maker = next((op for op in group.operators if image in op.outputs), None)
    alone = image not in group.outputs and group.users(image or 0) == [depthwise]
    return maker if maker is not None and maker.type == "Relu" and alone else None


def _mainloop(problem: Problem, config: Config) -> Mainloop:
    """The function that computes B while it multiplies, with its headers and operands."""
    window, gemm = problem.window, problem.gemm
    element = "float" if gemm.element_bytes == 4 else "uint16_t"
    image = window.image.parameter("image")
    if problem.relu:
        kind = f"const ReluInput<{c_type(window.image.dtype)}>* __restrict__"
        image = replace(image, type=kind)
    left = Parameter(f"const {element}* __restrict__", "a", gemm.left)
    text = conv_constants(window, WindowConfig(config.pixels, config.tile.threads, 1), "Depthwise")
    return Mainloop(
        headers=HEADERS,
        function="separable_gemm<Problem, Depthwise>",
        parameters=(left, image, window.weight.parameter("window")),
        text=text,
        resident=1,
    )
