"""Tunes the zoo's contractions; says how much slower than tuned transferred and ranked tiles are.

`prepare BUNDLE --models FILE...` needs no GPU (light models are refilled), `flowloom tune measure`
no TVM; `quality RESULTS` then leaves each kernel out of the database of all others in turn.
"""

import argparse
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from compiler.kernels.cuda.target import CudaTarget
from compiler.kernels.cuda.tiles import Tile, estimate
from compiler.kernels.cuda.tuned import problem_of, transferred
from compiler.kernels.database import Entry
from compiler.tuning import bundle
from compiler.tuning.merge import entries_of, in_a_run
from compiler.tuning.prepare import CANDIDATES, prepare
from compiler.tuning.results import Result, load

FEW = 2
"""Right candidates that a kernel needs for a comparison."""


def models(paths: list[Path]) -> Iterator[tuple[str, Any]]:
    """Each model, with its weights made up where the file has none."""
    import onnx

    from examples.zoo import refill

    for path in paths:
        model = onnx.load(path)
        if path.name.endswith(".light.onnx"):
            refill(model)
        yield path.name, model


def quality(results: list[Result], entries: dict[str, Entry], arch: str) -> dict[str, list[float]]:
    """Of each kernel, how many times as long as the best its transferred and ranked tile take.

    Only measured tiles are chosen from. Where nothing is similar, the transfer is the ranking.
    """
    times: dict[str, dict[Tile, float]] = {}
    for result in results:
        if result.warm is not None and result.key in entries:
            times.setdefault(result.key, {})[Tile(*result.tile)] = in_a_run(result)
    found: dict[str, list[float]] = {"transfer": [], "ranking": []}
    for key, measured in times.items():
        if len(measured) < FEW:
            continue
        problem, target = problem_of(key), CudaTarget(arch, precision_of(key))
        ranked = min(measured, key=lambda t: estimate(problem, t, target))
        others = {k: entry for k, entry in entries.items() if k != key}
        moved = transferred(problem, target, others, measured) or ranked
        for name, tile in (("transfer", moved), ("ranking", ranked)):
            found[name].append(measured[tile] / min(measured.values()))
    return found


def precision_of(key: str) -> str:
    """The precision of a target whose kernels have this key."""
    name = key.split('"')[1]
    return {"float16": "fp16", "bfloat16": "bf16"}.get(name, name)


def report(path: Path) -> None:
    """Print the medians, the ninth deciles and the worst of both choices."""
    header, results = load(path)
    entries = {entry.key: entry for entry in entries_of(header, results)}
    wrong = sum(r.problem.startswith("wrong") for r in results)
    print(f"{len(entries)} kernels, {len(results)} candidates, {wrong} wrong")
    for name, ratios in quality(results, entries, header.arch).items():
        ratios.sort()
        if ratios:
            decile = ratios[int(0.9 * (len(ratios) - 1))]
            print(f"{name:9} {median(ratios):.3f} {decile:.3f} {ratios[-1]:.3f} of the best tile")


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add = parser.add_subparsers(dest="command", required=True).add_parser
    each = add("prepare")
    each.add_argument("bundle", type=Path)
    each.add_argument("--models", nargs="+", type=Path, required=True)
    each.add_argument("--precisions", nargs="+", default=["tf32", "fp16"])
    each.add_argument("--arch", default="sm_90")
    each.add_argument("--candidates", type=int, default=CANDIDATES)
    add("quality").add_argument("results", type=Path)
    given = parser.parse_args()
    if given.command == "quality":
        report(given.results)
        return 0
    count, found = given.candidates, models(given.models)
    found = prepare(found, given.precisions, given.arch, count, partial(print, flush=True))
    bundle.save(found, given.bundle)
    count = sum(len(kernel.candidates) for kernel in found.kernels)
    print(f"{given.bundle}: {count} candidates, {given.bundle.stat().st_size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
