"""One kernel bound to buffers, its blocks run in order on the caller's thread: for measuring."""

import ctypes
from collections.abc import Sequence
from time import perf_counter
from typing import Any

from compiler.backends.cpu.build import CpuProgram
from compiler.backends.memory import Array, address, aligned_bytes
from compiler.schedule.kernels import KernelSpec

_ENTRY = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


class BoundKernel:
    """A built kernel on the operands that it reads, packed, and the results that it writes."""

    def __init__(self, spec: KernelSpec, reads: Sequence[Array], writes: Sequence[Array]) -> None:
        self.spec = spec
        self.workspaces = [*map(aligned_bytes, spec.workspaces)]
        self._buffers = [*reads, *writes, *self.workspaces]
        self._program = CpuProgram([spec])
        self._calls: list[tuple[Any, Any, int]] = []
        for launch in spec.launches:
            pointers = [address(self._buffers[i]) for i in launch.args]
            bound = (ctypes.c_void_p * len(pointers))(*pointers)
            function = _ENTRY(self._program.addresses[launch.symbol])
            self._calls.append((function, bound, launch.grid[0]))

    def run(self) -> None:
        """Run all launches."""
        for function, pointers, blocks in self._calls:
            function(pointers, 0, blocks)

    def run_within(self, seconds: float) -> bool:
        """Run all launches, some blocks at a time; False where they would take longer than that."""
        start = perf_counter()
        for function, pointers, blocks in self._calls:
            launch_start = perf_counter()
            done = 0
            count = 1
            while done < blocks:
                chunk_start = perf_counter()
                function(pointers, done, min(done + count, blocks))
                done += count
                chunk_end = perf_counter()
                projected = (
                    chunk_end - start + (chunk_end - launch_start) * max(0, blocks - done) / done
                )
                # The first blocks also pay for pages and caches: they do not condemn a kernel.
                if chunk_end - start > seconds / 4 and projected > seconds:
                    return False
                if chunk_end - chunk_start < 1e-3:
                    count *= 2
        return True
