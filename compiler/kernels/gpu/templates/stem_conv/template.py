"""The first convolution of a network, with an NCHW image of few channels, on tensor cores."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple
from itertools import zip_longest
from math import prod

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.database import Entry
from compiler.kernels.gpu.blocks import block_store
from compiler.kernels.gpu.convolutions import convolution_source
from compiler.kernels.gpu.epilogue import is_fusible, store_function
from compiler.kernels.gpu.structs import constants, struct
from compiler.kernels.gpu.templates.gemm.candidates import SLOWEST
from compiler.kernels.gpu.templates.gemm.estimate import CACHE_BYTES
from compiler.kernels.gpu.templates.stem_conv.config import (
    Config,
    blocks_of,
    candidates,
    halo_of,
    pitch,
    resident_blocks,
    shared_bytes,
    slice_of,
    threads_of,
    tiles_of,
)
from compiler.kernels.gpu.templates.stem_conv.problem import Problem, read_stem
from compiler.kernels.group import Group
from compiler.kernels.template import KernelSource, Key, Shortlists, Template
from compiler.schedule.kernels import Launch
from compiler.target.target import PRECISIONS, GpuTarget
from compiler.tensors.dtypes import ELEMENT_BYTES

# The estimated time of a stem convolution, fitted on an H200.
START_US, BLOCK_US, COPY_US = 1.2, 0.5, 0.6
"""Launching and ending a kernel, and a block, and the latency of the copies before the MMAs."""

CLOCK, MMA_CYCLES, WAVE_CYCLES = 1755, 1.8, 1.0
"""Cycles per microsecond; those of an SM for a 16 x 8 MMA, and for 128 bytes of shared memory."""

LINE_CYCLES, WARP_CYCLES = 4, 60
"""Cycles for 32 pixels of a row of the halo, and of overhead per warp and tile."""

STORE_BYTES, OVERLAP = 3.2e6, 0.1
"""Bytes of results per microsecond, and the fraction of overlapping parts that does not overlap."""


def estimate_us(problem: Problem, config: Config, target: GpuTarget) -> float:
    """The estimated microseconds of a kernel.

    The longest of computing, latency, copying weights and halos, and storing results counts.
    """
    count = target.device.sms
    warps = threads_of(problem, config) // 32
    slices = problem.channels // slice_of(problem, config)
    tile = _tile_cycles(problem, config)
    blocks = ceil_div(blocks_of(problem, config) * slices, count)
    busy = blocks * config.turns * tile / CLOCK
    turn = COPY_US + tile * max(1, 4 / warps) / CLOCK
    waves = ceil_div(blocks, resident_blocks(problem, config, target))
    latency = waves * (BLOCK_US + config.turns * turn)
    sectors = 1 if problem.blocked else max(1, 32 / (config.columns * problem.element_bytes))
    results = prod(problem.result) * problem.element_bytes * sectors / STORE_BYTES
    parts = (busy, latency, _copied_bytes(problem, config) / CACHE_BYTES, results)
    return START_US + max(parts) + OVERLAP * sum(parts)


def _copied_bytes(problem: Problem, config: Config) -> int:
    """Bytes that all blocks copy: weights once per block, a halo per tile."""
    weights = 8 * problem.steps * problem.channels * problem.pair
    pixels = problem.extents[0] * prod(halo_of(problem, config))
    copied = weights * blocks_of(problem, config) * ELEMENT_BYTES[problem.weight.dtype]
    slices = problem.channels // slice_of(problem, config)
    return copied + slices * tiles_of(problem, config) * pixels * ELEMENT_BYTES[problem.image.dtype]


def _tile_cycles(problem: Problem, config: Config) -> float:
    """Cycles of one SM for a tile: MMAs, or loads and stores, and copying the halo."""
    rows, columns = halo_of(problem, config)
    wavefronts = pitch(problem, rows, columns)[1]
    mmas = problem.steps * config.pixels * config.width / 128 * MMA_CYCLES
    loads = problem.steps * (config.pixels / 4 * wavefronts + config.width / 4) * WAVE_CYCLES
    copies = problem.extents[0] * rows * ceil_div(columns, 32) * LINE_CYCLES * problem.pair
    stores = config.pixels * config.width / 32 * (1 if problem.blocked else 4)
    return threads_of(problem, config) // 32 * (max(mmas, loads + stores) + WARP_CYCLES) + copies


class StemConv(Template[Problem, Config, GpuTarget], Shortlists):
    """A convolution of an NCHW image or volume of few channels, with constant weights.

    Sums are in float32, in an order that depends on the problem only: the same bits every time.
    """

    name = "stem_conv"
    sources = ("stem_conv.cuh", "instructions.cuh")

    def problem(self, group: Group, target: GpuTarget) -> Problem | None:
        """The only convolution of a group."""
        anchor = group.only("Conv") if target.has_mma else None
        problem = read_stem(group, anchor, target) if anchor else None
        return problem if problem and is_fusible(group, problem.anchor) else None

    def configs(self, problem: Problem, target: GpuTarget) -> Iterator[Config]:
        """The configs that fit a block's registers and shared memory, without idle turns."""
        return candidates(problem, target)

    def estimate_ns(self, problem: Problem, config: Config, target: GpuTarget) -> float:
        return 1e3 * estimate_us(problem, config, target)

    def key(self, problem: Problem, target: GpuTarget) -> Key:
        """The types, the sizes and the window."""
        return {
            "precision": problem.precision,
            **problem.types,
            **problem.sizes,
            "block": problem.block,
            "blocked": problem.blocked,
            "element_bytes": problem.element_bytes,
            **problem.window.key,
        }

    def shortlist(
        self, problem: Problem, target: GpuTarget, known: Mapping[str, Entry], count: int
    ) -> Sequence[Config]:
        """At most `count` configs to measure, the one of the least estimate first."""
        return diverse(problem, target, count)

    def emit(
        self, group: Group, problem: Problem, config: Config, target: GpuTarget
    ) -> KernelSource:
        own = problem.block if problem.blocked else 0
        store = store_function(group, problem.anchor, target, own)
        slices = problem.channels // slice_of(problem, config)
        grid, block = (blocks_of(problem, config), slices, 1), (threads_of(problem, config), 1, 1)
        launch = Launch(f"{group.name}_0", (), grid, block, shared_bytes(problem, config))
        return convolution_source(
            group,
            problem,
            store,
            launch,
            function="convolve_stem",
            headers=("instructions", "stem_conv"),
            structs=(_constants(problem, config), block_store(store, group, problem.block)),
            bounds=f"{block[0]}, {resident_blocks(problem, config, target)}",
        )


def diverse(problem: Problem, target: GpuTarget, count: int) -> list[Config]:
    """At most `count` configs to measure, the one of the least estimate first.

    Warp tiles alternate; each block tile comes once, with the turns of the least estimate.
    """
    configs = candidates(problem, target)
    timed = sorted((estimate_us(problem, config, target), astuple(config)) for config in configs)
    best = dict[tuple[int, ...], Config]()
    for time, values in timed:
        if time <= SLOWEST * timed[0][0]:
            best.setdefault(values[:4], Config(*values))
    warps = dict[tuple[int, int], list[Config]]()
    for config in best.values():
        warps.setdefault((config.pixels, config.width), []).append(config)
    rounds = zip_longest(*warps.values())
    return [one for configs in rounds for one in configs if one is not None][:count]


def _constants(problem: Problem, config: Config) -> str:
    """The struct of constants of stem_conv.cuh."""
    rows, columns = halo_of(problem, config)
    plane, depth = problem.plane, problem.depth
    scalars = {
        "PRECISION": PRECISIONS.index(problem.precision),
        "BATCH": problem.source[0],
        "FILTERS": problem.result[1],
        "BLOCK": problem.block,
        "QUAD_CHANNELS": problem.quad_channels,
        "STEPS": problem.steps,
        "ROWS": config.rows,
        "COLUMNS": config.columns,
        "PIXELS": config.pixels,
        "WIDTH": config.width,
        "SLICE": slice_of(problem, config),
        "TURNS": config.turns,
        "HALO_ROWS": rows,
        "HALO_COLUMNS": columns,
        "PITCH": pitch(problem, rows, columns)[0],
        "PLANES": problem.extents[0],
        "SOURCE_DEPTH": depth.source,
        "RESULT_DEPTH": depth.result,
        "WINDOW_DEPTH": depth.kernel,
        "STRIDE_DEPTH": depth.stride,
        "DILATION_DEPTH": depth.dilation,
        "PAD_DEPTH": depth.before,
        **_axes("SOURCE", (problem.source[1], *problem.source[-2:]), 0),
        **_axes("RESULT", problem.result[-2:]),
        **_axes("WINDOW", plane.kernel),
        **_axes("STRIDES", plane.strides),
        **_axes("DILATIONS", plane.dilations),
        **_axes("PADS", plane.before),
        **_axes("LANES", problem.lanes, 0),
        **_axes("COUNTS", problem.counts, 0),
        **_axes("SPANS", problem.spans, 0),
        **_axes("LASTS", problem.lasts, 0),
    }
    return struct("Problem", constants(scalars))


def _axes(name: str, values: Sequence[int], first: int = 1) -> dict[str, int]:
    """Constants for channels, rows and columns, or from axis `first` on."""
    return {f"{name}{first + i}": value for i, value in enumerate(values)}
