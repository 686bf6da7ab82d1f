"""Runs passes over text IR, and finds the schedules in what a user names."""

import sys
from collections.abc import Iterator
from pathlib import Path

from xdsl.utils.exceptions import ParseError, VerifyException

from compiler.errors import ArtifactError, FlowloomError, ModelError, ScheduleError
from compiler.export.schedule_json import from_json
from compiler.ir import taskflow
from compiler.ir.context import parse_module
from compiler.ir.flatten import schedule_of
from compiler.pipeline import Runner, parse, verify
from compiler.schedule import Schedule


def optimize(text: str, name: str, pipeline: str, dump: Path | None, timing: bool) -> str:
    """The text of the module after the passes; raises a FlowloomError for bad text or IR."""
    passes = parse(pipeline)
    runner = Runner(dump)
    try:
        module = parse_module(text, name)
        verify(module)
    except (ParseError, VerifyException) as error:
        raise ModelError(f"{name} is not valid IR: {error}") from error
    runner.write(module, "input", "input")
    runner.run(module, passes)
    if timing:
        for each in runner.timings:
            print(
                f"{each.seconds:9.3f} s  + {each.verify_seconds:.3f} s verify  {each.spec}",
                file=sys.stderr,
            )
    return str(module)


def load_schedules(path: Path) -> Iterator[Schedule]:
    """The schedules of an artifact directory, a `schedule.json` or an `.mlir` file."""
    file = path / "schedule.json" if path.is_dir() else path
    try:
        text = file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ArtifactError(f"cannot read {file}: {error}") from error
    if file.suffix == ".json":
        yield from_json(text)
        return
    try:
        module = parse_module(text, str(file))
        module.verify()
    except (ParseError, VerifyException) as error:
        raise FlowloomError(f"{file} is not valid IR: {error}") from error
    graphs = [op for op in module.ops if isinstance(op, taskflow.GraphOp)]
    if not graphs:
        raise ScheduleError(f"{file} holds no taskflow.graph: run lower-to-taskflow first")
    for graph in graphs:
        if graph.unsynchronized is not None:
            raise ScheduleError(f"{file}: the schedule is not synchronised: run insert-sync")
        yield schedule_of(graph)
