"""Functions of the product that give way to quick and repeatable ones while hashes are made.

This is the one file that names the product's modules: a refactoring that moves a function changes
its line here.
"""

import os
import re
import sys
from collections.abc import Callable, Iterable
from functools import cache, partial
from importlib import import_module, metadata
from inspect import getsourcefile
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.frozen.store import TextStore, short_hash

OPTIMISE = "compiler.kernels.cpu.codegen:optimise"
"""From LLVM's text and a target to machine code."""

MACHINE = "compiler.kernels.cpu.machine:llvm_machine"
"""The options of LLVM's code generator."""

CUBIN = "compiler.kernels.gpu.compilers.nvrtc:compile_cubin"
RESOURCES = "compiler.kernels.gpu.cubin:check_resources"
RESOURCES_TYPE = "compiler.kernels.gpu.cubin:Resources"
HIP = "compiler.kernels.gpu.compilers.hipcc:compile_hip"
LIBRARY = "compiler.driver.build:with_library"
MODULE = "compiler.artifact.module:Module"
SCHEDULE_TEXT = "compiler.verify.schedule_json:to_json"
WORKERS_PAY = "compiler.kernels.building.module:WORKERS_PAY"
EARLY = "compiler.support.family:EARLY"
IMPORTED = (
    "compiler.driver.build",
    "compiler.kernels.building.cuda_kernel",
    "compiler.kernels.building.kernel",
    "compiler.kernels.building.module",
)
"""Modules that bind the functions above; they are loaded first."""

REGISTERS = 32
"""The registers of a thread of any GPU kernel, as none is compiled."""

ENTRY = re.compile(r"^define void @(\w+)_0\(ptr noalias readonly %buffers", re.M)
"""The first entry point of a CPU kernel, which is named after it."""


def fetched(name: str) -> Any:
    """What `MODULE:NAME` means; SystemExit that says where to correct it if there is none."""
    home, _, attribute = name.partition(":")
    try:
        return getattr(import_module(home), attribute)
    except (ImportError, AttributeError) as error:
        raise SystemExit(f"{error}: if {attribute} has moved, correct {__file__}") from error


def replace_everywhere(name: str, other: object) -> None:
    """Put another object in place of a function, in each of the product's modules that has it."""
    original = fetched(name)
    for module_name, module in list(sys.modules.items()):
        if module_name.partition(".")[0] == "compiler":
            for key, value in list(vars(module).items()):
                if value is original:
                    setattr(module, key, other)


class Observer:
    """The modules that a process compiles, and the texts of their kernels."""

    def __init__(self, store: TextStore, machine_code: bool = True):
        self.store = store
        self.machine_code = machine_code
        self.runs = False
        """Whether modules are run, so that machine code must be real."""
        self.modules: list[Any] = []
        self._texts: dict[bytes, tuple[str, Callable[[], bytes]]] = {}

    def install(self) -> None:
        """Replace the product's functions in this process."""
        isolate(self.store.folder)
        for name in IMPORTED:
            import_module(name)
        self._optimise: Callable[..., bytes] = fetched(OPTIMISE)
        resources = fetched(RESOURCES_TYPE)

        def no_cubin(text: str, target: object) -> bytes:
            return b""

        def usual_resources(cubin: bytes, launches: Iterable[Any], target: object) -> Any:
            symbols = (symbol for launch in launches for symbol in launch.symbols)
            return {symbol: resources(REGISTERS, 0, 0) for symbol in symbols}

        def no_object(text: str, symbols: object, target: object) -> bytes:
            return b""

        def no_library(built: Any, kernel_cache: object) -> Any:
            return built

        replace_everywhere(OPTIMISE, self.optimised)
        replace_everywhere(CUBIN, no_cubin)
        replace_everywhere(RESOURCES, usual_resources)
        replace_everywhere(HIP, no_object)
        replace_everywhere(LIBRARY, no_library)
        for place, value in ((WORKERS_PAY, sys.maxsize), (EARLY, False)):
            module, _, constant = place.partition(":")
            setattr(import_module(module), constant, value)
        os.environ["FLOWLOOM_KEEP"] = "off"
        kind = fetched(MODULE)
        original = kind.__init__

        def noting(instance: object, *arguments: Any, **options: Any) -> None:
            original(instance, *arguments, **options)
            self.modules.append(instance)

        kind.__init__ = noting

    def optimised(self, text: str, target: Any, **options: bool) -> bytes:
        """In place of LLVM's optimiser: bytes that stand for the text, or real ones to be run."""
        stand_in = f"code of {short_hash(text.encode())}".encode()
        code = self._optimise(text, target, **options) if self.runs else stand_in
        noted = f"; {target} {options}\n{repeatable(text)}"
        self._texts[code] = noted, partial(self._optimise, noted, target, **options)
        return code

    def text_of(self, kernel: Any) -> str:
        """The text that a kernel was compiled from, without its name."""
        if kernel.language != "object":
            return kernel.source.replace(kernel.name, "KERNEL")
        return self._text_and_code(kernel)[0]

    def _text_and_code(self, kernel: Any) -> tuple[str, Callable[[], bytes]]:
        """LLVM's text of a CPU's kernel, whose code has a seal after what `optimised` gave, and
        what makes machine code of it."""
        return next(self._texts[code] for code in self._texts if kernel.code.startswith(code))

    def code_hash(self, kernel: Any) -> str:
        """The hash of a CPU kernel's machine code; empty for others."""
        if kernel.language != "object" or not self.machine_code:
            return ""
        text, compiled = self._text_and_code(kernel)
        key = short_hash(f"{optimiser_version()}\n{text}".encode()) + short_hash(text.encode())
        if (known := self.store.made(key)) is not None:
            return known
        made = short_hash(compiled())
        self.store.keep_made(key, made)
        return made


def repeatable(text: str) -> str:
    """LLVM's text of a kernel without its name."""
    entry = ENTRY.search(text)
    return text.replace(entry[1], "KERNEL") if entry else text


@cache
def optimiser_version() -> str:
    """A hash of what machine code depends on besides LLVM's text."""
    homes = {getsourcefile(fetched(name)) for name in (OPTIMISE, MACHINE)}
    sources = [Path(home).read_bytes() for home in sorted(home for home in homes if home)]
    return short_hash(b"\n".join([metadata.version("llvmlite").encode(), *sources]))


def isolate(folder: Path) -> None:
    """Hide from the compiler what differs between machines: devices, cores and the user's data."""
    for variable in [name for name in os.environ if name.startswith("FLOWLOOM_")]:
        if variable != "FLOWLOOM_FROZEN":
            del os.environ[variable]
    os.environ["FLOWLOOM_TUNING"] = str(folder / "nothing-measured")
    os.environ["CUDA_VISIBLE_DEVICES"] = os.environ["HIP_VISIBLE_DEVICES"] = "-1"

    def one_core(process: int) -> set[int]:
        return {0}

    # The number of cores is an option's default.
    patch.object(os, "sched_getaffinity", one_core).start()
