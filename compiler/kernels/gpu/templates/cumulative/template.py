"""Running sums, in which blocks scan chunks of rows."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import isqrt

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.gpu.epilogue import Parameter, c_type
from compiler.kernels.gpu.source import header
from compiler.kernels.gpu.structs import constants, kernel, struct
from compiler.kernels.group import Group, Node
from compiler.kernels.ops.rows import AxisRows, rows_along
from compiler.kernels.template import KernelSource, Template
from compiler.schedule.kernels import Launch
from compiler.target.target import GpuTarget
from compiler.tensors.dtypes import ELEMENT_BYTES

WARP = 32
"""Rows side by side that a block has: their elements at a step make a load of a warp."""

WAVES = 2
"""Blocks for each SM, where rows are divided into chunks."""


@dataclass(frozen=True)
class Config:
    """Threads of a block, and elements of each at a time."""

    threads: int
    items: int

    @property
    def tile(self) -> int:
        """Elements of a block at a time."""
        return self.threads * self.items


@dataclass(frozen=True)
class Problem(AxisRows):
    """Running sums of each row."""

    operator: Node[int]
    dtype: str

    @property
    def nbytes(self) -> int:
        """The bytes of the elements."""
        return self.rows * self.length * ELEMENT_BYTES[self.dtype]

    def division(self, config: Config, target: GpuTarget) -> "Division":
        """How blocks share the rows: several short ones, or rows side by side.

        A block reads the sums of the chunks before its own: there are not more of them than the
        root of the length, so that all read no more sums than elements.
        """
        short = config.tile // (1 << (self.length - 1).bit_length())
        beside = min(WARP, 1 << (self.inner - 1).bit_length())
        lanes = min(config.threads, max(beside, short))
        steps = config.tile // lanes
        blocks = ceil_div(self.rows, lanes)
        wanted = ceil_div(WAVES * target.device.sms, blocks)
        chunks = min(wanted, ceil_div(self.length, steps), isqrt(self.length))
        chunk = ceil_div(ceil_div(self.length, chunks), steps) * steps
        return Division(lanes, steps, chunk, ceil_div(self.length, chunk), blocks)


@dataclass(frozen=True)
class Division:
    """`blocks` have `lanes` rows each, of which they read `steps` elements at a time.

    Rows are divided into `chunks` of `chunk` elements: there is a block for each of them.
    """

    lanes: int
    steps: int
    chunk: int
    chunks: int
    blocks: int

    def work(self) -> int:
        """Elements that all blocks add, and sums of chunks that they read."""
        tiles = self.blocks * self.chunks * self.chunk * self.lanes
        return tiles * (2 if self.chunks > 1 else 1) + self.blocks * self.chunks**2 * self.lanes


def sum_bytes(dtype: str) -> int:
    """The bytes of a sum: halves are added in float32."""
    return max(4, ELEMENT_BYTES[dtype])


def _constants(problem: Problem, config: Config, division: Division) -> str:
    """The problem as types, constants and conversions; adding `none` changes no bit of a float."""
    floating = "float" in problem.dtype
    unsigned = f"uint{8 * ELEMENT_BYTES[problem.dtype]}_t"
    element = c_type(problem.dtype) if floating else unsigned
    total = "double" if problem.dtype == "float64" else "float" if floating else unsigned
    attributes = problem.operator.attributes
    values = {
        "THREADS": config.threads,
        "ITEMS": config.items,
        "LANES": division.lanes,
        "PARTS": config.threads // division.lanes,
        "STEPS": division.steps,
        "ROWS": problem.rows,
        "LENGTH": problem.length,
        "INNER": problem.inner,
        "CHUNK": division.chunk,
        "CHUNKS": division.chunks,
    }
    flags = {name: bool(attributes[name.lower()]) for name in ("EXCLUSIVE", "REVERSE")}
    lines = [
        f"  using Element = {element};",
        f"  using Sum = {total};",
        *constants(values),
        *(f"  static constexpr bool {name} = {str(on).lower()};" for name, on in flags.items()),
        "  static __device__ __forceinline__ Sum none() { return Sum(-0.0f); }",
        "  static __device__ __forceinline__ Sum load(Element value) { return Sum(value); }",
        "  static __device__ __forceinline__ Element store(Sum value) { return Element(value); }",
    ]
    return struct("Problem", lines)


LAUNCH_US, TILE_US, SCAN_US, REGISTERS = 2.2, 0.9, 0.06, 40
"""Microseconds of a launch, of loading and storing a tile, and of one step of its threads' scan
with two barriers, by their latencies on an H100; registers of a thread."""


class ScanRows(Template[Problem, Config, GpuTarget]):
    """A group that is a CumSum, along any axis: the same bits every time."""

    name = "cumulative"

    def problem(self, group: Group, target: GpuTarget) -> Problem | None:
        """The running sum that a group is, of a row-major tensor; None for any other group."""
        anchor = group.only("CumSum")
        alone = len(group.operators) == 1
        if anchor is None or not alone or anchor.operand(0) >= group.inputs:
            return None
        info = group.values[anchor.operand(0)]
        if not info.elements or info.block or group.writes[0].block:
            return None
        outer, length, inner = rows_along(info.shape, anchor.attributes["axis"])
        return Problem(outer=outer, length=length, inner=inner, operator=anchor, dtype=info.dtype)

    def configs(self, problem: Problem, target: GpuTarget) -> Iterable[Config]:
        """Blocks of whole warps, whose threads have a few elements."""
        yield from (Config(threads, items) for threads in (256, 128, 64) for items in (8, 4, 2))

    def estimate_ns(self, problem: Problem, config: Config, target: GpuTarget) -> float:
        """Waves of blocks, each with the latency of its tiles, or the traffic of the tensor."""
        device = target.device
        division = problem.division(config, target)
        shared = (config.tile * 33 // 32 + config.threads) * sum_bytes(problem.dtype)
        resident = device.sms * device.resident_blocks(config.threads, REGISTERS, shared)
        waves = ceil_div(division.blocks * division.chunks, resident)
        rounds = (config.threads // division.lanes).bit_length()
        tiles = waves * division.chunk // division.steps
        tile = TILE_US * config.items / 4 + SCAN_US * rounds
        traffic = 2 * problem.nbytes / device.bandwidth / 1000
        sums = (division.chunks > 1) * (LAUNCH_US + max(traffic / 2, tiles * TILE_US / 2))
        return 1e3 * (sums + LAUNCH_US + max(traffic, tiles * tile))

    def emit(
        self, group: Group, problem: Problem, config: Config, target: GpuTarget
    ) -> KernelSource:
        """The kernel of a group: sums of chunks, if there are several, and the running sums."""
        division = problem.division(config, target)
        data = Parameter("const Problem::Element*", "data", problem.operator.operand(0))
        results = Parameter("Problem::Element*", "results", group.inputs)
        totals = Parameter("Problem::Sum*", "totals", group.inputs + 1)
        kernels: list[str] = []
        launches: list[Launch] = []
        several = division.chunks > 1

        def add(name: str, function: str, chunks: int, buffers: Sequence[Parameter]) -> None:
            grid = (division.blocks * chunks, 1, 1)
            bare = Launch(f"{group.name}_{name}", (), grid, (config.threads, 1, 1))
            call = f"{function}<Problem>({', '.join(own.name for own in buffers)})"
            text, launch = kernel(bare, buffers, call)
            kernels.append(text)
            launches.append(launch)

        if several:
            add("sums", "sum_chunks", division.chunks - 1, [data, totals])
        known = [replace(totals, type=f"const {totals.type}")] if several else []
        add("scan", "scan_chunks", division.chunks, [data, *known, results])
        scratch = (division.chunks - 1) * problem.rows * sum_bytes(problem.dtype)
        text = "".join(
            [header("cumulative"), "\n", _constants(problem, config, division), *kernels]
        )
        return KernelSource(text, tuple(launches), (scratch,) if scratch else ())
