"""The facts of a compiled module that the explorer shows, from what the module records."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from math import prod
from typing import Any

from compiler.artifact.module import Module
from compiler.kernels.building.module import exact_target
from compiler.kernels.group import Group
from compiler.schedule.kernels import KernelSpec, Launch
from compiler.schedule.tasks import Schedule, Task, View
from compiler.scheduling.bounds import lower_bound, needs
from compiler.scheduling.critical_path import TENSOR_FACTOR, floor_time
from compiler.scheduling.kernel_time import CONTRACTION_RATES, rates_of
from compiler.scheduling.prediction import Prediction, prediction
from compiler.scheduling.simulator import Timeline
from compiler.support.dag import adjacency, critical_path
from compiler.target.devices import DeviceModel
from compiler.target.target import Target, parse_target
from compiler.tools.arena import arena_tensors, steps_of
from compiler.tools.explore.choice import choice_fact, option_facts
from compiler.tools.explore.configs import KernelConfig
from compiler.tools.explore.document import (
    AllocationFact,
    DeviceFact,
    HelpFact,
    KernelFact,
    MemoryFact,
    ModuleFact,
    OperatorFact,
    PassFact,
    RegionFact,
    TaskFact,
    ViewFact,
)
from compiler.tools.explore.layout import drawn
from compiler.tools.explore.sources import LISTED, kernel_sources
from compiler.tools.inputs import random_inputs
from compiler.tools.measured import MeasuredRun, measured_run
from compiler.tools.roof import roof_of


def memory_fact(schedule: Schedule, timeline: Timeline) -> MemoryFact:
    """Allocations, the tensors of arenas, and bytes in use over the predicted time."""
    regions: list[RegionFact] = []
    for index, allocation in enumerate(schedule.allocations):
        if allocation.kind == "arena":
            regions += _regions(schedule, index, timeline, len(regions))
    steps = steps_of((region.start, region.end, region.nbytes) for region in regions)
    return MemoryFact(
        allocations=[
            AllocationFact(a.kind, a.name, a.dtype, a.shape, a.nbytes) for a in schedule.allocations
        ],
        regions=regions,
        steps=steps,
        peak=max((nbytes for _, nbytes in steps), default=0),
        apart=sum(region.nbytes for region in regions),
    )


def _regions(
    schedule: Schedule, number: int, timeline: Timeline, base: int
) -> Iterator[RegionFact]:
    """The tensors of one arena in the order of the tasks that write them."""
    for tensor in arena_tensors(schedule, number):
        yield RegionFact(
            allocation=number,
            offset=tensor.begin,
            nbytes=tensor.nbytes,
            first=tensor.first,
            final=tensor.readers[-1],
            start=timeline.start[tensor.first],
            end=max(timeline.end[task] for task in tensor.readers),
            reuses=tuple(base + reused for reused in tensor.reuses),
        )


NOT_RECORDED = KernelConfig("", "not recorded")
"""The config of a kernel of an artifact, which keeps the code and not how it was chosen."""


def module_fact(
    module: Module,
    operators: Sequence[OperatorFact] = (),
    passes: Sequence[PassFact] = (),
    configs: Mapping[str, KernelConfig] | None = None,
    groups: Mapping[str, Group] | None = None,
) -> ModuleFact:
    """Everything of a module; what only its compilation knows is given."""
    predicted = prediction(module)
    run = measured_run(module, random_inputs(module, 0))
    roof = roof_of(module, predicted, run)
    on_cpu = parse_target(module.target).backend == "cpu"
    schedule = module.schedule
    edges = needs(module.schedule)
    early = module.choice is not None and module.choice.schedule.pdl
    gpu = parse_target(module.target).is_gpu
    return ModuleFact(
        name=schedule.name,
        target=module.target,
        mode=predicted.mode,
        makespan=predicted.timeline.makespan,
        bound=lower_bound(predicted.works, edges, predicted.device, early=early).time,
        measured=run.note,
        device=DeviceFact(
            name=parse_target(module.target).architecture if gpu else "one CPU core",
            flops=roof.flops,
            tensor_flops=TENSOR_FACTOR * roof.flops if gpu else 0.0,
            bandwidth=roof.bandwidth,
            sms=predicted.device.sms if gpu else 1,
        ),
        streams=schedule.streams,
        threads=_threads(run) if on_cpu else 0,
        helps=[HelpFact(span.task, span.thread, span.start, span.end) for span in run.help],
        options=option_facts(module),
        tasks=task_facts(schedule, predicted, run, edges, on_cpu),
        kernels=kernel_facts(module, predicted, roof, configs or {}, groups or {}),
        operators=list(operators),
        layout=drawn(len(schedule.tasks), edges),
        memory=memory_fact(schedule, predicted.timeline),
        passes=list(passes),
        choice=choice_fact(module, configs or {}),
    )


def _threads(run: MeasuredRun) -> int:
    """The threads that worked in a measured run; 0 without one."""
    threads = [time.thread for time in run.times or ()]
    return max((*threads, *(span.thread for span in run.help)), default=-1) + 1


def task_facts(
    schedule: Schedule,
    predicted: Prediction,
    run: MeasuredRun,
    edges: Sequence[tuple[int, int]],
    on_cpu: bool,
) -> list[TaskFact]:
    """The tasks in launch order, those on the longest path of `edges` marked."""
    times = [work.time for work in predicted.works]
    path = set(critical_path(times, adjacency(len(times), edges)))
    ran = run.times
    return [
        TaskFact(
            kernel=task.kernel,
            stream=task.stream,
            subflow=task.subflow,
            after=task.after,
            start=predicted.timeline.start[index],
            end=predicted.timeline.end[index],
            alone=times[index],
            measured=None if ran is None else (ran[index].start, ran[index].end),
            thread=ran[index].thread if ran is not None and on_cpu else None,
            critical=index in path,
            nodes=task.nodes,
            reads=[_view(view, schedule) for view in task.reads],
            writes=[_view(view, schedule) for view in task.writes],
        )
        for index, task in enumerate(schedule.tasks)
    ]


def _view(view: View, schedule: Schedule) -> ViewFact:
    allocation = schedule.allocations[view.allocation]
    return ViewFact(
        kind=allocation.kind,
        name=allocation.name,
        allocation=view.allocation,
        offset=view.offset,
        nbytes=view.nbytes,
        dtype=view.dtype,
        shape=view.shape,
    )


def kernel_facts(
    module: Module,
    predicted: Prediction,
    roof: DeviceModel,
    configs: Mapping[str, KernelConfig],
    groups: Mapping[str, Group],
) -> list[KernelFact]:
    """The kernels that tasks of the schedule or of bodies launch, the most costly first."""
    kernels = module.kernels
    schedule = module.schedule
    times: dict[str, float] = defaultdict(float)
    for task, work in zip(schedule.tasks, predicted.works, strict=True):
        times[task.kernel] += work.time
    tasks = Counter(task.kernel for task in schedule.all_tasks)
    target = exact_target(module.target)
    facts = [
        _kernel(
            kernels[name],
            tasks=count,
            time=times[name],
            measured=name in predicted.measured,
            roof=roof,
            config=configs.get(name, NOT_RECORDED),
            gpu=target.is_gpu,
        )
        for name, count in tasks.items()
        if name in kernels
    ]
    facts.sort(key=lambda fact: (-fact.time, fact.name))
    return [
        _with_sources(fact, kernels[fact.name], groups.get(fact.name), target, rank < LISTED)
        for rank, fact in enumerate(facts)
    ]


def _with_sources(
    fact: KernelFact, kernel: KernelSpec, group: Group | None, target: Target, listed: bool
) -> KernelFact:
    sources, lacking = kernel_sources(kernel, group, target, listed)
    return replace(fact, sources=sources, lacking=lacking)


def _kernel(
    kernel: KernelSpec,
    tasks: int,
    time: float,
    measured: bool,
    roof: DeviceModel,
    config: KernelConfig,
    gpu: bool,
) -> KernelFact:
    staged = gpu and bool(kernel.launches) and rates_of(kernel) is CONTRACTION_RATES
    return KernelFact(
        name=kernel.name,
        language=kernel.language,
        tasks=tasks,
        time=time,
        floor=floor_time(kernel, roof),
        measured=measured,
        flops=kernel.flops,
        traffic=kernel.traffic_bytes,
        flops_peak=roof.flops * (TENSOR_FACTOR if staged else 1.0),
        code=len(kernel.code),
        reads=tuple(map(str, kernel.reads)),
        writes=tuple(map(str, kernel.writes)),
        packings=kernel.packings,
        workspaces=kernel.workspaces,
        launches=[launch_fact(launch, roof) for launch in kernel.launches],
        template=config.template,
        provenance=config.provenance,
        config=config.config,
        candidates=config.candidates,
        sources={},
        lacking="",
    )


def launch_fact(launch: Launch, device: DeviceModel) -> dict[str, Any]:
    """The fields of a launch, and how it fills the SMs, where its registers are known."""
    fields = {name: value for name, value in asdict(launch).items() if name != "args"}
    if not launch.registers:
        return {**fields, **dict.fromkeys(("resident_blocks", "occupancy", "waves"))}
    threads = prod(launch.block)
    shared = launch.shared_bytes + launch.static_shared_bytes
    resident = device.resident_blocks(threads, launch.registers, shared)
    return {
        **fields,
        "resident_blocks": resident,
        "occupancy": resident * -(-threads // 32) * 32 / device.threads,
        "waves": prod(launch.grid) / (resident * device.sms),
    }


def control_note(tasks: Sequence[Task]) -> str:
    """A sentence on tasks whose bodies the page shows as one task; empty without any."""
    count = sum(task.control is not None for task in tasks)
    return (
        f"{count} tasks are an If or a Loop: their bodies are shown as one task." if count else ""
    )
