"""The texts of a kernel on its way to machine code, to be read by people."""

from contextlib import suppress
from typing import NamedTuple

from compiler.kernels.building.kernel import attempts, naming, scheduled_launches
from compiler.kernels.cpu.codegen import llvm_text
from compiler.kernels.group import Group
from compiler.kernels.sizes import sized
from compiler.kernels.tir.function import generic_function
from compiler.kernels.tir.launches import StackError, launch_module
from compiler.target.target import CpuTarget


class CpuListing(NamedTuple):
    """A scheduled program as TVMScript, and its LLVM code before LLVM optimises it."""

    program: str
    llvm: str


def expression_text(group: Group) -> str:
    """The tensor expression of a group, not scheduled, as TVMScript; raises KernelError."""
    with naming(group):
        return generic_function(sized(group)).script(show_meta=False)


def cpu_listing(group: Group, target: CpuTarget) -> CpuListing | None:
    """The texts of a group's kernel; None where its results have no elements.

    Raises KernelError, which names the kernel.
    """
    if group.is_empty:
        return None
    with naming(group):
        group = sized(group)
        for candidate, config in attempts(group, target):
            with suppress(StackError):
                source = candidate.emit(config)
                assert source.function is not None, "a CPU's kernels are scheduled functions"
                functions, _ = scheduled_launches(group, source.function)
                llvm = llvm_text(launch_module(functions), target, source.reassociate)
                return CpuListing(source.function.script(show_meta=False), llvm)
    return None
