"""A pass of a user's file or class runs by its name, in its phase; its errors say where."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import parser
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr

import compiler
from compiler.errors import PipelineError
from compiler.ir.context import parse_module
from compiler.ir.dataflow import GroupOp, OperatorOp
from compiler.passes import PASSES
from compiler.passes.base import GraphPass, SchedulePass
from compiler.passes.pipeline import DEFAULT_PIPELINE, parse, split_phases
from compiler.passes.runner import Runner
from compiler.passes.user import using
from compiler.tools.cli import main

MODEL = """<ir_version: 10, opset_import: ["" : 18]>
main (float[4] x) => (float[4] y) { y = Add (x, x) }
"""
REST = (
    "partition-graph, assign-streams, order-launches, lower-to-taskflow, insert-sync, plan-memory"
)

OWN = '''
from compiler.passes.base import {base}
from xdsl.dialects.builtin import StringAttr

class Own({base}):
    """Makes every Add a Mul."""

    name = "own"

    def apply(self, ctx, op):
        for operator in op.walk():
            if operator.name == "dataflow.op" and operator.op_type.data == "Add":
                operator.op_type = StringAttr("Mul")
'''


def own(folder: Path, base: str = "GraphPass", text: str = OWN) -> str:
    """The name of a pass in a new file."""
    (folder / "own.py").write_text(text.format(base=base))
    return f"{folder / 'own.py'}:Own"


def run(pipeline: str, *passes: Any) -> list[float]:
    model = parser.parse_model(MODEL).SerializeToString()
    module = compiler.compile(model, pipeline=pipeline, passes=passes)
    return module.run({"x": np.array([1, 2, 3, 4], np.float32)})["y"].tolist()


@pytest.mark.parametrize("graph_passes", ["own, fuse-operators", "fuse-operators, own"])
def test_what_a_graph_pass_changes_is_compiled_wherever_it_stands(
    tmp_path: Path, graph_passes: str
):
    assert run(f"{graph_passes}, {REST}", own(tmp_path)) == [1, 4, 9, 16]
    assert run(f"fuse-operators, {REST}") == [2, 4, 6, 8]


@pytest.mark.parametrize(
    "place", ["fuse-operators, own, partition-graph", "fuse-operators, partition-graph, own"]
)
def test_a_schedule_pass_that_changes_a_group_is_refused(tmp_path: Path, place: str):
    rest = REST.removeprefix("partition-graph")
    with pytest.raises(PipelineError, match=r"pass 'own' changed what a group computes.*GraphPass"):
        run(place + rest, own(tmp_path, "SchedulePass"))


def test_a_graph_pass_that_comes_too_late_is_refused(tmp_path: Path):
    with pytest.raises(PipelineError, match=r"'own' decides .* comes after lower-to-taskflow"):
        run(f"fuse-operators, {REST}, own", own(tmp_path))


@dataclass(frozen=True)
class Renames(SchedulePass):
    """Names every group's kernel."""

    name = "renames"

    kernel: str = "k"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Change an attribute alone."""
        for operation in op.walk():
            if isinstance(operation, GroupOp):
                operation.kernel = StringAttr(self.kernel)


def test_a_class_is_known_inside_the_block_alone():
    with using([Renames]) as names:
        assert names == ("renames",)
        (found,) = parse("renames{kernel=other}")
        assert found == Renames("other")
        with using(()):
            parse("renames")
    with pytest.raises(PipelineError, match=r"unknown pass 'renames'.*--pass FILE.py:CLASS"):
        parse("renames")


def test_every_pass_says_its_phase():
    for name, kind in PASSES.items():
        assert issubclass(kind, GraphPass) != issubclass(kind, SchedulePass), name
    graph, schedule = split_phases(parse(DEFAULT_PIPELINE))
    assert graph[-1].name == "share-kernels"
    assert schedule[0].name == "partition-graph"


class Taken(GraphPass):
    """A name that is taken."""

    name = "fuse-operators"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Nothing."""


class Nameless(GraphPass):
    """No name."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Nothing."""


@pytest.mark.parametrize(
    ("passes", "message"),
    [
        ([Taken], "Taken: there is a pass 'fuse-operators' already"),
        ([Nameless], "Nameless has the name None: `name` must be such as 'my-pass'"),
        ([Renames, Renames], "there is a pass 'renames' already"),
        ([OperatorOp], "OperatorOp is not a pass: .* GraphPass or SchedulePass"),
        ([Renames()], "is not a pass"),
        ([None], "None is not a pass"),
        (["own"], "the pass 'own' is not of the form FILE.py:CLASS"),
        (["none.py:Own"], "no file 'none.py' to take the pass 'Own' from"),
        ([Renames], "the pipeline does not name your pass 'renames'"),
    ],
)
def test_what_is_no_pass_is_refused(passes: list[Any], message: str):
    with pytest.raises(PipelineError, match=message):
        compiler.compile(b"", passes=passes)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 / 0", "own.py fails: ZeroDivisionError: division by zero (FILE, line 1, in <module>)"),
        ("x = [", "own.py fails: SyntaxError: '[' was never closed (own.py, line 1)"),
        ("import sys; sys.exit(3)", "own.py fails: SystemExit: 3 (FILE, line 1, in <module>)"),
        ("Other = 3", "own.py has no class 'Own'"),
        ("Own = 3", "own.py:Own is not a pass"),
        (
            OWN.replace("for operator", "assert False, 'odd'\n        for operator"),
            "pass 'own' failed: AssertionError: odd (FILE, line 11, in apply)",
        ),
    ],
)
def test_an_error_of_a_users_file_says_where(
    tmp_path: Path, text: str, message: str, capsys: pytest.CaptureFixture[str]
):
    name = own(tmp_path, text=text)
    model = tmp_path / "model.onnx"
    model.write_bytes(parser.parse_model(MODEL).SerializeToString())
    command = ["run", str(model), "--pass", name, "--pipeline", f"own, fuse-operators, {REST}"]
    assert main(command) == 1
    error = capsys.readouterr().err
    assert message.replace("FILE", str(tmp_path / "own.py")) in error
    assert error.count("\n") == 1


def test_a_policys_error_says_where(tmp_path: Path):
    (tmp_path / "policy.py").write_text("def bad(dag, streams):\n    return 1 // 0\n")
    pipeline = f'fuse-operators, assign-streams{{policy="{tmp_path}/policy.py:bad"}}'
    expected = re.escape(f" by zero ({tmp_path}/policy.py, line 2, in bad)")
    with pytest.raises(PipelineError, match=expected):
        run(pipeline + ", order-launches, lower-to-taskflow, insert-sync")


TEXT = """
dataflow.graph @main opset 22 inputs ["x"] outputs ["y"] {
^bb0(%x: tensor<4xf32>):
  %y = dataflow.op "Add" (%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  dataflow.yield %y : tensor<4xf32>
}
"""


def test_opt_takes_a_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "in.mlir"
    file.write_text(TEXT)
    assert main(["opt", str(file), "-p", "own", "--pass", own(tmp_path)]) == 0
    assert '"Mul"' in capsys.readouterr().out
    assert main(["opt", str(file), "--pass", own(tmp_path)]) == 1
    assert "does not name your pass 'own'" in capsys.readouterr().err


def test_a_schedule_pass_may_change_what_it_decides():
    module = parse_module(TEXT)
    Runner().run(module, [*parse("fuse-operators"), Renames()])
    assert '"k"' in str(module)
