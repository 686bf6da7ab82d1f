"""Kernels in CUDA text for schedules with If and Loop tasks, and checks of these on a device."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import cast

import numpy as np

from compiler.backends.gpu.binding import Binding
from compiler.backends.gpu.executable import GpuExecutable
from compiler.kernels.building.module import control_kernels
from compiler.schedule.kernels import KernelSpec, Launch
from compiler.schedule.tasks import Allocation, Control, ControlForm, Schedule, Task, View
from compiler.target.target import parse_gpu
from compiler.verify.happens_before import check_schedule
from tests.controlled_runs import run, salt_of, with_names

Load = Callable[[Schedule, Mapping[str, KernelSpec]], GpuExecutable]
Compile = Callable[[str, tuple[str, ...]], bytes]

TEXT = """
typedef unsigned char byte;
__device__ unsigned weighted(const byte* p, int n) {
  unsigned sum = 0;
  for (int i = 0; i < n; i++) sum += p[i] * (i / 8 + 1);
  return sum;
}
"""


def text_of(task: Task, name: str) -> str:
    """Each element written is a weighted sum of the bytes read, modulo 4, or 2 for a bool."""
    count, size = len(task.reads), task.writes[0].nbytes
    sums = "".join(f" + weighted(r{i}, {v.nbytes})" for i, v in enumerate(task.reads))
    wide, mask = ("long long", 3) if size > 1 else ("byte", 1)
    body = (
        f"  const unsigned sum = {salt_of(task)}{sums};\n"
        f"  for (int i = threadIdx.x; i < {max(1, size // 8)}; i += blockDim.x)"
        f" (({wide}*)w)[i] = sum & {mask};\n}}\n"
    )
    direct = [f"const byte* r{i}" for i in range(count)] + ["byte* w"]
    cells = [f"const byte* const* p{i}" for i in range(count)] + ["byte* const* pw"]
    loads = "".join(f"  const byte* r{i} = *p{i};\n" for i in range(count)) + "  byte* w = *pw;\n"
    head = 'extern "C" __global__ void'
    return (
        f"{TEXT}{head} {name}({', '.join(direct)}) {{\n{body}"
        f"{head} {name}_indirect({', '.join(cells)}) {{\n{loads}{body}"
    )


@cache
def _kernel(compile_text: Compile, language: str, name: str, text: str, count: int) -> KernelSpec:
    launch = Launch(name, tuple(range(count)), block=(4, 1, 1), indirect=f"{name}_indirect")
    code = compile_text(text, launch.symbols)
    found = KernelSpec(name, "emu", code, (launch,), ("",) * (count - 1), source=text)
    return found if language == "emu" else replace(found, language="cuda")


def kernels_of(schedule: Schedule, target: str, compile_text: Compile) -> dict[str, KernelSpec]:
    """The kernels of a schedule's tasks, whose names say all that decides them."""
    found = dict[str, KernelSpec](control_kernels(("if", "loop"), parse_gpu(target)))
    for task in schedule.all_tasks:
        if task.control is None and task.kernel not in found:
            text, count = text_of(task, task.kernel), len(task.reads) + 1
            language = parse_gpu(target).backend
            found[task.kernel] = _kernel(compile_text, language, task.kernel, text, count)
    return found


def check_random(schedule: Schedule, seed: int, load: Load, target: str, own: Compile) -> None:
    """Compare runs of a schedule on random inputs with its bodies as functions of bytes."""
    schedule = with_names(schedule)
    random = np.random.default_rng(seed)
    executable = load(schedule, kernels_of(schedule, target, own))
    for _ in range(3):
        inputs = {
            a.name: random.integers(0, 2 if a.dtype == "bool" else 4, a.shape).astype(a.dtype)
            for a in schedule.of_kind("input")
        }
        expected = run(schedule, [array.tobytes() for array in inputs.values()])
        found = executable.run(inputs)
        assert [array.tobytes() for array in found.values()] == expected
    executable.close()


LANES = 701
"""Rows of 1, 2 or 5 modulo 8 elements: with others the sums lose bits of equal elements."""


def adding() -> Schedule:
    """A loop with a trip count and a condition over a state and a captured tensor."""
    row, size = (LANES,), 8 * LANES
    state, other, after = (View(i, 0, "int64", row) for i in (1, 2, 3))
    kernel = Task("any", 0, (), (state, other), (after,))
    edge = (
        Allocation("input", "i", "int64", ()),
        Allocation("input", "state", "int64", row),
        Allocation("input", "other", "int64", row),
        Allocation("output", "next", "int64", row),
    )
    body = Schedule("body", edge, (kernel,))
    reads = (View(0, 0, "int64", ()), View(1, 0, "bool", ()), View(2, 0, "int64", row),
             View(3, 0, "int64", row))  # fmt: skip
    writes = (View(4, 0, "int64", row), View(5, 0, "uint8", (8,)), View(5, 64, "uint8", (size,)))
    allocations = (
        Allocation("input", "trips", "int64", ()),
        Allocation("input", "going", "bool", ()),
        Allocation("input", "x", "int64", row),
        Allocation("input", "w", "int64", row),
        Allocation("output", "y", "int64", row),
        Allocation("arena", "arena", "uint8", (64 + size,)),
    )
    control = Control(ControlForm("loop", carried=1), (body,))
    task = Task("loop", 0, (), reads, writes, control=control)
    schedule = with_names(Schedule("adding", allocations, (task,)))
    check_schedule(schedule)
    return schedule


def check_trip_counts(load: Load, target: str, own: Compile) -> None:
    """A loop runs any number of times; buffers of the device are bound in every way."""
    schedule = adding()
    executable = load(schedule, kernels_of(schedule, target, own))
    random = np.random.default_rng(0)
    executor, other = executable.executor(), executable.executor()
    ways = executor.ways("x")
    assert ways == ("update", "copy", "indirection")
    for number, trips in enumerate((-(2**63), -1, 0, 1, 2, 5, 64)):
        for going in (True, False):
            x, w = (random.integers(0, 4, LANES) for _ in range(2))
            arrays = {"trips": np.asarray(trips), "going": np.asarray(going), "x": x, "w": w}
            given = [array.tobytes() for array in arrays.values()]
            (wanted,) = run(schedule, given) if going and trips > 0 else [x.tobytes()]
            assert other.run(arrays)["y"].tobytes() == wanted
            for name, way in zip(("x", "trips", "y"), np.roll(ways, number), strict=True):
                executor.bind_by(name, cast(Binding, str(way)))
            assert executor.run(arrays)["y"].tobytes() == wanted
            inputs, outputs = other.in_place("input"), other.in_place("output")
            executor.driver.fill(outputs["y"].address, 0x55, 8 * LANES, executor.stream)
            executor.run(inputs, outputs=outputs)
            assert outputs["y"].numpy().tobytes() == wanted
    for each in (executor, other, executable):
        each.close()


def rows(backwards: tuple[bool, bool]) -> Schedule:
    """A loop over rows in the arena, whose body has an arena and a loop of three iterations."""
    row, length = (5,), 5

    def place(allocation: int, offset: int = 0) -> View:
        return View(allocation, offset, "int64", row)

    state, line, after, out, mixed = place(1), place(2), place(3), place(4), place(5, 64)
    inner = Schedule(
        "inner",
        (
            Allocation("input", "j", "int64", ()),
            Allocation("input", "s", "int64", row),
            Allocation("input", "m", "int64", row),
            Allocation("output", "t", "int64", row),
        ),
        (Task("any", 0, (), (place(1), place(2)), (place(3),)),),
    )
    spaces = (View(5, 128, "uint8", (8,)), View(5, 192, "uint8", (40,)))
    thrice = Control(ControlForm("loop", 1, 3), (inner,))
    body = Schedule(
        "body",
        (
            Allocation("input", "i", "int64", ()),
            Allocation("input", "state", "int64", row),
            Allocation("input", "row", "int64", row),
            Allocation("output", "next", "int64", row),
            Allocation("output", "out", "int64", row),
            Allocation("arena", "arena", "uint8", (256,)),
        ),
        (
            Task("any", 0, (), (View(0, 0, "int64", ()), line), (place(5),)),
            Task("any", 0, (), (place(5),), (mixed,)),
            Task("loop", 0, (), (state, mixed), (after, *spaces), control=thrice),
            Task("any", 0, (), (after, line), (out,)),
        ),
    )
    whole, many = View(4, 1024, "int64", row), (length, *row)
    form = ControlForm("loop", 1, length, scans=backwards[:1], stacks=backwards[1:])
    work = (
        View(4, 2048, "uint8", (8,)),
        View(4, 2112, "uint8", (40,)),
        View(4, 2176, "uint8", (256,)),
    )
    stacked, lines = View(4, 3072, "int64", many), View(4, 512, "int64", many)
    tasks = (
        Task("any", 0, (), (place(0),), (place(4),)),
        Task("any", 0, (), (View(1, 0, "int64", many),), (lines,)),
        Task("loop", 0, (), (place(4), lines), (whole, stacked, *work),
             control=Control(form, (body,))),
        Task("any", 0, (), (whole,), (place(2),)),
        Task("any", 0, (), (stacked,), (View(3, 0, "int64", many),)),
    )  # fmt: skip
    allocations = (
        Allocation("input", "first", "int64", row),
        Allocation("input", "x", "int64", many),
        Allocation("output", "last", "int64", row),
        Allocation("output", "y", "int64", many),
        Allocation("arena", "arena", "uint8", (4096,)),
    )
    schedule = with_names(Schedule("rows", allocations, tasks))
    check_schedule(schedule)
    return schedule
