"""The meaning of schedules with If and Loop tasks: their bodies as functions of bytes."""

from collections.abc import Sequence
from dataclasses import replace

from compiler.schedule.control import arena_of, results_of
from compiler.schedule.tasks import Control, Schedule, Task


def salt_of(task: Task) -> int:
    """A number that distinguishes kernels."""
    return len(task.reads) + task.writes[0].nbytes // 8


def named(task: Task) -> Task:
    """The task with a kernel for the sizes of its tensors, and so its bodies' tasks."""
    if task.control is None:
        sizes = "_".join(str(view.nbytes) for view in task.reads)
        return replace(task, kernel=f"k_{sizes}_to_{task.writes[0].nbytes}")
    bodies = tuple(with_names(body) for body in task.control.bodies)
    return replace(task, control=replace(task.control, bodies=bodies))


def with_names(schedule: Schedule) -> Schedule:
    """The schedule with kernels named by the sizes of tensors."""
    return replace(schedule, tasks=tuple(map(named, schedule.tasks)))


def run(schedule: Schedule, inputs: Sequence[bytes]) -> list[bytes]:
    """The outputs of a schedule for its inputs, with separate memory."""
    given = iter(inputs)
    memory = [
        bytearray(next(given)) if a.kind == "input" else bytearray(b"\x55" * a.nbytes)
        for a in schedule.allocations
    ]
    for task in schedule.tasks:
        reads = [bytes(memory[v.allocation][v.offset : v.offset + v.nbytes]) for v in task.reads]
        results = (
            kernel(task, reads) if task.control is None else control(task.control, task, reads)
        )
        for view, result in zip(task.writes, results, strict=False):
            memory[view.allocation][view.offset : view.offset + view.nbytes] = result
    return [
        bytes(m) for m, a in zip(memory, schedule.allocations, strict=True) if a.kind == "output"
    ]


def _weighted(read: bytes) -> int:
    return sum(byte * (place // 8 + 1) for place, byte in enumerate(read))


def kernel(task: Task, reads: Sequence[bytes]) -> list[bytes]:
    """The result of a task, as its native kernel computes it."""
    total, size = sum(map(_weighted, reads)) + salt_of(task), task.writes[0].nbytes
    return [bytes([total & 1]) if size == 1 else (total & 3).to_bytes(8, "little") * (size // 8)]


def control(node: Control, task: Task, reads: Sequence[bytes]) -> list[bytes]:
    """The results of an If or a Loop by ONNX's text, without shared memory."""
    form = node.form
    if form.kind == "if":
        return run(node.bodies[0 if reads[0][0] else 1], reads[1:])
    going, length = True, form.length
    if length is None:
        length, going, reads = int.from_bytes(reads[0], "little"), bool(reads[1][0]), reads[2:]
    carried, scanned = list(reads[: form.carried]), reads[form.carried :][: len(form.scans)]
    captured = reads[form.carried + len(form.scans) :]
    count = results_of(form, len(task.writes), any(map(arena_of, node.bodies)))
    rows: list[list[bytes]] = [[] for _ in form.stacks]
    step = 0
    while going and step < length:
        slices: list[bytes] = []
        for sequence, back in zip(scanned, form.scans, strict=True):
            size = len(sequence) // length
            index = length - 1 - step if back else step
            slices.append(sequence[index * size : (index + 1) * size])
        given = [step.to_bytes(8, "little"), *carried, *slices, *captured]
        results = run(node.bodies[0], given)
        if form.conditional:
            going, results = bool(results[0][0]), results[1:]
        carried = results[: form.carried]
        for column, row in zip(rows, results[form.carried :], strict=True):
            column.append(row)
        step += 1
    stacks = [b"".join(c[::-1] if b else c) for c, b in zip(rows, form.stacks, strict=True)]
    assert len(carried) + len(stacks) == count
    return [*carried, *stacks]
