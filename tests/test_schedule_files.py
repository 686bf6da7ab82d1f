"""`flowloom compile --schedule`: the round trip of a user who edits a schedule."""

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import compiler
from compiler.errors import ScheduleError
from compiler.passes.pipeline import with_schedule
from compiler.scheduling.policies.streams import STREAM_ASSIGNMENTS
from compiler.tools.cli import main
from examples import custom_policy
from tests.test_cli import model

__all__ = ["model"]


def test_a_user_pins_orders_and_checks(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    shape = ["--input-shape", "x=3,8"]
    built, again = str(tmp_path / "built"), str(tmp_path / "again")
    assert main(["compile", str(model), "-o", built, *shape]) == 0
    file = tmp_path / "constraints.json"
    assert main(["report", built, "--constraints", "-o", str(file)]) == 0
    document = json.loads(file.read_text())
    nodes = list(document["tasks"])
    document["tasks"][nodes[0]]["stream"] = 2
    document["apart"] = [nodes[:2]] if len(nodes) > 1 else []
    file.write_text(json.dumps(document))
    command = ["compile", str(model), "-o", again, *shape, "--schedule", str(file)]
    assert main(command) == 0
    loaded = compiler.load(again)
    pinned = next(task for task in loaded.schedule.tasks if nodes[0] in task.nodes)
    assert pinned.stream == 2
    x = {"x": np.random.default_rng(1).standard_normal((3, 8)).astype(np.float32)}
    expected = compiler.load(built).run(x)["y"]
    np.testing.assert_array_equal(loaded.run(x)["y"], expected)
    assert main(["check", again]) == 0
    document["tasks"]["none"] = {"stream": 0}
    file.write_text(json.dumps(document))
    capsys.readouterr()
    assert main(command) == 1
    assert "holds a node named 'none'" in capsys.readouterr().err


def test_a_schedule_json_is_taken_or_its_race_named(model: Path, tmp_path: Path):
    pipeline = (
        "fuse-operators{max-ops=1},assign-streams{policy=opara streams=2},order-launches,"
        "lower-to-taskflow,insert-sync,elide-sync,plan-memory"
    )
    options: dict[str, Any] = {"input_shapes": {"x": [3, 8]}, "pipeline": pipeline}
    module = compiler.compile(model, **options)
    module.save(tmp_path / "built")
    file = tmp_path / "schedule.json"
    file.write_text((tmp_path / "built" / "schedule.json").read_text())
    same = compiler.compile(model, schedule=file, **options)
    assert same.schedule == module.schedule
    document = json.loads(file.read_text())
    last = document["tasks"][-1]
    assert last["after"]
    last["stream"], last["after"] = 5, []
    file.write_text(json.dumps(document))
    with pytest.raises(ScheduleError, match="race: task"):
        compiler.compile(model, schedule=file, **options)
    last["after"] = list(range(len(document["tasks"]) - 1))
    file.write_text(json.dumps(document))
    moved = compiler.compile(model, schedule=file, **options)
    assert moved.schedule.tasks[-1].stream == 5
    x = {"x": np.random.default_rng(1).standard_normal((3, 8)).astype(np.float32)}
    np.testing.assert_array_equal(moved.run(x)["y"], module.run(x)["y"])


def test_the_example_of_a_policy_works_as_its_text_says(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The command is taken from the file; the short name gives the same schedule."""
    monkeypatch.chdir(Path(__file__).parent.parent)
    words = shlex.split((custom_policy.__doc__ or "").split("\n\n")[1])
    assert words[:3] == ["flowloom", "compile", "model.onnx"]
    words = [{"model.onnx": str(model), "built": str(tmp_path / "built")}.get(w, w) for w in words]
    assert main([*words[1:], "--input-shape", "x=3,8"]) == 0
    built = compiler.load(tmp_path / "built")
    monkeypatch.setattr(STREAM_ASSIGNMENTS, "_policies", dict(STREAM_ASSIGNMENTS))
    STREAM_ASSIGNMENTS.register("longest-first")(custom_policy.longest_first)
    pipeline = words[-1].replace('"examples/custom_policy.py:longest_first"', "longest-first")
    again = compiler.compile(model, input_shapes={"x": [3, 8]}, pipeline=pipeline)
    assert "longest-first" in pipeline
    assert again.schedule == built.schedule


def test_files_that_are_no_schedule(tmp_path: Path):
    file = tmp_path / "x.json"
    with pytest.raises(ScheduleError, match=r"cannot read the schedule .*: No such file"):
        with_schedule("canonicalize", file)
    file.write_text("[]")
    with pytest.raises(ScheduleError, match=r"neither a schedule\.json nor constraints"):
        with_schedule("canonicalize", file)
    file.write_text('{"format": "other"}')
    with pytest.raises(ScheduleError, match="has format 'other'"):
        with_schedule("canonicalize", file)
    file.write_text('{"format": "flowloom-constraints"}')
    with pytest.raises(ScheduleError, match="the pipeline must hold lower-to-taskflow"):
        with_schedule("canonicalize", file)
