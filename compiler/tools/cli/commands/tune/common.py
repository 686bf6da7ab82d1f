"""The models that the steps of `flowloom tune` take, and the lines that say how they get on."""

import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from compiler.errors import ModelError
from compiler.progress import Paused, notify

DEFAULT_PRECISIONS = ("tf32",)
"""The precisions to tune for by default."""


def reporter(options: Namespace) -> Callable[[str], None]:
    """Prints what a step does, unless it is to be quiet; on standard error next to JSON."""

    def report(line: str) -> None:
        if not options.quiet:
            notify(Paused())
            print(line, flush=True, file=sys.stderr if options.json else sys.stdout)

    return report


def model_files(paths: Sequence[Path]) -> Iterator[tuple[str, Path]]:
    """Each model's name and file; a folder stands for the ONNX files in it. Raises ModelError."""
    for path in paths:
        if str(path).startswith(("zoo:", "field:")) and not path.exists():
            raise ModelError(f"{path}: tune takes ONNX files, and folders of them")
        if not path.is_dir():
            yield path.name, path
            continue
        if (path / "manifest.json").exists():
            raise ModelError(f"{path} is an artifact, compiled already: name its ONNX file")
        files = sorted(path.glob("*.onnx"))
        if not files:
            raise ModelError(f"{path} holds no .onnx file")
        yield from ((file.name, file) for file in files)
