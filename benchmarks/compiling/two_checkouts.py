"""Run times of networks compiled by two checkouts, in turns: whether a rebuild changed them.

    python benchmarks/compiling/two_checkouts.py OLD_CHECKOUT [--models resnet50 field:swin_tiny]
        [--target cuda] [--precision tf32] [--turns 3] [--samples 60] [--workers 8] [--json FILE]

Both checkouts compile with `budget=0`, so that no choice depends on a clock; `--workers`
compilations run at a time. Then each network is loaded and timed in a new process, old and new
in turns, on one core if the target is a CPU. Without `--models`, all of the zoo and the field.
The networks are those of this checkout's `examples`.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from examples import named

ROOT = Path(__file__).parents[2]
COMPILE = """
import sys
import compiler
from examples import named
name, target, precision, path = sys.argv[1:]
options = {} if target == "cpu" else {"precision": precision}
compiler.compile(named.load(name), target=target, budget=0, **options).save(path)
"""
TIME = """
import sys
from statistics import median
from time import perf_counter_ns
import compiler
name, target, path, samples = sys.argv[1:]
module = compiler.load(path)
if target == "cpu":
    from examples import named
    inputs = named.random_inputs(name, named.load(name), seed=0)
    def run():
        start = perf_counter_ns()
        module.run(inputs)
        return perf_counter_ns() - start
else:
    from compiler.autotune.bindings import timed_run
    run = timed_run(module.executor(mode="graph"))
for _ in range(10):
    run()
print(median(run() for _ in range(int(samples))) / 1e3)
"""


def child(checkout: Path, program: str, *arguments: str) -> str:
    """The output of a program in a new process, with the compiler of a checkout."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(checkout), str(ROOT), os.environ.get("PYTHONPATH", "")]),
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env=environment,
        cwd=checkout,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"{checkout} {arguments[0]}: {done.stderr.strip().splitlines()[-1]}")
    return done.stdout


def compare(name: str, paths: dict[Path, str], options: argparse.Namespace) -> dict[str, Any]:
    """Median microseconds of a run by each checkout, over processes that take turns."""
    times: dict[Path, list[float]] = {checkout: [] for checkout in paths}
    for _ in range(options.turns):
        for checkout, path in paths.items():
            printed = child(checkout, TIME, name, options.target, path, str(options.samples))
            times[checkout].append(float(printed))
    old, new = times.values()
    ratio = median(old) / median(new)
    row = {"model": name, "old": old, "new": new, "ratio": ratio}
    print(
        f"{name:22} old {median(old):9.1f} us  new {median(new):9.1f} us  old/new {ratio:.3f}"
        f"  ({min(old):.1f}..{max(old):.1f}, {min(new):.1f}..{max(new):.1f})",
        flush=True,
    )
    return row


def main() -> int:
    """Print a line a network and the geometric mean; status 1 if a network failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("old", type=Path)
    parser.add_argument("--models", nargs="*")
    parser.add_argument("--target", default="cuda")
    parser.add_argument("--precision", default="tf32")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--samples", type=int, default=60)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    names = options.models or named.usual(False) + named.usual(True)
    rows: list[dict[str, Any]] = []
    failed = 0
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.workers) as pool:
        paths = {
            name: {
                checkout: f"{folder}/{name.replace(':', '-')}-{side}.flowloom"
                for side, checkout in (("old", options.old.resolve()), ("new", ROOT))
            }
            for name in names
        }
        compilations = {
            name: [
                pool.submit(child, checkout, COMPILE, name, options.target, options.precision, path)
                for checkout, path in of_name.items()
            ]
            for name, of_name in paths.items()
        }
        # Nothing is timed while another network compiles: both would take the same cores.
        for futures in compilations.values():
            for future in futures:
                future.exception()
        for name in names:
            try:
                for future in compilations[name]:
                    future.result()
                rows.append(compare(name, paths[name], options))
            except RuntimeError as error:
                failed += 1
                print(error, flush=True)
            if options.json:
                options.json.write_text(json.dumps(rows, indent=1))
    ratios = [row["ratio"] for row in rows]
    if ratios:
        print(f"{len(ratios)} networks, old/new {math.prod(ratios) ** (1 / len(ratios)):.4f}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
