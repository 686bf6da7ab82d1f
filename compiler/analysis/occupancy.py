"""How many blocks of a kernel fit on a GPU at a time."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Multiprocessor:
    """What the blocks on one multiprocessor share; bytes of shared memory.

    `reserved_bytes` of shared memory are the system's, for each block.
    """

    threads: int = 2048
    blocks: int = 32
    registers: int = 65536
    shared_bytes: int = 228 << 10
    reserved_bytes: int = 1 << 10


def resident_blocks(
    threads: int, registers: int, shared_bytes: int, device: Multiprocessor | None = None
) -> int:
    """Blocks of one kernel that fit on a multiprocessor at a time; at least 1.

    `threads` are a block's, `registers` a thread's. Warps get registers in pieces of 256, blocks
    shared memory in pieces of 128 bytes (CUDA's occupancy calculator).
    """
    known = device or Multiprocessor()
    warps = -(-max(1, threads) // 32)
    pieces = max(1, -(-registers * 32 // 256))
    by_registers = known.registers // (256 * pieces) // 4 * 4 // warps
    shared = -(-(shared_bytes + known.reserved_bytes) // 128) * 128
    fitting = (known.blocks, known.threads // (32 * warps), by_registers)
    return max(1, min(*fitting, known.shared_bytes // shared))
