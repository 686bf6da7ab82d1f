"""Run time over the zoo on the CPU against onnxruntime with the same number of threads.

    python benchmarks/cpu_zoo.py [--models resnet50 unet] [--threads 1 2] [--streams 1 2 4]
                                 [--runs 20] [--attempts 3] [--json FILE]

Every figure is a median in milliseconds. The two runtimes take turns in rounds within one process.
`ratio` is the best of ours over onnxruntime's, `default` that of the default number of streams.
`streams=1` is the same kernels in one stream: with two threads it shares out the blocks of each
kernel; more streams also run kernels side by side. `others` is the part of the machine's cores that
other work (or its host) took meanwhile. A row with more than 5 % is measured again, `--attempts`
times at most; the quietest counts, and keeps a `!` where it was not quiet. Quiet rows that are in
FILE already are taken from there, so that the command can be run again until all are.
"""

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import geometric_mean, median
from time import perf_counter, process_time, sleep
from typing import Any

import onnxruntime

sys.path.insert(0, str(Path(__file__).parent.parent))

import compiler
from compiler.tools.comparison import compare
from compiler.tools.reference import session
from examples import zoo

QUIET = 0.05
"""The largest part of the machine's cores that other work may take."""

STREAMS = 4
"""The default number of streams."""

Row = dict[str, Any]
Runs = dict[str, Callable[[], Any]]


def busy_seconds(stat: Path = Path("/proc/stat")) -> float:
    """Seconds that all cores together were busy, or kept waiting by the host; NaN if unknown."""
    if not stat.is_file():
        return float("nan")
    ticks = [int(field) for field in stat.read_text().splitlines()[0].split()[1:9]]
    return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")


def pipeline(streams: int) -> str:
    """The default pipeline with another number of streams."""
    return compiler.DEFAULT_PIPELINE.replace("streams=4", f"streams={streams}")


def take_turns(runs: dict[str, Callable[[], Any]], count: int, rounds: int) -> dict[str, float]:
    """Median milliseconds of each; `rounds` times each runs a share of `count`, then rests."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            run()
            for _ in range(max(1, count // rounds)):
                start = perf_counter()
                run()
                times[name].append(1e3 * (perf_counter() - start))
            sleep(0.05)  # onnxruntime's threads go on spinning for a while
    return {name: median(samples) for name, samples in times.items()}


def contenders_of(name: str, threads: int, streams: list[int]) -> Runs:
    """onnxruntime and every stream count of ours, whose outputs are compared first."""
    model = zoo.load(name)
    inputs = zoo.random_inputs(model, seed=0)
    peer = session(model, threads=threads)
    names = [output.name for output in peer.get_outputs()]
    expected = dict(zip(names, peer.run(None, inputs), strict=True))
    contenders: Runs = {"onnxruntime": lambda: peer.run(None, inputs)}
    for count in streams:
        module = compiler.compile(model, pipeline=pipeline(count), threads=threads)
        if not compare(module.run(inputs), expected).passed:
            raise SystemExit(f"{name}: outputs differ from onnxruntime's")
        contenders[f"streams={count}"] = lambda module=module: module.run(inputs)
    return contenders


def attempt(contenders: Runs, runs: int) -> Row:
    """Figures and ratios of contenders that take turns, and how much other work there was."""
    wall, own, busy = perf_counter(), process_time(), busy_seconds()
    figures = take_turns(contenders, runs, rounds=5)
    wall, own, busy = perf_counter() - wall, process_time() - own, busy_seconds() - busy
    ours = {key: value for key, value in figures.items() if key != "onnxruntime"}
    default = ours.get(f"streams={STREAMS}", min(ours.values()))
    peer = figures["onnxruntime"]
    others = max(0.0, busy - own) / (wall * (os.cpu_count() or 1))
    return {
        **figures,
        "ratio": min(ours.values()) / peer,
        "default": default / peer,
        "others": others,
    }


def is_quiet(row: Row) -> bool:
    """Whether nothing known disturbed a row."""
    return not row["others"] > QUIET


def measure(contenders: Runs, runs: int, attempts: int) -> Row:
    """The quietest of so many attempts; the first that was quiet ends them."""
    found: list[Row] = []
    while len(found) < attempts and not (found and is_quiet(found[-1])):
        found.append(attempt(contenders, runs))
    return min(found, key=lambda row: row["others"])


def describe(row: Row) -> str:
    """One line of the table."""
    shown = ("ratio", "default", "others", "threads")
    times = {k: v for k, v in row.items() if isinstance(v, float) and k not in shown}
    cells = "  ".join(f"{key} {value:9.3f}" for key, value in times.items())
    ratios = f"ratio {row['ratio']:.2f}  default {row['default']:.2f}"
    mark = "" if is_quiet(row) else " !"
    return (
        f"{row['model']:14} threads={row['threads']}  {cells}  {ratios}  others "
        f"{100 * row['others']:.0f} %{mark}"
    )


def write(file: Path, rows: list[Row]) -> None:
    """Keep the rows, by way of a temporary file."""
    host = {"cpu": platform.processor(), "onnxruntime": onnxruntime.__version__}
    temporary = file.with_name(f"{file.name}.tmp")
    temporary.write_text(json.dumps({"host": host, "rows": rows}, indent=1))
    os.replace(temporary, file)


def known_rows(file: Path | None, runs: int) -> dict[tuple[str, int], Row]:
    """The quiet rows of an earlier run with as many runs, by model and threads."""
    if file is None or not file.is_file():
        return {}
    rows = json.loads(file.read_text())["rows"]
    quiet = [row for row in rows if is_quiet(row) and row["runs"] == runs]
    return {(row["model"], row["threads"]): row for row in quiet}


def main() -> None:
    """Print one line a model and the geometric mean of the ratios."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="*")
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--streams", type=int, nargs="*", default=[1, 2, STREAMS])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--attempts", type=int, default=3, help="of a row that is disturbed")
    parser.add_argument("--json", type=Path, help="keep the rows in this file")
    options = parser.parse_args()
    models = options.models or [name for name in zoo.names() if name != "gpt2large"]
    known, rows = known_rows(options.json, options.runs), list[Row]()
    for threads in options.threads:
        counts = [c for c in options.streams if threads > 1 or c == 1]
        for name in models:
            row = known.pop((name, threads), None)
            if row is None:
                found = measure(
                    contenders_of(name, threads, counts), options.runs, options.attempts
                )
                row = {"model": name, "threads": threads, "runs": options.runs, **found}
            rows.append(row)
            print(describe(row), flush=True)
            if options.json:
                write(options.json, [*rows, *known.values()])
        for ratio in ("ratio", "default"):
            mean = geometric_mean([row[ratio] for row in rows if row["threads"] == threads])
            print(f"geometric mean, {threads} threads: {ratio} {mean:.3f}")
    disturbed = [row["model"] for row in rows if not is_quiet(row)]
    if disturbed:
        print(f"{len(disturbed)} rows were disturbed by other work: {', '.join(disturbed)}")


if __name__ == "__main__":
    main()
