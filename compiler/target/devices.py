"""What GPUs of each architecture can do and hold, and what launches cost there."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Latencies:
    """Nanoseconds that a run spends besides its kernels' work; the defaults are an H200's.

    On the device: `graph` before a graph's first kernel; `dependency` from the end of a task to
    the first block of one that waits for it, and `plain` besides where that one is launched
    plainly or begins a graph; `gap` between the starts of two kernels, and `join` more for each
    task on another stream that the second waits for; `programmatic` is what a launch along a
    programmatic edge takes longer than the chain of itself in which its kernel was timed: its
    instructions are not in the caches, which outweighs what such an edge hides. On the host:
    `launch` for a plain launch or a graph, `event` for one record or wait.

    Fitted to the runs of `benchmarks/calibration`.
    """

    graph: float = 2600.0
    dependency: float = 490.0
    plain: float = 1200.0
    gap: float = 250.0
    join: float = 130.0
    launch: float = 2800.0
    event: float = 700.0
    programmatic: float = 200.0


NONE = Latencies(*[0.0] * len(Latencies.__dataclass_fields__))
"""Nothing but the kernels takes time."""


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU: FLOPs and bytes of memory traffic in a ns, and the limits of one multiprocessor.

    Every block takes `reserved_bytes` of shared memory besides its own. A kernel with a block on
    every multiprocessor lengthens what runs beside it by the part `interference`.
    """

    multiprocessors: int
    flops: float
    bandwidth: float
    threads: int = 2048
    blocks: int = 32
    registers: int = 65536
    shared_bytes: int = 228 << 10
    reserved_bytes: int = 1 << 10
    interference: float = 0.55
    latencies: Latencies = field(default_factory=Latencies)

    def resident_blocks(self, threads: int, registers: int, shared_bytes: int) -> int:
        """Blocks of one kernel that one multiprocessor holds at a time; at least 1.

        `threads` and `shared_bytes` are a block's, `registers` a thread's. Warps get registers in
        pieces of 256, four warps at a time; blocks get shared memory in pieces of 128 bytes (as in
        CUDA's occupancy calculator).
        """
        warps = -(-max(1, threads) // 32)
        pieces = max(1, -(-registers * 32 // 256))
        by_registers = self.registers // (256 * pieces) // 4 * 4 // warps
        shared = -(-(shared_bytes + self.reserved_bytes) // 128) * 128
        by_threads = self.threads // (32 * warps)
        return max(1, min(self.blocks, by_threads, by_registers, self.shared_bytes // shared))


H200 = Device(132, 66_900.0, 4_300.0)

CORES = Device(1 << 20, 40.0, 10.0, interference=0.0, latencies=NONE)
"""A CPU whose streams have a core each: tasks start at no cost and do not slow each other."""

DEVICES = {
    "sm_80": Device(108, 19_500.0, 2_000.0, shared_bytes=164 << 10),
    "sm_86": Device(84, 35_600.0, 936.0, 1536, 16, shared_bytes=100 << 10),
    "sm_89": Device(128, 82_600.0, 1_008.0, 1536, 24, shared_bytes=100 << 10),
    "sm_90": H200,
    "sm_100": Device(148, 74_400.0, 8_000.0),
    "sm_120": Device(170, 104_800.0, 1_792.0, 1536, 24, shared_bytes=100 << 10),
    "gfx90a": Device(104, 22_600.0, 1_638.0, registers=131072, shared_bytes=64 << 10),
    "gfx942": Device(304, 81_700.0, 5_300.0, registers=131072, shared_bytes=64 << 10),
    "gfx1030": Device(80, 23_000.0, 512.0, 1024, shared_bytes=64 << 10),
    "gfx1100": Device(96, 61_400.0, 960.0, 1024, shared_bytes=64 << 10),
}
"""A typical device of each architecture: AMD's (MI210, MI300X, RX 6900 XT, RX 7900 XTX) by their
data sheets, with the latencies of an H200."""


def device_of(architecture: str) -> Device:
    """The typical device of an architecture (`sm_90a` too); one not listed is taken for an H200."""
    return DEVICES.get(architecture) or DEVICES.get(architecture.rstrip("af"), H200)


SPECIFIC_HEADERS = {"warpgroups.cuh": "sm_90a", "wgmma_gemm.cuh": "sm_90a"}
"""Headers of kernels whose instructions one architecture alone has."""


def compiled_for(architecture: str) -> str:
    """What compilers are told: sm_90 with its architecture-specific instructions."""
    return "sm_90a" if architecture == "sm_90" else architecture


def only_architecture(source: str) -> str | None:
    """The one architecture that a kernel's text can be compiled for, or None if newer ones do."""
    found = (only for name, only in SPECIFIC_HEADERS.items() if f'"{name}"' in source)
    return next(found, None)
