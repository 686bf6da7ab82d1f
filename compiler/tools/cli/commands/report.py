"""`flowloom report DIR`: the artifact and why it is so, as text; or constraints."""

from argparse import Namespace

from compiler.errors import ArgumentError
from compiler.scheduling.constraints_json import constraints_to_json
from compiler.tools.inspection import open_module
from compiler.tools.outputs import check_file, write_text
from compiler.tools.report import report


def run(options: Namespace) -> int:
    """Print the report or the constraints, or write them to a file."""
    if options.output is not None and options.output.suffix in (".html", ".htm"):
        raise ArgumentError(
            f"a report is text: `flowloom explore {options.directory} -o {options.output}` writes"
            " a page"
        )
    check_file(options.output)
    module = open_module(options.directory)
    text = constraints_to_json(module.schedule) if options.constraints else report(module)
    if options.output is None:
        print(text, end="")
    else:
        write_text(options.output, text)
    return 0
