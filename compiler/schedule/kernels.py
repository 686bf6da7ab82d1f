"""Compiled kernels: code, launches, operands and footprints. Times are in nanoseconds."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import inf, prod
from typing import Literal

from compiler.tensors.arithmetic import elements
from compiler.tensors.dtypes import ELEMENT_BYTES
from compiler.tensors.extents import Extent, NotForAllSizes, value_at
from compiler.tensors.symbols import Symbol


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch of a compiled function.

    `args` index the task's buffers: its reads, then its writes. A GPU runs `grid` blocks of
    `block` threads; a CPU calls the function for ranges of `grid[0]` independent blocks.
    `shared_bytes` are asked for by the launch; what the code itself takes are `registers` a thread
    and `static_shared_bytes` a block, both 0 where they are unknown.
    One that is `programmatic` waits, before it touches memory, for the end of the launches that it
    follows in a graph, so that it may be started before they have ended. `indirect` names a second
    entry point, if there is one, whose parameters are the addresses of pointers to the buffers.
    """

    symbol: str
    args: tuple[int, ...]
    grid: tuple[int, int, int] = (1, 1, 1)
    block: tuple[int, int, int] = (1, 1, 1)
    shared_bytes: int = 0
    registers: int = 0
    static_shared_bytes: int = 0
    programmatic: bool = False
    indirect: str = ""

    @property
    def symbols(self) -> tuple[str, ...]:
        """Its entry points, one or two."""
        return (self.symbol, self.indirect) if self.indirect else (self.symbol,)


@dataclass(frozen=True, slots=True)
class Operand:
    """The dtype and shape of a tensor that a kernel was built for."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return prod(self.shape) * ELEMENT_BYTES[self.dtype]

    def __str__(self) -> str:
        return f"{self.dtype}{list(self.shape)}"


LARGEST_COUNT = 2**31 - 2**20
"""Elements of the largest tensor, and bytes of the largest workspace, of a kernel with symbols: its
indices have 32 bits, and tiles may reach past the end."""

LARGEST_SIDE = 65535
"""Most blocks of a grid along each axis but the first: CUDA's limit."""

Containment = Literal["proved", "tested", "declared"]
"""How it is known that a kernel touches nothing but its task's tensors: see docs/safety.md."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """The proofs that a kernel's accesses to its tensors and its other buffers stay inside.

    `read_launches` names the launches whose code was generated, and read. Of its `accesses`,
    `by_solver` and `by_enumeration` say how many were proved in that way to be inside; intervals
    proved all others but the `undecided`, which are described.
    """

    read_launches: tuple[str, ...] = ()
    accesses: int = 0
    by_solver: int = 0
    by_enumeration: int = 0
    undecided: tuple[str, ...] = ()


DECLARED = Footprint()
"""The footprint of code that was not read."""


@dataclass(frozen=True, slots=True)
class KernelSpec:
    """The compiled form of one fused group, for one target.

    `packings` has one entry a read: how a weight there is laid out beforehand (see
    `compiler.graph.packing`; empty for as it is). `workspaces` are the sizes of scratch
    buffers, which follow the results in a task's writes. `launches` run in order. `source` is the
    text that a GPU's `code` was compiled from; it includes headers of `compiler/kernels/gpu`.
    `serial_ns` are nanoseconds besides its work, of steps that wait for each other;
    `estimated_ns` are all by its template's model or measured config, 0 where it has neither.
    `reads` (packed, where there is a packing) and `writes` are what the code was built for: a
    task's views must have these types. `footprint` is that of generated code; code that is written
    by hand has none.
    With `symbols` grids, workspaces and shapes of operands are extents over them, and the last read
    is their values, as int64. `at` gives the kernel for sizes.
    """

    name: str
    language: Literal["object", "cuda", "hip", "emu"]
    code: bytes
    launches: tuple[Launch, ...]
    packings: tuple[str, ...]
    workspaces: tuple[int, ...] = ()
    flops: int = 0
    traffic_bytes: int = 0
    serial_ns: int = 0
    estimated_ns: int = 0
    source: str = ""
    reads: tuple[Operand, ...] = ()
    writes: tuple[Operand, ...] = ()
    footprint: Footprint = DECLARED
    symbols: tuple[Symbol, ...] = ()

    @property
    def example(self) -> "KernelSpec":
        """The kernel for the example sizes."""
        hints = {symbol.name: symbol.hint for symbol in self.symbols}
        return self.at(hints) if hints else self

    def at(self, sizes: Mapping[str, int]) -> "KernelSpec":
        """The kernel for sizes by symbol: with the same code, and no symbols.

        Raises NotForAllSizes for a size outside its symbol's bounds, and where a buffer is larger
        than its indices count: accesses are not proved to be inside then.
        """
        for symbol in self.symbols:
            size = sizes[symbol.name]
            upper = inf if symbol.high is None else symbol.high
            if not symbol.low <= size <= upper:
                raise NotForAllSizes(
                    f"the kernel {self.name} is for {symbol.name} from {symbol.low} to {upper},"
                    f" not {size}: compile the model for that size"
                )

        kernel = self.with_extents(lambda extent: value_at(extent, sizes))
        # A symbol's own bounds do not bound a count, in which several are multiplied.
        counts = kernel.element_counts
        if any(count > LARGEST_COUNT for count in counts):
            raise NotForAllSizes(
                f"the kernel {self.name} needs a buffer of {max(counts)} elements or bytes for"
                f" {', '.join(f'{name} = {size}' for name, size in sizes.items())}, and counts up"
                f" to {LARGEST_COUNT}: run it on smaller inputs"
            )
        if any(size > LARGEST_SIDE for launch in kernel.launches for size in launch.grid[1:]):
            raise NotForAllSizes(
                f"the kernel {self.name} needs more than {LARGEST_SIDE} blocks along an axis for"
                f" {', '.join(f'{name} = {size}' for name, size in sizes.items())}: run it on"
                " smaller inputs"
            )
        return replace(kernel, symbols=())

    def with_extents(self, function: Callable[[Extent], Extent]) -> "KernelSpec":
        """The kernel with a function's results in place of its extents; it keeps its symbols."""

        def mapped_operand(operand: Operand) -> Operand:
            return Operand(operand.dtype, tuple(map(function, operand.shape)))

        def mapped_launch(launch: Launch) -> Launch:
            x, y, z = map(function, launch.grid)
            return replace(launch, grid=(x, y, z))

        return replace(
            self,
            launches=tuple(map(mapped_launch, self.launches)),
            workspaces=tuple(map(function, self.workspaces)),
            reads=tuple(map(mapped_operand, self.reads)),
            writes=tuple(map(mapped_operand, self.writes)),
        )

    @property
    def element_counts(self) -> tuple[int, ...]:
        """The elements of each operand and result, then the bytes of each workspace."""
        operands = (*self.reads, *self.writes)
        return (*(elements(operand.shape) for operand in operands), *self.workspaces)

    @property
    def containment(self) -> Containment:
        """Whether all accesses are proved to be inside, or some only tested or declared to be."""
        if {launch.symbol for launch in self.launches} - set(self.footprint.read_launches):
            return "declared"
        return "tested" if self.footprint.undecided else "proved"
