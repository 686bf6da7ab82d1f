"""Small kernels on int64 cells, compiled from LLVM IR text, and random schedules of them."""

import random
from collections.abc import Mapping
from functools import cache
from typing import Any

import llvmlite.binding
import numpy
from numpy.typing import NDArray

from compiler.schedule.kernels import KernelSpec, Launch, Operand
from compiler.schedule.tasks import Allocation, Schedule, Task, View
from compiler.verify.seals import sealed_kernel

llvm: Any = llvmlite.binding  # its functions are untyped

LANES = 24
"""Cells of every tensor of a random schedule."""

MIX = """
define void @{symbol}(ptr %buffers, i64 %begin, i64 %end) {{
entry:
  %px = getelementptr ptr, ptr %buffers, i64 0
  %py = getelementptr ptr, ptr %buffers, i64 1
  %pz = getelementptr ptr, ptr %buffers, i64 2
  %x = load ptr, ptr %px
  %y = load ptr, ptr %py
  %z = load ptr, ptr %pz
  %first = mul i64 %begin, {cells}
  %last = mul i64 %end, {cells}
  %none = icmp sge i64 %first, %last
  br i1 %none, label %exit, label %wait
wait:
  %turn = phi i64 [ 0, %entry ], [ %next_turn, %wait ]
  %volatile = load volatile i64, ptr %x
  %next_turn = add i64 %turn, 1
  %waited = icmp sge i64 %next_turn, {delay}
  br i1 %waited, label %loop, label %wait
loop:
  %i = phi i64 [ %first, %wait ], [ %next, %loop ]
  %xi = getelementptr i64, ptr %x, i64 %i
  %yi = getelementptr i64, ptr %y, i64 %i
  %zi = getelementptr i64, ptr %z, i64 %i
  %a = load i64, ptr %xi
  %b = load i64, ptr %yi
  %scaled = mul i64 %a, 3
  %sum = add i64 %scaled, %b
  %mixed = add i64 %sum, 1
  store i64 %mixed, ptr %zi
  %next = add i64 %i, 1
  %done = icmp sge i64 %next, %last
  br i1 %done, label %exit, label %loop
exit:
  ret void
}}
"""
"""z = 3 x + y + 1, by blocks of cells, each call after a delay of loop turns."""

EMPTY = "define void @{symbol}(ptr %buffers, i64 %begin, i64 %end) {{\n  ret void\n}}\n"


def compile_object(text: str) -> bytes:
    """A position-independent object file from LLVM IR."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(reloc="pic")
    return machine.emit_object(llvm.parse_assembly(text))


@cache
def mix(name: str, blocks: int = 1, delay: int = 1, lanes: int = LANES) -> KernelSpec:
    """The kernel z = 3 x + y + 1 over `lanes` cells in a number of blocks."""
    text = MIX.format(symbol=name, cells=lanes // blocks, delay=delay)
    launch = Launch(name, (0, 1, 2), grid=(blocks, 1, 1))
    cells = Operand("int64", (lanes,))
    kernel = KernelSpec(
        name,
        "object",
        compile_object(text),
        (launch,),
        ("", ""),
        reads=(cells, cells),
        writes=(cells,),
    )
    return sealed_kernel(kernel)


@cache
def empty(name: str, blocks: int = 1) -> KernelSpec:
    """A kernel that does nothing."""
    launch = Launch(name, (), grid=(blocks, 1, 1))
    code = compile_object(EMPTY.format(symbol=name))
    return sealed_kernel(KernelSpec(name, "object", code, (launch,), ()))


def kernels() -> dict[str, KernelSpec]:
    """Kernels of 1, 4 and 24 blocks, fast and slow."""
    made = [mix(f"mix{b}_{d}", b, d) for b in (1, 4, 24) for d in (1, 400)]
    return {kernel.name: kernel for kernel in made}


def random_schedule(seed: int, tasks: int, streams: int) -> Schedule:
    """A race-free schedule that reuses arena memory, with a token for every conflict."""
    choose = random.Random(seed)
    size = 8 * LANES
    places = choose.randint(2, 6)
    allocations = (
        Allocation("input", "x", "int64", (LANES,)),
        Allocation("weight", "w", "int64", (LANES,)),
        Allocation("output", "y", "int64", (LANES,)),
        Allocation("arena", "arena", "uint8", (places * size,)),
        Allocation("output", "z", "int64", (LANES,)),
    )

    def view(allocation: int, place: int = 0) -> View:
        return View(allocation, place * size, "int64", (LANES,))

    names = sorted(kernels())
    written = [view(0), view(1)]
    made: list[Task] = []
    for index in range(tasks):
        last = index >= tasks - 2
        target = view(2 + 2 * (tasks - 1 - index)) if last else view(3, choose.randrange(places))
        readable = [each for each in written if each != target]
        reads = (choose.choice(readable), choose.choice(readable))
        touched = {*reads, target}
        after = tuple(
            i for i, task in enumerate(made) if task.writes[0] in touched or target in task.reads
        )
        name = choose.choice(names)
        made.append(Task(name, choose.randrange(streams), after, reads, (target,)))
        written = [*(v for v in written if v != target), target]
    return Schedule("random", allocations, tuple(made))


def reference(schedule: Schedule, given: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The outputs of a schedule of `mix` kernels, task by task in numpy."""
    memory = [
        given[a.name].copy().view(numpy.uint8).reshape(-1)
        if a.name in given
        else numpy.zeros(a.nbytes, numpy.uint8)
        for a in schedule.allocations
    ]

    def cells(view: View) -> NDArray[numpy.int64]:
        part = memory[view.allocation][view.offset : view.offset + view.nbytes]
        return part.view(numpy.int64)

    for task in schedule.tasks:
        x, y = (cells(read) for read in task.reads)
        cells(task.writes[0])[:] = 3 * x + y + 1
    return {
        a.name: memory[i].view(a.dtype).reshape(a.shape)
        for i, a in enumerate(schedule.allocations)
        if a.kind == "output"
    }


def values(seed: int, lanes: int = LANES) -> NDArray[numpy.int64]:
    """Random cells."""
    return numpy.random.default_rng(seed).integers(-(2**40), 2**40, lanes)


def chain(length: int = 3, blocks: int = 4, delay: int = 1) -> Schedule:
    """y = the mix of x and w, `length` times, on one stream."""
    size = 8 * LANES
    allocations = (
        Allocation("input", "x", "int64", (LANES,)),
        Allocation("weight", "w", "int64", (LANES,)),
        Allocation("arena", "arena", "uint8", (2 * size,)),
        Allocation("output", "y", "int64", (LANES,)),
    )
    weight = View(1, 0, "int64", (LANES,))
    places = [View(2, size * (i % 2), "int64", (LANES,)) for i in range(length - 1)]
    places = [View(0, 0, "int64", (LANES,)), *places, View(3, 0, "int64", (LANES,))]
    tasks = tuple(
        Task(f"mix{blocks}_{delay}", 0, (), (places[i], weight), (places[i + 1],))
        for i in range(length)
    )
    return Schedule("chain", allocations, tasks)
