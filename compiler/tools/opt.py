"""Runs passes over text IR, and reads schedules from a file."""

import sys
from collections.abc import Iterator
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import ParseError, VerifyException

from compiler.errors import ModelError, ScheduleError
from compiler.ir import taskflow
from compiler.ir.context import parse_module
from compiler.ir.flatten import schedule_of
from compiler.passes.pipeline import first_line, parse
from compiler.passes.runner import Runner, verify
from compiler.schedule.tasks import Schedule
from compiler.support.caches import read_regular
from compiler.verify.schedule_json import from_json


def optimize(text: str, name: str, pipeline: str, dump: Path | None, timing: bool) -> str:
    """The text of the module after the passes; raises a FlowloomError for bad text or IR."""
    passes = parse(pipeline)
    runner = Runner(dump, each=True)
    module = _parse(text, name)
    verify(module)
    runner.write(module, "input", "input")
    runner.run(module, passes)
    if timing:
        for step in runner.timings:
            print(
                f"{step.seconds:9.3f} s  + {step.verify_seconds:.3f} s verify  {step.spec}",
                file=sys.stderr,
            )
    return str(module)


def read_text(path: Path | None) -> str:
    """The text of a file, or of standard input; raises ModelError if it cannot be read."""
    try:
        return sys.stdin.read() if path is None else read_regular(path).decode()
    except OSError as error:
        raise ModelError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        where = "standard input" if path is None else path
        raise ModelError(f"cannot read {where}: it is not text ({error})") from error


def _parse(text: str, name: str) -> ModuleOp:
    """The module of a text whose IR, but not whose schedules, was verified."""
    try:
        module = parse_module(text, name)
        module.verify()
    except ParseError as error:
        where = error.span.get_location()
        raise ModelError(f"{where}: not valid IR: {' '.join(error.msg.split())}") from error
    except RecursionError as error:
        raise ModelError(f"{name} is not valid IR: it is nested too deeply") from error
    except VerifyException as error:
        remedy = "correct it, or compile the model again with --dump-ir"
        raise ModelError(f"{name} is not valid IR: {first_line(error)}: {remedy}") from error
    return module


def load_schedules(path: Path) -> Iterator[Schedule]:
    """The schedules of a `schedule.json` or an `.mlir` file.

    Raises ArtifactError, ModelError or ScheduleError for what holds none.
    """
    text = read_text(path)
    if path.suffix == ".json":
        yield from_json(text)
        return
    module = _parse(text, str(path))
    graphs = [op for op in module.ops if isinstance(op, taskflow.GraphOp)]
    if not graphs:
        raise ScheduleError(f"{path} holds no taskflow.graph: run lower-to-taskflow first")
    for graph in graphs:
        if graph.unsynchronized is not None:
            raise ScheduleError(f"{path}: the schedule is not synchronised: run insert-sync")
        yield schedule_of(graph)
