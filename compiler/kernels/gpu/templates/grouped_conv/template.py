"""Convolutions whose groups have few channels, as CUDA kernels of plain multiply-adds."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from math import prod

from compiler.ir.layouts import block_steps
from compiler.kernels.gpu.blocks import block_store, image_kernel
from compiler.kernels.gpu.epilogue import store_function
from compiler.kernels.gpu.operands import Operand, find_operand
from compiler.kernels.gpu.recorded import Contender, first_of, recorded
from compiler.kernels.gpu.scheduled import CudaKernel
from compiler.kernels.gpu.source import header
from compiler.kernels.gpu.target import CudaTarget
from compiler.kernels.gpu.templates.gemm.emit import tiles_beat
from compiler.kernels.group import Group, Operator
from compiler.kernels.ops.lowering import Context
from compiler.kernels.ops.windows import Window, window_of
from compiler.schedule import Launch

KEPT = 80
"""Most numbers of a row of the image that a thread keeps in registers."""

SHARED_BYTES = 48 << 10
"""Shared memory of a block without asking for more."""

MOST_THREADS = 512
"""Most threads of a block, so that each has the registers it needs."""

PROCESSORS = 132
"""Streaming multiprocessors of the H200, where the constants below were fitted."""

START_US, ROW_US, SHARE_US = 1.38, 0.43, 0.04
"""Launching and ending, the latency of a row of the window, and of adding each share."""

PRODUCTS, LOADS = 6.7e4, 5.2e4
"""Multiply-adds, and loads of 16 bytes, a microsecond of one processor."""


@dataclass(frozen=True)
class Work:
    """How much a thread does: pixels in a row; and the places and shares of a block of threads."""

    pixels: int
    places: int
    shares: int

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.places * self.shares


@dataclass(frozen=True)
class Grouped:
    """One problem: `source` and `result` are images (N, C, *spatial), padded to three axes.

    A thread computes `block` output channels. A group has `channels` inputs and `rows` outputs.
    """

    image: Operand
    weight: Operand
    source: tuple[int, ...]
    result: tuple[int, ...]
    window: Window
    channels: int
    rows: int
    block: int

    @property
    def width(self) -> int:
        """Channels of a block that each output of it multiplies."""
        return min(self.channels, self.block)

    @property
    def parts(self) -> int:
        """Blocks of input channels that an output needs."""
        return self.channels // self.width

    @property
    def blocks(self) -> int:
        """Blocks of output channels in one image."""
        return self.result[1] // self.block

    @property
    def packing(self) -> str:
        """How weights are laid out: the outputs of a block beside each other for each input."""
        taps = prod(self.window.kernel)
        split = f"reshape:{self.blocks},{self.block},{self.parts},{self.width},{taps}"
        return f"{split}|transpose:0,2,4,3,1"

    @property
    def items(self) -> int:
        """What the threads of one place can share: rows of the window in each part."""
        return self.parts * prod(self.window.kernel[:-1])

    def places(self, pixels: int) -> int:
        """Places of some pixels each."""
        batch, _, *lines, columns = self.result
        return batch * self.blocks * prod(lines) * -(-columns // pixels)

    def kept(self, pixels: int) -> int:
        """Numbers of a row of the image that some pixels need."""
        reach = (self.window.kernel[-1] - 1) * self.window.dilations[-1]
        return ((pixels - 1) * self.window.strides[-1] + reach + 1) * self.block


def candidates(problem: Grouped) -> Iterator[Work]:
    """The ways to divide a problem that fit a block's registers and shared memory."""
    for pixels in (1, 2, 4, 7):
        if pixels > 1 and problem.kept(pixels) > KEPT:
            continue
        for places in (32, 64, 128):
            for shares in (1, 2, 3, 4, 5, 6, 7, 8, 12):
                work = Work(pixels, places, shares)
                kept = 4 * pixels * problem.block * work.threads if shares > 1 else 0
                fits = work.threads <= MOST_THREADS and kept <= SHARED_BYTES
                if fits and problem.items % shares == 0:
                    yield work


def grouped_kernel(group: Group, target: CudaTarget, work: Work | None = None) -> CudaKernel | None:
    """The kernel of a group with such a convolution; None when another schedule must take it.

    Sums are in float32, in an order that depends on the problem only: the same bits every time.
    """
    found = grouped_problem(group)
    if found is None:
        return None
    anchor, problem = found
    block = group.writes[0].block
    store = store_function(group, anchor, target, block if block == problem.block else 0)
    if store is None:
        return None
    if work is None:
        work = tuned_work(problem, target)
        if not _is_faster(group, target, problem, work):
            return None
    name = f"{group.name}_0"
    parts = [store.text, constants(problem, work), block_store(store, group, problem.block)]
    operands = (problem.image, problem.weight)
    kernel = image_kernel(name, "convolve_groups", operands, store, work.threads)
    packings = [""] * group.inputs
    packings[problem.weight.read] = problem.packing
    grid = (-(-problem.places(work.pixels) // work.places), 1, 1)
    arguments = (problem.image.read, problem.weight.read, *store.arguments)
    launch = Launch(name, arguments, grid, (work.threads, 1, 1))
    flops = 2 * prod(problem.result) * prod(problem.window.kernel) * problem.channels
    text = "\n".join([header("grouped"), *parts, kernel])
    return CudaKernel(text, (launch,), (), tuple(packings), flops)


def grouped_problem(group: Group) -> tuple[Operator, Grouped] | None:
    """The only convolution of a group, if it has few channels in each of its groups."""
    anchors = [op for op in group.operators if op.type == "Conv"]
    problem = read_grouped(group, anchors[0]) if len(anchors) == 1 else None
    return None if problem is None else (anchors[0], problem)


def read_grouped(group: Group, anchor: Operator) -> Grouped | None:
    """The problem of a convolution with constant weights in groups of few channels; else None."""
    image, weight = (find_operand(group, value) for value in anchor.inputs[:2])
    output = group.values[anchor.outputs[0]].shape
    if image is None or weight is None or not weight.constant:
        return None
    shape, kernel = image.view.shape, weight.view.shape
    groups = anchor.attributes.get("group", 1)
    channels, rows = kernel[1], output[1] // groups
    block = _block(image, channels, rows) if groups > 1 else 0
    if not block or not 3 <= len(shape) <= 5 or weight.dtype not in ("float32", image.dtype):
        return None
    infos = tuple(None if i is None else group.values[i] for i in anchor.inputs)
    context = Context(anchor, (None,) * len(infos), infos, (group.values[anchor.outputs[0]],))
    window = window_of(context, kernel[2:])
    return Grouped(image, weight, shape, output, window, channels, rows, block)


def _block(image: Operand, channels: int, rows: int) -> int:
    """Channels that a thread takes together: the image's block if it has any; 0 where none fits.

    Blocks divide groups, or have whole groups with as many outputs as inputs.
    """
    able = [image.chunk] if image.block else [4, 2, 1]
    if image.block not in (0, image.chunk) or not (image.block or image.view.flags.c_contiguous):
        return 0
    total = image.view.shape[1]

    def fits(block: int) -> bool:
        whole = channels % block == 0 and rows % block == 0
        return whole or (block % channels == 0 and channels == rows and total % block == 0)

    return next((block for block in able if fits(block)), 0)


def choose_work(problem: Grouped) -> Work:
    """The work with the least estimated time; the fewest threads of equals."""
    return min(candidates(problem), key=lambda work: (work_us(problem, work), work.threads))


def work_us(problem: Grouped, work: Work) -> float:
    """Microseconds that a kernel should take on such a device."""
    rows = problem.items // work.shares
    taps = problem.window.kernel[-1]
    products = rows * taps * problem.width * problem.block * work.pixels
    loads = rows * (problem.kept(work.pixels) / problem.block + taps * problem.width)
    blocks = -(-problem.places(work.pixels) // work.places)
    threads = max(work.threads, work.threads * blocks / PROCESSORS)
    busy = threads * (products / PRODUCTS + loads / LOADS)
    added = SHARE_US * work.shares if work.shares > 1 else 0.0
    return START_US + rows * ROW_US + busy + added


def tuned_work(problem: Grouped, target: CudaTarget) -> Work:
    """The work that was measured to be fastest, or else should be."""
    entry = recorded(grouped_key(problem), target)
    fits = {astuple(work) for work in candidates(problem)} if entry else set[tuple[int, ...]]()
    found = first_of(entry, fits)
    return Work(*found) if found else choose_work(problem)


def grouped_key(problem: Grouped) -> str:
    """What decides the speed of a problem's works."""
    window = problem.window
    sizes = (problem.source, problem.result, problem.channels, problem.rows, problem.block)
    axes = (window.kernel, window.strides, window.dilations, window.before)
    types = (problem.image.dtype, problem.weight.dtype, problem.image.block > 0)
    return json.dumps(("grouped", *types, *sizes, *axes), separators=(",", ":"))


def _is_faster(group: Group, target: CudaTarget, grouped: Grouped, work: Work) -> bool:
    """Whether tiles on tensor cores would take longer, or cannot be used."""
    own = Contender(recorded(grouped_key(grouped), target), work_us(grouped, work))
    return not tiles_beat(own, group, target)


def constants(problem: Grouped, work: Work, name: str = "Problem") -> str:
    """The struct of constants that grouped.cuh takes."""
    window = problem.window
    image, channels = _source_steps(problem)
    scalars = {
        "BATCH": problem.source[0],
        "BLOCK": problem.block,
        "BLOCKED": int(problem.image.block > 0),
        "BLOCKS": problem.blocks,
        "IMAGE": image,
        "CHANNELS": channels,
        "GROUP_BLOCKS": max(1, problem.rows // problem.block),
        "PARTS": problem.parts,
        "WIDTH": problem.width,
        "PIXELS": work.pixels,
        "PLACES": work.places,
        "SHARES": work.shares,
        **_axes("SOURCE", problem.source[2:], 1),
        **_axes("RESULT", problem.result[2:], 1),
        **_axes("WINDOW", window.kernel, 1),
        **_axes("STRIDES", window.strides, 1),
        **_axes("DILATIONS", window.dilations, 1),
        **_axes("PADS", window.before, 0),
    }
    lines = [f"  static constexpr int {key} = {value};" for key, value in scalars.items()]
    return "\n".join([f"struct {name} {{", *lines, "};", ""])


def _source_steps(problem: Grouped) -> tuple[int, int]:
    """Elements from one image to the next, and from one block of channels."""
    if problem.image.block:
        image, channels = block_steps(problem.source, problem.block)
        return image * problem.block, channels * problem.block
    plane = prod(problem.source[2:])
    return problem.source[1] * plane, problem.block * plane


def _axes(name: str, values: Sequence[int], missing: int) -> dict[str, int]:
    """Constants for depth, rows and columns; axes in front that are missing have one value."""
    padded = [missing] * (3 - len(values)) + list(values)
    return {f"{name}{axis}": value for axis, value in enumerate(padded)}
