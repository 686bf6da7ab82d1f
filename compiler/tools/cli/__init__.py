"""The command line: `commands` has a module for each command, which is imported when chosen."""

from compiler.tools.cli.main import main
from compiler.tools.cli.parser import make_parser
from compiler.tools.cli.tune_options import with_step

__all__ = ["main", "make_parser", "with_step"]
