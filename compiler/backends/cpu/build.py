"""Links the executor and the kernels' objects into native functions, in process."""

import ctypes
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from struct import Struct, error
from threading import Lock
from typing import Any

from compiler.errors import DeviceError, KernelError
from compiler.schedule.kernels import KernelSpec
from compiler.support.native_code import LinkedCode, host_cpu_for_linking, llvm, object_code
from compiler.target.cpus import host_instruction_set
from compiler.verify.seals import unsealed_code

# The symbols of a relocatable object file (ELF, 64 bits, little-endian).
_HEADER = Struct("<16s2HI3QI6H")
_SECTION = Struct("<2I4Q2I2Q")
_SYMBOL = Struct("<I2BH2Q")
_SYMBOL_TABLE = 2
_GLOBAL = 1
_MAGIC = b"\x7fELF\x02\x01"
_MACHINES = {62: "x86_64", 183: "aarch64"}


@dataclass(frozen=True, slots=True)
class Symbols:
    """The names that an object defines for others, and the ones it needs, except weak symbols."""

    defined: frozenset[str]
    undefined: frozenset[str]
    instruction_set: str = ""
    """By Linux's name; empty for one that is not known here."""


def read_symbols(code: bytes) -> Symbols:
    """Read an object's symbol table; raises ValueError if the bytes are not one."""
    if not code.startswith(_MAGIC):
        raise ValueError("not a 64-bit little-endian ELF object")
    try:
        return _symbols(code)
    except (error, IndexError) as cause:
        raise ValueError("a damaged ELF object") from cause


def _symbols(code: bytes) -> Symbols:
    header = _HEADER.unpack_from(code)
    start = header[6]
    count = header[12]
    sections: list[tuple[int, ...]] = [
        _SECTION.unpack_from(code, start + i * _SECTION.size) for i in range(count)
    ]
    defined: set[str] = set()
    undefined: set[str] = set()
    for _, kind, _, _, offset, size, link, *_ in sections:
        if kind != _SYMBOL_TABLE:
            continue
        for entry in range(offset, offset + size, _SYMBOL.size):
            name, information, _, section, _, _ = _SYMBOL.unpack_from(code, entry)
            if name and information >> 4 == _GLOBAL:
                text = _text(code, sections[link][4] + name)
                (defined if section else undefined).add(text)
    machine = _MACHINES.get(header[2], "")
    return Symbols(frozenset(defined), frozenset(undefined), machine)


def _text(code: bytes, start: int) -> str:
    return code[start : code.index(b"\0", start)].decode()


EXECUTOR = Path(__file__).with_name("executor.ll")

PAUSES = {"x86_64": "@llvm.x86.sse2.pause()", "aarch64": "@llvm.aarch64.hint(i32 1)"}
"""The spin-wait hint of each CPU architecture, as an LLVM intrinsic."""

PROVIDED_BY_LINKER = frozenset({"_GLOBAL_OFFSET_TABLE_"})

_POINTERS = {count: ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * count) for count in (1, 2)}


ENTRIES = {"open": 1, "run": 2, "work": 2, "close": 1}
"""The executor's entry points without their prefix, and how many arguments each has."""


class CpuProgram:
    """Native code: the executor's entry points, and the address of every kernel symbol.

    Calls release the interpreter's lock. The code lives as long as this object.
    """

    def __init__(self, kernels: Iterable[KernelSpec]):
        # The kernels of several sizes of one symbolic kernel are the same code.
        objects = tuple({_functions(kernel): kernel for kernel in kernels}.values())
        host_cpu_for_linking()  # before the check, which looks symbols up in the C libraries
        _check(objects)
        symbols = [launch.symbol for kernel in objects for launch in kernel.launches]
        entries = [f"executor_{name}" for name in ENTRIES]
        codes = (_executor(), *(kernel.code for kernel in objects))
        self._linked = LinkedCode(codes, (*symbols, *entries))
        self.code_bytes = sum(len(kernel.code) for kernel in objects)
        self.addresses: dict[str, int] = {s: self._linked.addresses[s] for s in symbols}
        self.open, self.run, self.work, self.close = map(self._entry, ENTRIES)

    def _entry(self, name: str) -> Callable[..., None]:
        return _POINTERS[ENTRIES[name]](self._linked.addresses[f"executor_{name}"])


def _functions(kernel: KernelSpec) -> tuple[bytes, ...]:
    """A kernel's code and the functions in it that are launched."""
    return unsealed_code(kernel), *(launch.symbol.encode() for launch in kernel.launches)


class SharedCode:
    """The code of kernels that several schedules run, linked once, when it is first needed."""

    def __init__(self, kernels: Iterable[KernelSpec]) -> None:
        self._kernels = tuple(kernels)
        self._lock = Lock()
        self._program: CpuProgram | None = None

    def __reduce__(self) -> tuple[type["SharedCode"], tuple[Any, ...]]:
        """A copy is linked anew."""
        return SharedCode, (self._kernels,)

    @property
    def nbytes(self) -> int:
        """Bytes of the kernels' objects."""
        return sum(len(kernel.code) for kernel in self._kernels)

    @property
    def program(self) -> CpuProgram:
        """The linked code; raises KernelError or DeviceError if it cannot run here."""
        with self._lock:
            if self._program is None:
                self._program = CpuProgram(self._kernels)
            return self._program


@cache
def _executor() -> bytes:
    """The object code of the executor, optimised for this host: all programs share it."""
    return object_code(EXECUTOR, f"{_pause()}\n{_clock()}")


def _pause() -> str:
    hint = PAUSES.get(host_instruction_set())
    if hint is None:
        return "define void @cpu_pause() {\nret void\n}"
    declaration = f"declare void {hint.replace('i32 1', 'i32')}"
    return f"{declaration}\ndefine void @cpu_pause() {{\ncall void {hint}\nret void\n}}"


def _clock() -> str:
    """A function that reads the monotonic clock in ns: its number depends on the host."""
    return f"""
declare i32 @clock_gettime(i32, ptr)
define i64 @cpu_clock() {{
  %time = alloca [2 x i64]
  %status = call i32 @clock_gettime(i32 {time.CLOCK_MONOTONIC}, ptr %time)
  %seconds = load i64, ptr %time
  %rest = getelementptr i64, ptr %time, i64 1
  %nanoseconds = load i64, ptr %rest
  %scaled = mul i64 %seconds, 1000000000
  %sum = add i64 %scaled, %nanoseconds
  ret i64 %sum
}}"""


def _check(kernels: tuple[KernelSpec, ...]) -> None:
    """Raise for what the linker would take as a reason to end the process, or misread."""
    owners: dict[str, str] = {}
    for kernel in kernels:
        if kernel.language != "object":
            raise DeviceError(f"the kernel '{kernel.name}' is {kernel.language}, not CPU code")
        symbols = _read(kernel)
        for symbol in sorted(symbols.defined):
            if owners.setdefault(symbol, kernel.name) != kernel.name:
                raise KernelError(
                    f"the kernels '{owners[symbol]}' and '{kernel.name}' both define '{symbol}'"
                )
        for launch in kernel.launches:
            if launch.symbol not in symbols.defined:
                raise KernelError(f"the kernel '{kernel.name}' has no function '{launch.symbol}'")


def _read(kernel: KernelSpec) -> Symbols:
    """A kernel's symbols, after checking that this process provides its undefined ones."""
    try:
        symbols = read_symbols(kernel.code)
    except ValueError as error:
        raise KernelError(f"the code of kernel '{kernel.name}' is {error}") from error
    if (symbols.instruction_set or host_instruction_set()) != host_instruction_set():
        raise DeviceError(
            f"the kernel '{kernel.name}' is {symbols.instruction_set} code, and this host is"
            f" {host_instruction_set()}: compile the model for this host"
        )
    for symbol in sorted(symbols.undefined - PROVIDED_BY_LINKER):
        if not llvm.address_of_symbol(symbol):
            raise KernelError(f"the kernel '{kernel.name}' needs '{symbol}', not in libc or libm")
    return symbols
