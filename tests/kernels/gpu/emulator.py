"""Running the CUDA text of single kernels on the emulator, with all its checks."""

import dataclasses
import shutil
from collections.abc import Sequence
from typing import Any

import numpy

from compiler.backends.emu.device import device
from compiler.backends.emu.driver import EmulatedDriver
from compiler.emulator.compile import compile_kernels
from compiler.graph.packing import apply_packing
from compiler.kernels.building.cuda_kernel import generate
from compiler.kernels.gpu.source import complete_text
from compiler.kernels.group import Group
from compiler.kernels.template import KernelSource
from compiler.target.target import parse_gpu
from compiler.tensors.dtypes import numpy_dtype
from tests.kernels.harness import laid_out, logical

Array = numpy.ndarray

COMPILER = shutil.which("g++")
POISON = 0xFF


@dataclasses.dataclass(frozen=True)
class Order:
    """A seed of all random orders, and the threads of a warp."""

    seed: int = 0
    warp: int = 32


def emulate(
    group: Group, inputs: Sequence[Array], target: str = "cuda", offset: int = 0
) -> list[Array]:
    """Generate a group's kernel and run it; buffers start `offset` bytes past 256-byte bounds."""
    return run(generate(group, parse_gpu(target)), group, inputs, offset)


def emulate_all(cases: Sequence[tuple[KernelSource, Group, Sequence[Array]]]) -> list[list[Array]]:
    """Run many kernels that C++ compiles as one program; their names must differ."""
    texts = "\n".join(kernel.text for kernel, _, _ in cases)
    launches = tuple(launch for kernel, _, _ in cases for launch in kernel.launches)
    program = Program(KernelSource(texts, launches))
    return [program.run(kernel, group, inputs) for kernel, group, inputs in cases]


def run(
    kernel: KernelSource,
    group: Group,
    inputs: Sequence[Array],
    offset: int = 0,
    order: Order = Order(),
) -> list[Array]:
    """Run a kernel's launches in order on poisoned results and workspaces."""
    return Program(kernel).run(kernel, group, inputs, offset, order)


def run_twice(
    kernel: KernelSource, group: Group, inputs: Sequence[Array], offset: int = 0
) -> list[Array]:
    """As `run`, in two random orders with warps of two sizes, which must give the same bits."""
    program = Program(kernel)
    first, second = (
        program.run(kernel, group, inputs, offset, order) for order in (Order(0), Order(5, 64))
    )
    for one, other in zip(first, second, strict=True):
        assert one.tobytes() == other.tobytes(), "the order of warps decides the result"
    return first


class Program:
    """Kernels on the emulated device, compiled first where there is no code of them yet.

    Raises DeviceError for what C++ does not take.
    """

    def __init__(self, kernel: KernelSource, code: bytes | None = None) -> None:
        symbols = [symbol for launch in kernel.launches for symbol in launch.symbols]
        code = code or compile_kernels(complete_text(kernel.text), symbols)
        self.driver = device(code)
        module = self.driver.load_module(code)
        self.functions = {symbol: self.driver.function(module, symbol) for symbol in symbols}

    def launch(self, symbol: str, arrays: Sequence[Array]) -> None:
        """Run one thread of a kernel on arrays, which it reads and writes in place."""
        places, sizes = [a.ctypes.data for a in arrays], [a.nbytes for a in arrays]
        function = self.functions[symbol]
        self.driver.launch(self.driver.call(function, (1, 1, 1), (1, 1, 1), 0, places, sizes), 0)
        self.driver.synchronize_stream(0)

    def run(
        self,
        kernel: KernelSource,
        group: Group,
        inputs: Sequence[Array],
        offset: int = 0,
        order: Order = Order(),
        indirect: bool = False,
    ) -> list[Array]:
        """Run a kernel's launches, or their second entries with `indirect`.

        An access outside of a buffer raises DeviceError.
        """
        self.driver.configure(order.seed, order.warp)
        packings = kernel.packings or [""] * group.inputs
        reads = [
            apply_packing(laid_out(a, info), p)
            for a, p, info in zip(inputs, packings, group.reads, strict=True)
        ]
        sizes = [a.nbytes for a in reads] + [w.nbytes for w in group.writes] + [*kernel.workspaces]
        memory = Memory(self.driver, sizes, offset)
        for place, array in zip(memory.arrays, reads, strict=False):
            place[:] = numpy.ascontiguousarray(array).reshape(-1).view(numpy.uint8)
        pointers = Memory(self.driver, [8] * len(sizes), 0)
        for place, address in zip(pointers.arrays, memory.addresses, strict=True):
            place.view(numpy.uint64)[0] = address
        places = pointers.addresses if indirect else memory.addresses
        for launch in kernel.launches:
            given = [places[i] for i in launch.args]
            extents = [sizes[i] for i in launch.args]
            shape = launch.grid, launch.block, launch.shared_bytes
            function = self.functions[launch.indirect if indirect else launch.symbol]
            self.driver.launch(self.driver.call(function, *shape, given, extents, indirect), 0)
        self.driver.synchronize_stream(0)
        results = zip(memory.arrays[len(reads) :], group.writes, strict=False)
        return [logical(a.view(numpy_dtype(w.element)), w).copy() for a, w in results]


class Memory:
    """Poisoned memory of the device in pieces that start `offset` bytes after a boundary."""

    def __init__(self, driver: EmulatedDriver, sizes: Sequence[int], offset: int) -> None:
        self._driver = driver
        self._starts = [driver.allocate(size + offset) for size in sizes]
        self.addresses = [start + offset for start in self._starts]
        pieces = zip(self.addresses, sizes, strict=True)
        self.arrays = [_bytes_at(address, size) for address, size in pieces]

    def __del__(self) -> None:
        for start in self._starts:
            self._driver.free(start)


def _bytes_at(address: int, size: int) -> Array:
    """Bytes of this process as an array."""
    import ctypes

    memory: Any = (ctypes.c_uint8 * size).from_address(address)
    return numpy.frombuffer(memory, numpy.uint8)
