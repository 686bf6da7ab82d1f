"""The search by the clock: workers draw and check seeds, failures shrink and are kept."""

from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock, Thread
from time import monotonic

from tests.fuzz.case import Case, Failure, save
from tests.fuzz.shrink import shrunk
from tests.fuzz.workers import SECONDS, Outcome, Worker, seeds


@dataclass(frozen=True)
class Plan:
    """What is searched, for how long, and where failures go."""

    kind: str
    seed: int
    seconds: float
    target: str = "cpu"
    cases: int | None = None
    """The most cases, or None."""
    guarded: bool = False
    """Whether memory around every operand of every case is guarded, not of a share of them."""
    keep: Path | None = None
    """The folder of failing cases, or None."""
    log: Path | None = None
    """The file to which each case adds a line, or None: seed, outcome, what was drawn, why."""
    shrinking: float = 30.0
    """The most seconds that one failure shrinks."""

    def again(self, seed: int) -> str:
        """The command that repeats one case alone."""
        guarded = " --guarded" if self.guarded else ""
        command = f"python -m tests.fuzz {self.kind} --target {self.target} --seed {seed}"
        return f"{command} --cases 1{guarded}"


@dataclass
class Report:
    """Counts so far, and the failures that are unlike each other."""

    plan: Plan
    counts: Counter[str] = field(default_factory=Counter[str])
    reasons: Counter[str] = field(default_factory=Counter[str])
    failures: dict[str, tuple[Case, Failure]] = field(
        default_factory=dict[str, tuple[Case, Failure]]
    )
    repeated: Counter[str] = field(default_factory=Counter[str])
    started: float = field(default_factory=monotonic)

    def line(self) -> str:
        """The counts in one line."""
        seconds = monotonic() - self.started
        total = self.counts["passed"] + self.counts["failed"]
        return (
            f"{self.plan.kind} on {self.plan.target}, seed {self.plan.seed}: {total} cases in"
            f" {seconds:.0f} s ({total / max(seconds, 1e-9):.1f}/s), {self.counts['failed']} failed"
            f" ({len(self.failures)} unlike), {self.counts['skipped']} skipped"
        )


@contextmanager
def pool(jobs: int, seconds: float = SECONDS) -> Generator[list[Worker], None, None]:
    """Workers, which keep the compiler warm from one search to the next; a case has `seconds`."""
    workers = [Worker(seconds) for _ in range(jobs)]
    try:
        yield workers
    finally:
        for worker in workers:
            worker.stop()


class Search:
    """Runs a plan on some workers."""

    def __init__(self, plan: Plan, workers: Sequence[Worker]) -> None:
        self.plan, self.report, self._lock = plan, Report(plan), Lock()
        self.workers = workers
        self._shown = monotonic()

    def run(self) -> Report:
        """Search until the time is over."""
        threads = [Thread(target=self._work, args=(i,)) for i in range(len(self.workers))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return self.report

    def _work(self, index: int) -> None:
        plan, worker, jobs = self.plan, self.workers[index], len(self.workers)
        until = self.report.started + plan.seconds
        most = None if plan.cases is None else -(-(plan.cases - index) // jobs)
        for seed in seeds(plan.seed + index, jobs, until, most):
            self._count(worker.draw(plan.kind, seed, plan.target, plan.guarded), worker)

    def _count(self, outcome: Outcome, worker: Worker) -> None:
        with self._lock:
            self.report.counts[outcome.status] += 1
            if outcome.status == "skipped":
                self.report.reasons[outcome.reason.partition(":")[0]] += 1
            self._log(outcome)
            if monotonic() > self._shown + 15:
                self._shown = monotonic()
                print(self.report.line(), flush=True)
        if outcome.case is not None and outcome.failure is not None:
            self._keep(outcome.case, outcome.failure, worker)

    def _log(self, outcome: Outcome) -> None:
        if self.plan.log is not None:
            reason = " ".join(outcome.reason.split())
            with self.plan.log.open("a") as log:
                print(outcome.seed, outcome.status, outcome.note, reason, sep="\t", file=log)

    def _keep(self, case: Case, failure: Failure, worker: Worker) -> None:
        """Shrink a failure unless its like has been found already."""
        first = signature(case, failure)
        with self._lock:
            self.report.repeated[first] += 1
            if self.report.repeated[first] > 2:
                return
        small, why = shrunk(case, failure, lambda c: worker.judge(c).failure, self.plan.shrinking)
        name = signature(small, why)
        with self._lock:
            self.report.repeated[name] += 1
            if name in self.report.failures:
                return
            self.report.failures[name] = small, why
        print(f"FAIL seed {case.seed}: {name}\n  {why.message[-600:]}", flush=True)
        print(f"  again: {self.plan.again(case.seed)}", flush=True)
        if self.plan.keep is not None:
            save(small, why, self.plan.keep / f"{case.kind}-{case.seed}.json")


def signature(case: Case, failure: Failure) -> str:
    """What failures of one cause have in common: the operators and the kind of failure."""
    if (
        case.kind in ("models", "artifacts", "schedules", "forged", "resealed")
        or "declared" in failure.key
    ):
        return f"{case.kind}: {failure.key}"
    operators = [node.op_type for node in case.proto.graph.node if node.op_type != "Constant"]
    broken = f" ({case.note.split(':')[0]})" if case.kind == "invalid" else ""
    return f"{', '.join(operators[:6])}{broken}: {failure.key}"
