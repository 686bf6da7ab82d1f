"""`flowloom explore DIR|MODEL [DIR|MODEL] -o page.html`: a page to look at one, or two."""

from argparse import Namespace
from pathlib import Path

from compiler.errors import ArgumentError
from compiler.support.words import in_bytes
from compiler.tools.cli.opening import check_compiled, compile_model
from compiler.tools.explore.document import SideFact
from compiler.tools.explore.page import explore_page
from compiler.tools.explore.sides import artifact_side, model_side
from compiler.tools.outputs import check_file, write_text
from compiler.tools.progress.options import conclude


def run(options: Namespace) -> int:
    """Write the page of one or two modules or models."""
    check_file(options.output)
    if len(options.models) > 2:
        raise ArgumentError(f"explore takes one or two models or artifacts: {len(options.models)}")
    if options.dump_ir is not None and len(options.models) > 1:
        raise ArgumentError("--dump-ir takes one model: two would write to one folder")
    if all(model.is_dir() for model in options.models):
        check_compiled(Namespace(**{**vars(options), "model": options.models[0]}))
    page = explore_page([_side(model, options) for model in options.models])
    write_text(options.output, page)
    text = f"{options.output}: {in_bytes(len(page))}, opens in a browser without network"
    conclude(options, text, {"page": str(options.output), "bytes": len(page)})
    return 0


def _side(model: Path, options: Namespace) -> SideFact:
    if model.is_dir():
        return artifact_side(model)
    return model_side(str(model), Namespace(**{**vars(options), "model": model}), compile_model)
