"""How well kernel times are estimated where nothing was measured, and the fit of its constants.

    python benchmarks/cost_model.py [--data FILE]          the estimate against the measured times
    python benchmarks/cost_model.py --fit [--data FILE]    constants for `scheduling/kernel_time.py`

`benchmarks/simulator.py --measure` writes the figures. Errors are |estimate / measured - 1| over
the distinct kernels; the rank correlation is Spearman's.
"""

import argparse
import math
import random
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean, median

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.calibration.data import CHECKED_IN, read
from benchmarks.simulator import correlation
from compiler.schedule.kernels import KernelSpec
from compiler.scheduling.kernel_time import (
    CONTRACTION_RATES,
    OTHER_RATES,
    Rates,
    estimated_time,
    rates_of,
    waves_time,
)
from compiler.target.devices import DeviceModel, typical_device

Sample = tuple[KernelSpec, float]


def samples(data: Path) -> tuple[str, DeviceModel, list[Sample]]:
    """The device, and every distinct kernel that does something with its time, by name."""
    head, models = read(data)
    found = {
        name: (kernel, model.warm[name])
        for model in models
        for name, kernel in model.kernels.items()
        if model.name != "synthetic" and kernel.launches
    }
    label = f"{head['device']['name']}, driver {head['device']['driver_version']}, {head['date']}"
    return label, typical_device(head["device"]["architecture"]), list(found.values())


def ranks(values: Sequence[float]) -> list[int]:
    """The place of each value."""
    order = sorted(range(len(values)), key=lambda i: values[i])
    return [place for _, place in sorted((i, place) for place, i in enumerate(order))]


def describe(label: str, found: Sequence[Sample], device: DeviceModel) -> str:
    """One line about some kernels."""
    guesses = [estimated_time(kernel, device) for kernel, _ in found]
    times = [time for _, time in found]
    errors = sorted(abs(g / t - 1) for g, t in zip(guesses, times, strict=True))
    rank = correlation(ranks(guesses), ranks(times))
    return (
        f"{label:14} {len(found):4} kernels  median {median(errors):4.0%}  "
        f"90 % below {errors[len(errors) * 9 // 10]:4.0%}  worst {errors[-1]:4.0%}  rank {rank:.2f}"
    )


def report(found: Sequence[Sample], device: DeviceModel) -> Iterator[str]:
    """A line a kind of kernel, one for all, and the worst."""
    for label, kind in (("contractions", CONTRACTION_RATES), ("others", OTHER_RATES)):
        yield describe(label, [row for row in found if rates_of(row[0]) is kind], device)
    yield describe("all", found, device)

    def error(each: Sample) -> float:
        return abs(math.log(estimated_time(each[0], device) / each[1]))

    for kernel, time in sorted(found, key=error)[-5:]:
        guess = estimated_time(kernel, device) / 1e3
        yield f"    {guess:7.1f} us for {time / 1e3:7.1f} us: {kernel.name}"


def fitted(found: Sequence[Sample], start: Rates, device: DeviceModel, steps: int = 4000) -> Rates:
    """Rates of the least mean |log(estimate / measured)|, by a random descent (seeded)."""
    chance = random.Random(0)

    def loss(rates: Rates) -> float:
        return fmean(
            abs(
                math.log((latency * len(k.launches) + waves_time(k, largest(k), rates, device)) / t)
            )
            for k, t in found
        )

    latency, best = device.latencies.dependency, start
    least = loss(best)
    for step in range(steps):
        width = 0.5 * 0.999**step + 0.005
        moves = [math.exp(chance.gauss(0, width)) if chance.random() < 0.5 else 1 for _ in range(5)]
        values = (best.wave, best.block_flops, best.block_bytes, best.flops, best.bytes)
        tried = Rates(*(value * move for value, move in zip(values, moves, strict=True)))
        if (now := loss(tried)) < least:
            best, least = tried, now
    return best


def largest(kernel: KernelSpec):
    """The launch of a kernel with the most blocks."""
    return max(kernel.launches, key=lambda launch: math.prod(launch.grid))


def main() -> None:
    """Report, or fit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=CHECKED_IN)
    parser.add_argument("--fit", action="store_true")
    options = parser.parse_args()
    label, device, found = samples(options.data)
    print(label)
    print("\n".join(report(found, device)))
    for name, kind in (
        (("CONTRACTION_RATES", CONTRACTION_RATES), ("OTHER_RATES", OTHER_RATES))
        if options.fit
        else ()
    ):
        rates = fitted([row for row in found if rates_of(row[0]) is kind], kind, device)
        values = (rates.wave, rates.block_flops, rates.block_bytes, rates.flops, rates.bytes)
        print(f"{name} = Rates({', '.join(f'{value:.1f}' for value in values)})")


if __name__ == "__main__":
    main()
