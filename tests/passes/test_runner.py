"""The runner dumps before it verifies, and names the pass that fails."""

import gc
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Region
from xdsl.passes import ModulePass

from compiler.errors import PipelineError, ScheduleError
from compiler.ir import dataflow, taskflow
from compiler.ir.context import parse_module
from compiler.ir.types import tensor_type
from compiler.passes.pipeline import DEFAULT_PIPELINE, parse
from compiler.passes.runner import Runner, Snapshot, verify, watching
from compiler.support.collector import collector_paused
from tests.passes.test_pipeline import DEFAULT_PASSES

CHAIN = """
dataflow.graph @main opset 22 inputs ["x"] outputs ["y"] {
^bb0(%x: tensor<16xf32>):
  %a = dataflow.op "Relu" named "first"(%x) : (tensor<16xf32>) -> tensor<16xf32>
  %b = dataflow.op "Tanh" named "second"(%a) : (tensor<16xf32>) -> tensor<16xf32>
  dataflow.yield %b : tensor<16xf32>
}
"""


def test_every_pass_is_dumped_with_its_spec_and_can_be_parsed_again(tmp_path: Path):
    module, runner = parse_module(CHAIN), Runner(tmp_path)
    runner.run(module, parse(DEFAULT_PIPELINE))
    files = sorted(tmp_path.iterdir())
    assert [f.stem[3:] for f in files] == DEFAULT_PASSES
    for file, timing in zip(files, runner.timings, strict=True):
        text = file.read_text()
        assert text.splitlines()[0] == f"// after {timing.spec}"
        parse_module(text).verify()
    assert module.is_structurally_equivalent(parse_module(files[-1].read_text()))


@dataclass(frozen=True)
class Breaks(ModulePass):
    """Leaves a graph whose yield has another type than its names say."""

    name = "breaks"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Replace everything by a graph without outputs."""
        block = Block(arg_types=[tensor_type("float32", (16,))])
        block.add_op(dataflow.YieldOp())
        graph = dataflow.GraphOp("main", 22, ["x"], ["y"], Region(block))
        op.body.block.add_op(graph)


@dataclass(frozen=True)
class Raises(ModulePass):
    """Fails outright."""

    name = "raises"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Divide by zero."""
        raise ZeroDivisionError("by hand")


@dataclass(frozen=True)
class DropsTokens(ModulePass):
    """Makes a schedule race."""

    name = "drops-tokens"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Remove every token from every task."""
        for graph in op.ops:
            assert isinstance(graph, taskflow.GraphOp)
            for task in graph.tasks:
                taskflow.set_after(task, [])


def test_a_pass_that_breaks_the_ir_is_named_and_its_result_can_be_seen(tmp_path: Path):
    with pytest.raises(PipelineError, match=r"invalid after pass 'breaks': .* each of its outputs"):
        Runner(tmp_path).run(parse_module(CHAIN), [Breaks()])
    assert "dataflow.yield" in (tmp_path / "00-breaks.mlir").read_text()


def test_a_pass_that_raises_is_named():
    message = r"pass 'raises' failed: ZeroDivisionError: by hand \(.*test_runner.py, line \d+, in "
    with pytest.raises(PipelineError, match=message + r"apply\)"):
        Runner().run(parse_module(CHAIN), [Raises()])


DIAMOND = CHAIN.replace(
    "dataflow.yield %b",
    """%c = dataflow.op "Neg"(%a) : (tensor<16xf32>) -> tensor<16xf32>
  %d = dataflow.op "Mul"(%b, %c) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
  dataflow.yield %d""",
)


def test_a_pass_that_makes_a_race_is_named():
    module, runner = parse_module(DIAMOND), Runner()
    spec = (
        "fuse-operators{max-ops=1},assign-streams{policy=opara streams=2},"
        "lower-to-taskflow,insert-sync"
    )
    runner.run(module, parse(spec))
    with pytest.raises(ScheduleError, match="invalid after pass 'drops-tokens'"):
        runner.run(module, [DropsTokens()])
    with pytest.raises(ScheduleError):
        verify(module)


def test_an_unwritable_dump_directory_is_named():
    with pytest.raises(PipelineError, match="/proc/nowhere"):
        Runner(Path("/proc/nowhere")).run(parse_module(CHAIN), parse("canonicalize"))


@dataclass(frozen=True)
class SeesTheCollector(ModulePass):
    """Notes whether the collector runs, then fails."""

    name = "sees-the-collector"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        raise RuntimeError(f"the collector is {'on' if gc.isenabled() else 'off'}")


def test_the_collector_pauses_for_a_pass_and_runs_on_after_an_error():
    assert gc.isenabled()
    with pytest.raises(PipelineError, match="the collector is off"):
        Runner().run(parse_module(CHAIN), [SeesTheCollector()])
    assert gc.isenabled()
    with collector_paused(), collector_paused():
        assert not gc.isenabled()
    assert gc.isenabled()


@dataclass(frozen=True)
class Renamed(ModulePass):
    """A pass of a user that changes nothing."""

    name = "renamed"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Leave the module as it is."""


@pytest.mark.parametrize(
    ("reason", "count"), [("none", 1), ("each", 2), ("dump", 2), ("watcher", 2), ("user", 2)]
)
def test_each_pass_is_verified_where_somebody_looks(
    reason: str, count: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    states = iter(range(9))
    verified: list[ModuleOp] = []
    monkeypatch.setattr("compiler.passes.runner.verify", verified.append)

    def another_state(module: ModuleOp) -> list[object]:
        return [module, next(states)]

    monkeypatch.setattr("compiler.passes.runner.verified_state", another_state)
    runner = Runner(tmp_path if reason == "dump" else None, each=reason == "each")
    first, second = parse("canonicalize,fuse-operators")
    steps = [first, Renamed() if reason == "user" else second]

    def watch(snapshot: Snapshot) -> None:
        assert snapshot.name

    with watching(watch) if reason == "watcher" else nullcontext():
        runner.run(parse_module(CHAIN), steps)
    assert len(verified) == count


def test_a_module_is_verified_again_only_after_a_change(monkeypatch: pytest.MonkeyPatch):
    verified: list[ModuleOp] = []
    monkeypatch.setattr("compiler.passes.runner.verify", verified.append)
    module, runner = parse_module(CHAIN), Runner()
    for passes, count in (("canonicalize", 1), ("canonicalize", 1), ("fuse-operators", 2)):
        runner.run(module, parse(passes))
        assert len(verified) == count
    other = module.clone()
    runner.run(other, parse("canonicalize"))
    assert verified[-1] is other
