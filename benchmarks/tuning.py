"""Tunes the zoo's contractions; says how much slower than tuned transferred and ranked tiles are.

`prepare BUNDLE --models FILE...` and `status --models FILE...` need no GPU (light models are
refilled), `flowloom tune measure` no TVM; `quality RESULTS` (by default what was measured for the
database that the package ships) leaves each kernel out of the database of all others in turn.
"""

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from compiler.autotune.kernel_times import time_in_a_run
from compiler.autotune.kernels.coverage import coverage
from compiler.autotune.kernels.merge import entries_of
from compiler.autotune.kernels.prepare import CANDIDATES, prepare_bundle
from compiler.autotune.kernels.results import Result, load_results
from compiler.kernels.database import Entry, device_of
from compiler.kernels.database.fields import problem_fields
from compiler.kernels.gpu.templates.gemm.candidates import candidates
from compiler.kernels.gpu.templates.gemm.config import Tile
from compiler.kernels.gpu.templates.gemm.estimate import estimate
from compiler.kernels.gpu.templates.gemm.neighbours import nearest, problem_of
from compiler.kernels.gpu.templates.gemm.template import Gemm
from compiler.target.target import parse_gpu
from compiler.tools.cli.commands.tune.prepare import write_bundle

MEASURED = Path(__file__).parent / "tuning_sm_90.jsonl.xz"
"""Measurements on an H200 for the database that the package ships."""

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


@dataclass
class Ratios:
    """How many times as long as the best measured tile a choice takes, kernel by kernel.

    `among` is of choices among the measured tiles alone; `free` of those that had every tile, as
    far as that one was measured.
    """

    among: list[float] = field(default_factory=list[float])
    free: list[float] = field(default_factory=list[float])


def quality(results: list[Result], entries: dict[str, Entry], arch: str) -> dict[str, Ratios]:
    """Of transfer and of ranking, with each kernel left out of the database in turn.

    Where nothing is similar, the transfer is the ranking.
    """
    found = {"transfer": Ratios(), "ranking": Ratios()}
    for key, measured in times_of(results, entries).items():
        if len(measured) < FEW:
            continue
        problem, target = problem_of(key), parse_gpu(f"cuda:{arch}:{precision_of(key)}")
        others = {k: entry for k, entry in entries.items() if k != key}
        best = min(measured.values())
        for fits, among in ((list(measured), True), (list(candidates(problem, target)), False)):
            ranked = min(fits, key=lambda tile: estimate(problem, tile, target))
            moved = nearest(problem, key, target, others, fits) or ranked
            for ratios, tile in zip(found.values(), (moved, ranked), strict=True):
                if tile in measured:
                    (ratios.among if among else ratios.free).append(measured[tile] / best)
    return found


def times_of(results: list[Result], entries: dict[str, Entry]) -> dict[str, dict[Tile, float]]:
    """The nanoseconds of each right tile of the contractions that have an entry."""
    times: dict[str, dict[Tile, float]] = {}
    for result in results:
        if result.warm is not None and result.key in entries and is_gemm(result.key):
            time, tile = (
                time_in_a_run(result.warm, result.cold),
                Tile(**dict[str, Any](result.config)),
            )
            times.setdefault(result.key, {})[tile] = time
    return times


def is_gemm(key: str) -> bool:
    """Whether a key is of a GEMM, not of another template."""
    return problem_fields(key)["template"] == Gemm.name


def precision_of(key: str) -> str:
    """The precision of a target whose kernels have this key."""
    name = str(problem_fields(key)["precision"])
    return {"float16": "fp16", "bfloat16": "bf16"}.get(name, name)


def report(path: Path) -> None:
    """Print the medians, the ninth deciles and the worst of both choices."""
    header, results = load_results(path)
    entries = {entry.key: entry for entry in entries_of(header, results)}
    wrong = sum(r.problem.startswith("wrong") for r in results)
    print(f"{header.device}: {len(entries)} kernels, {len(results)} candidates, {wrong} wrong")
    print("times the best measured tile: median, ninth decile, worst, kernels")
    for name, found in quality(results, entries, header.arch).items():
        for kind, ratios in (("measured tiles", found.among), ("every tile", found.free)):
            if ratios:
                print(f"{name:9} of {kind:14} {summary(ratios)}")


def summary(ratios: list[float]) -> str:
    """The median, the ninth decile, the worst and the count."""
    ordered = sorted(ratios)
    decile = ordered[int(0.9 * (len(ordered) - 1))]
    return f"{median(ordered):.3f} {decile:.3f} {ordered[-1]:.3f} {len(ordered)}"


def status(paths: list[Path], precisions: list[str], arch: str) -> None:
    """Print how much of each model the databases cover, as `flowloom tune status` does."""
    for name, model in models(paths):
        for precision in precisions:
            found = coverage(model, f"cuda:{arch}:{precision}", device_of(arch))
            print(f"{name} {precision}: {found}", flush=True)


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    add = parser.add_subparsers(dest="command", required=True).add_parser
    each = add("prepare")
    each.add_argument("bundle", type=Path)
    each.add_argument("--models", nargs="+", type=Path, required=True)
    each.add_argument("--precisions", nargs="+", default=["tf32", "fp16"])
    each.add_argument("--arch", default="sm_90")
    each.add_argument("--candidates", type=int, default=CANDIDATES)
    each.add_argument("--limit", type=float, default=60, help="megabytes (default: 60)")
    text = "only kernels without an entry in the databases"
    each.add_argument("--missing", action="store_true", help=text)
    each = add("status")
    each.add_argument("--models", nargs="+", type=Path, required=True)
    each.add_argument("--precisions", nargs="+", default=["tf32", "fp16"])
    each.add_argument("--arch", default="sm_90")
    add("quality").add_argument("results", type=Path, nargs="?", default=MEASURED)
    given = parser.parse_args()
    if given.command == "quality":
        report(given.results)
        return 0
    if given.command == "status":
        status(given.models, given.precisions, given.arch)
        return 0
    found = prepare_bundle(
        models(given.models),
        given.precisions,
        given.arch,
        given.candidates,
        partial(print, flush=True),
        accepts=lambda match: not (given.missing and match.entry),
    )
    print(write_bundle(found, given.bundle, given.limit))
    return 0


if __name__ == "__main__":
    sys.exit(main())
