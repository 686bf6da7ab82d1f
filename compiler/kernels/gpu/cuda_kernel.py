"""CUDA text with its launches, ready to be compiled."""

from dataclasses import dataclass

from compiler.schedule.kernels import DECLARED, Footprint, Launch


@dataclass(frozen=True)
class CudaKernel:
    """CUDA text without its prelude, and its launches.

    `args` of launches index the group's reads, writes, then `scratch`, whose bytes are given.
    `serial_ns`, `estimated_ns` and `footprint` are as a KernelSpec's.
    """

    text: str
    launches: tuple[Launch, ...]
    scratch: tuple[int, ...] = ()
    packings: tuple[str, ...] = ()
    flops: int = 0
    serial_ns: int = 0
    estimated_ns: int = 0
    footprint: Footprint = DECLARED
