"""The footprint of a generated kernel: every access is proved inside, or listed, or refused."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from tvm.tirx import PrimFunc

from compiler.errors import KernelError
from compiler.kernels.group import Group, operand_types
from compiler.kernels.sizes import at_hint
from compiler.kernels.tir.accesses import accesses_of
from compiler.kernels.tir.containment import access_text, judge
from compiler.kernels.tir.launches import LaunchFunction
from compiler.kernels.tir.memory import Access, Accesses
from compiler.kernels.tir.terms.integers import leaves
from compiler.schedule.kernels import Footprint, Launch
from compiler.tensors.extents import NotForAllSizes
from compiler.tensors.inequalities import least
from compiler.tensors.substitution import is_symbolic
from compiler.tensors.symbols import Symbol

REPORT_IT = "report this as a bug of its schedule"


@dataclass(frozen=True)
class TaskBuffers:
    """The bytes of each buffer that a task passes to a kernel, and which of them are results."""

    nbytes: tuple[Any, ...]
    results: range


def task_buffers(group: Group, packings: Sequence[str], workspaces: Sequence[int]) -> TaskBuffers:
    """The buffers of a group's kernel, whose reads are packed."""
    reads, writes = operand_types(group, packings)
    sizes = (*(operand.nbytes for operand in (*reads, *writes)), *workspaces)
    return TaskBuffers(sizes, range(len(reads), len(reads) + len(writes)))


def cpu_footprint(
    functions: Iterable[LaunchFunction], launches: Sequence[Launch], buffers: TaskBuffers
) -> Footprint:
    """The footprint of a CPU's launches, each of which calls its function for all its blocks.

    It is for all sizes of the functions' symbols. Raises KernelError if an access is outside its
    buffer, a buffer larger than its view, an element of a result written by no block, or one
    written by all of them.
    """
    accesses = [
        accesses_of(part.function, launch.grid[0], part.symbols, part.grid)
        for part, launch in zip(functions, launches, strict=True)
    ]
    return _footprint(accesses, launches, buffers)


def gpu_footprint(
    functions: Mapping[str, PrimFunc],
    launches: Sequence[Launch],
    buffers: TaskBuffers,
    symbols: Sequence[Symbol] = (),
) -> Footprint:
    """The footprint of a GPU's launches of device functions, by symbol; see `cpu_footprint`.

    It is for all sizes of a kernel's `symbols`. Raises KernelError, too, if a launch's grid or
    block is not that of its function.
    """
    by_launch = [accesses_of(functions[launch.symbol], symbols=symbols) for launch in launches]
    for accesses, launch in zip(by_launch, launches, strict=True):
        for kind, launched in (("blockIdx", launch.grid), ("threadIdx", launch.block)):
            counted = tuple(accesses.axes.get(f"{kind}.{axis}", 1) for axis in "xyz")
            if counted != launched:
                raise KernelError(
                    f"the kernel {launch.symbol} counts {kind} up to {counted}, but its launch has"
                    f" {launched}: {REPORT_IT}"
                )
    return _footprint(by_launch, launches, buffers)


def _footprint(
    by_launch: Sequence[Accesses], launches: Sequence[Launch], buffers: TaskBuffers
) -> Footprint:
    accesses = solved = enumerated = 0
    undecided = list[str]()
    for function, launch in zip(by_launch, launches, strict=True):
        _check_views(function, launch, buffers)
        _check_blocks(function, launch)
        verdict = judge(function)
        if verdict.outside:
            raise KernelError(f"the kernel {launch.symbol} {verdict.outside[0]}: {REPORT_IT}")
        accesses += verdict.accesses
        solved += verdict.by_solver
        enumerated += verdict.by_enumeration
        undecided += [f"{launch.symbol} {text}" for text in verdict.undecided]
    stores = dict[int, list[Access]]()
    for function, launch in zip(by_launch, launches, strict=True):
        for access in function.listed:
            if access.writes and access.parameter is not None:
                stores.setdefault(launch.args[access.parameter], []).append(access)
    for number in buffers.results if not any(function.opaque for function in by_launch) else ():
        written = stores.get(number, [])
        most = sum(map(_most_elements, {access.index: access for access in written}.values()))
        extent = max((access.extent for access in written), default=buffers.nbytes[number])
        if most < at_hint(extent):
            raise KernelError(
                f"the kernel {launches[0].symbol if launches else ''} writes at most {most} of"
                f" {extent} elements of its buffer {number}: {REPORT_IT}"
            )
    symbols = tuple(launch.symbol for launch in launches)
    return Footprint(symbols, accesses, solved, enumerated, tuple(undecided))


def _check_views(function: Accesses, launch: Launch, buffers: TaskBuffers) -> None:
    """Raise KernelError if a function takes a buffer for larger than what it is launched on.

    Raises NotForAllSizes where no proof says that it is not.
    """
    for position, (number, used) in enumerate(zip(launch.args, function.views, strict=True)):
        rest = buffers.nbytes[number] - used
        if least(rest) < 0:
            text = (
                f"the kernel {launch.symbol} takes its argument {position} for {used} bytes, but"
                f" buffer {number} has {buffers.nbytes[number]}"
            )
            if is_symbolic(rest):
                raise NotForAllSizes(f"{text}, which nothing proves to be as large")
            raise KernelError(f"{text}: {REPORT_IT}")


def _check_blocks(function: Accesses, launch: Launch) -> None:
    """Raise KernelError if all blocks along an axis, which run in any order, write one element.

    A number of memory may differ between blocks, and so may what it decides.
    """
    for access in function.listed:
        if not access.writes or access.parameter is None:
            continue
        variables = leaves((access.index, *access.conditions))
        missing = function.blocks.difference(variables)
        if not function.calls.isdisjoint(variables):
            continue
        if missing and all(variable.kind == "axis" for variable in variables):
            axis = next(iter(missing))
            raise KernelError(
                f"the kernel {launch.symbol} {access_text(access)}, in each of {axis.high + 1}"
                f" blocks: {REPORT_IT}"
            )


def _most_elements(access: Access) -> int:
    """The most elements that an index can stand for."""
    index = access.index
    values = prod(leaf.high - leaf.low + 1 for leaf in leaves((index,)))
    return min(values, index.high - index.low + 1)
