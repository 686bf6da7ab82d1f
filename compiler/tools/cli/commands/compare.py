"""`flowloom compare MODEL [CONTENDER...]`, or `DIR DIR...`: ways to run a model, timed in turns."""

from argparse import Namespace
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from compiler import __version__
from compiler.display.intervals import intervals_svg
from compiler.driver.build import full_target
from compiler.errors import ArgumentError
from compiler.passes.user import using
from compiler.support.caches import write_whole
from compiler.tools.cli.opening import stored_inputs
from compiler.tools.compile_options import compile_arguments
from compiler.tools.contest import (
    DEFAULT,
    Contender,
    Contest,
    as_json,
    as_table,
    hold,
    read_contender,
)
from compiler.tools.models import named_model
from compiler.tools.outputs import check_file
from compiler.tools.peers import present
from compiler.tools.progress.options import conclude


def run(options: Namespace) -> int:
    """Time the contenders; exit status 1 if one could not run or has other outputs."""
    check_file(options.plot)
    model = None if options.model.is_dir() else options.model
    texts = options.contenders if model else [str(options.model), *options.contenders]
    arguments = compile_arguments(options)
    del arguments["pipeline"]  # each contender has its own
    target = full_target(arguments["target"], options.arch, options.precision)
    with using(options.own_passes):
        contenders = [read_contender(text, target) for text in texts or (DEFAULT, *present())]
    _check(contenders, model)
    contest = Contest(
        model=model and named_model(model),
        contenders=contenders,
        arguments=arguments,
        inputs=stored_inputs(options),
        seed=options.seed,
    )
    entries = hold(contest, options.duration)
    if options.plot is not None:
        timings = {entry.name: entry.timing for entry in entries if entry.timing is not None}
        write_whole(options.plot, intervals_svg(timings).encode())
    peers = {c.name: version(c.name) for c in contenders if c.kind == "peer"}
    figures = {
        "model": model and str(model),
        "target": arguments["target"],
        "versions": {"flowloom": __version__, **peers},
        "contenders": as_json(entries),
    }
    conclude(options, as_table(entries), figures)
    return int(any(entry.timing is None for entry in entries))


def _check(contenders: Sequence[Contender], model: Path | None) -> None:
    """Raise ArgumentError for contenders that cannot be compared with each other."""
    names = [contender.name for contender in contenders]
    if len(set(names)) < len(names):
        raise ArgumentError(f"a contender is named twice: {', '.join(names)}")
    if all(contender.kind == "peer" for contender in contenders):
        raise ArgumentError(f"there is nothing of ours to compare: add {DEFAULT}")
    others = [contender.name for contender in contenders if contender.kind != "artifact"]
    if model is None and others:
        raise ArgumentError(
            f"{contenders[0].name} is an artifact, and {others[0]} needs the model: name its ONNX"
            " file first"
        )
