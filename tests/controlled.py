"""Random schedules with If and Loop tasks, and their brute-force verdict by unrolling."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from random import Random

from hypothesis import strategies as st

from compiler.schedule.control import (
    BodyPlace,
    arena_of,
    body_signature,
    head_of,
    operands_of,
    places_of,
    results_of,
    workspaces_of,
)
from compiler.schedule.kernels import Operand
from compiler.schedule.tasks import Allocation, Control, ControlForm, Schedule, Task, View
from tests.adversary import predecessors

Cell = tuple[int, int]
"""An allocation of the outermost schedule and a byte of it."""


@dataclass
class _Space:
    """Hands out places of an allocation: mostly fresh ones, at times any."""

    random: Random
    number: int
    fault: float
    used: int = 0

    def view(self, operand: Operand) -> View:
        size = -(-View(0, 0, operand.dtype, operand.shape).nbytes // 8) * 8
        offset = self.used
        if self.random.random() < self.fault:
            offset = 8 * self.random.randrange(self.used // 8 + 1)
        self.used = max(self.used, offset + size)
        return View(self.number, offset, operand.dtype, operand.shape)


def _pick(random: Random, known: Sequence[View], operand: Operand) -> View | None:
    fits = [v for v in known if (v.dtype, v.shape) == (operand.dtype, operand.shape)]
    return random.choice(fits) if fits else None


NUMBER = Operand("int64", (1,))
PAIR = Operand("int64", (2,))
FLAG = Operand("bool", (1,))


def _form(random: Random) -> ControlForm:
    if random.random() < 0.4:
        return ControlForm("if")
    carried, length = random.randint(0, 2), random.choice([None, 1, 2])
    if length is None:
        return ControlForm("loop", carried, conditional=random.random() < 0.5)
    flags = [tuple(random.random() < 0.5 for _ in range(random.randint(0, 1))) for _ in range(2)]
    return ControlForm("loop", carried, length, scans=flags[0], stacks=flags[1])


def _operands(random: Random, form: ControlForm) -> tuple[list[Operand], list[Operand]]:
    """The reads and the results of a control task."""
    captured = [NUMBER] * random.randint(0, 2)
    if form.kind == "if":
        return [FLAG, *captured], [NUMBER] * random.randint(0, 2)
    head = [NUMBER, FLAG] if form.length is None else []
    rows = Operand("int64", (form.length or 0, 1))
    carried = [NUMBER] * form.carried
    return (
        [*head, *carried, *[rows] * len(form.scans), *captured],
        [*carried, *[rows] * len(form.stacks)],
    )


def _control(random: Random, depth: int, known: list[View], space: _Space, index: int) -> Task:
    form = _form(random)
    reads, results = _operands(random, form)
    signature = body_signature(form, reads, results)
    fault = space.fault
    bodies = tuple(
        _schedule(random, f"b{number}", *signature, depth + 1, fault)
        for number in range(2 if form.kind == "if" else 1)
    )
    arena = max(map(arena_of, bodies))
    sizes = workspaces_of(form, results, arena)
    writes = [*map(space.view, results)]
    spaces = [space.view(Operand("uint8", (size,))) for size in sizes]
    views = [_pick(random, known, read) or space.view(read) for read in reads]
    return Task(form.kind, 0, (), tuple(views), (*writes, *spaces), control=Control(form, bodies))


def _schedule(
    random: Random,
    name: str,
    inputs: Sequence[Operand],
    outputs: Sequence[Operand],
    depth: int,
    fault: float,
) -> Schedule:
    """A schedule that writes all its outputs, but for random faults."""
    edge = [Allocation("input", f"x{i}", o.dtype, o.shape) for i, o in enumerate(inputs)]
    edge += [Allocation("output", f"y{i}", o.dtype, o.shape) for i, o in enumerate(outputs)]
    wholes = [View(i, 0, a.dtype, a.shape) for i, a in enumerate(edge)]
    known, space = wholes[: len(inputs)], _Space(random, len(edge), fault)
    pending, tasks = wholes[len(inputs) :], list[Task]()
    streams, rate = random.randint(1, 2), 0.9
    for index in range(len(pending) + random.randint(0, 2)):
        if depth < 2 and random.random() < 0.5:
            task = _control(random, depth, known, space, index)
        else:
            target = pending.pop() if pending else space.view(random.choice([NUMBER, FLAG, PAIR]))
            reads = random.sample(known, min(len(known), random.randint(0, 2)))
            task = Task(f"k{index}", 0, (), tuple(reads), (target,))
        after = tuple(i for i in range(index) if random.random() < rate)
        tasks.append(_placed(task, random.randrange(streams), after))
        known += task.writes[: len(task.writes) if task.control is None else _results(task)]
    while pending:
        after = tuple(range(len(tasks))) if random.random() > fault else ()
        tasks.append(Task(f"k{len(tasks)}", 0, after, (), (pending.pop(),)))
    arena = Allocation("arena", "arena", "uint8", (space.used,))
    return Schedule(name, tuple([*edge, arena] if space.used else edge), tuple(tasks))


def _placed(task: Task, stream: int, after: tuple[int, ...]) -> Task:
    return Task(task.kernel, stream, after, task.reads, task.writes, control=task.control)


def _results(task: Task) -> int:
    assert task.control is not None
    arena = any(map(arena_of, task.control.bodies))
    return results_of(task.control.form, len(task.writes), arena)


@st.composite
def controlled_schedules(draw: st.DrawFn) -> Schedule:
    """Well-formed schedules with nested control tasks; about half of them have errors."""
    random = draw(st.randoms(use_true_random=False))
    fault = draw(st.sampled_from([0.0, 0.0, 0.1]))
    inputs = [NUMBER, FLAG, Operand("int64", (2, 1)), Operand("int64", (1, 1))]
    return _schedule(random, "main", inputs, [NUMBER], 0, fault)


@dataclass
class Event:
    """The bytes that a task touches in one unrolling, and the events that happen before it."""

    reads: frozenset[Cell]
    writes: list[frozenset[Cell]]
    before: set[int]


@dataclass
class Unrolled:
    """One unrolling of a schedule: its events in launch order, and whether bytes have no value."""

    random: Random
    whole: bool
    """Whether a control task also touches all its tensors at once."""
    events: list[Event] = field(default_factory=list[Event])
    unwritten: bool = False
    written: set[Cell] = field(default_factory=set[Cell])

    def run(self, schedule: Schedule, memory: Sequence[list[Cell]], before: set[int]) -> set[int]:
        """Append the events of a schedule over these bytes; gives their numbers."""
        done: list[set[int]] = []
        for task, waits in zip(schedule.tasks, predecessors(schedule), strict=True):
            ready = before.union(*(done[wait] for wait in waits))
            reads = [_cells(memory, view) for view in task.reads]
            writes = [_cells(memory, view) for view in task.writes]
            own = self._task(task, reads, writes, ready)
            done.append(ready | own)
        for allocation, cells in zip(schedule.allocations, memory, strict=True):
            missing = allocation.kind == "output" and not self.written.issuperset(cells)
            self.unwritten |= missing
        return set[int]().union(*done)

    def _add(self, reads: Sequence[list[Cell]], writes: Sequence[list[Cell]],
             before: set[int]) -> set[int]:  # fmt: skip
        read = frozenset(cell for cells in reads for cell in cells)
        self.unwritten |= not self.written.issuperset(read)
        self.written.update(cell for cells in writes for cell in cells)
        self.events.append(Event(read, [frozenset(cells) for cells in writes], set(before)))
        return {len(self.events) - 1}

    def _task(self, task: Task, reads: list[list[Cell]],
              writes: list[list[Cell]], ready: set[int]) -> set[int]:  # fmt: skip
        if task.control is None:
            return self._add(reads, writes, ready)
        form, bodies = task.control.form, task.control.bodies
        count = _results(task)
        own = self._add(reads, writes, ready) if self.whole else set[int]()
        self.written.difference_update(cell for cells in writes for cell in cells)
        own |= self._add(reads[: head_of(form)], [], ready | own)
        types = operands_of(task.reads), operands_of(task.writes[:count])
        buffers, steps = [*reads, *writes], 1
        if form.kind == "loop":
            steps = self.random.randint(0, 2) if form.length is None else form.length
            body = bodies[0]
        else:
            body = self.random.choice(bodies)
        places = list(places_of(form, *types))
        for step in range(steps):
            if form.kind == "loop":
                own |= self._add([], [buffers[len(reads) + count]], ready | own)
            bound = list[list[Cell]]()
            for allocation, place in zip(body.allocations, places_by_allocation(body, places),
                                         strict=True):  # fmt: skip
                which = place.first if step == 0 else (place.even, place.odd)[step % 2]
                offset = place.offset + step * place.step
                cells = buffers[which][offset : offset + allocation.nbytes]
                bound.append(cells)
                if allocation.kind != "input":
                    self.written.difference_update(cells)
            own |= self.run(body, bound, ready | own)
        if form.kind == "loop":
            head, after = head_of(form), len(reads)
            spare = after + count + 1 + form.conditional
            for i in range(form.carried):
                last = head + i if steps == 0 else spare + i
                if steps % 2 == 0:
                    own |= self._add([buffers[last]], [buffers[after + i]], ready | own)
        self.written.update(cell for cells in writes for cell in cells)
        return own

    @property
    def races(self) -> bool:
        """Whether two events without an order, or one by itself, touch the same bytes."""
        for event in self.events:
            if any(a & b for a, b in combinations(event.writes, 2)):
                return True
            if event.reads & frozenset[Cell]().union(*event.writes):
                return True
        return any(self._conflict(a, b) for a, b in combinations(range(len(self.events)), 2))

    def _conflict(self, a: int, b: int) -> bool:
        one, other = self.events[a], self.events[b]
        if a in other.before:
            return False
        first, second = (frozenset[Cell]().union(*e.writes) for e in (one, other))
        return bool(first & (other.reads | second) or one.reads & second)


def places_by_allocation(body: Schedule, places: Sequence[BodyPlace]) -> Iterator[BodyPlace]:
    """The place of each allocation of a body."""
    edge = len(body.of_kind("input")) + len(body.of_kind("output"))
    yield from places[:edge]
    if len(body.allocations) > edge:
        yield places[edge]


def _cells(memory: Sequence[list[Cell]], view: View) -> list[Cell]:
    return memory[view.allocation][view.offset : view.offset + view.nbytes]


def unrolled(schedule: Schedule, seed: int, whole: bool) -> Unrolled:
    """An unrolling with random branches, and 0, 1 or 2 iterations."""
    memory = [[(i, byte) for byte in range(a.nbytes)] for i, a in enumerate(schedule.allocations)]
    found = Unrolled(Random(seed), whole)
    found.written = {
        cell
        for allocation, cells in zip(schedule.allocations, memory, strict=True)
        for cell in cells
        if allocation.kind == "input"
    }
    found.run(schedule, memory, set())
    return found
