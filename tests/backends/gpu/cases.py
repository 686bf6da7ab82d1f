"""Random race-free schedules with integer kernels that exist in Python and in CUDA.

Every result depends on every operand, so one stale or torn read changes all that follows.
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from compiler.schedule.kernels import KernelSpec, Launch
from compiler.schedule.tasks import Allocation, AllocationKind, Schedule, Task, View

Words = NDArray[np.uint32]
THREADS = 64
BEGIN = r"""
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;\n\tgriddepcontrol.wait;" ::: "memory");
#elif defined(EMULATED)
  emulator_begin();
#endif
"""
"""How a programmatic kernel begins."""


@dataclass(frozen=True)
class Mix:
    """A function of uint32 arrays: each word written mixes one word of each array read.

    A programmatic one waits itself for what it follows in a graph.
    """

    symbol: str
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    salt: int
    programmatic: bool = False

    def __call__(self, *arrays: NDArray[np.uint8]) -> None:
        sizes = (*self.reads, *self.writes)
        words = [a[: 4 * n].view(np.uint32) for a, n in zip(arrays, sizes, strict=True)]
        operands = [each.copy() for each in words[: len(self.reads)]]
        for number, target in enumerate(words[len(self.reads) :]):
            target[:] = self._values(operands, number, target.size)

    def _values(self, operands: list[Words], number: int, size: int) -> Words:
        place = np.arange(size, dtype=np.uint32)
        mixed = place * np.uint32(2654435761) + np.uint32(self.salt + 77 * number)
        for operand in operands:
            mixed = (mixed ^ operand[place % np.uint32(operand.size)]) * np.uint32(2246822519)
            mixed ^= mixed >> np.uint32(15)
        return mixed

    @property
    def grid(self) -> tuple[int, int, int]:
        """Blocks of THREADS threads, one thread a word of the largest result."""
        return (-(-max(self.writes) // THREADS), 1, 1)

    def cuda(self) -> str:
        """The same function in CUDA C++ after doing `WAIT`, and its indirect entry point."""
        reads = [f"const unsigned *r{i}" for i in range(len(self.reads))]
        writes = [f"unsigned *w{i}" for i in range(len(self.writes))]
        steps = "".join(
            f"m = (m ^ r{i}[p % {n}u]) * 2246822519u; m ^= m >> 15; "
            for i, n in enumerate(self.reads)
        )
        stores = "\n".join(
            f"  if (p < {n}u) {{ unsigned m = p * 2654435761u + {self.salt + 77 * i}u; "
            f"{steps}w{i}[p] = m; }}"
            for i, n in enumerate(self.writes)
        )
        place = f"unsigned p = blockIdx.x * {THREADS}u + threadIdx.x;"
        begin = BEGIN if self.programmatic else ""
        body = f"{begin}  WAIT;\n  {place}\n{stores}\n}}\n"
        own = [each.rpartition("*")[2] for each in reads + writes]
        loads = [f"{x} = *{n}_at; " for x, n in zip(reads + writes, own, strict=True)]
        places = [f"{x.replace('*', '*const *')}_at" for x in reads + writes]
        head = f'extern "C" __global__ void {self.symbol}'
        return (
            f"{head}({', '.join(reads + writes)}) {{\n{body}"
            f"{head}_indirect({', '.join(places)}) {{\n  {''.join(loads)}\n{body}"
        )


def launch_of(mix: Mix, args: tuple[int, ...], shared_bytes: int = 0) -> Launch:
    """The launch of a function."""
    return Launch(
        mix.symbol,
        args,
        mix.grid,
        (THREADS, 1, 1),
        shared_bytes,
        programmatic=mix.programmatic,
        indirect=f"{mix.symbol}_indirect",
    )


@dataclass(frozen=True)
class Case:
    """A schedule, its kernels as functions by symbol, and its weights."""

    schedule: Schedule
    kernels: Mapping[str, tuple[Mix, ...]]
    weights: Mapping[str, Words]

    @property
    def functions(self) -> dict[str, Mix]:
        """Every function by symbol."""
        return {mix.symbol: mix for mixes in self.kernels.values() for mix in mixes}

    def specs(self, code: Callable[[str], bytes]) -> dict[str, KernelSpec]:
        """The kernels; `code` gives each kernel's image by its name."""
        return {task.kernel: self._spec(task, code(task.kernel)) for task in self.schedule.tasks}

    def _spec(self, task: Task, code: bytes) -> KernelSpec:
        mixes, reads, total = self.kernels[task.kernel], len(task.reads), len(task.writes)
        plain = tuple(range(reads + 1))
        launches = [launch_of(mixes[0], plain)]
        if len(mixes) == 2:
            scratch = (*range(reads), reads + total - 1)
            last = (*range(reads), reads + total - 1, reads)
            launches = [
                launch_of(mixes[0], scratch),
                launch_of(mixes[1], last, shared_bytes=64),
            ]
        workspaces = tuple(view.nbytes for view in task.writes[1:])
        packings = ("",) * reads
        return KernelSpec(task.kernel, "cuda", code, tuple(launches), packings, workspaces)

    def inputs(self, seed: int) -> dict[str, Words]:
        """Random inputs."""
        chance = np.random.default_rng(seed)
        return {
            a.name: chance.integers(0, 2**32, a.shape, np.uint32)
            for a in self.schedule.of_kind("input")
        }

    def expected(self, inputs: Mapping[str, Words]) -> dict[str, Words]:
        """The outputs, computed one task after another."""
        memory = [np.zeros(a.nbytes, np.uint8) for a in self.schedule.allocations]
        for allocation, data in zip(self.schedule.allocations, memory, strict=True):
            given = {**inputs, **self.weights}.get(allocation.name)
            if given is not None:
                data[:] = given.reshape(-1).view(np.uint8)
        specs = self.specs(lambda _: b"")
        for task in self.schedule.tasks:
            views = [memory[v.allocation][v.offset :] for v in task.reads + task.writes]
            for launch in specs[task.kernel].launches:
                self.functions[launch.symbol](*(views[i] for i in launch.args))
        pairs = zip(self.schedule.allocations, memory, strict=True)
        return {a.name: m.view(np.uint32) for a, m in pairs if a.kind == "output"}


@dataclass
class _Region:
    """Bytes of an allocation, who wrote them and who read them since."""

    view: View
    writer: int = -1
    readers: list[int] = field(default_factory=list[int])


@dataclass
class _Builder:
    """A case while it is made: tasks come in groups, each a sub-flow or a single task."""

    chance: random.Random
    streams: int
    words: int
    allocations: list[Allocation] = field(default_factory=list[Allocation])
    tasks: list[Task] = field(default_factory=list[Task])
    kernels: dict[str, tuple[Mix, ...]] = field(default_factory=dict[str, tuple[Mix, ...]])
    readable: list[_Region] = field(default_factory=list[_Region])
    free: list[_Region] = field(default_factory=list[_Region])
    end_of: dict[int, int] = field(default_factory=dict[int, int])
    arena: int = 0

    def whole(self, kind: AllocationKind, name: str) -> _Region:
        """A new allocation as one region."""
        size = self.chance.randint(1, self.words)
        self.allocations.append(Allocation(kind, name, "uint32", (size,)))
        return _Region(View(len(self.allocations) - 1, 0, "uint32", (size,)))

    def scratch(self) -> _Region:
        """A region of the arena: one that is not needed any more, or a new one."""
        if self.free and self.chance.random() < 0.6:
            return self.free.pop(self.chance.randrange(len(self.free)))
        size = self.chance.randint(1, self.words)
        view = View(0, self.arena, "uint32", (size,))
        self.arena += -(-4 * size // 64) * 64
        return _Region(view)

    def group(self, targets: list[_Region | None], number: int) -> None:
        """Add tasks that write these regions (None for the arena), one after another."""
        stream, waits, first = self.chance.randrange(self.streams), set[int](), len(self.tasks)
        for target in targets:
            waits |= self._task(stream, target, number if len(targets) > 1 else None)
        head = self.tasks[first]
        outside = tuple(sorted({self.end_of[w] for w in waits if w in self.end_of}))
        self.tasks[first] = Task(
            head.kernel, stream, outside, head.reads, head.writes, head.subflow
        )
        self.end_of |= dict.fromkeys(range(first, len(self.tasks)), len(self.tasks) - 1)

    def _task(self, stream: int, target: _Region | None, subflow: int | None) -> set[int]:
        """Add a task; returns the tasks that it must follow."""
        index = len(self.tasks)
        sources = [self.chance.choice(self.readable) for _ in range(self.chance.randint(1, 3))]
        waits = {source.writer for source in sources}
        region = target or self.scratch()
        extra = [self.scratch()] if self.chance.random() < 0.3 else []
        for written in (region, *extra):
            waits |= {written.writer, *written.readers}
            written.writer, written.readers = index, []
        for source in sources:
            source.readers.append(index)
        self.free += extra
        self.readable.append(region)
        self._retire()
        writes = (region.view, *(each.view for each in extra))
        self._kernel(f"k{index}", [s.view for s in sources], writes)
        reads = tuple(source.view for source in sources)
        self.tasks.append(Task(f"k{index}", stream, (), reads, writes, subflow))
        return waits - {-1}

    def _retire(self) -> None:
        """Give up a readable region of the arena now and then, so that its bytes are reused."""
        arena = [r for r in self.readable[:-2] if r.view.allocation == 0]
        if arena and self.chance.random() < 0.5:
            region = self.chance.choice(arena)
            self.readable = [each for each in self.readable if each is not region]
            self.free.append(region)

    def _kernel(self, name: str, reads: list[View], writes: tuple[View, ...]) -> None:
        sizes, salt = tuple(view.shape[0] for view in reads), self.chance.randrange(2**31)
        result = writes[0].shape[0]
        waits = [self.chance.random() < 0.8 for _ in range(2)]
        mixes = (Mix(name, sizes, (result,), salt, waits[0]),)
        if len(writes) == 2:
            scratch = writes[1].shape[0]
            mixes = (
                Mix(f"{name}_a", sizes, (scratch,), salt, waits[0]),
                Mix(f"{name}_b", (*sizes, scratch), (result,), salt + 1, waits[1]),
            )
        self.kernels[name] = mixes


def case(
    seed: int, *, tasks: int = 12, streams: int = 4, words: int = 40, subflows: bool = True
) -> Case:
    """A random race-free case; `words` is the largest tensor's length."""
    chance = random.Random(seed)
    build = _Builder(chance, streams, words)
    build.allocations.append(Allocation("arena", "arena", "uint8", (0,)))
    build.readable = [build.whole("input", f"x{i}") for i in range(chance.randint(1, 3))]
    weights = [build.whole("weight", f"w{i}") for i in range(chance.randint(0, 2))]
    build.readable += weights
    targets: list[_Region | None] = [None] * tasks
    targets += [build.whole("output", f"y{i}") for i in range(chance.randint(1, 3))]
    chance.shuffle(targets)
    number = 0
    while targets:
        count = chance.randint(1, 4) if subflows else 1
        build.group([targets.pop() for _ in range(min(count, len(targets)))], number)
        number += 1
    build.allocations[0] = Allocation("arena", "arena", "uint8", (build.arena,))
    data = np.random.default_rng(seed)
    store = {
        build.allocations[r.view.allocation].name: data.integers(0, 2**32, r.view.shape, np.uint32)
        for r in weights
    }
    schedule = Schedule(f"case{seed}", tuple(build.allocations), tuple(build.tasks))
    return Case(schedule, build.kernels, store)
