"""Completion of the command line by shells."""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from importlib import import_module
from typing import Any

from compiler.errors import MissingExtraError

SHELLS = ("bash", "fish", "zsh")
"""The shells for which `flowloom completion` writes scripts."""


def add_completion(add: Callable[..., ArgumentParser], parser: ArgumentParser) -> None:
    """Add the command that writes a script for the whole parser."""
    each = add("completion", help="print a shell's script that completes flowloom's commands")
    each.add_argument("shell", choices=SHELLS)
    each.set_defaults(command=completion_command, parser=parser)


def completion_command(options: Namespace) -> int:
    """`flowloom completion SHELL`: the script, on standard output."""
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
