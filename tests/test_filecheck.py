"""Runs the `.mlir` cases of tests/filecheck in this process: their RUN lines are commands.

A line `// RUN: not flowloom opt ...` expects an error and checks its message.
"""

import shlex
from contextlib import chdir
from io import StringIO
from pathlib import Path

import pytest
from filecheck.finput import FInput
from filecheck.matcher import Matcher
from filecheck.options import parse_argv_options
from filecheck.parser import Parser

from compiler.errors import FlowloomError
from compiler.tools.opt import optimize

CASES = sorted((Path(__file__).parent / "filecheck").glob("*.mlir"))


def _output(path: Path, command: list[str]) -> str:
    rejected = command[0] == "not"
    program, tool, file, option, pipeline = command[rejected:]
    assert (program, tool, file, option) == ("flowloom", "opt", "%s", "-p")
    if not rejected:
        return optimize(path.read_text(), path.name, pipeline, None, False)
    with pytest.raises(FlowloomError) as error:
        optimize(path.read_text(), path.name, pipeline, None, False)
    return str(error.value)


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.stem)
def test_case(path: Path):
    lines = [line for line in path.read_text().splitlines() if line.startswith("// RUN:")]
    assert lines
    for line in lines:
        command, check = line.removeprefix("// RUN:").split("|")
        with chdir(path.parent):
            output = _output(path, shlex.split(command))
        options = parse_argv_options([*shlex.split(check.replace("%s", str(path)))])
        matcher = Matcher(options, FInput("output", output), Parser.from_opts(options))
        matcher.stderr = StringIO()
        assert matcher.run() == 0, f"{matcher.stderr.getvalue()}\nof\n{output}"
