"""Kernels and schedules of zoo models, prepared where TVM is and measured where a GPU is.

A file of cases holds no weights: their values do not decide how long a kernel takes.
"""

import lzma
import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from compiler.schedule.kernels import KernelSpec, Launch
from compiler.schedule.tasks import Schedule, Task
from compiler.target.target import parse_target

STREAMS = "assign-streams{policy=opara streams=4}"
POLICIES = {
    "sequential": ("policy=none", "assign-streams{policy=sequential streams=1}"),
    "opara2": ("policy=none", "assign-streams{policy=opara streams=2}"),
    "opara4": ("policy=none", STREAMS),
    "opara32": ("policy=none", "assign-streams{policy=opara streams=32}"),
    "ppd4": ("policy=none", "assign-streams{policy=ppd streams=4}"),
    "ppd8-opara4": ("policy=ppd max-nodes=8", STREAMS),
}
"""The schedules of each model: options of `partition`, and how streams are assigned."""


@dataclass(frozen=True)
class Case:
    """One model: its kernels and some schedules of them, both by name."""

    model: str
    kernels: dict[str, KernelSpec]
    schedules: dict[str, Schedule]


def prepare(model: str, target: str, jobs: int = 0) -> Case:
    """Build a zoo model's kernels and schedules."""
    from compiler.autotune.schedule.candidates import scheduled_specs, set_costs
    from compiler.driver.build import annotate
    from compiler.frontend.importing import import_model
    from compiler.graph.targets import set_target
    from compiler.kernels.building import KernelCache, build_kernels
    from compiler.passes.pipeline import DEFAULT_PIPELINE, default_pipeline, parse, split_phases
    from compiler.passes.runner import Runner
    from compiler.scheduling.costs import Costs
    from examples import zoo

    module = import_model(zoo.load(model)).module
    set_target(module, target)
    Runner(None).run(module, split_phases(parse(DEFAULT_PIPELINE))[0])
    kernels = build_kernels(module, target, KernelCache(), jobs)
    annotate(module, kernels)
    competing = {
        name: default_pipeline(partition).replace(STREAMS, streams)
        for name, (partition, streams) in POLICIES.items()
    }
    set_costs(module, Costs.make(kernels, {}, parse_target(target).architecture).of)
    found = {spec.name: _bare(spec.schedule) for spec in scheduled_specs(module, competing)}
    return Case(model, kernels, found)


def _bare(schedule: Schedule) -> Schedule:
    return replace(schedule, tasks=tuple(replace(task, nodes=()) for task in schedule.tasks))


SPIN = """
extern "C" __global__ void empty() {}
extern "C" __global__ void spin() {
  long long start = clock64();
  while (clock64() - start < 4000) {}
}
"""

SPINS = {
    "spin1": (1, 128),
    "spin16": (16, 128),
    "spin66": (66, 1024),
    "spin132": (132, 1024),
    "spin198": (198, 1024),
    "spin264": (264, 1024),
    "spin330": (330, 1024),
    "spin1056": (1056, 256),
}
"""Blocks and threads of kernels that do nothing for about 2 us a block."""


def synthetic(target: str) -> Case:
    """Kernels of known work in schedules of known shape, which show the device's latencies."""
    from compiler.kernels.gpu.compilers.nvrtc import compile_cubin
    from compiler.target.target import parse_gpu

    cubin = compile_cubin(SPIN, parse_gpu(target))
    kernels = {"empty": KernelSpec("empty", "cuda", cubin, (Launch("empty", ()),), ())}
    for name, (blocks, threads) in SPINS.items():
        launch = Launch("spin", (), (blocks, 1, 1), (threads, 1, 1))
        kernels[name] = KernelSpec(name, "cuda", cubin, (launch,), ())
    return Case("synthetic", kernels, dict(_shapes(("empty", "spin16"))) | dict(_shared()))


def _shapes(names: Iterable[str]) -> Iterator[tuple[str, Schedule]]:
    for name in names:
        for length in (1, 2, 20, 100):
            yield f"chain-{length}-{name}", _schedule([(name, 0, ())] * length)
        for width in (2, 3, 4, 8, 16):
            yield f"levels-{width}-{name}", _levels(name, width, 20)
            yield f"chains-{width}-{name}", _chains([name] * width, 20)
            yield f"crossed-{width}-{name}", _crossed(name, width, 20)


def _shared() -> Iterator[tuple[str, Schedule]]:
    """Pairs of chains that need more than the device has together, or do not."""
    for first in SPINS:
        for second in SPINS:
            if first <= second:
                yield f"pair-{first}-{second}", _chains([first, second], 40)


def _schedule(tasks: list[tuple[str, int, tuple[int, ...]]]) -> Schedule:
    return Schedule("synthetic", (), tuple(Task(k, s, after, (), ()) for k, s, after in tasks))


def _chains(names: list[str], length: int) -> Schedule:
    return _schedule([(name, s, ()) for _ in range(length) for s, name in enumerate(names)])


def _levels(name: str, width: int, count: int) -> Schedule:
    """A task, then `width` tasks that wait for it, then one that waits for those, and so on."""
    tasks: list[tuple[str, int, tuple[int, ...]]] = [(name, 0, ())]
    for _ in range(count):
        fork = len(tasks) - 1
        tasks += [(name, stream, (fork,)) for stream in range(width)]
        tasks.append((name, 0, tuple(range(fork + 1, fork + width + 1))))
    return _schedule(tasks)


def _crossed(name: str, width: int, count: int) -> Schedule:
    """Streams where each task also waits for the last but one of the neighbouring stream."""
    tasks: list[tuple[str, int, tuple[int, ...]]] = []
    for level in range(count):
        for stream in range(width):
            other = (level - 1) * width + (stream + 1) % width
            tasks.append((name, stream, (other,) if level else ()))
    return _schedule(tasks)


def every(models: Iterable[str] | None, target: str) -> Iterator[Case]:
    """The synthetic case and those of some models, or of all but the largest."""
    from examples import zoo

    yield synthetic(target)
    for name in models or [name for name in zoo.names() if name != "gpt2large"]:
        print(name, flush=True)
        yield prepare(name, target)


def save(cases: Iterable[Case], path: Path) -> None:
    """Write cases as one compressed file."""
    path.write_bytes(lzma.compress(pickle.dumps(list(cases))))


def load(path: Path) -> list[Case]:
    """Read a file that `save` wrote (only your own: it is a pickle)."""
    cases: list[Case] = pickle.loads(lzma.decompress(path.read_bytes()))
    return cases
