"""The plain data that rooms hand to each other: kernels, and the schedule that launches them.

Nothing here imports xDSL, TVM or onnx, so the runtime half can use it alone. Sizes and offsets
are in bytes, times in nanoseconds.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any, Literal, get_args

from compiler.dag import runs
from compiler.display.words import counted

AllocationKind = Literal["input", "output", "weight", "arena"]

Mode = Literal["graph", "subgraphs", "streams"]
"""How a schedule is launched: as one graph, as a graph a subflow, or kernel by kernel."""

MODES: tuple[Mode, ...] = get_args(Mode)

ControlKind = Literal["if", "loop"]
"""The kinds of tasks with bodies."""

IN_RANGE = "flowloom.in-range/"
"""How names of outputs begin that are 1 if indices were in range, else 0; the rest says which."""

ELEMENT_BYTES = {
    "bool": 1,
    "int8": 1,
    "uint8": 1,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
    "int16": 2,
    "uint16": 2,
    "float16": 2,
    "bfloat16": 2,
    "int32": 4,
    "uint32": 4,
    "float32": 4,
    "int64": 8,
    "uint64": 8,
    "float64": 8,
}
"""Bytes of one element in memory, by dtype name (numpy's names, and ml_dtypes')."""


ARENA_ALIGNMENT = 64
"""Arena offsets are multiples of this many bytes: a cache line, or a full vector."""


def arena_aligned(size: int) -> int:
    """The size in bytes, rounded up to the alignment of arena offsets."""
    return -(-size // ARENA_ALIGNMENT) * ARENA_ALIGNMENT


@dataclass(frozen=True, slots=True)
class Allocation:
    """A contiguous piece of memory: one model input, output or weight, or the arena.

    `name` is the model's name of an input or output, and the store's key of a weight.
    `dtype` and `shape` are those of the tensor; an arena is `uint8` of its size.
    """

    kind: AllocationKind
    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return prod(self.shape) * ELEMENT_BYTES[self.dtype]


@dataclass(frozen=True, slots=True)
class View:
    """A row-major tensor at a byte offset of an allocation (an index into the schedule's list)."""

    allocation: int
    offset: int
    dtype: str
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return prod(self.shape) * ELEMENT_BYTES[self.dtype]


@dataclass(frozen=True, slots=True)
class ControlForm:
    """The tensors that an If or a Loop takes and those that it passes to its bodies.

    An If reads a condition, then what its two branches read. A Loop reads a trip count and a
    condition, unless its `length` is known, then the first values that it has `carried`, its
    `scans` (each iteration reads a row of them), then what its body reads unchanged. Results are
    the last carried values and the `stacks`, of which each iteration writes a row; scans and stacks
    say whether they go from the last row to the first. The first result of a `conditional` body
    says whether the loop goes on.
    """

    kind: ControlKind
    carried: int = 0
    length: int | None = None
    conditional: bool = False
    scans: tuple[bool, ...] = ()
    stacks: tuple[bool, ...] = ()


@dataclass(frozen=True, slots=True)
class Control:
    """The bodies of an If (then, else) or a Loop: schedules with inputs, outputs and an arena.

    `compiler.control` says which bytes of their task these stand for. A body runs its tasks one
    after another, in launch order.
    """

    form: ControlForm
    bodies: "tuple[Schedule, ...]"


@dataclass(frozen=True, slots=True)
class Task:
    """One kernel launched on a stream after the tasks it waits for (indices of earlier tasks).

    `writes` holds the results first, then the kernel's workspaces. Tasks of one `subflow`, if they
    are in any, follow each other on one stream. `nodes` names the ONNX nodes. A task with `control`
    runs bodies instead of a kernel, whose name then is the kind of control.
    """

    kernel: str
    stream: int
    after: tuple[int, ...]
    reads: tuple[View, ...]
    writes: tuple[View, ...]
    subflow: int | None = None
    nodes: tuple[str, ...] = ()
    control: Control | None = None


@dataclass(frozen=True, slots=True, repr=False)
class Schedule:
    """Tasks in launch order; each stream runs its tasks in this order.

    `inputs` and `outputs` are not listed apart: they are the allocations of those kinds, in the
    model's order.
    """

    name: str
    allocations: tuple[Allocation, ...]
    tasks: tuple[Task, ...]

    @property
    def streams(self) -> int:
        """The number of streams: one more than the largest stream of any task."""
        return 1 + max((task.stream for task in self.tasks), default=0)

    @property
    def all_tasks(self) -> Iterator[Task]:
        """The tasks, each followed by those of its bodies."""
        for task in self.tasks:
            yield task
            for body in task.control.bodies if task.control is not None else ():
                yield from body.all_tasks

    @property
    def subflows(self) -> list[range]:
        """The tasks of each subflow; a task in none is alone."""
        return runs(task.subflow for task in self.tasks)

    def of_kind(self, kind: AllocationKind) -> tuple[Allocation, ...]:
        """The allocations of one kind, in order."""
        return tuple(a for a in self.allocations if a.kind == kind)

    def __repr__(self) -> str:
        kernels = len({task.kernel for task in self.tasks})
        return (
            f"<Schedule {self.name!r}: {counted(len(self.tasks), 'task')} of"
            f" {counted(kernels, 'kernel')} on {counted(self.streams, 'stream')}>"
        )

    def _repr_html_(self) -> str:
        """A notebook's view: a table and the order of the tasks."""
        from compiler.display.html import schedule_html

        return schedule_html(self)


@dataclass(frozen=True, slots=True)
class Timing:
    """The median of `count` samples in ns, and its 95 % confidence interval."""

    median: float
    low: float
    high: float
    count: int


@dataclass(frozen=True, slots=True)
class SearchRecord:
    """A schedule search: simulated ns by policy, of the best policy and after the moves.

    Of `steps` moves `kept` shortened the run, to `moved`; `makespan` is what was taken. `bound`
    holds the lower bounds.
    """

    start: str
    started_at: float
    moved: float
    makespan: float
    steps: int
    kept: int
    seed: int
    policies: Mapping[str, float]
    bound: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class TuningRecord:
    """The kernels that were measured while a model compiled, as no database had them.

    Of `kernels` unknown ones `improved` got another config than without measuring, by `tried`
    candidates in `seconds`. `before` and `after` are what the improved ones take of a run, in ns.
    """

    kernels: int = 0
    tried: int = 0
    improved: int = 0
    before: float = 0.0
    after: float = 0.0
    seconds: float = 0.0

    def __add__(self, other: "TuningRecord") -> "TuningRecord":
        """Both together."""
        return TuningRecord(
            kernels=self.kernels + other.kernels,
            tried=self.tried + other.tried,
            improved=self.improved + other.improved,
            before=self.before + other.before,
            after=self.after + other.after,
            seconds=self.seconds + other.seconds,
        )

    def __str__(self) -> str:
        if not self.kernels:
            return "the databases have every kernel"
        gain = f", {self.before / 1e3:.1f} to {self.after / 1e3:.1f} us" if self.improved else ""
        return (
            f"{self.tried} candidates of {self.kernels} kernels that no database had, in"
            f" {self.seconds:.1f} s: {self.improved} faster ones{gain}"
        )


CONTRACTED_AS = {
    "float8-tiles": "bytes on tensor cores",
    "tiles": "bytes on tensor cores",
    "float8-operands": "bytes on tensor cores, rounding only their operands",
    "operands": "bytes on tensor cores, rounding only their operands",
    "all": "bytes",
    "floats": "floats",
    "unrounded": "floats without rounding to integers",
}
"""The ways to contract bytes, see `import_model`, in words."""


CONTRACTIONS, SUBSTITUTION, SCHEDULE = "contractions", "substitution", "schedule"
"""The questions of a compilation, the outer ones first."""

BINDING = "binding of "
"""The beginning of the question how a buffer that moves between runs is bound; its name follows."""

ChoiceSource = Literal["measured", "model"]
"""Whether candidates ran on a device, or a model estimated their times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The answer to one question of a compilation, with the choices made within it; times in ns.

    `estimates`, `timings` and `skipped` are by candidate: a model's time, the measured one, and why
    a candidate was not timed. The `baseline` is kept unless another candidate is surely faster.
    `within` holds the choices that were made for the chosen candidate alone.
    """

    question: str
    chosen: str
    baseline: str = ""
    source: ChoiceSource = "model"
    reason: str = ""
    estimates: Mapping[str, float] = field(default_factory=dict[str, float])
    timings: Mapping[str, Timing] = field(default_factory=dict[str, Timing])
    skipped: Mapping[str, str] = field(default_factory=dict[str, str])
    within: tuple["Choice", ...] = ()

    @property
    def times(self) -> dict[str, float]:
        """The measured median of each candidate, or else its estimate; the chosen one first."""
        medians = {name: timing.median for name, timing in self.timings.items()}
        times = {**self.estimates, **medians}
        return {name: times[name] for name in sorted(times, key=lambda name: name != self.chosen)}

    def nested(self) -> "Iterator[Choice]":
        """This choice and all within it, the outer ones first."""
        yield self
        for choice in self.within:
            yield from choice.nested()

    def of(self, question: str) -> "Choice | None":
        """The choice of a question, this one or one within it; None if it was not asked."""
        return next((choice for choice in self.nested() if choice.question == question), None)

    @property
    def schedule(self) -> "ScheduleChoice":
        """The choice of the schedule and mode, this one or one within it."""
        return next(choice for choice in self.nested() if isinstance(choice, ScheduleChoice))

    @property
    def sentence(self) -> str:
        """The candidate that was chosen and the reason, in one line."""
        if self.question != CONTRACTIONS:
            return f"{self.chosen}: {self.source}; {self.reason}"
        ways = [(CONTRACTED_AS.get(way, way), time) for way, time in self.times.items()]
        figures = ", ".join(f"{words} {time / 1e3:.1f} us" for words, time in ways)
        return f"quantised operators contract {ways[0][0]}: {figures}"

    def __str__(self) -> str:
        """The sentences of the choices but for bindings, one a line, the innermost first."""
        outer = [c for c in self.nested() if not c.question.startswith(BINDING)]
        return "\n".join(choice.sentence for choice in reversed(outer))


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleChoice(Choice):
    """The choice of a module's schedule and mode, and what else was measured for it.

    `costs` are the measured times of kernels, `device` describes where they and the candidates ran.
    `pipeline` gives the schedule without a search; `tuning` says what was measured of kernels
    before they were built.
    """

    mode: Mode
    pdl: bool = False
    pipeline: str = ""
    budget_seconds: float = 0.0
    costs: Mapping[str, float] = field(default_factory=dict[str, float])
    device: Mapping[str, Any] | None = None
    search: SearchRecord | None = None
    tuning: TuningRecord | None = None

    @property
    def bindings(self) -> dict[str, str]:
        """How buffers that move between runs are bound, by input or output."""
        return {
            choice.question.removeprefix(BINDING): choice.chosen
            for choice in self.within
            if choice.question.startswith(BINDING)
        }


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch of a compiled function.

    `args` index the task's buffers: its reads, then its writes. A GPU runs `grid` blocks of
    `block` threads; a CPU calls the function for ranges of `grid[0]` independent blocks.
    `shared_bytes` are asked for by the launch; what the code itself takes are `registers` a thread
    and `static_shared_bytes` a block, both 0 where they are unknown.
    One that is `programmatic` waits, before it touches memory, for the end of the launches that it
    follows in a graph, so that it may be started before they have ended. `indirect` names a second
    entry point, if there is one, whose parameters are the addresses of pointers to the buffers.
    """

    symbol: str
    args: tuple[int, ...]
    grid: tuple[int, int, int] = (1, 1, 1)
    block: tuple[int, int, int] = (1, 1, 1)
    shared_bytes: int = 0
    registers: int = 0
    static_shared_bytes: int = 0
    programmatic: bool = False
    indirect: str = ""

    @property
    def symbols(self) -> tuple[str, ...]:
        """Its entry points, one or two."""
        return (self.symbol, self.indirect) if self.indirect else (self.symbol,)


@dataclass(frozen=True, slots=True)
class Operand:
    """The dtype and shape of a tensor that a kernel was built for."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return prod(self.shape) * ELEMENT_BYTES[self.dtype]

    def __str__(self) -> str:
        return f"{self.dtype}{list(self.shape)}"


Containment = Literal["proved", "tested", "declared"]
"""How it is known that a kernel touches nothing but its task's tensors: see docs/safety.md."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """The proofs that a kernel's accesses to its tensors and its other buffers stay inside.

    `read_launches` names the launches whose code was generated, and read. Of its `accesses`,
    `by_solver` and `by_enumeration` say how many were proved in that way to be inside; intervals
    proved all others but the `undecided`, which are described.
    """

    read_launches: tuple[str, ...] = ()
    accesses: int = 0
    by_solver: int = 0
    by_enumeration: int = 0
    undecided: tuple[str, ...] = ()


DECLARED = Footprint()
"""The footprint of code that was not read."""


@dataclass(frozen=True, slots=True)
class KernelSpec:
    """The compiled form of one fused group, for one target.

    `packings` has one entry a read: how a weight there is laid out beforehand (see
    `compiler.graph.packing`; empty for as it is). `workspaces` are the sizes of scratch
    buffers, which follow the results in a task's writes. `launches` run in order. `source` is the
    text that a GPU's `code` was compiled from; it includes headers of `compiler/kernels/gpu`.
    `serial_ns` are nanoseconds besides its work, of steps that wait for each other;
    `estimated_ns` are all by its template's model or measured config, 0 where it has neither.
    `reads` (packed, where there is a packing) and `writes` are what the code was built for: a
    task's views must have these types. `footprint` is that of generated code; code that is written
    by hand has none.
    """

    name: str
    language: Literal["object", "cuda", "hip", "emu"]
    code: bytes
    launches: tuple[Launch, ...]
    packings: tuple[str, ...]
    workspaces: tuple[int, ...] = ()
    flops: int = 0
    traffic_bytes: int = 0
    serial_ns: int = 0
    estimated_ns: int = 0
    source: str = ""
    reads: tuple[Operand, ...] = ()
    writes: tuple[Operand, ...] = ()
    footprint: Footprint = DECLARED

    @property
    def containment(self) -> Containment:
        """Whether all accesses are proved to be inside, or some only tested or declared to be."""
        if {launch.symbol for launch in self.launches} - set(self.footprint.read_launches):
            return "declared"
        return "tested" if self.footprint.undecided else "proved"
