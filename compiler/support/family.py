"""Processes of one kind that share their imports: one is started, which forks the others.

It can be started before it is known whether there is work for it, while this process imports and
reads what it needs itself.
"""

import gc
import os
import signal
import subprocess
from collections.abc import Generator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import IO

from compiler.support.child_process import receive, send, start_child, stdin_and_stdout

ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
"""Variables for a process that forks: a library's threads would not be there afterwards."""

PIPES = "FLOWLOOM_PIPES"
"""The variable that names the pipes of forks: requests and answers of each, as numbers."""


@dataclass
class Child:
    """A process and its pipes; its first message is its `pid`, which says that it is ready."""

    requests: IO[bytes]
    answers: IO[bytes]
    process: subprocess.Popen[bytes] | None = None
    """The process, where this one has started it: it is the parent of the others."""
    pid: int = 0
    ready: bool = False

    def wait_until_ready(self) -> None:
        """Return when the process has imported what it needs, or has died."""
        if not self.ready:
            self.pid = receive(self.answers) or 0
            self.ready = True

    def stop(self) -> None:
        """End the process; one that has not sent its `pid` yet ends when its requests do."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        elif self.pid:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        for stream in (self.requests, self.answers):
            with suppress(OSError):  # what was not sent yet
                stream.close()


def start_family(module: str, function: str, count: int) -> list[Child]:
    """Start processes that call a function of a module, which forks them by `fork_family`.

    The first one, which the others are forks of, comes last: stop them in order. Imports of the
    function before the fork are made once for all of them.
    """
    requests = [os.pipe() for _ in range(count - 1)]
    answers = [os.pipe() for _ in range(count - 1)]
    pairs = zip(requests, answers, strict=True)
    theirs = [fd for (read, _), (_, write) in pairs for fd in (read, write)]
    variables = {**ONE_THREAD, PIPES: ",".join(map(str, theirs))}
    process = start_child(module, function, variables, theirs)
    for fd in theirs:
        os.close(fd)
    assert process.stdin is not None
    assert process.stdout is not None
    forks = [
        Child(os.fdopen(write, "wb"), os.fdopen(read, "rb"))
        for (_, write), (read, _) in zip(requests, answers, strict=True)
    ]
    return [*forks, Child(process.stdin, process.stdout, process)]


def fork_family() -> tuple[IO[bytes], IO[bytes]]:
    """Fork as many processes as `start_family` asked for; the pipes of the one that returns."""
    fds = [int(fd) for fd in os.environ.get(PIPES, "").split(",") if fd]
    gc.freeze()  # objects that are not collected stay in the memory that all share
    pipes = [*zip(fds[::2], fds[1::2], strict=True)]
    for pair in pipes:
        if os.fork() == 0:
            for read, write in pipes:
                # A copy would keep another process's pipes open after its end.
                if (read, write) != pair:
                    os.close(read)
                    os.close(write)
            os.dup2(pair[0], 0)
            os.dup2(pair[1], 1)
            for fd in pair:
                os.close(fd)
            return _said_to_be_ready()
    for fd in fds:
        os.close(fd)
    return _said_to_be_ready()


def _said_to_be_ready() -> tuple[IO[bytes], IO[bytes]]:
    requests, answers = stdin_and_stdout()
    try:
        send(answers, os.getpid())
    except BrokenPipeError:  # it was stopped before it was there
        os._exit(0)
    return requests, answers


EARLY = True
"""Whether families are started before there is work for them; not where tests fill the cores."""

_EARLY: ContextVar[list[Child] | None] = ContextVar("early", default=None)


@contextmanager
def started_early(module: str, function: str, count: int) -> Generator[None]:
    """Start a family now, which the block's work takes by `early_family`; end it after the block.

    Fewer than two processes are not started: this one does the work as soon.
    """
    family = start_family(module, function, count) if EARLY and count > 1 else None
    token = _EARLY.set(family)
    try:
        yield
    finally:
        _EARLY.reset(token)
        for child in family or ():
            child.stop()


def early_family() -> list[Child] | None:
    """The family that was started early, which stays as it is when work has ended."""
    return _EARLY.get()
