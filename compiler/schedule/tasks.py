"""A schedule: tasks that launch kernels on streams, and the memory that they touch.

Sizes and offsets are in bytes.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod
from typing import ClassVar, Literal, get_args

from compiler.support.arguments import check_arguments, choice_of
from compiler.support.dag import runs
from compiler.support.words import counted
from compiler.tensors.dtypes import ELEMENT_BYTES

AllocationKind = Literal["input", "output", "weight", "arena"]
_KIND = choice_of(get_args(AllocationKind))

ControlKind = Literal["if", "loop"]
"""The kinds of tasks with bodies."""

IN_RANGE = "flowloom.in-range/"
"""How names of outputs begin that are 1 if indices were in range, else 0; the rest says which."""

MEASURED_SIZE = "flowloom.measured/"
"""How names of outputs begin that hold the size of a symbol, which a run measures."""

RESERVED_NAMES = (IN_RANGE, MEASURED_SIZE)
"""How names of outputs begin that are not the model's."""

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

    `compiler.schedule.control` says which bytes of their task these stand for. A body runs its
    tasks one after another, in launch order.
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
    _notebook_view: ClassVar[Callable[["Schedule"], str]]
    """The HTML of a schedule: `compiler.display.html`, a room above this one, sets it."""

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
        check_arguments({"kind": kind}, {"kind": _KIND})
        return tuple(a for a in self.allocations if a.kind == kind)

    def __repr__(self) -> str:
        kernels = len({task.kernel for task in self.tasks})
        return (
            f"<Schedule {self.name!r}: {counted(len(self.tasks), 'task')} of"
            f" {counted(kernels, 'kernel')} on {counted(self.streams, 'stream')}>"
        )

    def _repr_html_(self) -> str:
        """A notebook's view: a table and the order of the tasks."""
        return Schedule._notebook_view(self)
