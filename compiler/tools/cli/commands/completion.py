"""`flowloom completion SHELL`: a script that completes flowloom's commands, on standard output."""

from argparse import ArgumentParser, Namespace
from importlib import import_module
from typing import Any

from compiler.errors import MissingExtraError


def run(options: Namespace) -> int:
    """Print the script of the shell for the whole parser."""
    print(completion_script(options.parser, options.shell))
    return 0


def completion_script(parser: ArgumentParser, shell: str) -> str:
    """The script of a shell; raises MissingExtraError without shtab."""
    try:
        shtab: Any = import_module("shtab")
    except ImportError as error:
        raise MissingExtraError(
            "shtab is missing: install the extra with pip install 'flowloom[completion]'"
        ) from error
    return shtab.complete(parser, shell)
