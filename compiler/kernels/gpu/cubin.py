"""The resources that kernels need, read from the ELF sections of their cubin."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from compiler.errors import KernelError
from compiler.schedule.kernels import Launch
from compiler.target.devices import DEFAULT_SHARED_BYTES
from compiler.target.target import GpuTarget

REGISTERS_PER_BLOCK = 65536
_FRAME_SIZE = 0x11
"""The attribute that holds a function's stack frame in bytes (symbol, bytes)."""
_REGISTER_COUNT = 0x2F
"""The attribute that holds a function's registers (symbol, registers)."""
_SIZED = 0x04
"""The format of an attribute whose value is preceded by its size."""


@dataclass(frozen=True, slots=True)
class Resources:
    """Registers a thread, bytes of stack a thread (spills too), bytes of static shared memory."""

    registers: int
    stack_bytes: int
    shared_bytes: int


@dataclass(frozen=True, slots=True)
class _Section:
    name: str
    offset: int
    size: int
    link: int


def read_resources(cubin: bytes) -> dict[str, Resources]:
    """The resources of each kernel of a cubin, by symbol; raises KernelError when damaged."""
    try:
        return _read(cubin)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise KernelError(f"the compiler gave a cubin that cannot be read: {error}") from error


def _read(cubin: bytes) -> dict[str, Resources]:
    if cubin[:4] != b"\x7fELF":
        raise KernelError("the compiler gave something that is not a cubin")
    (start,) = struct.unpack_from("<Q", cubin, 0x28)
    size, count, names = struct.unpack_from("<HHH", cubin, 0x3A)
    headers = [struct.unpack_from("<IIQQQQII", cubin, start + i * size) for i in range(count)]
    base = headers[names][4]
    sections = [_Section(_text(cubin, base + h[0]), h[4], h[5], h[6]) for h in headers]
    shared = {s.name: s.size for s in sections}
    (info,) = [s for s in sections if s.name == ".nv.info"]
    (table,) = [s for s in sections if s.name == ".symtab"]
    registers: dict[str, int] = {}
    frames: dict[str, int] = {}
    for attribute, symbol, value in _attributes(cubin, info):
        (offset,) = struct.unpack_from("<I", cubin, table.offset + 24 * symbol)
        name = _text(cubin, sections[table.link].offset + offset)
        if attribute == _REGISTER_COUNT:
            registers[name] = value
        elif attribute == _FRAME_SIZE:
            frames[name] = value
    return {
        name: Resources(count, frames.get(name, 0), shared.get(f".nv.shared.{name}", 0))
        for name, count in registers.items()
        if f".text.{name}" in shared
    }


def _text(cubin: bytes, start: int) -> str:
    return cubin[start : cubin.index(b"\0", start)].decode()


def _attributes(cubin: bytes, section: _Section) -> Iterator[tuple[int, int, int]]:
    """The attributes that hold a symbol and a number."""
    position = section.offset
    end = section.offset + section.size
    while position < end:
        form, attribute, size = struct.unpack_from("<BBH", cubin, position)
        position += 4
        if form == _SIZED:
            if size == 8:
                yield (attribute, *struct.unpack_from("<II", cubin, position))
            position += size


def check_resources(
    cubin: bytes, launches: tuple[Launch, ...], target: GpuTarget
) -> dict[str, Resources]:
    """The resources of the launched kernels; raises KernelError for one that cannot run."""
    resources = read_resources(cubin)
    for launch in launches:
        for symbol in launch.symbols:
            if symbol not in resources:
                raise KernelError(f"the cubin has no kernel {symbol}")
            _check(launch, resources[symbol], target)
    return resources


def _check(launch: Launch, need: Resources, target: GpuTarget) -> None:
    threads = launch.block[0] * launch.block[1] * launch.block[2]
    warps = -(-threads // 32)
    shared = need.shared_bytes + launch.shared_bytes
    registers = warps * 32 * (-(-need.registers // 8) * 8)
    if threads > 1024:
        raise KernelError(f"{launch.symbol} needs {threads} threads a block; the limit is 1024")
    if registers > REGISTERS_PER_BLOCK:
        raise KernelError(
            f"{launch.symbol} needs {registers} registers a block ({need.registers} in each of"
            f" {threads} threads); the limit is {REGISTERS_PER_BLOCK}"
        )
    if need.shared_bytes > DEFAULT_SHARED_BYTES or shared > target.shared_bytes:
        raise KernelError(
            f"{launch.symbol} needs {shared} bytes of shared memory a block;"
            f" {target.architecture} has {target.shared_bytes}"
        )
