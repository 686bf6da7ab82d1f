"""The document that a page of `flowloom explore` shows, as plain records.

Times are in nanoseconds, sizes and offsets in bytes. Tasks, regions and operators are named by
their indices in their lists. `web/src/document.ts` has the same records in TypeScript.
"""

from dataclasses import dataclass, field
from typing import Any, Literal

EXPLORE_FORMAT = "flowloom-explore"
EXPLORE_VERSION = 1
"""Raised when a field of a record changes its meaning; the page refuses other versions."""


@dataclass(frozen=True)
class ViewFact:
    """A tensor that a task reads or writes: the allocation's kind and name, and its place there."""

    kind: str
    name: str
    allocation: int
    offset: int
    nbytes: int
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class TaskFact:
    """A task: its kernel, stream, predicted and measured times, and what it reads and writes.

    `alone` is the time of its kernel alone on the device. `measured` is None where no run was
    measured, and `thread`, which ran it, is None but for a CPU's. `critical` tasks are on the
    longest path of data dependencies.
    """

    kernel: str
    stream: int
    subflow: int | None
    after: tuple[int, ...]
    start: float
    end: float
    alone: float
    measured: tuple[float, float] | None
    thread: int | None
    critical: bool
    nodes: tuple[str, ...]
    reads: list[ViewFact]
    writes: list[ViewFact]


@dataclass(frozen=True)
class HelpFact:
    """When a thread of the CPU executed blocks of a task that another thread ran."""

    task: int
    thread: int
    start: float
    end: float


@dataclass(frozen=True)
class OperatorFact:
    """An operator of the graph before it was lowered, in the group that became `task`.

    A view, which has no kernel, has the task None. `reads` are operators; `inputs` and `outputs`
    are types with their layouts.
    """

    type: str
    name: str
    task: int | None
    reads: tuple[int, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, str]


@dataclass(frozen=True)
class TileFact:
    """A config that was measured for a kernel alone: its times with warm and with cold caches.

    `low` and `high` are the 95 % interval of `warm`, None where the database has none. `chosen` is
    the one that the kernel was built with.
    """

    template: str
    config: dict[str, str]
    warm: float
    low: float | None
    high: float | None
    cold: float | None
    device: str
    chosen: bool


@dataclass(frozen=True)
class KernelFact:
    """A kernel: its work, launches and source, and the provenance of its configuration.

    A GPU's launches have the blocks that an SM holds at a time, the occupancy (their warps of those
    that it can hold) and the waves of blocks, None where registers are unknown.
    `sources` are its texts by what they are, `lacking` says why there are no others.
    `time` is that of all `tasks` alone; `floor` is the least time of its FLOPs and its bytes on the
    device, of one task. `flops_peak` is the roof, in FLOPs in a ns, of the units that it uses.
    """

    name: str
    language: str
    tasks: int
    time: float
    floor: float
    measured: bool
    flops: int
    traffic: int
    flops_peak: float
    code: int
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    packings: tuple[str, ...]
    workspaces: tuple[int, ...]
    launches: list[dict[str, Any]]
    template: str
    provenance: str
    config: dict[str, str]
    candidates: list[TileFact]
    sources: dict[str, str]
    lacking: str


@dataclass(frozen=True)
class RegionFact:
    """Bytes of an arena that are in use from one task's start to another's end.

    `reuses` are the regions whose bytes it takes over.
    """

    allocation: int
    offset: int
    nbytes: int
    first: int
    final: int
    start: float
    end: float
    reuses: tuple[int, ...]


@dataclass(frozen=True)
class AllocationFact:
    """A contiguous piece of memory: an input, an output, a weight or the arena."""

    kind: str
    name: str
    dtype: str
    shape: tuple[int, ...]
    nbytes: int


@dataclass(frozen=True)
class MemoryFact:
    """The allocations, and of arenas their regions and the bytes in use over time.

    `steps` are pairs of a time and the bytes in use from then on. `apart` is the size of an arena
    in which no two regions share bytes.
    """

    allocations: list[AllocationFact]
    regions: list[RegionFact]
    steps: list[tuple[float, int]]
    peak: int
    apart: int


@dataclass(frozen=True)
class PassFact:
    """The IR after a pass: the spec, the text and what it holds.

    The text is empty where the pass changed none of it: `same` then says that. `counts` are by
    name: operators, groups, tasks, tokens, bytes of arenas.
    """

    spec: str
    file: str
    same: bool
    text: str
    counts: dict[str, int]


@dataclass(frozen=True)
class CandidateFact:
    """A schedule and mode that competed: the predicted time, and the measured one with its 95 %."""

    name: str
    predicted: float | None
    median: float | None
    low: float | None
    high: float | None
    count: int
    note: str
    chosen: bool


@dataclass(frozen=True)
class ChoiceFact:
    """Which schedules competed, and why one was chosen; `sentence` says it in words.

    `policies` are pairs of a policy and its simulated time, `bound` the lower bounds by name.
    `facts` are pairs of a label and a text.
    """

    sentence: str
    candidates: list[CandidateFact]
    policies: list[tuple[str, float]]
    search: str
    bound: dict[str, float]
    tiles: str
    facts: list[tuple[str, str]]


@dataclass(frozen=True)
class LayoutFact:
    """Where the graph's tasks are drawn: a layer for each, and a place in it, in node widths.

    `routes` are, for each edge that spans several layers, its places in the layers between.
    """

    layers: list[int]
    places: list[float]
    edges: list[tuple[int, int]]
    routes: list[list[float]]


@dataclass(frozen=True)
class DeviceFact:
    """The roofs: FLOPs and bytes in a ns; `tensor_flops` are tensor cores'.

    They are the device model's; where a CPU ran the module, those measured of one of its cores.
    """

    name: str
    flops: float
    tensor_flops: float
    bandwidth: float
    sms: int


@dataclass(frozen=True)
class ModuleFact:
    """One static graph, compiled: everything that the page shows of it.

    `threads` are the rows of a run that was measured on a CPU, else 0: rows are streams.
    """

    name: str
    target: str
    mode: str
    makespan: float
    bound: float
    measured: str
    device: DeviceFact
    streams: int
    threads: int
    helps: list[HelpFact]
    options: list[tuple[str, str]]
    tasks: list[TaskFact]
    kernels: list[KernelFact]
    operators: list[OperatorFact]
    layout: LayoutFact
    memory: MemoryFact
    passes: list[PassFact]
    choice: ChoiceFact


@dataclass(frozen=True)
class StepFact:
    """A step of a program: a segment, whose compiled graphs are `modules`, or a node on the host.

    `reason` says why a node runs on the host.
    """

    kind: Literal["segment", "host"]
    label: str
    nodes: list[str]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class SideFact:
    """A module or a program: what was named on the command line, and its compiled graphs.

    `steps` is empty for a module, which has one graph; `note` says how to see more.
    """

    title: str
    note: str
    labels: list[str]
    modules: list[ModuleFact]
    steps: list[StepFact] = field(default_factory=list[StepFact])


@dataclass(frozen=True)
class ExploreDocument:
    """The whole page: one side, or two to compare."""

    sides: list[SideFact]
    format: str = EXPLORE_FORMAT
    version: int = EXPLORE_VERSION
