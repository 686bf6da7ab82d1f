"""How the substitution pass chooses by a cost model, and recalls what was decided."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from compiler.autotune.substitution import SimulatedTimes
from compiler.errors import PipelineError
from compiler.graph.targets import set_target
from compiler.kernels.building import KernelCache
from compiler.passes.base import CostContext
from compiler.rewrite.search.cost_model import POLICIES
from compiler.target.target import parse_gpu
from tests.graphs import GraphBuilder
from tests.passes.graph.fake_model import FakeModel
from tests.passes.graph.test_substitute import TARGET, kinds, merged, substituted
from tests.rewrite.search.crafted import repvgg
from tests.strategies import Model

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("times", "uncertainty", "changed"),
    [
        ((90, 100), 0.0, True),
        ((90, 100), 0.05, True),
        ((96, 100), 0.05, False),
        ((100, 100), 0, False),
    ],
)
@pytest.mark.parametrize("policy", POLICIES)
def test_a_candidate_must_be_surely_faster_than_the_graph(
    policy: str, times: Sequence[float], uncertainty: float, changed: bool
):
    model, judge = repvgg(1), FakeModel(times, uncertainty)
    before = kinds(model.module)
    assert (
        substituted(model, f"policy={policy} candidates=4", CostContext(judge)) != before
    ) == changed
    assert len(judge.asked) == 1
    assert 1 < judge.asked[0] <= 5


def test_the_fastest_graph_as_it_was_is_kept_by_a_makespan_that_no_candidate_shortens():
    """A search that keeps the graph compares with it, not with another candidate."""
    judge = FakeModel((100, 50))
    model = chain_of_convolutions()
    before = str(model.module)
    substituted(model, "policy=makespan beta=10.0 candidates=3", CostContext(judge))
    assert str(model.module) == before
    assert judge.asked


def chain_of_convolutions() -> Model:
    """Two convolutions, one after another, that only dearer graphs equal."""
    build = GraphBuilder()
    value = build.input("x0", (1, 4, 6, 6))
    for _ in range(2):
        w = build.weight(np.ones((4, 4, 1, 1), np.float32) / 4)
        value = build.op(
            "Relu", build.op("Conv", value, w, shape=(1, 4, 6, 6), kernel_shape=[1, 1])
        )
    return Model(build.finish(value), build.weights, {"x0": np.ones((1, 4, 6, 6), np.float32)})


def test_cost_selects_without_asking_for_times():
    model, judge = repvgg(1), FakeModel((200, 100))
    assert merged(substituted(model, "policy=taso select=cost", CostContext(judge)))
    assert not judge.asked


def simulated(directory: Path) -> SimulatedTimes:
    return SimulatedTimes(parse_gpu(TARGET), KernelCache(directory))


def on_gpu(batch: int = 1) -> Model:
    """A block of RepVGG for a GPU."""
    model = repvgg(1, 16, "float32", batch)
    set_target(model.module, TARGET)
    return model


def test_a_decision_is_recalled_without_a_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    first, again = on_gpu(), on_gpu()
    assert merged(substituted(first, "policy=autograph", CostContext(simulated(tmp_path))))

    def refused(**_: object):
        raise AssertionError("searched")

    monkeypatch.setattr("compiler.passes.graph.substitute.Search", refused)
    assert merged(substituted(again, "policy=autograph", CostContext(simulated(tmp_path))))
    assert str(again.module) == str(first.module)
    for batch, options in ((2, "policy=autograph"), (1, "policy=autograph alpha=1.0")):
        with pytest.raises(PipelineError, match="searched"):
            substituted(on_gpu(batch), options, CostContext(simulated(tmp_path)))


def test_a_damaged_decision_is_searched_for_again(tmp_path: Path):
    substituted(on_gpu(), "policy=autograph", CostContext(simulated(tmp_path)))
    (file,) = tmp_path.rglob("*.mlir")
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.warns(UserWarning, match="damaged"):
        again = substituted(on_gpu(), "policy=autograph", CostContext(simulated(tmp_path)))
    assert merged(again)


def test_a_decision_is_repeated_by_the_number_of_its_candidate(tmp_path: Path):
    first, again, context = on_gpu(), on_gpu(), CostContext(simulated(tmp_path / "one"))
    substituted(first, "policy=autograph", context)
    (spec,) = context.decided.values()
    assert spec is not None
    judge = FakeModel((200, 100))
    judge.cost = simulated(tmp_path / "two").cost  # pyright: ignore[reportAttributeAccessIssue]
    substituted(again, spec.removeprefix("substitute{").removesuffix("}"), CostContext(judge))
    assert not judge.asked
    assert str(again.module) == str(first.module)
    for number in (99, -1):
        with pytest.raises(PipelineError, match="not one of the"):
            substituted(on_gpu(), f"policy=autograph take={number}", CostContext(judge))


def test_a_pass_that_changes_nothing_says_so(tmp_path: Path):
    for context in (CostContext(FakeModel((200, 100))), CostContext(FakeModel((200, 100)))):
        substituted(on_gpu(), "policy=autograph", context)
        assert list(context.decided.values()) == [None]
    context = CostContext(simulated(tmp_path))
    for _ in range(2):
        substituted(chain_of_convolutions(), "policy=autograph", context)
        assert list(context.decided.values()) == [None]


PROGRAM = """
import sys
from pathlib import Path
from compiler.passes.base import CostContext
from compiler.passes.runner import Runner
from compiler.passes.pipeline import parse
from tests.passes.graph.test_substitute_decisions import on_gpu, simulated
model = on_gpu()
Runner(context=CostContext(simulated(Path(sys.argv[1])))).run(
    model.module, parse("substitute{policy=autograph steps=30}")
)
print(model.module)
print("tvm" in sys.modules)
"""


def test_a_decision_is_the_same_in_every_process_and_recalled_without_tvm(tmp_path: Path):
    def decided(folder: str, seed: str) -> list[str]:
        command = [sys.executable, "-c", PROGRAM, str(tmp_path / folder)]
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        found = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return found.stdout.splitlines()

    *one, loaded = decided("one", "1")
    *two, _ = decided("two", "2")
    assert one == two
    assert any('"Conv"' in line for line in one)
    assert loaded == "True"
    *again, loaded = decided("one", "3")
    assert again == one
    assert loaded == "False"
