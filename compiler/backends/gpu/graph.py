"""A schedule, or a part of one, as an explicit graph: nodes added one by one, nothing captured."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from compiler.backends.gpu.control import add_control
from compiler.backends.gpu.delays import Delays
from compiler.backends.gpu.driver import Direction, Driver, Handle
from compiler.backends.gpu.kernels import Calls
from compiler.backends.gpu.memory import size
from compiler.errors import DeviceError
from compiler.scheduling.graph_plan import GraphPlan
from compiler.scheduling.subflows import Subflow, subflows

SETTLED = 8
"""After this many runs at the same addresses it pays to rebuild an updated graph."""


@dataclass(frozen=True, slots=True)
class Transfer:
    """One copy between page-locked host memory and neighbouring inputs or outputs."""

    allocations: tuple[int, ...]
    device: int
    host: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class GraphSpec:
    """The device, plan and launches of a schedule's graphs, and its copies from and to the host.

    With `pdl` (programmatic dependent launch), a kernel that waits for its predecessors itself may
    start before they have ended. `delays` are added before tasks.
    """

    driver: Driver
    plan: GraphPlan
    calls: Calls
    delays: Delays
    pdl: bool = True
    copies_in: Sequence[Transfer] = ()
    copies_out: Sequence[Transfer] = ()


class GraphBuilder:
    """Adds tasks, copies and child graphs to a new graph, and remembers their nodes.

    `nodes` maps each call to its kernel node; calls inside child graphs have none. `early` says
    whether any kernel may start before its predecessors have ended. Implied edges are left out,
    also where kernels start early: a kernel ends after its own wait, so its end implies the end of
    all its predecessors.
    """

    def __init__(self, spec: GraphSpec) -> None:
        self._spec = spec
        self._driver = spec.driver
        self._plan = spec.plan
        self._calls = spec.calls
        self.graph = spec.driver.create_graph()
        self.nodes: dict[int, Handle] = {}
        self.early = False
        self._last: dict[int, Handle] = {}
        self._kernels: set[int] = set()
        self._entries: dict[int, list[Handle]] = {}

    def add_copies_in(self, transfers: Iterable[Transfer]) -> None:
        """Add copies into inputs; the first readers added later follow them."""
        for copy in transfers:
            node = self._copy(copy, (), "to_device")
            for allocation in copy.allocations:
                for task in self._plan.readers[allocation]:
                    self._entries.setdefault(task, []).append(node)

    def add_copies_out(self, transfers: Iterable[Transfer]) -> None:
        """Add copies out of outputs, after the last tasks that touch them."""
        for copy in transfers:
            tasks = {t for a in copy.allocations for t in self._plan.writers[a]}
            self._copy(copy, self._distinct(self._last[task] for task in tasks), "from_device")

    def _copy(self, copy: Transfer, predecessors: Sequence[Handle], direction: Direction) -> Handle:
        ends = (copy.device, copy.host)
        destination, source = ends if direction == "to_device" else ends[::-1]
        return self._driver.add_copy(
            self.graph, predecessors, destination, source, copy.nbytes, direction=direction
        )

    def add_task(self, task: int) -> None:
        """Add a task's launches as a chain, after its predecessors that are in this graph."""
        ended, kernels = self._before(task)
        delay = self._spec.delays.before(task)
        if delay is not None:
            late = self._driver.add_call(self.graph, (*ended, *kernels), delay)
            ended = (*ended, late)
        if (control := self._calls.control(task)) is not None:
            self._last[task] = add_control(self._driver, self.graph, (*ended, *kernels), control)
            return
        for index in self._calls.of_task[task]:
            # Add a kernel node after `ended`, which must have ended; `kernels` may still run.
            early = kernels if self._spec.pdl and self._calls.programmatic[index] else ()
            self.early |= bool(early)
            predecessors = ended if early else (*ended, *kernels)
            call = self._calls.calls[index]
            priority = self._plan.priorities[task]
            self.nodes[index] = self._driver.add_call(
                self.graph, predecessors, call, priority, early
            )
            ended = ()
            kernels = (self.nodes[index],)
        if self._calls.of_task[task]:
            self._kernels.add(task)
            self._last[task] = kernels[0]
        else:
            self._last[task] = self._driver.add_empty(self.graph, (*ended, *kernels))

    def add_unit(self, unit: Subflow) -> None:
        """Add several tasks as one child graph, or a single task directly."""
        if len(unit.tasks) == 1:
            self.add_task(unit.tasks[0])
            return
        child = GraphBuilder(self._spec)
        for task in unit.tasks:
            child.add_task(task)
        predecessors = self._distinct(
            node for task in unit.tasks for nodes in self._before(task) for node in nodes
        )
        node = self._driver.add_child(self.graph, predecessors, child.graph)
        self._driver.destroy_graph(child.graph)
        self._last |= dict.fromkeys(unit.tasks, node)

    def _before(self, task: int) -> tuple[Sequence[Handle], Sequence[Handle]]:
        """A task's predecessors: copies, child graphs and empty nodes; then kernel nodes."""
        earlier = [u for u in self._plan.before[task] if u in self._last]
        kernels = [self._last[u] for u in earlier if u in self._kernels]
        ended = [self._last[u] for u in earlier if u not in self._kernels]
        return self._distinct((*self._entries.get(task, ()), *ended)), self._distinct(kernels)

    @staticmethod
    def _distinct(nodes: Iterable[Handle]) -> tuple[Handle, ...]:
        """The handles without repetition, in order (they need not be hashable)."""
        return tuple({id(node): node for node in nodes}.values())


class ExecutableGraph:
    """An instantiated graph; the graph itself is kept, since updates name its nodes.

    After an update CUDA runs it as if no kernel could start early: BERT-128 in fp16 takes 8 %
    longer on an H200. So a graph whose addresses stay for SETTLED runs is built again.
    """

    def __init__(self, driver: Driver, build: Callable[[], GraphBuilder], stream: Handle) -> None:
        self._driver = driver
        self._build = build
        self._stream = stream
        self._runs: int | None = None
        self._make()

    def _make(self) -> None:
        """Build and instantiate the graph; DeviceError says how large it is if that fails."""
        driver = self._driver
        builder = self._build()
        try:
            self._executable = driver.instantiate(builder.graph, self._stream)
        except DeviceError as error:
            driver.destroy_graph(builder.graph)
            raise DeviceError(
                f"a graph of {len(builder.nodes)} kernels cannot be made with "
                f"{size(driver.free_memory())} of device memory free: {error}"
            ) from error
        self._graph = builder.graph
        self._nodes = builder.nodes
        self._early = builder.early

    def update(self, calls: Calls, changed: Iterable[int]) -> None:
        """Give the nodes of these calls their present addresses."""
        for index in changed:
            if index in self._nodes:
                self._driver.update_call(self._executable, self._nodes[index], calls.calls[index])
                self._runs = 0 if self._early else None

    def launch(self, stream: Handle) -> None:
        """Queue one run."""
        if self._runs is not None:
            self._settle(self._runs + 1)
        self._driver.launch_graph(self._executable, stream)

    def _settle(self, runs: int) -> None:
        """Count a run after an update; without memory for a new graph the old one stays."""
        self._runs = runs
        if runs > SETTLED:
            self._runs = None
            graph = self._graph
            executable = self._executable
            with suppress(DeviceError):
                self._make()
                self._destroy(graph, executable)

    def _destroy(self, graph: Handle, executable: Handle) -> None:
        """Destroy graph and executable; CUDA frees one in flight when its run has ended."""
        self._driver.destroy_executable(executable)
        self._driver.destroy_graph(graph)

    def close(self) -> None:
        """Destroy the graph and its executable."""
        self._destroy(self._graph, self._executable)


def whole_graph(spec: GraphSpec, *, children: bool = False) -> GraphBuilder:
    """The graph of a whole schedule, critical branch first, with its copies from and to the host.

    With `children`, each subflow is a child graph.
    """
    builder = GraphBuilder(spec)
    builder.add_copies_in(spec.copies_in)
    if children:
        for unit in subflows(spec.plan.schedule):
            builder.add_unit(unit)
    else:
        for task in spec.plan.order:
            builder.add_task(task)
    builder.add_copies_out(spec.copies_out)
    return builder


def unit_graph(spec: GraphSpec, unit: Subflow) -> GraphBuilder:
    """The graph of one unit; its stream and events order it after other units."""
    builder = GraphBuilder(spec)
    for task in unit.tasks:
        builder.add_task(task)
    return builder
