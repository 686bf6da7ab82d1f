"""`python -m tests.fuzz all --rounds 1`: what CI runs; a long search has more, or `--seconds`.

The cases of a kind have the numbers `--seed`, `--seed` + 1, ... for seeds. Rounds have as many
everywhere; the clock lets a faster machine come further. A failure is printed with the command that
repeats it alone.
"""

import argparse
import os
import secrets
import sys
from math import inf
from pathlib import Path

from tests.fuzz.exported import what_is_missing
from tests.fuzz.kinds import KINDS, ROUND, SHARES
from tests.fuzz.sanitizer import environment
from tests.fuzz.search import Plan, Report, Search, pool
from tests.fuzz.workers import SECONDS

CASES = Path(__file__).parent / "cases"


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    made.add_argument("kind", choices=[*KINDS, "all"])
    made.add_argument("--seconds", type=float, default=60, help="of all kinds (default: 60)")
    made.add_argument("--rounds", type=int, help="search rounds of fixed numbers of cases instead")
    made.add_argument("--cases", type=int, help="stop after so many of each kind")
    made.add_argument("--target", default="cpu", help="cpu or emu, with an architecture")
    made.add_argument("--seed", type=int, help="the first seed (default: a fresh one)")
    made.add_argument("--jobs", type=int, default=2, help="worker processes (default: 2)")
    made.add_argument("--guarded", action="store_true", help="guard the memory of every case")
    made.add_argument("--sanitize", action="store_true", help="emulate under AddressSanitizer")
    made.add_argument("--keep", type=Path, default=CASES, help="where failing cases are written")
    made.add_argument(
        "--case-seconds",
        type=float,
        default=SECONDS,
        help=f"the longest that a case may take on a slow machine (default: {SECONDS})",
    )
    made.add_argument("--log", type=Path, help="a file that gets a line for each case")
    return made


def main(arguments: list[str] | None = None) -> int:
    """Search; 1 if anything failed."""
    reports = search(parser().parse_args(arguments))
    return 1 if any(report.counts["failed"] for report in reports) else 0


def search(asked: argparse.Namespace) -> list[Report]:
    """Search each kind for its share of the time, and print what was found."""
    seed = secrets.randbelow(10**9) if asked.seed is None else asked.seed
    kinds = list(KINDS) if asked.kind == "all" else [asked.kind]
    if "exported" in kinds and (reason := what_is_missing()):
        print(f"exported: {reason}", flush=True)
        kinds.remove("exported")
    if asked.sanitize:
        os.environ.update(environment())
    asked.keep.mkdir(parents=True, exist_ok=True)
    whole = sum(SHARES[kind] for kind in kinds)
    reports: list[Report] = []
    with pool(asked.jobs, asked.case_seconds) as workers:
        for kind in kinds:
            print(f"{kind} on {asked.target}: seed {seed}", flush=True)
            plan = Plan(
                kind=kind,
                seed=seed,
                seconds=inf if asked.rounds else asked.seconds * SHARES[kind] / whole,
                target=asked.target,
                cases=asked.rounds * ROUND[kind] if asked.rounds else asked.cases,
                guarded=asked.guarded,
                keep=asked.keep,
                log=asked.log,
            )
            reports.append(Search(plan, workers).run())
            summarise(reports[-1])
    return reports


def summarise(report: Report) -> None:
    """Print what a search found."""
    for reason, count in report.reasons.most_common(8):
        print(f"  skipped {count}: {reason}")
    for name, count in report.repeated.most_common(40):
        print(f"  failed {count}: {name}")
    print(report.line(), flush=True)


if __name__ == "__main__":
    sys.exit(main())
