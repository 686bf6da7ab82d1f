"""Executes schedules in hostile orders: only stream order and tokens hold a task back.

A kernel may read its operands and write its results at any time between start and end, so a task's
buffers are poisoned when it starts, and looked at again when it ends.
"""

import hashlib
import random
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from compiler.schedule.tasks import Schedule, Task, View

Kernel = Callable[[Task, Sequence[bytes]], Sequence[bytes]]


def digest_kernel(task: Task, reads: Sequence[bytes]) -> list[bytes]:
    """Results that depend on every byte read: one wrong byte anywhere changes all that follows."""
    digest = hashlib.shake_128(task.kernel.encode() + b"".join(reads))
    data = digest.digest(sum(view.nbytes for view in task.writes) or 1)
    starts = [sum(v.nbytes for v in task.writes[:i]) for i in range(len(task.writes))]
    return [data[s : s + v.nbytes] for s, v in zip(starts, task.writes, strict=True)]


@dataclass
class Execution:
    """The memory of a run, what each task computed, and the tasks that others disturbed."""

    schedule: Schedule
    kernel: Kernel
    memory: list[bytearray]
    results: dict[int, list[bytes]] = field(default_factory=dict[int, list[bytes]])
    disturbed: set[int] = field(default_factory=set[int])
    _seen: dict[int, list[bytes]] = field(default_factory=dict[int, list[bytes]])

    @classmethod
    def prepare(
        cls, schedule: Schedule, data: Mapping[str, bytes], kernel: Kernel = digest_kernel
    ) -> "Execution":
        """Memory with the inputs and weights (by name) in place and poison everywhere else."""
        memory = [
            bytearray(
                data.get(
                    allocation.name,
                    hashlib.shake_128(allocation.name.encode()).digest(allocation.nbytes),
                )
            )
            if allocation.kind in ("input", "weight")
            else bytearray(b"\xa5" * allocation.nbytes)
            for allocation in schedule.allocations
        ]
        return cls(schedule, kernel, memory)

    def load(self, views: Iterable[View]) -> list[bytes]:
        """The bytes of views now."""
        return [bytes(self.memory[v.allocation][v.offset : v.offset + v.nbytes]) for v in views]

    def _store(self, views: Iterable[View], data: Iterable[bytes]) -> None:
        for view, content in zip(views, data, strict=True):
            self.memory[view.allocation][view.offset : view.offset + view.nbytes] = content

    def start(self, index: int) -> None:
        """Begin a task: its results are undefined from now on."""
        task = self.schedule.tasks[index]
        self._seen[index] = self.load(task.reads)
        self._store(task.writes, self._poison(index))

    def _poison(self, index: int) -> list[bytes]:
        views = self.schedule.tasks[index].writes
        return [bytes([(index * 7 + 13) % 256]) * view.nbytes for view in views]

    def end(self, index: int) -> None:
        """Finish a task; notes whether its operands or results were touched meanwhile."""
        task = self.schedule.tasks[index]
        reads = self.load(task.reads)
        if reads != self._seen[index] or self.load(task.writes) != self._poison(index):
            self.disturbed.add(index)
        self.results[index] = list(self.kernel(task, reads))
        self._store(task.writes, self.results[index])

    @property
    def outputs(self) -> dict[str, bytes]:
        """The bytes of each output."""
        pairs = zip(self.schedule.allocations, self.memory, strict=True)
        return {
            allocation.name: bytes(data)
            for allocation, data in pairs
            if allocation.kind == "output"
        }


def predecessors(schedule: Schedule) -> list[set[int]]:
    """For each task, the one before it on its stream and those that it awaits."""
    last: dict[int, int] = {}
    before: list[set[int]] = []
    for index, task in enumerate(schedule.tasks):
        before.append({*task.after, *([last[task.stream]] if task.stream in last else [])})
        last[task.stream] = index
    return before


def in_order(
    schedule: Schedule, data: Mapping[str, bytes], kernel: Kernel = digest_kernel
) -> Execution:
    """One task after another, in launch order: what every other execution must agree with."""
    run = Execution.prepare(schedule, data, kernel)
    for index in range(len(schedule.tasks)):
        run.start(index)
        run.end(index)
    return run


def shuffled(
    schedule: Schedule,
    data: Mapping[str, bytes],
    seed: int,
    hold: int | None = None,
    kernel: Kernel = digest_kernel,
) -> Execution:
    """Random priorities decide which task starts or ends next; `hold` ends as late as possible."""
    chance = random.Random(seed)
    run, before = Execution.prepare(schedule, data, kernel), predecessors(schedule)
    priority = {(i, e): chance.random() for i in range(len(schedule.tasks)) for e in (0, 1)}
    if hold is not None:
        priority[hold, 0], priority[hold, 1] = 2.0, -1.0
    followers: list[list[int]] = [[] for _ in before]
    for index, waits in enumerate(before):
        for wait in waits:
            followers[wait].append(index)
    missing = [len(waits) for waits in before]
    events = {(index, 0) for index, count in enumerate(missing) if count == 0}
    while events:
        index, is_end = event = max(events, key=priority.__getitem__)
        events.remove(event)
        if not is_end:
            run.start(index)
            events.add((index, 1))
            continue
        run.end(index)
        for follower in followers[index]:
            missing[follower] -= 1
            if missing[follower] == 0:
                events.add((follower, 0))
    return run


def threaded(
    schedule: Schedule,
    data: Mapping[str, bytes],
    seed: int,
    kernel: Kernel = digest_kernel,
    delay: float = 1e-3,
) -> Execution:
    """A thread for each stream, with random delays of up to `delay` seconds around each task."""
    run, done = (
        Execution.prepare(schedule, data, kernel),
        [threading.Event() for _ in schedule.tasks],
    )

    def work(stream: int) -> None:
        chance = random.Random(f"{seed} {stream}")
        for index, task in enumerate(schedule.tasks):
            if task.stream == stream:
                for awaited in task.after:
                    done[awaited].wait()
                run.start(index)
                time.sleep(chance.random() * delay)
                run.end(index)
                done[index].set()

    streams = {task.stream for task in schedule.tasks}
    threads = [threading.Thread(target=work, args=(stream,)) for stream in streams]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return run


def agrees(run: Execution, reference: Execution) -> bool:
    """Whether every task computed what it does in the reference, and nothing was disturbed."""
    return not run.disturbed and run.results == reference.results
