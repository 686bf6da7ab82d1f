"""Compiles a file for the CPU and compares its results and times with onnxruntime's."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import CLOCK_THREAD_CPUTIME_ID, clock_gettime, perf_counter
from typing import Any

import numpy as np
import onnxruntime

import compiler

TOLERANCE = 1e-4
"""The largest difference of floats, as a part of the largest value."""

Arrays = Mapping[str, Any]


@dataclass
class Verdict:
    """The outcome of a file: `right`, `wrong`, `refused`, `crashed`, or why there is none."""

    result: str
    detail: str = ""
    compile_s: list[float] = field(default_factory=list[float])
    times_ms: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    """Ours and onnxruntime's of each feed, in CPU time of one thread."""


def judge(path: Path, feeds: Sequence[Arrays]) -> Verdict:
    """The verdict on a file for some feeds."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    try:
        session = onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"])
        names = [i.name for i in session.get_inputs()]
        feeds = [{n: a for n, a in feed.items() if n in names} for feed in feeds]
        wanted = [_expected(session, feed) for feed in feeds]
    except Exception as error:
        return Verdict("onnxruntime fails", str(error)[:300])
    verdict = Verdict("right")
    start = perf_counter()
    try:
        module = compiler.compile(path, threads=1, budget=0)
        for feed, expected in zip(feeds, wanted, strict=True):
            found = module.run(feed)
            verdict.compile_s.append(perf_counter() - start)
            start = perf_counter()
            if reason := difference(found, expected):
                verdict.result = "wrong"
                verdict.detail = f"{verdict.detail} {reason}".strip()
            ours = milliseconds(lambda feed=feed: module.run(feed))
            theirs = milliseconds(lambda feed=feed: session.run(None, dict(feed)))
            verdict.times_ms.append((ours, theirs))
    except compiler.FlowloomError as error:
        return Verdict("refused", f"{type(error).__name__}: {error}")
    except Exception as error:
        return Verdict("crashed", f"{type(error).__name__}: {error}")
    return verdict


def _expected(session: Any, feed: Arrays) -> Arrays:
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(None, dict(feed)), strict=True))


def milliseconds(run: Any, seconds: float = 0.3) -> float:
    """The least CPU time of a run in this thread, of some."""
    run()
    best, end = float("inf"), perf_counter() + seconds
    while perf_counter() < end or best == float("inf"):
        start = clock_gettime(CLOCK_THREAD_CPUTIME_ID)
        run()
        best = min(best, clock_gettime(CLOCK_THREAD_CPUTIME_ID) - start)
    return best * 1e3


def difference(found: Arrays, expected: Arrays) -> str:
    """How outputs differ from those expected; empty if they do not."""
    for name, wanted in expected.items():
        if reason := _difference(found[name], wanted):
            return f"{name}: {reason}"
    return ""


def _difference(found: Any, wanted: Any) -> str:
    if isinstance(wanted, list):
        found, wanted = _as_table(found), _as_table(wanted)
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return f"{found.dtype}{list(found.shape)} instead of {wanted.dtype}{list(wanted.shape)}"
    if wanted.dtype.kind != "f":
        count = int(np.sum(found != wanted))
        return f"{count} of {wanted.size} differ" if count else ""
    if not np.array_equal(np.isfinite(found), np.isfinite(wanted)):
        return "other elements are not finite"
    usual = np.isfinite(wanted)
    largest = np.abs(wanted[usual]).max(initial=0)
    worst = np.abs(found[usual].astype(np.float64) - wanted[usual]).max(initial=0)
    return (
        f"differs by {worst:.2g}, the largest is {largest:.2g}"
        if worst > TOLERANCE * largest
        else ""
    )


def _as_table(rows: Sequence[Mapping[Any, float]]) -> np.ndarray:
    """Dictionaries of scores as an array (rows, keys)."""
    return np.array([[row[key] for key in sorted(row)] for row in rows])
