"""Whether every kernel of the zoo compiles for several architectures within their limits.

    python tests/gpu_architectures.py [--models resnet50 ...] [--architectures sm_80 sm_90 sm_100]
                                      [--precisions tf32 fp16] [--jobs N] [--large] [--json FILE]

Needs no GPU. A kernel fails if it needs more registers, threads or shared memory than a block can
have, or keeps anything on the stack (spilled registers among it). Kernels come from the cache if
they are there, so each distinct one is compiled once. Prints a row for each model, architecture and
precision; rows that passed and are in FILE already, from the same compiler, are taken from there.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path
from time import perf_counter
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from compiler.errors import FlowloomError
from compiler.frontend.importing import import_model
from compiler.graph.targets import set_target
from compiler.kernels.building import KernelCache, build_kernels
from compiler.kernels.building.cache import generator_version
from compiler.kernels.database import database_hash
from compiler.kernels.gpu.cubin import Resources, check_resources
from compiler.passes.pipeline import DEFAULT_PIPELINE, parse, split_phases
from compiler.passes.runner import Runner
from compiler.schedule.kernels import KernelSpec
from compiler.target.target import PRECISIONS, parse_gpu
from examples import zoo

ARCHITECTURES = ("sm_80", "sm_90", "sm_100")
LARGE = ("gpt2large",)
"""Left out unless asked for: the weights, which are drawn anew, take 10 GB."""

Row = dict[str, Any]


def measure(module: Any, target: str, jobs: int = 0) -> Row:
    """The most that any kernel of an imported module needs; `stack` names those that use it."""
    set_target(module, target)
    Runner(verified=False).run(module, split_phases(parse(DEFAULT_PIPELINE))[0])
    kernels = build_kernels(module, target, KernelCache(), jobs)
    needs = [need for kernel in kernels.values() for need in needs_of(kernel, target)]
    return {
        "kernels": len(kernels),
        "entries": len(needs),
        "registers": max(used.registers for _, used, _, _ in needs),
        "registers_a_block": max(used.registers * threads for _, used, threads, _ in needs),
        "shared_bytes": max(used.shared_bytes + dynamic for _, used, _, dynamic in needs),
        "shared_limit": parse_gpu(target).shared_bytes,
        "code_bytes": sum(len(kernel.code) for kernel in kernels.values()),
        "stack": [symbol for symbol, used, _, _ in needs if used.stack_bytes],
    }


def needs_of(kernel: KernelSpec, target: str) -> Iterator[tuple[str, Resources, int, int]]:
    """Each entry with its resources, the threads of its blocks and their dynamic shared memory."""
    found = check_resources(kernel.code, kernel.launches, parse_gpu(target))
    for launch in kernel.launches:
        for symbol in launch.symbols:
            yield symbol, found[symbol], prod(launch.block), launch.shared_bytes


def version(target: str) -> str:
    """The versions that decide the kernels of a model for a target."""
    return f"{generator_version()[:16]} {database_hash(parse_gpu(target).architecture)}".strip()


def rows(options: argparse.Namespace, known: list[Row]) -> Iterator[tuple[Row, bool]]:
    """A row for each model, architecture and precision, and whether it was known.

    A row's `failure` says what is wrong.
    """
    passed = {(r["model"], r["target"], r["version"]): r for r in known if not r["failure"]}
    for name in options.models:
        module = None
        for precision in options.precisions:
            for architecture in options.architectures:
                target = f"cuda:{architecture}:{precision}"
                if row := passed.get((name, target, version(target))):
                    yield row, True
                    continue
                module = module or import_model(zoo.load(name)).module
                row = {"model": name, "target": target, "version": version(target)}
                yield {**row, **attempt(module.clone(), target, options.jobs)}, False


def attempt(module: Any, target: str, jobs: int) -> Row:
    """The resources that the kernels need, or why they failed."""
    start = perf_counter()
    try:
        found = measure(module, target, jobs)
    except FlowloomError as error:
        return {"failure": str(error)}
    failure = f"on the stack: {', '.join(found['stack'])}" if found["stack"] else ""
    return {**found, "seconds": round(perf_counter() - start, 1), "failure": failure}


def describe(row: Mapping[str, Any]) -> str:
    """One line of the table."""
    head = f"{'FAIL' if row['failure'] else 'PASS'}  {row['model']:14} {row['target']:17}"
    if "kernels" not in row:
        return f"{head} {row['failure']}"
    return (
        f"{head} {row['kernels']:4} kernels, at most {row['registers']:3} registers a thread, "
        f"{row['registers_a_block']:5} a block, {row['shared_bytes'] >> 10:3} of "
        f"{row['shared_limit'] >> 10} KiB shared, {row['seconds']:5.1f} s  {row['failure']}"
    )


def read(file: Path | None) -> list[Row]:
    """The rows of an earlier run; none without a file."""
    return json.loads(file.read_text()) if file is not None and file.is_file() else []


def write(file: Path, found: list[Row], known: list[Row]) -> None:
    """Keep all rows, newer ones in place of older ones, by way of a temporary file."""
    kept = {(row["model"], row["target"]): row for row in [*known, *found]}
    temporary = file.with_name(f"{file.name}.tmp")
    temporary.write_text(json.dumps(list(kept.values()), indent=1))
    os.replace(temporary, file)


def arguments() -> argparse.Namespace:
    """The options of the command line; without models, all of them, small ones first."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="*", choices=zoo.names(), help="default: all")
    parser.add_argument("--architectures", nargs="*", default=list(ARCHITECTURES))
    parser.add_argument("--precisions", nargs="*", default=["tf32", "fp16"], choices=PRECISIONS)
    parser.add_argument("--jobs", type=int, default=0, help="threads; default: one a core")
    parser.add_argument("--large", action="store_true", help="GPT-2-large too, which takes 10 GB")
    parser.add_argument("--json", type=Path, help="keep the rows in this file")
    options = parser.parse_args()
    if not options.models:
        names = sorted(zoo.names(), key=lambda name: zoo.path(name).stat().st_size)
        options.models = [name for name in names if options.large or name not in LARGE]
    return options


def main() -> int:
    """Print the rows; exit status 1 if any kernel failed."""
    options = arguments()
    known, done = read(options.json), list[Row]()
    for row, old in rows(options, known):
        done.append(row)
        print(describe(row) + (" (known)" if old else ""), flush=True)
        if options.json:
            write(options.json, done, known)
    failed = sum(bool(row["failure"]) for row in done)
    print(f"{len(done) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
