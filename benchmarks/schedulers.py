"""Every scheduling policy on the same kernels: simulated and measured time, streams, waits, memory.

    python benchmarks/schedulers.py [--models inception_v3 nasnetmobile] [--target cuda:sm_90:tf32]
        [--policy FILE.py:FUNCTION --streams 4] [--ablations] [--json FILE] [--picture FILE.png]
        [--seconds 300]
    python benchmarks/schedulers.py --prepare CASES --target cuda:sm_90:tf32    # where TVM is
    python benchmarks/schedulers.py --cases CASES --json FILE                   # where the GPU is
    python benchmarks/schedulers.py --cases CASES --record FILE.gz              # for simulator.py
    python benchmarks/schedulers.py --cases CASES --simulate [--costs FILE]     # without a GPU
    python benchmarks/schedulers.py --read FILE --picture FILE.png              # print again

On a GPU each kernel is timed alone first, and all policies work with these times; schedules of a
model then take turns in one process, as one CUDA graph each. On the CPU, kernels' times are
estimated. Every schedule is verified, and its outputs must be those of the sequential one, in every
bit. Times are medians of 25 runs in wall microseconds; a policy that refuses a model has no row.
`--policy` adds a stream policy of your own, and a model may be an ONNX file.
With `--simulate` nothing runs: kernels' times are those of an earlier `--json` where `--costs`
names one that has them all, else estimates. `auto` is the default search. Seconds are of one core.
"""

import argparse
import json
import sys
import traceback
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import asdict
from datetime import date
from multiprocessing import get_context
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.calibration.data import write
from benchmarks.scheduling.cases import Case, Planned, load, plan, prepare, save
from benchmarks.scheduling.measure import (
    Bench,
    deadline,
    estimated_costs,
    measured_costs,
    simulated,
)
from benchmarks.scheduling.policies import POLICIES, own_policies, policies
from benchmarks.scheduling.record import record
from benchmarks.scheduling.tables import markdown, picture
from compiler.schedule.choices import Mode
from compiler.target.target import parse_target
from examples import zoo

BRANCHED = ["googlenet", "inception_v3", "nasnetmobile", "hrnet_w18", "pnasnet5large", "rnntc_sru"]
CHAINS = ["resnet50", "bert128", "t5small", "unet", "deepfm"]
ABLATED = ("inception_v3", "nasnetmobile", "pnasnet5large")
"""The models of the ablations."""


def model_name(text: str) -> str:
    """A network of the zoo or an ONNX file."""
    if text in zoo.names() or Path(text).is_file():
        return text
    raise argparse.ArgumentTypeError(
        f"{text!r} is neither a file nor a model of the zoo: {', '.join(zoo.names())}"
    )


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="+", type=model_name, default=BRANCHED + CHAINS)
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--policy", action="append", default=[], metavar="FILE.py:FUNCTION")
    parser.add_argument("--streams", type=int, default=4, help="the most that --policy may use")
    parser.add_argument("--ablations", action="store_true")
    parser.add_argument("--prepare", type=Path)
    parser.add_argument("--cases", type=Path)
    parser.add_argument("--read", type=Path)
    parser.add_argument("--simulate", action="store_true")
    parser.add_argument("--costs", type=Path, help="what --json wrote of the same kernels")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--record", type=Path, help="write what benchmarks/simulator.py reads")
    parser.add_argument("--seconds", type=float, default=3600.0, help="begin no model after this")
    parser.add_argument("--jobs", type=int, default=4, help="processes that plan schedules")
    return parser.parse_args()


def costs_of(case: Case, options: argparse.Namespace) -> dict[str, float]:
    """Nanoseconds of every kernel: measured where there is a GPU, else known or estimated.

    Raises SystemExit where the costs that were given are not those of the case's kernels.
    """
    if options.costs is not None:
        rows: list[dict[str, Any]] = json.loads(options.costs.read_text())
        of: dict[str, dict[str, float]] = {row["model"]: row["costs"] for row in rows}
        known = of.get(case.model, {})
        if missing := case.kernels.keys() - known.keys():
            sys.exit(f"{options.costs} has no time of {case.model}'s kernel {min(missing)}")
        return known
    if options.simulate or not parse_target(case.target).is_gpu:
        return estimated_costs(case)
    first = plan(case, estimated_costs(case), {"": POLICIES["sequential"]})[""]
    assert isinstance(first, Planned), first
    return measured_costs(case, first.schedule)


def row_of(
    case: Case, costs: dict[str, float], planned: dict[str, Planned | str], *, simulate: bool
) -> dict[str, Any]:
    """All figures of a model."""
    found = {name: plan for name, plan in planned.items() if isinstance(plan, Planned)}
    row: dict[str, Any] = {"model": case.model, "target": case.target, "costs": costs}
    row["refused"] = {
        name: problem for name, problem in planned.items() if isinstance(problem, str)
    }
    gpu = parse_target(case.target).is_gpu
    modes: list[Mode] = ["graph", "subgraphs"] if gpu else ["streams"]
    row["policies"] = {
        name: {
            **plan.figures,
            "simulated us": {mode: simulated(plan, case, costs, mode) for mode in modes},
        }
        for name, plan in found.items()
    }
    if not simulate:
        bench = Bench(case, {name: plan.schedule for name, plan in found.items()}, costs)
        same, measured = bench.same_bits(), {mode: bench.time(mode) for mode in modes}
        for name, policy in row["policies"].items():
            policy["same bits"] = same[name]
            policy["measured us"] = {mode: measured[mode][name] for mode in modes}
    return row


def head() -> dict[str, Any]:
    """The device of this process and the date."""
    from compiler.backends.cuda.device import device

    return {"device": asdict(device().device), "date": date.today().isoformat()}


def measure(cases: list[Case], options: argparse.Namespace) -> list[dict[str, Any]]:
    """A row a model; one that fails is reported and left out."""
    expired, rows = deadline(options.seconds), list[dict[str, Any]]()
    models: dict[str, Any] = {}
    with ProcessPoolExecutor(options.jobs, get_context("spawn")) as pool:
        futures: list[tuple[Case, dict[str, float], Future[Any]]] = []
        for case in cases:
            costs = costs_of(case, options)
            competing = policies(options.ablations and case.model in ABLATED)
            competing |= own_policies(options.policy, options.streams)
            futures.append((case, costs, pool.submit(plan, case, costs, competing)))
        for case, costs, future in futures:
            if expired():
                print(f"{case.model}: no time left", flush=True)
                continue
            try:
                planned = future.result()
                rows.append(row_of(case, costs, planned, simulate=options.simulate))
                print(markdown(rows[-1:]), flush=True)
                if options.record and not options.simulate:
                    models[case.model] = record(case, costs, planned, rows[-1])
                    write(options.record, head(), models)
            except Exception:
                traceback.print_exc()
                print(f"{case.model}: FAILED", flush=True)
            if options.json:
                options.json.write_text(json.dumps(rows, indent=1))
    return rows


def main() -> int:
    """Prepare, measure or read, as asked; exit status 1 if a model failed or a bit is wrong."""
    options = parse()
    if options.prepare:
        save((prepare(name, options.target) for name in options.models), options.prepare)
        return 0
    if options.read:
        rows = json.loads(options.read.read_text())
        print(markdown(rows))
        expected = len(rows)
    else:
        found = load(options.cases) if options.cases else []
        cases = [case for case in found if case.model in options.models]
        cases = cases or [prepare(name, options.target) for name in options.models]
        rows, expected = measure(cases, options), len(cases)
    if options.picture:
        picture(rows, options.picture)
    right = all(
        policy.get("same bits", True) for row in rows for policy in row["policies"].values()
    )
    return 0 if right and len(rows) == expected else 1


if __name__ == "__main__":
    sys.exit(main())
