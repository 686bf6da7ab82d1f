"""Seconds until a network has run once: by a default compile, and by torch.compile.

    python benchmarks/compiling/against_torch.py [--models field:llama_decode resnet50 | --field]
        [--precision fp16] [--contenders torch default untuned] [--seconds 500] [--json FILE]

Each compilation is the first one of a new process, with empty caches and an empty user's database.
Seconds count from the model in memory to the end of its first run, with the modules that are
imported only then; `import torch` and `import compiler` come before. `untuned` is
`compile(budget=0)`. One compilation of torch.compile's runs next to one of ours, each with half of
the cores, so that the measuring on the device is all ours. A first one of each is not counted, so
that files are in memory. No network is begun after `--seconds`; rows that are in the file are
skipped. Needs a CUDA device, torch, and what exports the networks.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from statistics import geometric_mean
from threading import Lock
from time import perf_counter
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from examples import named

CONTENDERS = ("torch", "default", "untuned")
CACHES = ("FLOWLOOM_CACHE", "FLOWLOOM_TUNING", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")

WARM_UP = "field:dlrm"
"""The network that is compiled first, which is not counted."""

Found = dict[str, Any]


def by_torch(name: str, precision: str) -> Found:
    """Seconds of torch.compile and the first run."""
    import torch

    from benchmarks.peers.case import build
    from benchmarks.peers.contenders import compile_and_run, use_tensor_cores

    use_tensor_cores(True)
    module, inputs = build(name, 1, "own", None).in_precision(precision)
    torch.cuda.synchronize()
    with torch.inference_mode():
        start = perf_counter()
        compile_and_run(module, inputs)
        return {"seconds": perf_counter() - start}


def by_us(name: str, precision: str, **options: Any) -> Found:
    """Seconds of `compile` and the first run, those of its steps, and what tuning found."""
    import compiler

    model = named.load(name)
    inputs = named.random_inputs(name, model, seed=0)
    start = perf_counter()
    module = compiler.compile(model, target="cuda", precision=precision, **options)
    module.run(inputs)
    seconds = perf_counter() - start
    kernels = len(module.kernels)
    steps = dict(module.build_seconds)
    return {"seconds": seconds, "kernels": kernels, "steps": steps, "tuning": str(module.tuning)}


def alone(contender: str, name: str, precision: str, cores: str) -> None:
    """Compile in this process on some cores, and print what was found as its last line."""
    os.sched_setaffinity(0, map(int, cores.split(",")))
    way = {"torch": by_torch, "default": by_us, "untuned": partial(by_us, budget=0)}[contender]
    print(json.dumps(way(name, precision)))


def in_new_process(contender: str, name: str, precision: str, cores: Sequence[int]) -> Found:
    """The seconds of a contender in a new process with empty caches, on some cores."""
    own = ",".join(map(str, cores))
    command = [sys.executable, __file__, "--alone", contender, name, precision, own]
    with tempfile.TemporaryDirectory() as folder:
        places = {variable: f"{folder}/{variable}" for variable in CACHES}
        done = subprocess.run(
            command,
            env={**os.environ, **places},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or [str(done.returncode)])[-1][:300]}
    return json.loads(done.stdout.splitlines()[-1])


def line(row: Found) -> str:
    """A row of the table: seconds, and ours over torch.compile's."""
    figures = {c: row[c].get("seconds") for c in CONTENDERS if c in row}
    cells = [f"{c} {s:.1f}" if s else f"{c} -" for c, s in figures.items()]
    theirs, ours = figures.get("torch"), figures.get("default")
    ratio = f", ratio {ours / theirs:.2f}" if theirs and ours else ""
    return f"{row['model']} {row['precision']}: {', '.join(cells)}{ratio}"


def measure(options: argparse.Namespace) -> list[Found]:
    """All rows: torch.compile's and ours side by side, one network after another in each lane."""
    names = options.models or named.usual(options.field)
    known = json.loads(options.json.read_text()) if options.json.exists() else []
    rows = {(row["model"], row["precision"]): row for row in known}
    start, lock, cores = perf_counter(), Lock(), sorted(os.sched_getaffinity(0))
    half = len(cores) // 2

    def lane(contenders: Sequence[str], own: Sequence[int]) -> None:
        for contender in contenders[:1]:
            in_new_process(contender, WARM_UP, options.precision[0], own)
        for precision, model in ((p, n) for p in options.precision for n in names):
            for contender in contenders:
                row = rows.setdefault((model, precision), {"model": model, "precision": precision})
                if contender in row or perf_counter() - start > options.seconds:
                    continue
                found = in_new_process(contender, model, precision, own)
                with lock:
                    row[contender] = found
                    options.json.write_text(json.dumps([*rows.values()], indent=1))
                    if all(name in row for name in options.contenders):
                        print(line(row), flush=True)

    peers = [name for name in options.contenders if name == "torch"]
    ours = [name for name in options.contenders if name != "torch"]
    with ThreadPoolExecutor(2) as pool:
        lanes = [pool.submit(lane, peers, cores[:half]), pool.submit(lane, ours, cores[half:])]
    for done in lanes:
        done.result()
    return [*rows.values()]


def main() -> int:
    """Print the seconds of each network and the mean ratio; exit status 1 if one failed."""
    if sys.argv[1:2] == ["--alone"]:
        alone(*sys.argv[2:])
        return 0
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="*")
    parser.add_argument("--field", action="store_true", help="the networks of examples/field")
    parser.add_argument("--precision", nargs="+", choices=("tf32", "fp16"), default=["fp16"])
    parser.add_argument("--contenders", nargs="+", choices=CONTENDERS, default=CONTENDERS[:2])
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--json", type=Path, default=Path("against_torch.json"))
    rows = measure(parser.parse_args())
    both = [(row["torch"], row["default"]) for row in rows if "torch" in row and "default" in row]
    ratios = [o["seconds"] / t["seconds"] for t, o in both if "seconds" in t and "seconds" in o]
    if ratios:
        slower = sum(ratio > 1 for ratio in ratios)
        print(f"ratio {geometric_mean(ratios):.2f} in the mean of {len(ratios)}, {slower} over 1")
    return int(any("error" in row.get(c, {}) for row in rows for c in CONTENDERS))


if __name__ == "__main__":
    sys.exit(main())
