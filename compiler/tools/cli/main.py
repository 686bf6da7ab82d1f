"""Runs a command line: imports the command's module, and says errors on one line."""

import io
import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from compiler.errors import FlowloomError
from compiler.tools.cli.parser import make_parser
from compiler.tools.cli.tune_options import with_step
from compiler.tools.progress.options import shown_progress


def _show_warning(message: Warning | str, *_: object) -> None:
    print(f"flowloom: warning: {message}", file=sys.stderr)


INTERRUPTED = 130
"""Exit status after Ctrl-C: 128 and the number of SIGINT, as shells have it."""


NO_COMMAND = 2
"""Exit status without a command: that of any line that cannot be read."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; an error a user can act on is one line and exit status 1."""
    line = sys.argv[1:] if arguments is None else arguments
    if not line:
        make_parser().print_help(sys.stderr)
        return NO_COMMAND
    parsed = make_parser().parse_args(with_step(line))
    # names of files need not be valid text: they are escaped
    output: Any = sys.stdout
    if isinstance(output, io.TextIOWrapper):
        output.reconfigure(errors="backslashreplace")
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            with shown_progress(parsed):
                if getattr(parsed, "operators", None):
                    from compiler.tools.cli.own_operators import load_operators

                    load_operators(parsed.operators)
                name = f"tune.{parsed.step}" if parsed.command == "tune" else parsed.command
                # a command's imports, such as TVM, are not waited for by the others
                command = import_module(f"compiler.tools.cli.commands.{name}")
                status: int = command.run(parsed)
            sys.stdout.flush()
            return status
    except BrokenPipeError:  # the reader has closed the pipe: nothing more may be written
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (KeyboardInterrupt, Exception) as error:
        if parsed.debug:
            raise
        print(f"flowloom: {described(error)}", file=sys.stderr)
        return INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1


def described(error: BaseException) -> str:
    """An error on one line; an unexpected one with the place that raised it."""
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    if isinstance(error, FlowloomError):
        return f"{type(error).__name__}: {error}"
    if isinstance(error, OSError):
        named = f"{error.filename}: " if error.filename else ""
        return f"{type(error).__name__}: {named}{error.strerror or error}"
    if isinstance(error, ModuleNotFoundError):
        package = (error.name or "").partition(".")[0]
        if package and package != "compiler":
            return f"{package} is not installed: install Flowloom without pip's option --no-deps"
    if isinstance(error, MemoryError):
        return f"out of memory: {error}"
    frame = traceback.extract_tb(error.__traceback__)[-1]
    text = " ".join(str(error).split())[:500]
    return (
        f"internal error: {type(error).__name__}: {text} ({frame.filename}, line {frame.lineno});"
        " please report it with what `flowloom --debug` prints"
    )
