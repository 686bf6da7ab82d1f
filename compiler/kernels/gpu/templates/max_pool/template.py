"""MaxPool of images in blocks of channels, which are read as vectors."""

from dataclasses import dataclass
from math import prod

from compiler.ir.layouts import block_steps
from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.gpu.blocks import block_store, window_constants
from compiler.kernels.gpu.epilogue import is_fusible, store_function
from compiler.kernels.gpu.operands import BYTE_TYPES, Operand, find_operand
from compiler.kernels.gpu.source import header
from compiler.kernels.gpu.structs import constants, kernel, struct
from compiler.kernels.group import Group, Node
from compiler.kernels.ops.windows import Window, operator_window
from compiler.kernels.template import KernelSource, OneWay
from compiler.schedule.kernels import Launch
from compiler.target.target import GpuTarget

THREADS = 128

MOST_TAPS = 64
"""Most elements of a window: the loads of all are written out."""

LAUNCH_US, TAPS, BYTES = 1.7, 2e4, 2e6
"""Microseconds of a launch, and the loads of 16 bytes of an SM and the bytes of all in one: not
measured."""


@dataclass(frozen=True)
class Problem:
    """One pooling: `source` and `result` are shapes (N, C, *spatial)."""

    anchor: Node[int]
    image: Operand
    source: tuple[int, ...]
    result: tuple[int, ...]
    window: Window

    @property
    def block(self) -> int:
        """The channels of a block."""
        return self.image.block

    @property
    def places(self) -> int:
        """The threads: one for each block of channels of each pixel."""
        return prod(self.result) // self.block


class MaxPool(OneWay[Problem, GpuTarget]):
    """A group around one MaxPool whose image is read in blocks of channels."""

    name = "max_pool"

    def problem(self, group: Group, target: GpuTarget) -> Problem | None:
        """The only pooling of a group, if it has no positions."""
        anchor = group.only("MaxPool")
        image = find_operand(group, anchor.inputs[0]) if anchor else None
        if anchor is None or image is None or not is_fusible(group, anchor):
            return None
        source = group.values[anchor.operand(0)].shape
        result, *others = (group.values[i] for i in anchor.outputs if group.values[i].dtype)
        if others or result.dtype != "float32":
            return None
        if not image.block or image.dtype in BYTE_TYPES or image.block != image.chunk:
            return None
        kernel = anchor.attributes["kernel_shape"]
        window = operator_window(anchor, source, result.shape, kernel)
        known = len(source) <= 5 and prod(window.kernel) <= MOST_TAPS
        return Problem(anchor, image, source, result.shape, window) if known else None

    def estimate_ns(self, problem: Problem, config: None, target: GpuTarget) -> float:
        """Loading the windows, or all memory once."""
        taps = problem.places * prod(problem.window.kernel)
        nbytes = 16 * (prod(problem.source) + prod(problem.result)) / problem.block
        return 1e3 * (LAUNCH_US + max(taps / (TAPS * target.device.sms), nbytes / BYTES))

    def emit(self, group: Group, problem: Problem, config: None, target: GpuTarget) -> KernelSource:
        own = group.writes[0].block
        block = own if own == problem.block else 0
        store = store_function(group, problem.anchor, target, block)
        parts = [header("max_pool"), store.text, _constants(problem)]
        grid = (ceil_div(problem.places, THREADS), 1, 1)
        launch = Launch(f"{group.name}_0", (), grid, (THREADS, 1, 1))
        call = f"pool_largest<Problem>(image, Store{{{', '.join(store.names)}}})"
        own = (problem.image.parameter("image"), *store.parameters)
        function, launch = kernel(launch, own, call)
        parts += [block_store(store, group, problem.block), function]
        return KernelSource("\n".join(parts), (launch,), flops=group.operations)


def _constants(problem: Problem) -> str:
    """The struct of constants of max_pool.cuh."""
    image, channels = block_steps(problem.source, problem.block)
    scalars = {
        "THREADS": THREADS,
        "PLACES": problem.places,
        "PIXELS": prod(problem.result[2:]),
        "BLOCK": problem.block,
        "BLOCKS": problem.result[1] // problem.block,
        "IMAGE": image,
        "CHANNELS": channels,
        **window_constants(problem.source, problem.result, problem.window),
    }
    return struct("Problem", constants(scalars))
