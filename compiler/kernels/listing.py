"""The texts of a kernel on its way to machine code, to be read by people."""

from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from compiler.kernels.cpu.codegen import llvm_text
from compiler.kernels.cpu.generic import schedule_cpu
from compiler.kernels.cpu.scheduled import Scheduled
from compiler.kernels.cpu.templates import apply_template
from compiler.kernels.group import Group
from compiler.kernels.kernel import naming
from compiler.kernels.requantise import requantised
from compiler.kernels.tir.function import generic_function
from compiler.kernels.tir.launches import StackError, launch_module, lower_function, split_launches
from compiler.target.target import CpuTarget


class CpuListing(NamedTuple):
    """A scheduled program as TVMScript, and its LLVM code before LLVM optimises it."""

    program: str
    llvm: str


def expression_text(group: Group) -> str:
    """The tensor expression of a group, not scheduled, as TVMScript; raises KernelError."""
    with naming(group):
        return generic_function(group).script(show_meta=False)


def cpu_listing(group: Group, target: CpuTarget) -> CpuListing | None:
    """The texts of a group's kernel; None where its results have no elements.

    Raises KernelError, which names the kernel.
    """
    if all(info.elements == 0 for info in group.writes):
        return None
    with naming(group):
        for scheduled in _schedules(requantised(group), target):
            with suppress(StackError):
                return _listing(group.name, scheduled, target)
    return None


def _listing(name: str, scheduled: Scheduled, target: CpuTarget) -> CpuListing:
    functions, _ = split_launches(lower_function(scheduled.function, name), name)
    llvm = llvm_text(launch_module(functions), target, scheduled.reassociate)
    return CpuListing(scheduled.function.script(show_meta=False), llvm)


def _schedules(group: Group, target: CpuTarget) -> Iterator[Scheduled]:
    """The schedules of a group in the order in which building tries them."""
    if (scheduled := apply_template(group, target)) is not None:
        yield scheduled
    yield schedule_cpu(group, target)
    yield schedule_cpu(group, target, attach=False)
