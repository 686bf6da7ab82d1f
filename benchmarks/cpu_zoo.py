"""Run time of the zoo on the CPU against onnxruntime and OpenVINO with the same number of threads.

    python benchmarks/cpu_zoo.py [--models resnet50 field:swin_tiny | --field] [--threads 1 2]
                                 [--streams 1 2 4] [--peers onnxruntime openvino]
                                 [--runs 20] [--attempts 3] [--json FILE] [--table]

`--field` measures the networks of `examples/field`. Every figure is a median in milliseconds. The
runtimes take turns in rounds within one process. `ratio` is the best of ours over that of the
better peer, `default` that of the default number of streams; `to PEER` is the best of ours over
that peer's. A peer that is not installed, or that refuses a model, is left out of its rows.
`streams=1` is the same kernels in one stream: with two threads it shares out the blocks of each
kernel; more streams also run kernels side by side. `others` is the part of the machine's cores that
other work (or its host) took meanwhile. A row with more than 5 % is measured again, `--attempts`
times at most; the quietest counts, and keeps a `!` where it was not quiet. Quiet rows that are in
FILE already are taken from there, so that the command can be run again until all are. `--table`
prints FILE as a table and measures nothing.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter, process_time, sleep
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

import compiler
from benchmarks.cpu import runtimes
from benchmarks.cpu.table import means, table
from compiler.tools.comparison import compare
from examples import named

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


def contenders_of(name: str, threads: int, streams: list[int], peers: list[str]) -> Runs:
    """The peers and every stream count of ours, compared with the first peer on one thread.

    A peer that refuses the model is left out, and so is one whose outputs differ, as those of
    onnxruntime do where its threads add to one element; ours ends the benchmark.
    """
    model = named.load(name)
    inputs = named.random_inputs(name, model, seed=0)
    expected = runtimes.prepare_peer(peers[0], model, inputs, 1)()
    contenders: Runs = {}
    for peer in peers:
        try:
            contenders[peer] = runtimes.prepare_peer(peer, model, inputs, threads)
            if not compare(contenders[peer](), expected).passed:
                raise ValueError(f"its outputs differ from {peers[0]}'s on one thread")
        except Exception as error:
            contenders.pop(peer, None)
            print(f"{name}: {peer} is left out: {' '.join(str(error).split())[:200]}")
    if not contenders:
        raise SystemExit(f"{name}: there is nothing to compare with")
    for count in streams:
        module = compiler.compile(model, pipeline=pipeline(count), threads=threads)
        if not compare(module.run(inputs), expected).passed:
            raise SystemExit(f"{name}: outputs differ from {peers[0]}'s on one thread")
        contenders[f"streams={count}"] = lambda module=module: module.run(inputs)
    return contenders


def attempt(contenders: Runs, runs: int) -> Row:
    """Figures and ratios of contenders that take turns, and how much other work there was."""
    wall, own, busy = perf_counter(), process_time(), busy_seconds()
    figures = take_turns(contenders, runs, rounds=5)
    wall, own, busy = perf_counter() - wall, process_time() - own, busy_seconds() - busy
    others = max(0.0, busy - own) / (wall * (os.cpu_count() or 1))
    return {**figures, **ratios(figures), "others": others}


def ratios(figures: dict[str, float]) -> dict[str, float]:
    """Ours over the better peer's, and over each."""
    ours = {key: value for key, value in figures.items() if key.startswith("streams=")}
    peers = {key: value for key, value in figures.items() if key not in ours}
    default = ours.get(f"streams={STREAMS}", min(ours.values()))
    return {
        "ratio": min(ours.values()) / min(peers.values()),
        "default": default / min(peers.values()),
        **{f"to {peer}": min(ours.values()) / value for peer, value in peers.items()},
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
    times = {k: v for k, v in row.items() if k in runtimes.PEERS or k.startswith("streams=")}
    cells = "  ".join(f"{key} {value:9.3f}" for key, value in times.items())
    found = "  ".join(f"{k} {v:.2f}" for k, v in row.items() if is_ratio(k))
    mark = "" if is_quiet(row) else " !"
    return (
        f"{row['model']:14} threads={row['threads']}  {cells}  {found}  others "
        f"{100 * row['others']:.0f} %{mark}"
    )


def is_ratio(key: str) -> bool:
    """Whether a field of a row is a ratio of times."""
    return key in ("ratio", "default") or key.startswith("to ")


def write(file: Path, rows: list[Row]) -> None:
    """Keep the rows, by way of a temporary file."""
    temporary = file.with_name(f"{file.name}.tmp")
    host = runtimes.host(runtimes.present())
    temporary.write_text(json.dumps({"host": host, "rows": rows}, indent=1))
    os.replace(temporary, file)


def known_rows(file: Path | None, runs: int) -> dict[tuple[str, int], Row]:
    """The quiet rows of an earlier run with as many runs, by model and threads."""
    if file is None or not file.is_file():
        return {}
    rows = json.loads(file.read_text())["rows"]
    quiet = [row for row in rows if is_quiet(row) and row["runs"] == runs]
    return {(row["model"], row["threads"]): row for row in quiet}


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="*")
    parser.add_argument("--field", action="store_true", help="the networks of examples/field")
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--streams", type=int, nargs="*", default=[1, 2, STREAMS])
    parser.add_argument("--peers", nargs="+", choices=runtimes.PEERS, default=runtimes.present())
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--attempts", type=int, default=3, help="of a row that is disturbed")
    parser.add_argument("--json", type=Path, help="keep the rows in this file")
    parser.add_argument("--table", action="store_true", help="print the file's table and exit")
    options = parser.parse_args()
    if options.table and not options.json:
        parser.error("--table needs --json FILE")
    return options


def found_row(name: str, threads: int, options: argparse.Namespace) -> Row:
    """A row that is measured now."""
    counts = [count for count in options.streams if threads > 1 or count == 1]
    contenders = contenders_of(name, threads, counts, options.peers)
    figures = measure(contenders, options.runs, options.attempts)
    return {"model": name, "threads": threads, "runs": options.runs, **figures}


def main() -> None:
    """Print one line a model and the geometric mean of the ratios."""
    options = parse()
    if options.table:
        print(table(json.loads(options.json.read_text())["rows"]))
        return
    print(", ".join(" ".join(pair) for pair in runtimes.host(options.peers).items()), flush=True)
    models = options.models or named.usual(options.field)
    known, rows = known_rows(options.json, options.runs), list[Row]()
    for threads in options.threads:
        for name in models:
            row = known.pop((name, threads), None) or found_row(name, threads, options)
            rows.append(row)
            print(describe(row), flush=True)
            if options.json:
                write(options.json, [*rows, *known.values()])
        print(means([row for row in rows if row["threads"] == threads], threads))
    disturbed = [row["model"] for row in rows if not is_quiet(row)]
    if disturbed:
        print(f"{len(disturbed)} rows were disturbed by other work: {', '.join(disturbed)}")


if __name__ == "__main__":
    main()
