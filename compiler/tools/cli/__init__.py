"""The command line: the options, and the commands without a folder."""

from compiler.tools.cli.parser import main, make_parser, with_step

__all__ = ["main", "make_parser", "with_step"]
