"""Processes that this one starts as commands and talks to through pipes.

They are not `multiprocessing`'s, which would run the user's script again. Messages are pickles,
each after its length.
"""

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, Any

PROGRAM = """
import sys
sys.path[:] = sys.argv[1:]
import signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
from {module} import {function}
{function}()
"""
"""A child: Ctrl-C is for the process that started it, which ends it.

It gets this process's import path as arguments: with PYTHONPATH, a user's `types.py` would come
before Python's own while Python starts.
"""


def start_child(
    module: str,
    function: str,
    variables: Mapping[str, str] | None = None,
    pipes: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Start a process that calls a function of a module; its output goes to a pipe.

    It imports what this process can, gets requests by its standard input, and inherits further
    environment variables and pipes.
    """
    path = [os.getcwd() if folder == "" else folder for folder in sys.path]
    program = PROGRAM.format(module=module, function=function)
    with _interrupts_held():
        return subprocess.Popen(
            # -P keeps the working directory off the path: a user's file may have a module's name.
            [sys.executable, "-P", "-c", program, *path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **(variables or {})},
            pass_fds=pipes,
        )


@contextmanager
def _interrupts_held() -> Generator[None]:
    """Hold Ctrl-C back: a process that starts now ignores it before it can print a traceback."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def stdin_and_stdout() -> tuple[IO[bytes], IO[bytes]]:
    """The pipes of a child's requests and answers; what it prints goes to standard error."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return sys.stdin.buffer, answers


def send(stream: IO[bytes], message: object) -> None:
    """Write one message."""
    content = pickle.dumps(message)
    stream.write(len(content).to_bytes(8, "little") + content)
    stream.flush()


def receive(stream: IO[bytes]) -> Any:
    """Read one message; None at the end of the stream."""
    size = stream.read(8)
    return pickle.loads(stream.read(int.from_bytes(size, "little"))) if len(size) == 8 else None
