"""LLVM text that names no host, which is optimised and loaded on any: see build_portable.py."""

import ctypes
from functools import cache
from pathlib import Path
from typing import Any

from compiler.backends.cpu.features import llvm

LIBRARIES = ("libm.so.6", "libc.so.6")
"""Where undefined symbols may be; whatever the process has loaded already is searched."""


def load_libraries() -> None:
    """Let LLVM find the symbols of the host's libraries."""
    for library in LIBRARIES:
        llvm.load_library_permanently(library)


def _target_machine() -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), opt=2, reloc="pic", codemodel="small", jit=True
    )


def object_code(*texts: str) -> bytes:
    """An object file of LLVM texts, linked and optimised for this host."""
    machine = _target_machine()
    module, *others = map(llvm.parse_assembly, texts)
    for other in others:
        module.link_in(other)
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    passes = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(2))
    passes.getModulePassManager().run(module, passes)
    return machine.emit_object(module)


class NativeCode:
    """Native code, linked in this process; it lives as long as this object."""

    def __init__(self, objects: tuple[bytes, ...], symbols: tuple[str, ...]):
        """Link objects.

        JITLink keeps the sections of an object together: further apart than 2 GiB they could not be
        linked.
        """
        load_libraries()
        builder = llvm.JITLibraryBuilder().add_current_process()
        for code in objects:
            builder.add_object_img(code)
        for symbol in symbols:
            builder.export_symbol(symbol)
        self._engine = llvm.create_lljit_compiler(_target_machine(), use_jit_link=True)
        self._linked = builder.link(self._engine, "kernels")

    def __getitem__(self, symbol: str) -> int:
        """The address of an exported symbol."""
        return self._linked[symbol]


@cache
def portable_function(code: Path, symbol: str, arguments: tuple[Any, ...]) -> Any:
    """A function of a file of LLVM text, by the ctypes of its arguments; it has no result.

    It is compiled once in a process, and calls of it release the interpreter's lock.
    """
    library = NativeCode((object_code(code.read_text(encoding="utf-8")),), (symbol,))
    function: Any = ctypes.CFUNCTYPE(None, *arguments)(library[symbol])
    function.library = library
    return function
