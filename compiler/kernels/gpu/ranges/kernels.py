"""Kernels that write the ranges of their results."""

from dataclasses import replace
from math import prod

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.gpu.entries.indirect import KERNEL_HEAD, body_end
from compiler.kernels.gpu.epilogue import c_type
from compiler.kernels.gpu.ranges.groups import RangedResult, ranged_results
from compiler.kernels.gpu.source import header
from compiler.kernels.group import Group
from compiler.kernels.template import KernelSource
from compiler.schedule.kernels import Launch

FOLD_US = 0.35
"""Microseconds in which the threads of a kernel fold what they store and warps write ranges: 0.16
in a normalisation, 0.38 in a GEMM and 0.51 in an attention on an H100."""

LAUNCH_US, ELEMENTS = 2.0, 6e3
"""Microseconds of a launch that reads the tensor again, and the elements that an SM reads in one:
those of `tensor_range`."""

THREADS, ITEMS, WARP = 256, 4, 32
"""Threads of a block of such a launch, fewest elements of each, and threads that write a pair."""

RESERVED = 1 << 10
"""Bytes of shared memory that are left for a kernel's own tables and the ranges of its warps."""


def extra_us(group: Group, folds: bool, sms: int) -> float:
    """The estimated microseconds that the ranges of a group take its kernel."""
    results = ranged_results(group)
    again = sum(LAUNCH_US + result.info.elements / (ELEMENTS * sms) for result in results)
    return FOLD_US * len(results) if folds else again


def extra_launches(group: Group, folds: bool) -> list[Launch]:
    """The launches for the ranges of a group besides those of its kernel, for estimates."""
    return [] if folds else [_launch(group, result) for result in ranged_results(group)]


def with_ranges(kernel: KernelSource, group: Group, folds: bool, shared_bytes: int) -> KernelSource:
    """The kernel that also writes the ranges of a group; it `folds` them or leaves them out.

    `shared_bytes` is the most shared memory of a block.
    """
    results = ranged_results(group)
    if not results:
        return kernel
    if not folds:
        # the last results are none of this kernel's, and its scratch memory comes after them
        count = 2 * len(results)
        first = group.inputs + len(group.outputs) - count
        launches = (
            replace(launch, args=tuple(a if a < first else a + count for a in launch.args))
            for launch in kernel.launches
        )
        kernel = replace(kernel, launches=tuple(launches))
    kernel = replace(kernel, text=f"{header('ranges')}\n{kernel.text}")
    for result in results:
        writing = _folding_launch(kernel, result) if folds else None
        writes = writing is not None and _has_parts(writing, result, shared_bytes)
        kernel = kernel if writing is None else _folding(kernel, writing, result, writes)
        if not writes:
            kernel = _followed(kernel, group, result)
    return kernel


def _has_parts(launch: Launch, result: RangedResult, shared_bytes: int) -> bool:
    """Whether there is a part for each warp of a launch, or for each block if there is some shared
    memory left, in which its warps meet."""
    assert launch.block[1:] == (1, 1), "store functions are called by rows of threads"
    blocks = prod(launch.grid)
    meet = launch.shared_bytes + RESERVED <= shared_bytes
    return blocks * _warps(launch) <= result.count or (blocks <= result.count and meet)


def _warps(launch: Launch) -> int:
    """The warps of a block."""
    return ceil_div(launch.block[0], WARP)


def _folding_launch(kernel: KernelSource, result: RangedResult) -> Launch:
    """The launch that stores the tensor, and so its range."""
    (launch,) = (launch for launch in kernel.launches if result.lows in launch.args)
    return launch


def _folding(
    kernel: KernelSource, launch: Launch, result: RangedResult, writes: bool
) -> KernelSource:
    """A kernel whose store function has the thread's own extremes instead of those in memory.

    If it `writes`, its warps or blocks do at the end.
    """
    heads = KERNEL_HEAD.finditer(kernel.text)
    head = next(head for head in heads if head[2] == launch.symbol)
    parameters = head[3].split(",")
    own = list[str]()
    for number in (result.lows, result.highs):
        place = launch.args.index(number)
        own.append(parameters[place].split()[-1].lstrip("*"))
        parameters[place] = f" float* __restrict__ {own[-1]}_written"
    last = body_end(kernel.text, head.end()) - 1
    body = kernel.text[head.end() : last]
    assert "return" not in body, f"a thread leaves {launch.symbol} before it writes its range"
    low, high = own
    written = f"{low}[0], {high}[0], {low}_written, {high}_written"
    write = f"  write_ranges<{_counts(launch, result)}>({written});\n"
    text = [
        kernel.text[: head.start()],
        f'extern "C" __global__ {head[1]}{head[2]}({",".join(parameters).strip()}) {{\n',
        f"  float {low}[1] = {{CUDART_INF_F}}, {high}[1] = {{-CUDART_INF_F}};",
        body,
        write if writes else "",
        kernel.text[last:],
    ]
    return replace(kernel, text="".join(text))


def _counts(launch: Launch, result: RangedResult) -> str:
    """The warps of a block, the blocks and the parts, as arguments of a template."""
    return f"{_warps(launch)}, {prod(launch.grid)}, {result.count}"


def _launch(group: Group, result: RangedResult) -> Launch:
    """The launch that reads a tensor again for its ranges."""
    threads = min(THREADS, result.count * WARP)
    most = max(1, result.count * WARP // threads)
    blocks = min(most, ceil_div(result.info.elements, threads * ITEMS))
    symbol = f"{group.name}_range{result.tensor}"
    args = (result.tensor, result.lows, result.highs)
    return Launch(symbol, args, (blocks, 1, 1), (threads, 1, 1))


def _followed(kernel: KernelSource, group: Group, result: RangedResult) -> KernelSource:
    """A kernel with a launch that reads a tensor again, in the order of memory."""
    launch = _launch(group, result)
    threads = launch.block[0]
    elements = result.info.elements
    text = (
        f'extern "C" __global__ void __launch_bounds__({threads}) {launch.symbol}'
        f"(const {c_type(result.info.dtype)}* __restrict__ x, float* __restrict__ lows,"
        " float* __restrict__ highs) {\n"
        f"  write_ranges_of<{_counts(launch, result)}>(x, {elements}, lows, highs);\n}}\n"
    )
    return replace(kernel, text=f"{kernel.text}\n{text}", launches=(*kernel.launches, launch))
