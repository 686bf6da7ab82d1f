"""The processes of a family that answers with what it is asked."""

import os

from compiler.support.child_process import receive, send
from compiler.support.family import fork_family


def serve() -> None:
    """Answer each request with it and the numbers of this process and its parent."""
    requests, answers = fork_family()
    while (request := receive(requests)) is not None:
        send(answers, (request, os.getpid(), os.getppid()))
