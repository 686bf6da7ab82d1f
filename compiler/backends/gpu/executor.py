"""Runs a schedule on a device: binds buffers, queues one run, returns its results."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from threading import RLock
from typing import Any, Literal, Protocol, cast, get_args

from compiler.backends.gpu.arrays import LEGACY_STREAM, DeviceArray
from compiler.backends.gpu.binding import (
    Binder,
    Binding,
    OutputsOption,
    RunBuffers,
    RunSizes,
)
from compiler.backends.gpu.buffers import Buffers
from compiler.backends.gpu.delays import Delays
from compiler.backends.gpu.driver import Driver, Handle
from compiler.backends.gpu.functions import Functions, LoadedKernel, SharedFunctions
from compiler.backends.gpu.graph import GraphSpec
from compiler.backends.gpu.kernels import Calls, has_indirect_entries
from compiler.backends.gpu.nvtx import profiled
from compiler.backends.gpu.run import Run
from compiler.backends.gpu.runners import GraphRunner, StreamRunner
from compiler.backends.gpu.sharing import DeviceShare, Weights
from compiler.backends.gpu.streams import CallerStreams
from compiler.backends.memory import POISON
from compiler.errors import DeviceError
from compiler.schedule.choices import MODES, Mode
from compiler.schedule.kernels import KernelSpec
from compiler.schedule.tasks import Allocation, Schedule
from compiler.scheduling.graph_plan import GraphPlan
from compiler.support.arguments import (
    BOOLEAN,
    SIZES_BY_NAME,
    ArgumentKind,
    choice_of,
    optional,
    taking,
    whole,
)
from compiler.verify.control import refuse_control

EVENTS = 8
"""Events that runs use in turn: a run this many runs ago shares its event with a later one."""

VARIANTS = 4
"""Graphs kept at a time: one for each set of inputs and outputs that are in host memory."""


class ScheduleRunner(Protocol):
    """Queues the launches of a schedule in one of the modes."""

    def update(self, changed: Sequence[int]) -> None:
        """Use the present addresses of these calls."""

    def run(self, stream: Handle) -> None:
        """Queue one run, which the stream sees as one operation."""

    def close(self) -> None:
        """Release what the runner made."""


@dataclass(frozen=True, slots=True)
class ExecutorSettings:
    """How an executor runs its schedule.

    `children` makes each subflow a child graph (mode `graph` only). `bindings` has the binding of
    device buffers by name; others are bound by `update` if it touches at most `updates` nodes, else
    by `copy`; none is bound by `indirection` if that is off. A copied buffer that stays for many
    runs is no longer copied: its nodes get its address. `poison` fills the arena, the outputs and
    the buffers of host inputs with NaN before each run. `pdl` (programmatic dependent launch) lets
    kernels that wait for their predecessors themselves start while these still run. `delays` is a
    seed of random delays before random tasks, for tests: they must change no result. Where inputs
    are random, integers are below their `index_limits`, or below 2.
    """

    mode: Mode = MODES[0]
    children: bool = False
    bindings: Mapping[str, Binding] = field(default_factory=dict[str, Binding])
    updates: int = 16
    indirection: bool = True
    poison: bool = False
    pdl: bool = True
    delays: int | None = None
    index_limits: Mapping[str, int] = field(default_factory=dict[str, int])


def _are_bindings(value: object) -> bool:
    ways = cast(Mapping[object, object], value).values() if isinstance(value, Mapping) else (None,)
    return all(way in get_args(Binding) for way in ways)


GPU_EXECUTOR_OPTIONS: Mapping[str, ArgumentKind] = {
    "mode": choice_of(MODES),
    "children": BOOLEAN,
    "bindings": ArgumentKind("a mapping from names to copy, update or indirection", _are_bindings),
    "updates": whole(),
    "indirection": BOOLEAN,
    "poison": BOOLEAN,
    "pdl": BOOLEAN,
    "delays": optional(whole()),
    "index_limits": SIZES_BY_NAME,
}
"""The fields of `ExecutorSettings` as options, with what they may be."""


@dataclass(frozen=True, slots=True)
class GpuProgram:
    """The resources that executors of one module on one device share, whatever their schedule.

    With a `share` they also share an arena with those of other modules.
    """

    driver: Driver
    functions: Functions
    weights: Weights
    share: DeviceShare | None = None


class Programs:
    """A module's kernels on a device, loaded as schedules need them, and its weights.

    Kernels of schedules with much parallelism share one shared-memory carveout. It is set on the
    function, so that other schedules load their kernels separately. With `code`, other modules have
    the same kernels loaded.
    """

    def __init__(
        self,
        driver: Driver,
        kernels: Mapping[str, KernelSpec],
        weights: Weights,
        share: DeviceShare | None = None,
        code: SharedFunctions | None = None,
    ) -> None:
        self.driver = driver
        self.kernels = kernels
        self.weights = weights
        self.share = share
        self.code = code
        self._loaded: dict[bool, GpuProgram] = {}
        self._lock = RLock()

    def of(self, plan: GraphPlan) -> GpuProgram:
        """The resources that executors of a planned schedule share."""
        with self._lock:
            if plan.crowded not in self._loaded:
                self.driver.make_current()
                load = self.code and partial(self.code.loaded, crowded=plan.crowded)
                functions = Functions(
                    self.driver, plan.schedule, self.kernels, load or LoadedKernel
                )
                if plan.crowded:
                    functions.set_smem_carveout()
                self._loaded[plan.crowded] = GpuProgram(
                    self.driver, functions, self.weights, self.share
                )
            return self._loaded[plan.crowded]


@dataclass(slots=True)
class _Variant:
    """A runner, and the addresses of inputs and outputs that its nodes have."""

    runner: ScheduleRunner
    at: dict[int, int]


class GpuExecutor:
    """One arena and one set of graphs: runs follow each other, whichever thread queues them.

    Several executors of a program run at the same time. A run overwrites the buffers of the run
    before it; results on the host are copied out first.
    """

    def __init__(
        self, program: GpuProgram, plan: GraphPlan, settings: ExecutorSettings | None = None
    ) -> None:
        self.settings = settings or ExecutorSettings()
        self._program = program
        self._driver = program.driver
        self._plan = plan
        self._run_range = f"flowloom run {plan.schedule.name}"
        self._launch_range = f"flowloom launch {self.settings.mode}"
        self._order = DeviceShare() if program.share is None else program.share
        self._lock = self._order.lock
        self._closed = False
        self._driver.make_current()
        schedule = self._plan.schedule
        if self.settings.mode != "graph" or self.settings.children:
            where = "a child graph" if self.settings.children else f"mode {self.settings.mode!r}"
            refuse_control(schedule, where, "run it in mode 'graph' without child graphs")
        self._buffers = Buffers(self._driver, schedule, program.weights.addresses, program.share)
        addresses = self._buffers.addresses
        self._calls = Calls(self._driver, schedule, program.functions, addresses)
        self._at = {index: addresses[index] for index in self._calls.sites}
        self._stream = self._driver.create_stream(ordered_with_default=True)
        self._events = [self._driver.create_event() for _ in range(EVENTS)]
        self._fence = self._driver.create_event()
        self._variants: dict[frozenset[int], _Variant] = {}
        allocations = self._plan.schedule.allocations
        bindings: dict[str, Binding] = {
            allocations[i].name: self._binding(i, allocations[i].name) for i in self._at
        }
        movable = self.binds_freely
        self._binder = Binder(self._driver, schedule, self._buffers, bindings, movable=movable)
        self._indirect: set[int] = set()
        self._runs = 0
        self._streams = CallerStreams(self._driver)
        self._pending: Run | None = None
        self._ready: tuple[RunBuffers, ScheduleRunner] | None = None
        self._sizes: RunSizes | None = None
        self._redirect()

    def for_sizes(
        self, allocations: Sequence[Allocation], writes: Sequence[tuple[int, int]]
    ) -> RunSizes:
        """The sizes of runs in which the schedule's allocations are these, none of them larger."""
        schedule = replace(self.schedule, allocations=tuple(allocations))
        bindings = self._binder.bindings
        binder = Binder(self._driver, schedule, self._buffers, bindings, movable=self.binds_freely)
        return RunSizes(binder, allocations, writes)

    def _binding(self, index: int, name: str) -> Binding:
        if not self.binds_freely:
            return "copy" if self.settings.children else "update"
        touched = len(self._calls.touching(index))
        by_rule: Binding = "update" if touched <= self.settings.updates else "copy"
        return self._checked(name, self.settings.bindings.get(name, by_rule))

    def ways(self, name: str) -> tuple[Binding, ...]:
        """The bindings that a device buffer given as this input or output can have."""
        kinds = self._plan.schedule.allocations
        index = next(i for i in self._at if kinds[i].name == name)
        schedule = self._plan.schedule
        functions = self._program.functions
        if self.settings.indirection and has_indirect_entries(schedule, functions, index):
            return "update", "copy", "indirection"
        return "update", "copy"

    def _checked(self, name: str, binding: Binding) -> Binding:
        if binding not in self.ways(name):
            raise DeviceError(
                f"{name!r} cannot be bound by {binding!r}, only by {', '.join(self.ways(name))}"
            )
        return binding

    def _redirect(self) -> None:
        """Make launches that touch buffers bound by indirection read pointers to them."""
        kinds = self._plan.schedule.allocations
        bindings = self._binder.bindings
        indirect = {i for i in self._at if bindings[kinds[i].name] == "indirection"}
        if indirect != self._indirect:
            self._synchronize()
            self._close_variants()
            self._calls.close()
            functions = self._program.functions
            addresses = self._buffers.addresses
            self._indirect = indirect
            self._calls = Calls(self._driver, self._plan.schedule, functions, addresses, indirect)
            self._at = {index: addresses[index] for index in self._at}

    def _close_variants(self) -> None:
        for variant in self._variants.values():
            variant.runner.close()
        self._variants.clear()
        self._ready = None

    @property
    def bindings(self) -> Mapping[str, Binding]:
        """The binding of a device buffer given as each input or output."""
        return self._binder.bindings

    @property
    def binds_freely(self) -> bool:
        """Whether bindings can be chosen: plain launches take any address, child graphs cannot."""
        return self.settings.mode != "streams" and not self.settings.children

    def bind_by(self, name: str, binding: Binding) -> None:
        """Change how an input or output is bound, from the next run on."""
        with self._lock:
            self._driver.make_current()
            self._binder.set_binding(name, self._checked(name, binding))
            self._redirect()

    @property
    def driver(self) -> Driver:
        """The device."""
        return self._driver

    @property
    def schedule(self) -> Schedule:
        """The schedule that runs."""
        return self._plan.schedule

    def in_place(self, kind: Literal["input", "output"]) -> dict[str, DeviceArray]:
        """The executor's buffers of the inputs or outputs: a run with these copies nothing."""
        every = zip(self._plan.schedule.allocations, self._buffers.addresses, strict=True)
        return {
            a.name: DeviceArray(self._driver, a, address, self)
            for a, address in every
            if a.kind == kind
        }

    @property
    def stream(self) -> Handle:
        """The stream that runs are queued on when the caller names none."""
        return self._stream

    def run(self, inputs: Mapping[str, Any], **options: Any) -> dict[str, Any]:
        """Run and wait; `options` are those of `submit`."""
        try:
            return self.submit(inputs, **options).wait()
        except Exception:
            if not options:
                raise
            with taking("a run", **options):
                raise

    def submit(
        self,
        inputs: Mapping[str, Any],
        outputs: OutputsOption = "numpy",
        stream: Any = None,
        sizes: RunSizes | None = None,
    ) -> Run:
        """Queue one run after what is queued on `stream`, and return at once.

        Inputs are numpy arrays or device arrays. `outputs` is "numpy", "device" (views of buffers
        that the next run overwrites), or arrays of either kind to fill, by name. `stream` is an
        integer or any library's stream; the default is ordered with the legacy default stream.
        Device buffers must live until the run has ended; host inputs are copied at once. `sizes`
        are of `for_sizes`.
        """
        with self._lock, profiled(self._run_range):
            if self._closed:
                raise DeviceError("this executor is closed: make another with module.executor()")
            self._driver.make_current()
            queue = self._stream if stream is None else self._streams.handle(stream)
            self._settle()
            binder = self._binder if sizes is None else sizes.binder
            placement = binder.bind(inputs, outputs, queue)
            self._queue(placement, queue, sizes)
            return self._started(binder, placement, inputs, outputs)

    def _settle(self) -> None:
        """Wait for the last run if it still uses page-locked memory."""
        if self._pending is not None:
            self._pending.wait()

    def _queue(self, placement: RunBuffers, stream: Handle, sizes: RunSizes | None) -> None:
        self._follow(placement, stream)
        if sizes is not None and sizes is not self._sizes:
            for address, number in sizes.writes:
                self._driver.write(address, number, stream)
            self._sizes = sizes
        for copy in placement.copies_in:
            self._driver.copy(*copy, stream)
        if self.settings.poison:
            self._poison(placement, stream, sizes)
        if self._ready is None or self._ready[0] is not placement:
            self._ready = placement, self._runner(placement, stream)
        with profiled(self._launch_range):
            self._ready[1].run(stream)
        for copy in placement.copies_out:
            self._driver.copy(*copy, stream)
        event = self._events[self._runs % EVENTS]
        self._runs += 1
        self._driver.record(event, stream)
        self._order.last = stream, event

    def _poison(self, placement: RunBuffers, stream: Handle, sizes: RunSizes | None) -> None:
        kinds = self._plan.schedule.allocations if sizes is None else sizes.allocations
        self._buffers.poison((i for i in placement.staged if kinds[i].kind == "input"), stream)
        for index, allocation in enumerate(kinds):
            direct = placement.addresses.get(index) != self._buffers.addresses[index]
            if allocation.kind == "output" and direct and allocation.nbytes:
                address = placement.addresses[index]
                self._driver.fill(address, POISON, allocation.nbytes, stream)

    def _started(
        self,
        binder: Binder,
        placement: RunBuffers,
        inputs: Mapping[str, Any],
        outputs: OutputsOption,
    ) -> Run:
        results = binder.results(outputs, self)
        keep = tuple(inputs.values()), placement.capsules
        finish = partial(self._finish, binder, placement)
        run = Run(self._driver, self._events[(self._runs - 1) % EVENTS], results, finish, keep)
        self._pending = run if placement.staged else None  # the next run needs the same staging
        return run

    def _follow(self, placement: RunBuffers, stream: Handle) -> None:
        """Queue after this executor's last run and after the producers of the inputs."""
        last = self._order.last
        if last is not None and last[0] is not stream:
            self._driver.wait(stream, last[1])
        for producer in placement.producers:
            # the executor's own stream is ordered with the legacy default stream as it is
            if producer != LEGACY_STREAM or stream is not self._stream:
                self._driver.record(self._fence, self._driver.stream(producer))
                self._driver.wait(stream, self._fence)

    def _runner(self, placement: RunBuffers, stream: Handle) -> ScheduleRunner:
        """The runner for this placement, with its addresses brought up to date."""
        for index, address in placement.addresses.items():
            if self._at[index] != address:
                for pointer, value in self._calls.move(index, address):
                    self._driver.write(pointer, value, stream)
                self._at[index] = address
        staged = frozenset(placement.staged)
        variant = self._variants.get(staged)
        if variant is None:
            if len(self._variants) >= VARIANTS:
                self._synchronize()
                self._ready = None
                self._variants.pop(next(iter(self._variants))).runner.close()
            variant = _Variant(self._make(staged, stream), dict(self._at))
            self._variants[staged] = variant
        stale = [index for index, address in self._at.items() if variant.at[index] != address]
        if stale:
            calls = {call for index in stale for call in self._calls.touching(index)}
            variant.runner.update(sorted(calls))
            variant.at = dict(self._at)
        return variant.runner

    def _make(self, staged: frozenset[int], stream: Handle) -> ScheduleRunner:
        kinds = self._plan.schedule.allocations
        inputs = self._buffers.transfers(i for i in staged if kinds[i].kind == "input")
        outputs = self._buffers.transfers(i for i in staged if kinds[i].kind == "output")
        spec = GraphSpec(
            driver=self._driver,
            plan=self._plan,
            calls=self._calls,
            delays=Delays(self._driver, self.settings.delays),
            pdl=self.settings.pdl,
            copies_in=inputs,
            copies_out=outputs,
        )
        if self.settings.mode == "graph":
            return GraphRunner(spec, stream, children=self.settings.children)
        return StreamRunner(spec, stream, graphs=self.settings.mode == "subgraphs")

    def _finish(
        self, binder: Binder, placement: RunBuffers, run: Run, results: dict[str, Any]
    ) -> None:
        """Take a run's results out of page-locked memory, unless the next run already did."""
        with self._lock:
            if self._pending is run:
                binder.collect(placement, results)
                self._pending = None

    def _synchronize(self) -> None:
        if self._order.last is not None:
            self._driver.synchronize_event(self._order.last[1])

    def close(self) -> None:
        """Wait for the last run and release everything; the executor cannot be used afterwards."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._driver.make_current()
            self._settle()
            self._synchronize()
            self._close_variants()
            self._calls.close()
            self._order.last = None
            for event in (*self._events, self._fence):
                self._driver.destroy_event(event)
            self._driver.destroy_stream(self._stream)
            self._buffers.close()

    def __del__(self) -> None:
        with suppress(Exception):
            self.close()
