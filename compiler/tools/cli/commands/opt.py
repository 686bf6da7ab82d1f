"""`flowloom opt FILE.mlir -p PIPELINE`: the IR after the passes, on standard output."""

from argparse import Namespace
from pathlib import Path

from compiler.errors import FlowloomError
from compiler.passes.pipeline import check_used
from compiler.passes.user import using
from compiler.tools.opt import optimize, read_text


def run(options: Namespace) -> int:
    """Run the passes over the file, or over each of its parts, which `// -----` divides."""
    text = read_text(None if options.file == "-" else Path(options.file))
    chunks = text.split("// -----") if options.split_input_file else [text]
    with using(options.own_passes) as user_passes:
        check_used(user_passes, options.pipeline)
        for index, chunk in enumerate(chunks):
            if index:
                print("// -----")
            try:
                print(
                    optimize(chunk, options.file, options.pipeline, options.dump_ir, options.timing)
                )
            except FlowloomError as error:
                if not options.verify_diagnostics:
                    raise
                print(f"{type(error).__name__}: {error}")
    return 0
