"""The options of commands that take long: `--quiet`, `--timing` and `--json`, and what they do."""

import json
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from time import monotonic
from typing import Any

from compiler.progress import ProgressEvent, listening
from compiler.tools.progress.counter import WorkCounter
from compiler.tools.progress.display import PlainDisplay, TerminalDisplay


def add_progress(parser: ArgumentParser) -> None:
    """The options of a command that shows progress: not to, and to say what took long."""
    parser.add_argument("-q", "--quiet", action="store_true", help="show no progress")
    parser.add_argument(
        "--timing",
        action="store_true",
        help="print the seconds of each step and of the slowest passes and kernels",
    )


def add_json(parser: ArgumentParser) -> None:
    """The option `--json`, by which a command's result can be read by programs."""
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def conclude(options: Namespace, text: str, figures: Mapping[str, Any]) -> None:
    """Print the result of a command, in words or, under `--json`, as one object.

    A command that shows progress adds the seconds of its steps.
    """
    if not options.json:
        print(text)
        return
    work = getattr(options, "work", None)
    print(json.dumps({**figures, **({} if work is None else {"seconds": work.steps})}))


@contextmanager
def shown_progress(options: Namespace) -> Generator[None, None, None]:
    """Show the work of a command that has `--quiet`, unless it is given; `--timing` at the end."""
    if not hasattr(options, "quiet"):
        yield
        return
    counter = WorkCounter()
    kind = TerminalDisplay if sys.stderr.isatty() else PlainDisplay
    display = None if options.quiet else kind(counter, sys.stderr, monotonic)

    def listen(event: ProgressEvent) -> None:
        counter.take(event, monotonic())
        if display is not None:
            display.show(event)

    options.work = counter
    try:
        with listening(listen):
            yield
    finally:
        if display is not None:
            display.stop()
    if options.timing:
        for name, seconds in (*counter.steps.items(), *counter.slowest()):
            print(f"{seconds:9.3f} s  {name}", file=sys.stderr)
