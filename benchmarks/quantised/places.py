"""Device times of a quantised model's kernels next to those of 16 bits in the same places.

A place is what a kernel computes and the shape of its first result, axes of one left out.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import compiler
from compiler.autotune.kernel_times import key_of
from compiler.autotune.profile import measure_kernels
from compiler.backends.gpu.driver import Driver
from compiler.schedule.kernels import KernelSpec

SAMPLES = 15

KINDS = {
    "attention": "attention",
    "tensor_range": "quantisation",
    "row_norm": "normalisation",
    "gemm": "contraction",
    "conv": "contraction",
    "gemv": "contraction",
    "max_pool": "pooling",
}
"""The kind of a kernel by a part of the names of the headers it includes, the first that fits."""


@dataclass(frozen=True)
class Place:
    """The kernels of one place: tasks, and microseconds of all of them."""

    tasks: int = 0
    us: float = 0.0

    def __add__(self, other: "Place") -> "Place":
        return Place(self.tasks + other.tasks, self.us + other.us)

    def __str__(self) -> str:
        return f"{self.tasks} x {self.us / self.tasks:.2f} = {self.us:.1f}" if self.tasks else ""


def place_of(kernel: KernelSpec) -> str:
    """The place of a kernel."""
    included = [line for line in kernel.source.splitlines() if line.startswith("#include")]
    kind = next((kind for part, kind in KINDS.items() if part in "".join(included)), "elementwise")
    shape = [extent for extent in kernel.writes[0].shape if extent > 1]
    return f"{kind} {'x'.join(map(str, shape)) or '1'}"


def places_of(
    tasks: Counter[str], kernels: Mapping[str, KernelSpec], nanoseconds: Mapping[str, float]
) -> dict[str, Place]:
    """The places of a schedule with so many tasks of each kernel."""
    found = dict[str, Place]()
    for name, count in tasks.items():
        place = place_of(kernels[name])
        own = Place(count, count * nanoseconds[name] / 1e3)
        found[place] = found.get(place, Place()) + own
    return found


def measured_places(driver: Driver, module: compiler.Module) -> dict[str, Place]:
    """The places of a module, each kernel timed alone with warm caches in a chain of launches."""
    kernels = module.kernels
    times = measure_kernels(driver, module.schedule, kernels, SAMPLES, cold=False).records
    tasks = Counter(task.kernel for task in module.schedule.tasks)
    nanoseconds = {name: times[key_of(kernels[name], driver.device)].warm for name in tasks}
    return places_of(tasks, kernels, nanoseconds)


def table(found: Mapping[str, Mapping[str, Place]]) -> str:
    """The places of several modules side by side, the costliest of the last one first."""
    modules = [*found.values()]
    every = dict.fromkeys(place for places in modules for place in places)
    ordered = sorted(every, key=lambda place: -modules[-1].get(place, Place()).us)
    lines = [f"| place | {' | '.join(found)} |", "|---" * (len(found) + 1) + "|"]
    for place in ordered:
        lines.append(f"| {place} | {' | '.join(str(p.get(place, Place())) for p in modules)} |")
    sums = (sum(places.values(), Place()) for places in modules)
    return "\n".join([*lines, f"| all | {' | '.join(map(str, sums))} |"])
