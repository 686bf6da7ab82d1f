"""Whether whole models gain when their contractions overlap with the kernels around them.

    python benchmarks/overlap.py prepare build/overlap [--models resnet50] [--precision tf32]
    python benchmarks/overlap.py measure build/overlap [--seconds 10] [--json FILE]

`prepare` needs no GPU. It compiles each model as it is, and with databases of tiles in which every
contraction copies its weights early, releases the launches that follow early, or does both; tiles
and schedules stay the same. `measure` needs a CUDA device but no TVM: outputs must agree in every
bit with those of the model as it is; times are wall microseconds of one run of a graph with
programmatic edges, the variants in turns.
"""

import argparse
import json
import os
import sys
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

import compiler

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

VARIANTS = {"plain": (False, False), "early": (True, False), "release": (False, True),
            "both": (True, True)}  # fmt: skip
"""Whether weights are copied early, and whether the launches that follow are released early."""

MODELS = ("resnet50", "vit_base", "bert128")


def prepare(folder: Path, models: list[str], precision: str) -> None:
    """Compile and save each model in each variant, each in a process with its database."""
    for name in models:
        for variant in VARIANTS:
            database = folder / "databases" / f"{name}-{variant}"
            os.environ["FLOWLOOM_TUNING"] = str(database.resolve())
            given = folder.resolve(), name, variant, precision
            process = get_context("spawn").Process(target=prepare_one, args=given)
            process.start()
            process.join()
            if process.exitcode:
                sys.exit(process.exitcode)


def prepare_one(folder: Path, name: str, variant: str, precision: str) -> None:
    """Compile and save a variant of a model, with the schedule of the model as it is."""
    from examples import zoo

    model, schedule = zoo.load(name), folder / f"{name}-plain" / "schedule.json"
    count = write_database(model, precision, *VARIANTS[variant])
    module = compiler.compile(
        model, target="cuda", arch="sm_90", precision=precision, budget=0,
        schedule=None if variant == "plain" else schedule,
    )  # fmt: skip
    module.save(folder / f"{name}-{variant}")
    print(f"{name} {variant}: {count} kernels overlap", flush=True)


def write_database(model: Any, precision: str, early: bool, release: bool) -> int:
    """Make the user's database hold the present tile of each contraction, overlapping.

    Those that cannot overlap are there too, so that none takes a tile from similar ones.
    """
    from compiler.autotune.kernels.prepare import fused_groups
    from compiler.frontend.importing import import_model
    from compiler.kernels.building.select import best_of, candidates_of
    from compiler.kernels.database import Database, Entry, Measured, save, user_file
    from compiler.kernels.database.fields import config_fields, full_version
    from compiler.kernels.gpu.templates.gemm.config import allows_overlap
    from compiler.kernels.gpu.templates.gemm.estimate import estimate
    from compiler.kernels.gpu.templates.gemm.template import Gemm
    from compiler.kernels.versions import code_hash
    from compiler.target.nvrtc import nvrtc_version
    from compiler.target.target import parse_gpu

    target, found = parse_gpu(f"cuda:sm_90:{precision}"), dict[str, Entry]()
    count = 0
    version = full_version(code_hash(Gemm.sources), nvrtc_version())
    for group in fused_groups(import_model(model).module, target).values():
        own = best_of(candidates_of(Gemm(), group, target))
        if own is None:
            continue
        problem, (tile, _) = own.problem, own.choose()
        wanted = [replace(tile, prefetch=early, release=release), replace(tile, release=release)]
        chosen = next(
            (config for config in wanted if allows_overlap(problem, config, target)), tile
        )
        count += chosen.overlaps
        measured = (Measured(config_fields(chosen), 1e3 * estimate(problem, chosen, target)),)
        found[own.key] = Entry(own.key, "", version, measured)
    save(user_file("sm_90"), Database([*found.values()]))
    return count


def measure(folder: Path, seconds: float, out: Path | None) -> int:
    """Compare and time all variants; the exit status is 1 if an output of one differs."""
    from compiler.autotune.bindings import timed_run
    from compiler.choice.timing import time_all

    rows: list[dict[str, Any]] = []
    for name in sorted(path.name.removesuffix("-plain") for path in folder.glob("*-plain")):
        modules = {variant: compiler.load(folder / f"{name}-{variant}") for variant in VARIANTS}
        wrong = differing(modules)
        executors: dict[str, Any] = {
            variant: m.executor(mode="graph", pdl=True) for variant, m in modules.items()
        }
        runs = {variant: timed_run(executor) for variant, executor in executors.items()}
        timings = time_all(runs, seconds, perf_counter, keep=tuple(runs), samples=1000)
        for executor in executors.values():
            executor.close()
        medians = {variant: timing.median / 1e3 for variant, timing in timings.items()}
        rows.append({"model": name, "wrong": wrong, "us": medians})
        figures = (f"{k} {t.median / 1e3:.1f} [{t.low / 1e3:.1f}, {t.high / 1e3:.1f}]"
                   for k, t in timings.items())  # fmt: skip
        print(f"{name:14} {'  '.join(figures)} us  {'WRONG ' + ' '.join(wrong) if wrong else ''}")
        if out:
            out.write_text(json.dumps(rows))
    return int(any(row["wrong"] for row in rows))


def differing(modules: dict[str, compiler.Module]) -> list[str]:
    """The variants whose outputs differ from those of the model as it is."""
    generator = np.random.default_rng(0)
    inputs = {
        allocation.name: random_input(generator, allocation.shape, allocation.dtype)
        for allocation in modules["plain"].inputs
    }
    outputs = {variant: module.run(inputs) for variant, module in modules.items()}
    return [
        variant
        for variant, found in outputs.items()
        if any(not np.array_equal(found[k], x) for k, x in outputs["plain"].items())
    ]


def random_input(generator: np.random.Generator, shape: Any, dtype: str) -> np.ndarray:
    """Normal floats; integers from 0 to 99."""
    if np.dtype(dtype).kind == "f":
        return generator.standard_normal(shape).astype(dtype)
    return generator.integers(0, 2 if dtype == "bool" else 100, shape).astype(dtype)


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("command", choices=("prepare", "measure"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--models", nargs="+", default=list(MODELS))
    parser.add_argument("--precision", default="tf32", choices=("tf32", "fp16", "bf16"))
    parser.add_argument("--seconds", type=float, default=10, help="on the device, for each model")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    if given.command == "measure":
        return measure(given.folder, given.seconds, given.json)
    prepare(given.folder, given.models, given.precision)
    return 0


if __name__ == "__main__":
    sys.exit(main())
