"""Convolutions of each channel by itself on blocked images, as CUDA kernels."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from compiler.kernels.cuda.operands import Operand, find_operand
from compiler.kernels.cuda.scheduled import CudaKernel
from compiler.kernels.cuda.source import header
from compiler.kernels.cuda.store import StoreFunction, c_type, store_function
from compiler.kernels.cuda.target import CudaTarget
from compiler.kernels.group import Group, Operator
from compiler.kernels.lowering import Context
from compiler.kernels.pooling import Window, window_of
from compiler.schedule import Launch

THREADS = 128
"""Threads of a block."""

MANY_THREADS = 1 << 16
"""From this many threads on a device is busy, and a thread may compute more pixels."""

KEPT = 64
"""Most numbers of a row of the image that a thread keeps in registers."""


@dataclass(frozen=True)
class Depthwise:
    """One problem: `source` and `result` are images (N, C, *spatial), padded to three axes."""

    image: Operand
    weight: Operand
    source: tuple[int, ...]
    result: tuple[int, ...]
    window: Window

    @property
    def blocks(self) -> int:
        """Blocks of channels in one image."""
        return self.source[1] // self.image.block

    @property
    def packing(self) -> str:
        """How weights are laid out: the channels of a block beside each other for each tap."""
        taps = prod(self.window.kernel)
        return f"reshape:{self.blocks},{self.image.block},{taps}|transpose:0,2,1"

    def threads(self, pixels: int) -> int:
        """Threads that compute some pixels each."""
        batch, _, *lines, columns = self.result
        return batch * self.blocks * prod(lines) * -(-columns // pixels)

    def kept(self, pixels: int) -> int:
        """Numbers of a row of the image that some pixels need."""
        reach = (self.window.kernel[-1] - 1) * self.window.dilations[-1]
        return ((pixels - 1) * self.window.strides[-1] + reach + 1) * self.image.block

    @property
    def pixels(self) -> int:
        """Pixels for one thread: the fewer loads, the better, when there is work for all."""
        fits = (p for p in (4, 2) if self.kept(p) <= KEPT and self.threads(p) >= MANY_THREADS)
        return next(fits, 1)


def depthwise_kernel(
    group: Group, target: CudaTarget, pixels: int | None = None
) -> CudaKernel | None:
    """The kernel of a group with a depthwise convolution; None when another schedule must take it.

    Sums are in float32, each in one thread in the order of the taps: the same bits every time.
    """
    anchors = [op for op in group.operators if op.type == "Conv"]
    problem = read_depthwise(group, anchors[0]) if len(anchors) == 1 else None
    store = store_function(group, anchors[0], target) if problem is not None else None
    if problem is None or store is None:
        return None
    count = problem.pixels if pixels is None else pixels
    name = f"{group.name}_0"
    text = "\n".join(
        [header("depthwise"), store.text, _constants(problem, count), _store_struct(store)]
    )
    packings = [""] * group.inputs
    packings[problem.weight.read] = problem.packing
    grid = (-(-problem.threads(count) // THREADS), 1, 1)
    arguments = (problem.image.read, problem.weight.read, *store.arguments)
    launch = Launch(name, arguments, grid, (THREADS, 1, 1))
    flops = 2 * prod(problem.result) * prod(problem.window.kernel)
    kernel = _kernel(name, problem, store)
    return CudaKernel(f"{text}\n{kernel}", (launch,), (), tuple(packings), flops)


def read_depthwise(group: Group, anchor: Operator) -> Depthwise | None:
    """The problem of a convolution with one filter a channel and constant weights; else None."""
    image, weight = (find_operand(group, value) for value in anchor.inputs[:2])
    output = group.values[anchor.outputs[0]].shape
    if image is None or weight is None or not image.block or not weight.constant:
        return None
    shape, kernel = image.view.shape, weight.view.shape
    alone = anchor.attributes.get("group", 1) == shape[1] == output[1]
    if not alone or image.block != image.chunk or not 3 <= len(shape) <= 5:
        return None
    if weight.dtype not in ("float32", image.dtype):
        return None
    infos = tuple(None if i is None else group.values[i] for i in anchor.inputs)
    context = Context(anchor, (None,) * len(infos), infos, (group.values[anchor.outputs[0]],))
    return Depthwise(image, weight, shape, output, window_of(context, kernel[2:]))


def _kernel(name: str, problem: Depthwise, store: StoreFunction) -> str:
    image, weight = c_type(problem.image.dtype), c_type(problem.weight.dtype)
    given = [f"const {image}* __restrict__ image", f"const {weight}* __restrict__ weights"]
    given += [f"{kind}* __restrict__ buffer{i}" for i, kind in enumerate(store.types)]
    names = ", ".join(f"buffer{i}" for i in range(len(store.types)))
    return (
        f'extern "C" __global__ void __launch_bounds__({THREADS}) {name}({", ".join(given)}) {{\n'
        f"  convolve_channels<Problem>(image, weights, Store{{{names}}});\n}}\n"
    )


def _store_struct(store: StoreFunction) -> str:
    fields = [f"  {kind}* buffer{i};" for i, kind in enumerate(store.types)]
    passed = "".join(f"buffer{i}, " for i in range(len(store.types)))
    head = "  __device__ __forceinline__ void operator()(int outer, int channel, int pixel,"
    body = f"    {store.name}({passed}outer, channel, pixel, value);"
    lines = ["struct Store {", *fields, f"{head} float value) const {{", body, "  }", "};", ""]
    return "\n".join(lines)


def _constants(problem: Depthwise, pixels: int) -> str:
    window = problem.window
    scalars = {
        "BATCH": problem.source[0],
        "BLOCK": problem.image.block,
        "BLOCKS": problem.blocks,
        "PIXELS": pixels,
        "THREADS": THREADS,
        **_axes("SOURCE", problem.source[2:], 1),
        **_axes("RESULT", problem.result[2:], 1),
        **_axes("WINDOW", window.kernel, 1),
        **_axes("STRIDES", window.strides, 1),
        **_axes("DILATIONS", window.dilations, 1),
        **_axes("PADS", window.before, 0),
    }
    lines = [f"  static constexpr int {name} = {value};" for name, value in scalars.items()]
    return "\n".join(["struct Problem {", *lines, "};", ""])


def _axes(name: str, values: Sequence[int], missing: int) -> dict[str, int]:
    """Constants for depth, rows and columns; axes in front that are missing have one value."""
    padded = [missing] * (3 - len(values)) + list(values)
    return {f"{name}{axis}": value for axis, value in enumerate(padded)}
