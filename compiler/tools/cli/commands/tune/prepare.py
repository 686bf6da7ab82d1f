"""`flowloom tune prepare MODEL|DIR... -o BUNDLE`: needs TVM, but no GPU."""

from argparse import Namespace
from pathlib import Path

from compiler.autotune.kernels.bundle import Bundle, bounded, write
from compiler.autotune.kernels.duration import expected_duration
from compiler.autotune.kernels.prepare import prepare_bundle
from compiler.tools.cli.commands.tune.common import DEFAULT_PRECISIONS, model_files, reporter
from compiler.tools.outputs import check_file
from compiler.tools.progress.options import conclude


def run(options: Namespace) -> int:
    """Write the candidates of the models' kernels to a bundle."""
    check_file(options.output)
    bundle = prepare_bundle(
        model_files(options.models),
        options.precision or DEFAULT_PRECISIONS,
        options.arch,
        count=options.candidates,
        report=reporter(options),
        input_shapes=dict(options.input_shape),
    )
    text = write_bundle(bundle, options.output, options.limit)
    figures = {"bundle": str(options.output), "kernels": len(bundle.kernels)}
    conclude(options, text, figures | {"candidates": bundle.count})
    return 0


def write_bundle(bundle: Bundle, path: Path, limit: float) -> str:
    """Write a bundle of at most some megabytes; what it holds and how long it takes, in words."""
    written, content = bounded(bundle, int(1e6 * limit))
    write(content, path)
    dropped = bundle.count - written.count
    less = f" ({dropped} more would exceed {limit:g} MB)" if dropped else ""
    return (
        f"{path}: {written.count} candidates of {len(written.kernels)} kernels{less},"
        f" {len(content) / 1e6:.1f} MB\n{expected_duration(written)}"
    )
