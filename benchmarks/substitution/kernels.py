"""The kernels that substitutions replace and those they make, timed alone.

    python benchmarks/substitution/kernels.py --prepared FOLDER --json kernels.json
        [--networks bert128 inception_v3] [--variants nimble taso+nimble]

Of two variants that `table.py --prepare` wrote, the kernels that only one of them has: uses,
nanoseconds of one launch in a chain of them with warm caches, and the part of the device that its
blocks fill. Needs a CUDA device, but not TVM. What runs in parallel anyway gains little by being
one kernel: then the sum of times falls, and the time of the whole does not.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.substitution.table import Variant, carried
from compiler.autotune.kernel_times import key_of
from compiler.autotune.profile import measure_kernels
from compiler.backends.cuda.device import device
from compiler.scheduling.kernel_time import task_demand
from compiler.scheduling.simulator import resource_demand
from compiler.target.devices import typical_device

SAMPLES = 7


@dataclass(frozen=True)
class KernelRow:
    """One kernel of a variant; `share` is the part of the device that its blocks fill."""

    name: str
    uses: int
    warm_us: float
    share: float


def rows_of(variant: Variant) -> dict[str, KernelRow]:
    """Every kernel of a variant, timed on its own."""
    driver = device()
    typical = typical_device(driver.device.architecture)
    uses = Counter(task.kernel for task in variant.schedule.tasks)
    found = measure_kernels(driver, variant.schedule, variant.kernels, SAMPLES, cold=False)
    rows: dict[str, KernelRow] = {}
    for name, count in uses.items():
        kernel = variant.kernels[name]
        time = found.records[key_of(kernel, driver.device)].warm
        share = resource_demand(task_demand(kernel, time, typical), typical)[0]
        rows[name] = KernelRow(name, count, round(time / 1e3, 3), round(share, 3))
    return rows


def difference(one: Mapping[str, KernelRow], other: Mapping[str, KernelRow]) -> list[KernelRow]:
    """The uses of kernels that one has more of than the other, the costliest first."""
    more = [
        KernelRow(name, row.uses - kept, row.warm_us, row.share)
        for name, row in one.items()
        if row.uses > (kept := other[name].uses if name in other else 0)
    ]
    return sorted(more, key=lambda row: -row.uses * row.warm_us)


def main() -> None:
    """Measure two variants of each network, and write what differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--prepared", type=Path, required=True)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--networks", nargs="+")
    parser.add_argument("--variants", nargs=2, default=["nimble", "taso+nimble"])
    options = parser.parse_args()
    found: dict[str, object] = {}
    for network, variants in carried(options.prepared, options.networks):
        by_name = {variant.name: variant for variant in variants}
        one, other = (rows_of(by_name[name]) for name in options.variants)
        replaced, made = difference(one, other), difference(other, one)
        before, after = (sum(r.uses * r.warm_us for r in rows) for rows in (replaced, made))
        print(
            f"{network}: {before:.1f} us in {len(replaced)} kernels, now {after:.1f} in {len(made)}"
        )
        found[network] = {
            "replaced": [asdict(row) for row in replaced],
            "made": [asdict(row) for row in made],
        }
        options.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
