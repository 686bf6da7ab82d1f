"""Processes that make and check cases: one that dies or hangs is itself a finding."""

import faulthandler
import fcntl
import multiprocessing
import os
import signal
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from multiprocessing.connection import wait
from pathlib import Path
from time import monotonic
from typing import Any

from compiler.emulator.compile import SANITIZED, engine, prepared_header
from compiler.errors import SymbolicFaultWarning
from compiler.target.target import parse_target
from tests.fuzz.case import Case, Failure

SECONDS = 60
"""The longest that any case may take."""
FEWEST = 4
"""The cases that a worker draws of each kind, however slow the machine is."""
WARM_SECONDS = 600
"""The longest that a worker takes before its first case: an empty cache, a busy machine."""
SANITIZED_SECONDS = 300
"""The same under AddressSanitizer, with which kernels take long to build."""


@dataclass(frozen=True)
class Outcome:
    """What became of one seed: `status` is passed, failed or skipped."""

    seed: int
    status: str
    case: Case | None = None
    failure: Failure | None = None
    reason: str = ""
    note: str = ""
    """What was drawn, in words."""


def judge(case: Case) -> Outcome:
    """Check a case in this process."""
    from tests.fuzz.checks import Skipped, check

    try:
        failure = check(case)
    except Skipped as reason:
        return Outcome(case.seed, "skipped", reason=str(reason), note=case.note)
    if failure is None:
        return Outcome(case.seed, "passed", note=case.note)
    return _failed(case, failure)


def _failed(case: Case, failure: Failure) -> Outcome:
    return Outcome(
        seed=case.seed,
        status="failed",
        case=case,
        failure=failure,
        reason=failure.key,
        note=case.note,
    )


def _make(kind: str, seed: int, target: str, guarded: bool) -> Case | None:
    from tests.fuzz.kinds import drawn

    return drawn(kind, seed, target, guarded)


def _drawn(kind: str, seed: int, target: str, guarded: bool) -> Outcome:
    from tests.fuzz.exported import NotExported

    try:
        case = _make(kind, seed, target, guarded)
    except NotExported as reason:
        return Outcome(seed, "skipped", reason=str(reason), note=reason.operator)
    if case is None:
        return Outcome(seed, "skipped", reason="nothing grew")
    return judge(case)


def _warm(target: str) -> None:
    """Import and build what all cases share, which counts in the time of none."""
    import_module("tests.fuzz.checks")
    import_module("tests.fuzz.kinds")
    if parse_target(target).backend == "emu":
        engine()
        prepared_header()


def _end_with_parent() -> None:
    """Let the kernel end this process when the parent ends.

    The pipe that only the parent can write to sends SIGIO when it closes, which ends the process
    also where native code holds the interpreter's lock. PR_SET_PDEATHSIG would end it with the
    thread that started it.
    """
    parent = multiprocessing.parent_process()
    assert parent is not None
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    fcntl.fcntl(parent.sentinel, fcntl.F_SETOWN, os.getpid())
    flags = fcntl.fcntl(parent.sentinel, fcntl.F_GETFL)
    fcntl.fcntl(parent.sentinel, fcntl.F_SETFL, flags | os.O_ASYNC)
    if wait([parent.sentinel], 0):  # it ended before
        os._exit(1)


def _serve(connection: Any, log: str) -> None:
    """Answer requests until the parent is gone, also in the middle of a case."""
    _end_with_parent()
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    faulthandler.enable()
    warnings.simplefilter("error", SymbolicFaultWarning)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    handlers: dict[str, Callable[..., Any]] = {
        "warm": _warm,
        "draw": _drawn,
        "make": _make,
        "judge": judge,
    }
    while True:
        try:
            name, *arguments = connection.recv()
        except EOFError:
            return
        connection.send(handlers[name](*arguments))


class Dead(Exception):
    """The worker crashed or took too long: which of them, and what it printed last."""


class Worker:
    """A process that keeps the compiler warm; it is started again after it died."""

    def __init__(self, seconds: float = SECONDS) -> None:
        """`seconds` is the longest that a case may take without a sanitizer."""
        self._seconds = seconds
        self._context = multiprocessing.get_context("spawn")
        self._folder = tempfile.TemporaryDirectory(prefix="fuzz-worker-")
        self._log = Path(self._folder.name) / "log"
        self._process: Any = None

    def _start(self) -> None:
        self._connection, theirs = self._context.Pipe()
        self._log.touch()
        arguments = theirs, str(self._log)
        self._process = self._context.Process(target=_serve, args=arguments, daemon=False)
        self._process.start()
        theirs.close()

    def ask(self, name: str, *arguments: Any, seconds: float | None = None) -> Any:
        """The answer to one request, in the time of a case or in `seconds`; raises Dead."""
        if self._process is None:
            self._start()
        try:
            self._connection.send((name, *arguments))
            if seconds is None:
                seconds = SANITIZED_SECONDS if SANITIZED in os.environ else self._seconds
            if not self._connection.poll(seconds):
                self.stop()
                raise Dead(f"hangs: no answer in {seconds} s")
            return self._connection.recv()
        except (EOFError, BrokenPipeError, ConnectionResetError):
            code = self._exit_code()
            name = signal.Signals(-code).name if code and code < 0 else f"exit code {code}"
            raise Dead(f"crashes: {name}", self._last_words()) from None

    def _exit_code(self) -> int | None:
        process = self._process
        process.join(5)
        code = process.exitcode
        self.stop()
        return code

    def _last_words(self) -> str:
        return self._log.read_text(errors="replace")[-2000:]

    def stop(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._connection.close()
            self._process = None

    def judge(self, case: Case) -> Outcome:
        """The outcome of a case, whatever it does to the process."""
        try:
            return self.ask("judge", case)
        except Dead as error:
            return _failed(case, dead(error))

    def draw(self, kind: str, seed: int, target: str, guarded: bool = False) -> Outcome:
        """The outcome of a seed, whatever its case does to the process."""
        try:
            if self._process is None:
                self.ask("warm", target, seconds=WARM_SECONDS)
            return self.ask("draw", kind, seed, target, guarded)
        except Dead as error:
            try:
                case = self.ask("make", kind, seed, target, guarded)
            except Dead:
                return Outcome(seed, "skipped", reason="onnxruntime dies of it")
            return _failed(case, dead(error))


def dead(error: Dead) -> Failure:
    """A worker's death as a failure."""
    what, *log = error.args
    return Failure(what, "\n".join([f"the process {what}", *log]))


def seeds(first: int, step: int, until: float, most: int | None) -> Iterator[int]:
    """Seeds of one worker, a few of them in any case, until the time or the number is reached."""
    count = 0
    while (count < FEWEST or monotonic() < until) and (most is None or count < most):
        yield first + count * step
        count += 1
