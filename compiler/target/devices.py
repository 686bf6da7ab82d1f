"""Device models: the peaks and limits of each architecture's GPUs, and the cost of launches."""

from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class Latencies:
    """Nanoseconds of a run outside its kernels' work; the defaults are an H200's.

    On the device: `graph` before a graph's first kernel; `dependency` from the end of a task to
    the first block of one that waits for it, and `plain` besides where that one is launched
    plainly or begins a graph; `gap` between the starts of two kernels, and `awaited` more for
    each task on another stream that the second waits for; `programmatic` is the extra latency of a
    launch along a programmatic edge over the chain in which its kernel was timed: its instructions
    are not in the caches, which outweighs the latency that such an edge hides. On the host:
    `launch` for a plain launch or a graph, `event` for one record or wait.

    Fitted to the runs of `benchmarks/calibration`.
    """

    graph: float = 2600.0
    dependency: float = 490.0
    plain: float = 1200.0
    gap: float = 250.0
    awaited: float = 130.0
    launch: float = 2800.0
    event: float = 700.0
    programmatic: float = 200.0


NONE = Latencies(**dict.fromkeys(Latencies.__dataclass_fields__, 0.0))
"""Nothing but the kernels takes time."""


DEFAULT_SHARED_BYTES = 48 << 10
"""Most bytes of shared memory of a block whose kernel did not ask for more."""


@dataclass(frozen=True, slots=True)
class DeviceModel:
    """A GPU: its SMs, FLOPs and bytes of memory traffic in a ns, and the limits of one SM.

    An AMD compute unit counts as an SM. `shared_bytes` is the shared memory of an SM,
    `block_shared_bytes` the most that one block can have; every block takes `reserved_bytes` more
    than it asks for. A kernel with a block on every SM slows concurrent kernels by the part
    `interference`.
    """

    sms: int
    flops: float
    bandwidth: float
    threads: int = 2048
    blocks: int = 32
    registers: int = 65536
    shared_bytes: int = 228 << 10
    block_shared_bytes: int = 227 << 10
    reserved_bytes: int = 1 << 10
    interference: float = 0.55
    latencies: Latencies = field(default_factory=Latencies)

    def resident_blocks(self, threads: int, registers: int, shared_bytes: int) -> int:
        """Blocks of one kernel that one SM holds at a time; at least 1.

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


def _nvidia(
    sms: int, flops: float, bandwidth: float, *, threads: int = 2048, blocks: int = 32, kib: int
) -> DeviceModel:
    """A GPU whose SMs have so many KiB of shared memory; the largest block has all but one."""
    shared = kib << 10
    largest = (kib - 1) << 10
    return DeviceModel(
        sms,
        flops,
        bandwidth,
        threads=threads,
        blocks=blocks,
        shared_bytes=shared,
        block_shared_bytes=largest,
    )


def _amd(sms: int, flops: float, bandwidth: float, **limits: int) -> DeviceModel:
    """A GPU with 64 KiB of shared memory in a compute unit, which one block can have."""
    shared = 64 << 10
    model = DeviceModel(sms, flops, bandwidth, shared_bytes=shared, block_shared_bytes=shared)
    return replace(model, **limits)


H200 = _nvidia(132, 66_900.0, 4_300.0, kib=228)
MI210 = _amd(104, 22_600.0, 1_638.0, registers=131072)

CORES = DeviceModel(1 << 20, 40.0, 10.0, interference=0.0, latencies=NONE)
"""A CPU whose streams have a core each: tasks start at no cost and do not slow each other."""

DEVICES = {
    "sm_80": _nvidia(108, 19_500.0, 2_000.0, kib=164),
    "sm_86": _nvidia(84, 35_600.0, 936.0, threads=1536, blocks=16, kib=100),
    "sm_87": _nvidia(16, 5_300.0, 204.0, threads=1536, blocks=16, kib=164),
    "sm_89": _nvidia(128, 82_600.0, 1_008.0, threads=1536, blocks=24, kib=100),
    "sm_90": H200,
    "sm_100": _nvidia(148, 74_400.0, 8_000.0, kib=228),
    "sm_103": _nvidia(148, 74_400.0, 8_000.0, kib=228),
    "sm_120": _nvidia(170, 104_800.0, 1_792.0, threads=1536, blocks=24, kib=100),
    "gfx90a": MI210,
    "gfx942": _amd(304, 81_700.0, 5_300.0, registers=131072),
    "gfx1030": _amd(80, 23_000.0, 512.0, threads=1024),
    "gfx1100": _amd(96, 61_400.0, 960.0, threads=1024),
}
"""A typical device of each architecture: AMD's (MI210, MI300X, RX 6900 XT, RX 7900 XTX) and the
Jetson AGX Orin (sm_87) by their data sheets, with the latencies of an H200."""

DEFAULT_ARCHITECTURES = {"cuda": "sm_90", "hip": "gfx90a"}
"""The architectures of targets where no device is present and none is named."""


def typical_device(architecture: str) -> DeviceModel:
    """The typical device of an architecture (`sm_90a` too).

    An unlisted one counts as an H200, or as an MI210 if it is AMD's.
    """
    unlisted = MI210 if architecture.startswith("gfx") else H200
    return DEVICES.get(architecture) or DEVICES.get(architecture.rstrip("af"), unlisted)


SPECIFIC_HEADERS = dict.fromkeys(
    (
        *("warpgroups.cuh", "wgmma_gemm.cuh", "wgmma_registers.cuh", "wgmma_attention.cuh"),
        *("byte_warpgroups.cuh", "wgmma_byte_gemm.cuh"),
    ),
    "sm_90a",
)
"""Headers of kernels whose instructions one architecture alone has."""


def compiled_for(architecture: str) -> str:
    """The architecture of a compiler's option: sm_90 with its specific instructions."""
    return "sm_90a" if architecture == "sm_90" else architecture


def only_architecture(source: str) -> str | None:
    """The one architecture that a kernel's text can be compiled for, or None if newer ones do."""
    architectures = (only for name, only in SPECIFIC_HEADERS.items() if f'"{name}"' in source)
    return next(architectures, None)
