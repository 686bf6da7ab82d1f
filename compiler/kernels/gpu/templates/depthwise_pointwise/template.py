"""A depthwise convolution and the pointwise one behind it, as one CUDA kernel."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod

from compiler.graph.separable import Convolution, are_separable
from compiler.kernels.gpu.epilogue import c_type
from compiler.kernels.gpu.operands import find_operand
from compiler.kernels.gpu.scheduled import CudaKernel
from compiler.kernels.gpu.templates.gemm.candidates import candidates as tiles
from compiler.kernels.gpu.templates.gemm.emit import TILE_HEADERS, Source, tiled_kernel
from compiler.kernels.gpu.templates.gemm.estimates import estimate
from compiler.kernels.gpu.templates.gemm.problem import Problem, pointwise_problem
from compiler.kernels.gpu.templates.gemm.tiles import (
    Tile,
    ceil_div,
    resident_blocks,
    shared_bytes,
    shared_room,
)
from compiler.kernels.gpu.templates.grouped_conv.template import (
    LOADS,
    PRODUCTS,
    ROW_US,
    Grouped,
    Work,
    constants,
    read_grouped,
)
from compiler.kernels.group import Group, Operator
from compiler.target.target import GpuTarget

HEADERS = (*TILE_HEADERS, "grouped", "separable")

STAGES = 2
"""Tiles of a block: one is filled while the other is multiplied."""

KEPT = 48
"""Most numbers of a row of the image that a thread keeps in registers, beside its pieces."""


@dataclass(frozen=True)
class Separable:
    """The two convolutions of a group: `window` reads an image, `problem` multiplies its results.

    `rest` is the group without what comes before the pointwise convolution, `anchor` that one
    there. The image is read through a Relu where `rectified`.
    """

    window: Grouped
    problem: Problem
    rectified: bool
    rest: Group
    anchor: Operator


@dataclass(frozen=True)
class Choice:
    """A tile of the product, and how many pixels of a row a thread convolves at once."""

    tile: Tile
    pixels: int


def separable_kernel(
    group: Group, target: GpuTarget, choice: Choice | None = None
) -> CudaKernel | None:
    """The kernel of such a group; None when another schedule must take it.

    Sums are in float32, in an order that depends on the choice only: the same bits every time.
    """
    found = read_separable(group) if target.fuses_depthwise_pointwise else None
    if found is None:
        return None
    choice = choice or choose(found, target)
    source = _source(found, choice)
    kernel = tiled_kernel(found.rest, found.anchor, found.problem, choice.tile, target, source)
    if kernel is None:
        return None
    packings = list(kernel.packings)
    packings[found.window.weight.read] = found.window.packing
    flops = 2 * prod(found.window.result) * prod(found.window.window.kernel)
    return replace(kernel, packings=tuple(packings), flops=kernel.flops + flops)


def read_separable(group: Group) -> Separable | None:
    """The convolutions of a group that has two such, with constant weights; None for any other."""
    convolutions = [op for op in group.operators if op.type == "Conv"]
    if len(convolutions) != 2:
        return None
    depthwise, pointwise = convolutions
    middle = depthwise.outputs[0]
    alone = group.users(middle) == [pointwise] and middle not in group.outputs
    if pointwise.inputs[0] != middle or not alone or None not in (*depthwise.inputs, None)[2:3]:
        return None
    if not are_separable(_shapes(group, depthwise), _shapes(group, pointwise)):
        return None
    relu = _relu(group, depthwise)
    before = (
        replace(depthwise, inputs=(relu.inputs[0], *depthwise.inputs[1:])) if relu else depthwise
    )
    window = read_grouped(group, before)
    weight = find_operand(group, pointwise.inputs[1])
    if window is None or weight is None or not weight.constant:
        return None
    problem = pointwise_problem(group, pointwise, weight, window.image)
    anchor = replace(pointwise, inputs=(window.image.read, *pointwise.inputs[1:]))
    gone = (depthwise, pointwise, relu)
    rest = tuple(anchor if op is pointwise else op for op in group.operators
                 if op is pointwise or not any(op is each for each in gone))  # fmt: skip
    return Separable(window, problem, relu is not None, replace(group, operators=rest), anchor)


def _shapes(group: Group, conv: Operator) -> Convolution:
    image, weight, result = (
        group.values[i or 0].shape for i in (*conv.inputs[:2], conv.outputs[0])
    )
    return Convolution(image, weight, result, conv.attributes)


def _relu(group: Group, depthwise: Operator) -> Operator | None:
    """The Relu whose only user is the depthwise convolution."""
    image = depthwise.inputs[0]
    maker = next((op for op in group.operators if image in op.outputs), None)
    alone = image not in group.outputs and group.users(image or 0) == [depthwise]
    return maker if maker is not None and maker.type == "Relu" and alone else None


def candidates(found: Separable, target: GpuTarget) -> Iterator[Choice]:
    """The tiles of warps and one launch, with the strips that divide rows and fit in registers."""
    columns = found.window.result[-1]
    strips = [p for p in (1, 2, 4)
              if columns % p == 0 and (p == 1 or found.window.kept(p) <= KEPT)]  # fmt: skip
    for tile in tiles(found.problem, target):
        tile = replace(tile, stages=STAGES)
        fits = shared_bytes(found.problem, tile, target) <= shared_room(found.problem, target)
        plain = not tile.wide and not tile.overlaps
        if plain and tile.launches(target) == 1 and fits:
            yield from (Choice(tile, pixels) for pixels in strips)


def choose(found: Separable, target: GpuTarget) -> Choice:
    """The choice of the least estimated time."""
    return min(candidates(found, target), key=lambda choice: time_us(found, choice, target))


def time_us(found: Separable, choice: Choice, target: GpuTarget) -> float:
    """Microseconds that a kernel should take: the product's, and the windows' of all steps."""
    problem, tile, window = found.problem, choice.tile, found.window
    units = ceil_div(problem.step, window.block) * tile.columns // choice.pixels
    taps = prod(window.window.kernel)
    loads = window.items * window.kept(choice.pixels) / window.block + taps
    products = taps * window.block * choice.pixels
    resident = resident_blocks(problem, tile, target)
    busy = resident * units * (products / PRODUCTS + loads / LOADS)
    waiting = ceil_div(units, tile.threads) * window.items * ROW_US
    steps = ceil_div(ceil_div(problem.k, problem.step), tile.shares)
    return estimate(problem, tile, target) + steps * max(busy, waiting)


def _source(found: Separable, choice: Choice) -> Source:
    """The template's headers, and what its kernels are given."""
    window, problem = found.window, found.problem
    image = c_type(window.image.dtype)
    element = "float" if problem.element_bytes == 4 else "uint16_t"
    read = f"Rectified<{image}>" if found.rectified else image
    parameters = (
        f"const {element}* __restrict__ a, const {read}* __restrict__ image,"
        f" const {c_type(window.weight.dtype)}* __restrict__ window"
    )
    text = constants(window, Work(choice.pixels, choice.tile.threads, 1), "Depthwise")
    sizes = (problem.left, window.image.read, window.weight.read)
    function = "contract_separable<Problem, Depthwise>"
    return Source(HEADERS, function, sizes, parameters, "a, image, window", text, 1)
