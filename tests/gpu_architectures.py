"""Whether every kernel of the zoo compiles for several architectures within their limits.

    python tests/gpu_architectures.py [--models resnet50 ...] [--architectures sm_80 sm_90 sm_100]
                                      [--precisions tf32 ...] [--json FILE]

Needs no GPU. A kernel fails if it needs more registers, threads or shared memory than a block can
have, or keeps anything on the stack (spilled registers among it). Kernels come from the cache if
they are there. Prints a row for each model, architecture and precision.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from compiler.errors import FlowloomError
from compiler.frontend import import_model
from compiler.kernels import KernelCache, build_kernels
from compiler.kernels.cuda.cubin import check_resources
from compiler.kernels.cuda.target import PRECISIONS, parse_cuda_target
from compiler.pipeline import DEFAULT_PIPELINE, Runner, parse, split
from compiler.schedule import KernelSpec
from examples import zoo

ARCHITECTURES = ("sm_80", "sm_90", "sm_100")


def measure(module: Any, target: str, jobs: int = 0) -> dict[str, Any]:
    """The most that any kernel of a fused module needs; `stack` names those that use the stack."""
    kernels = build_kernels(module, target, KernelCache(), jobs)
    machine = parse_cuda_target(target)
    used = [
        (symbol, found, launch)
        for kernel in kernels.values()
        for launch in kernel.launches
        for symbol, found in check_resources(kernel.code, kernel.launches, machine).items()
        if symbol in (launch.symbol, launch.indirect)
    ]
    return {
        "kernels": len(kernels),
        "entries": len(used),
        "registers": max(found.registers for _, found, _ in used),
        "registers_a_block": max(found.registers * prod(x.block) for _, found, x in used),
        "shared_bytes": max(found.shared_bytes + x.shared_bytes for _, found, x in used),
        "shared_limit": machine.shared_bytes,
        "code_bytes": size(kernels),
        "stack": [symbol for symbol, found, _ in used if found.stack_bytes],
    }


def size(kernels: Mapping[str, KernelSpec]) -> int:
    """Bytes of all cubins."""
    return sum(len(kernel.code) for kernel in kernels.values())


def rows(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """A row for each model, architecture and precision; `failure` says what is wrong."""
    for name in options.models:
        module = import_model(zoo.load(name)).module
        Runner().run(module, split(parse(DEFAULT_PIPELINE))[0])
        for architecture in options.architectures:
            for precision in options.precisions:
                target = f"cuda:{architecture}:{precision}"
                yield {"model": name, "target": target, **attempt(module, target)}


def attempt(module: Any, target: str) -> dict[str, Any]:
    """What the kernels need, or why they failed."""
    try:
        found = measure(module, target)
    except FlowloomError as error:
        return {"failure": str(error)}
    stack = ", ".join(found["stack"])
    return {**found, "failure": f"on the stack: {stack}" if stack else ""}


def describe(row: Mapping[str, Any]) -> str:
    """One line of the table."""
    head = f"{'FAIL' if row['failure'] else 'PASS'}  {row['model']:14} {row['target']:17}"
    if "kernels" not in row:
        return f"{head} {row['failure']}"
    return (
        f"{head} {row['kernels']:4} kernels, at most {row['registers']:3} registers a thread, "
        f"{row['registers_a_block']:5} a block, {row['shared_bytes'] >> 10:3} of "
        f"{row['shared_limit'] >> 10} KiB shared  {row['failure']}"
    )


def main() -> int:
    """Print the rows; exit status 1 if any kernel failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="*", default=zoo.names(), choices=zoo.names())
    parser.add_argument("--architectures", nargs="*", default=list(ARCHITECTURES))
    parser.add_argument("--precisions", nargs="*", default=["tf32"], choices=PRECISIONS)
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    options = parser.parse_args()
    done: list[dict[str, Any]] = []
    for row in rows(options):
        done.append(row)
        print(describe(row), flush=True)
    failed = sum(bool(row["failure"]) for row in done)
    print(f"{len(done) - failed} passed, {failed} failed")
    if options.json:
        options.json.write_text(json.dumps(done, indent=1))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
