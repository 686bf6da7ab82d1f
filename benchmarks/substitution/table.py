"""AutoGraph's table on this project's kernels: substitutions and schedules, alone and together.

    python benchmarks/substitution/table.py --json table.json [--networks nasnetmobile repvgg_b0]
        [--variants nimble autograph] [--target cuda:sm_90:fp16] [--seconds 2] [--jobs 16]
        [--prepare FOLDER | --prepared FOLDER] [--exported FOLDER --batch 8]

Needs a CUDA device, but for `--prepare`, which compiles and writes files that `--prepared` measures
on a machine without TVM; without a device it leaves out the `measured` variants. Weights are
random, as only time is measured. All variants of a network are loaded at once and take turns;
figures are medians of the wall time of a run, as one CUDA graph but for `measured` variants, with
the ends of a 95 % interval.
Files of other batches are FOLDER/BATCH/NAME.light.onnx, as `examples.zoo.export` writes them.

Variants: `sequential` (one stream), `taso` (the least sum of kernels' times, one stream), `nimble`
and `ios` (their streams, no substitution), `taso+nimble`, `autograph` and `makespan` (candidates
compared by the simulator, Nimble's streams), `greedy` and `one part` (`autograph` without dynamic
programming: parts filled from the front, or the whole graph searched at once), `alpha=N` (the
cheapest by AutoGraph's cost with that weight of the critical path, Nimble's streams), `ours` (this
project's schedule search without substitutions) and `default` (with them); `ours measured` and
`default measured` are what `compile` gives on the device.
"""

import argparse
import json
import lzma
import multiprocessing
import pickle
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.gpu_peers import exported_file
from compiler.autotune.bindings import timed_run
from compiler.backends.cuda.device import device
from compiler.backends.gpu.executable import GpuExecutable
from compiler.choice.timing import Timing, time_all
from compiler.driver.build import Settings, build
from compiler.errors import FlowloomError
from compiler.kernels.building import KernelCache
from compiler.passes.pipeline import default_pipeline, parse
from compiler.schedule.kernels import KernelSpec
from compiler.schedule.tasks import Schedule
from compiler.tensors.dtypes import numpy_dtype
from examples import zoo

SEQUENTIAL, NIMBLE = "policy=sequential streams=1", "policy=nimble streams=0"
VARIANTS: Mapping[str, tuple[str, str]] = {
    "sequential": ("policy=none", SEQUENTIAL),
    "taso": ("policy=taso select=cost", SEQUENTIAL),
    "nimble": ("policy=none", NIMBLE),
    "ios": ("policy=none", "policy=ios streams=8"),
    "taso+nimble": ("policy=taso select=cost", NIMBLE),
    "autograph": ("policy=autograph", NIMBLE),
    "makespan": ("policy=makespan", NIMBLE),
    "greedy": ("policy=autograph division=greedy", NIMBLE),
    "one part": ("policy=autograph division=one", NIMBLE),
    **{
        f"alpha={alpha}": (f"policy=autograph alpha={alpha} select=cost", NIMBLE)
        for alpha in (0.0, 0.25, 0.5, 0.75, 1.0)
    },
}
"""The options of `substitute` and of `assign-streams`."""

SEARCHED = ("ours", "default")
"""Variants whose schedule is searched for, as it is by default; the first without substitutions."""

MEASURED = {f"{name} measured": name for name in SEARCHED}
"""Variants that are chosen by measurement."""

BUDGET = 3.0
"""Seconds of measuring while one of those is compiled."""
RANDOM_NUMBERS = (1 << 20) + 7
"""Random numbers that weights repeat: a prime, so that no row equals another."""


@dataclass(frozen=True)
class Variant:
    """One network compiled in one way."""

    name: str
    schedule: Schedule
    kernels: dict[str, KernelSpec]
    mode: str
    pdl: bool
    seconds: Mapping[str, float]
    substituted: bool


def pipeline_of(substitution: str, streams: str) -> str:
    """The default pipeline with options of `substitute` and `assign-streams`."""
    options = {"substitute": substitution, "assign-streams": streams}
    return ",".join(
        f"{step.name}{{{options[step.name]}}}" if step.name in options else str(step.spec())
        for step in parse(default_pipeline())
    )


@dataclass(frozen=True)
class Case:
    """A network's file and the target."""

    network: str
    file: Path
    target: str


def compiled(case: Case, name: str) -> Variant:
    """A network compiled as one variant."""
    start = perf_counter()
    pipeline = pipeline_of(*VARIANTS[name]) if name in VARIANTS else None
    settings = Settings(
        case.target,
        pipeline,
        cache=KernelCache(),
        substitution=not name.startswith("ours"),
        budget=BUDGET if name in MEASURED else 0.0,
    )
    if settings.budget:
        device()
    found = build(zoo.load_file(case.file), None, settings)
    choice = found.choice
    seconds = {"compile": perf_counter() - start, "search": _search_seconds(found.passes)}
    assert choice is not None
    schedule = choice.schedule
    mode = schedule.mode if name in MEASURED else "graph"
    return Variant(
        name=name,
        schedule=found.schedule,
        kernels=found.kernels,
        mode=mode,
        pdl=schedule.pdl,
        seconds=seconds,
        substituted="take=" in schedule.pipeline,
    )


def _search_seconds(passes: Sequence[Any]) -> float:
    return sum(one.seconds for one in passes if one.spec.startswith("substitute"))


def prepared(
    cases: Sequence[Case], names: Sequence[str], jobs: int
) -> Iterator[tuple[str, list[Variant]]]:
    """Networks with their variants, compiled in processes, in the order in which they are ready.

    Variants that fail are reported and left out.
    """
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, context) as pool:
        waiting = {
            pool.submit(compiled, case, name): case.network for name in names for case in cases
        }
        found: dict[str, list[Variant]] = {case.network: [] for case in cases}
        left = Counter(waiting.values())
        for future in as_completed(waiting):
            network = waiting[future]
            try:
                found[network].append(future.result())
            except FlowloomError as error:
                print(network, error, file=sys.stderr)
            left[network] -= 1
            if not left[network]:
                yield network, sorted(found[network], key=lambda one: names.index(one.name))


def carried(folder: Path, networks: Sequence[str] | None) -> Iterator[tuple[str, list[Variant]]]:
    """Networks that were prepared, with their variants."""
    for file in sorted(folder.glob("*.xz")):
        if networks is None or file.stem in networks:
            yield file.stem, pickle.loads(lzma.decompress(file.read_bytes()))


def random_weights(schedule: Schedule) -> dict[str, np.ndarray]:
    """Small random numbers for every weight of a schedule, zeros for integers."""
    drawn = 0.05 * np.random.default_rng(0).standard_normal(RANDOM_NUMBERS, np.float32)
    weights: dict[str, np.ndarray] = {}
    for allocation in schedule.allocations:
        if allocation.kind == "weight":
            type, shape = numpy_dtype(allocation.dtype), allocation.shape
            integer = type.kind in "iub"
            weights[allocation.name] = (
                np.zeros(shape, type) if integer else np.resize(drawn.astype(type), shape)
            )
    return weights


def measure(variants: Sequence[Variant], seconds: float) -> dict[str, Timing]:
    """The wall time of each variant in nanoseconds, all in turns on one device."""
    driver = device()
    with ExitStack() as stack:
        runs = {}
        for variant in variants:
            weights = random_weights(variant.schedule)
            loaded = GpuExecutable.load(driver, variant.schedule, variant.kernels, weights)
            executor = loaded.executor(mode=variant.mode, pdl=variant.pdl)
            stack.callback(executor.close)
            runs[variant.name] = timed_run(executor)
        return time_all(runs, seconds, perf_counter, keep=list(runs), samples=400)


def main() -> None:
    """Measure, or prepare what is measured later or elsewhere."""
    arguments = parsed()
    if arguments.prepared:
        ready = carried(arguments.prepared, arguments.networks)
    else:
        names = arguments.networks or [*zoo.names(), *zoo.others()]
        cases = [case_of(name, arguments) for name in names]
        ready = prepared(cases, arguments.variants, arguments.jobs)
    if arguments.prepare:
        keep(ready, arguments.prepare)
    else:
        table(ready if arguments.prepared else [*ready], arguments.seconds, arguments.json)


def keep(ready: Iterable[tuple[str, list[Variant]]], folder: Path) -> None:
    """Write compiled networks to files."""
    folder.mkdir(parents=True, exist_ok=True)
    for network, variants in ready:
        content = lzma.compress(pickle.dumps(variants), preset=0)
        (folder / f"{network}.xz").write_bytes(content)
        print(network, "prepared", flush=True)


def table(ready: Iterable[tuple[str, list[Variant]]], seconds: float, file: Path | None) -> None:
    """Measure networks, one after the other, and write the rows."""
    rows: dict[str, Any] = {}
    for network, variants in ready:
        rows[network] = row_of(variants, measure(variants, seconds))
        medians = {name: round(row["median_us"], 1) for name, row in rows[network].items()}
        print(network, medians, flush=True)
        if file:
            file.write_text(json.dumps(rows, indent=1))


def case_of(network: str, arguments: argparse.Namespace) -> Case:
    """A network at the batch size that was asked for."""
    exported = exported_file(network, arguments.batch, arguments.exported)
    return Case(network, exported or zoo.path(network), arguments.target)


def row_of(variants: Sequence[Variant], timings: Mapping[str, Timing]) -> dict[str, Any]:
    """The figures of one network, by variant."""
    return {
        variant.name: {
            **variant.seconds,
            "median_us": timings[variant.name].median / 1000,
            "low_us": timings[variant.name].low / 1000,
            "high_us": timings[variant.name].high / 1000,
            "tasks": len(variant.schedule.tasks),
            "streams": variant.schedule.streams,
            "mode": variant.mode,
            "substituted": variant.substituted,
        }
        for variant in variants
    }


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--networks", nargs="+")
    every = [*VARIANTS, *SEARCHED, *MEASURED]
    parser.add_argument("--variants", nargs="+", choices=every, default=every)
    parser.add_argument("--target", default="cuda:sm_90:fp16")
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--jobs", type=int, default=1, help="processes that compile")
    parser.add_argument("--prepare", type=Path)
    parser.add_argument("--prepared", type=Path)
    parser.add_argument("--exported", type=Path, help="the folder of files of other batches")
    parser.add_argument("--batch", type=int, default=1)
    found = parser.parse_args()
    if found.batch != 1 and not all(
        exported_file(name, found.batch, found.exported) for name in found.networks or [""]
    ):
        parser.error("another batch needs --networks, and --exported with their files")
    return found


if __name__ == "__main__":
    main()
