"""Time of the prepare step of `flowloom tune --ray` by one worker and by two, and who did what.

    python benchmarks/distributed/ray_scaling.py [--models googlenet] [--precisions tf32 fp16]
        [--workers 1 2] [--repeat 1]

Each worker is a node of a Ray cluster on this machine with one core. The nodes are new each time,
and start their processes with the first parts. Busy seconds are the CPU time of a worker's process,
its imports included: those of the busiest are what the clock would show if every worker had a core
to itself.
"""

import argparse
import os
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import onnx

from compiler.autotune.kernels.bundle import Bundle, merge_bundles
from compiler.autotune.kernels.on_ray import RayMachines, order_of, ray_machines
from compiler.autotune.kernels.remote_measure import MeasuringTools
from compiler.autotune.kernels.tune import TuneOptions
from compiler.tools.models import named_model

STORE_BYTES = 200 << 20
"""The object store of a node."""


@dataclass(frozen=True)
class TimedPart:
    """A part that says which process did it, and the CPU time of that until then."""

    part: Any

    def run(self) -> tuple[Any, int, float]:
        """The part's result, the process and its seconds."""
        return self.part.run(), os.getpid(), process_time()


def nominal_device() -> Any:
    """An H200 by name: preparing asks for its architecture alone."""
    return SimpleNamespace(
        device=SimpleNamespace(architecture="sm_90", multiprocessors=132, name="H200")
    )


def no_texts(*_: Any, **__: Any) -> Iterator[tuple[int, bytes | str]]:
    """Compiles nothing: nothing is measured."""
    return iter(())


@contextmanager
def workers(count: int) -> Generator[RayMachines, None, None]:
    """A new Ray cluster of some nodes with a core each."""
    start = import_module("ray.cluster_utils").Cluster
    node = {"num_cpus": 1, "object_store_memory": STORE_BYTES}
    nodes = start(initialize_head=True, head_node_args={**node, "num_gpus": 1})
    try:
        for _ in range(count - 1):
            nodes.add_node(**node)
        tools = MeasuringTools(nominal_device, no_texts)
        with ray_machines(nodes.address, tools) as machines:
            yield machines
    finally:
        nodes.shutdown()


@dataclass(frozen=True)
class Preparation:
    """The bundle, the seconds on the clock, and the CPU seconds of each worker."""

    bundle: Bundle
    seconds: float
    busy: tuple[float, ...]
    load: float
    """The mean load of the minute before the end: what exceeds the workers is other work."""


def prepared(count: int, options: TuneOptions) -> Preparation:
    """The step by some workers, from the first part to the merged bundle."""
    with workers(count) as machines:
        parts = machines.prepare_parts(options, False)
        order, task, start = order_of(parts), machines.cluster.on_cpus(), perf_counter()
        timed = [(parts[number][0], TimedPart(parts[number][1])) for number in order]
        found, busy = dict[int, Bundle](), dict[int, float]()
        for number, (bundle, process, seconds) in machines.cluster.each("prepare", task, timed):
            found[order[number]] = bundle
            busy[process] = max(busy.get(process, 0.0), seconds)
        seconds = perf_counter() - start
        merged = merge_bundles([found[number] for number in range(len(parts))])
        return Preparation(merged, seconds, tuple(sorted(busy.values())), os.getloadavg()[0])


def report(models: list[str], precisions: list[str], counts: list[int], repeat: int) -> None:
    """Print a row for each number of workers, in turns; all bundles must be the same."""
    with TemporaryDirectory() as folder:
        paths = [Path(folder, f"{name}.onnx") for name in models]
        for name, path in zip(models, paths, strict=True):
            model = named_model(Path(f"zoo:{name}"))
            assert isinstance(model, onnx.ModelProto)
            onnx.save(model, path)
        options = TuneOptions(paths, precisions)
        rows = [(count, prepared(count, options)) for _ in range(repeat) for count in counts]
    first = rows[0][1]
    print("| workers | clock, s | of one's | busy seconds of each | the busiest, of one's | load |")
    print("|---|---|---|---|---|---|")
    for count, row in rows:
        assert row.bundle == first.bundle, "the bundle depends on the number of workers"
        clock = f"{row.seconds:.1f} | {row.seconds / first.seconds:.2f}"
        busiest = row.busy[-1] / first.busy[-1]
        each = ", ".join(f"{seconds:.1f}" for seconds in row.busy)
        print(f"| {count} | {clock} | {each} | {busiest:.2f} | {row.load:.1f} |")


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--models", nargs="+", default=["googlenet", "unet", "resnet50", "bert128"])
    parser.add_argument("--precisions", nargs="+", default=["tf32", "fp16"])
    parser.add_argument("--workers", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--repeat", type=int, default=1)
    given = parser.parse_args()
    report(given.models, given.precisions, given.workers, given.repeat)
    return 0


if __name__ == "__main__":
    sys.exit(main())
