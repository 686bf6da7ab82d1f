"""The graphs that a compilation compares, as tuning sees them."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from xdsl.dialects.builtin import ModuleOp

from compiler.autotune.kernels.prepare import built_groups, fused_groups
from compiler.autotune.substitution import CostContext, MeasuredTimes
from compiler.autotune.substitution.compared import compared_graphs
from compiler.autotune.substitution.kernels import KernelCosts
from compiler.choice.judges import MeasuredJudge
from compiler.graph.targets import set_target
from compiler.kernels.building.module import distinct_groups
from compiler.passes.pipeline import DEFAULT_PIPELINE, parse, split_phases, without_pass
from compiler.passes.runner import Runner
from compiler.schedule.choices import Timing
from compiler.target.target import parse_gpu
from tests.rewrite.search.crafted import repvgg

TARGET = parse_gpu("cuda:sm_90:fp16")


def block() -> ModuleOp:
    """Two blocks of RepVGG, whose branches become one convolution each."""
    return repvgg(2, 64, "float32").module


def names(*modules: ModuleOp) -> list[list[str]]:
    """The names of each module's kernels."""
    return [[*distinct_groups(module)] for module in modules]


def measured(monkeypatch: pytest.MonkeyPatch) -> list[ModuleOp]:
    """The graphs that a compilation would build and run, the one as it was first."""
    found: list[ModuleOp] = []

    def finished(module: ModuleOp) -> Any:
        found.append(module)
        return module

    def timed(_: object, ways: Mapping[str, ModuleOp]) -> Mapping[str, Timing]:
        return {name: Timing(1.0, 1.0, 1.0, 1) for name in ways}

    monkeypatch.setattr(MeasuredJudge, "times", timed)
    driver: Any = SimpleNamespace(device=SimpleNamespace(ordinal=0))
    module = block()
    set_target(module, str(TARGET))
    context = CostContext(MeasuredTimes(TARGET, driver=driver, finish=finished))
    Runner(context=context).run(module, split_phases(parse(DEFAULT_PIPELINE))[0])
    for one in found:
        KernelCosts(TARGET).run(one)
    return found


def test_they_are_the_graph_as_it_is_and_what_a_device_would_measure(
    monkeypatch: pytest.MonkeyPatch,
):
    original, *candidates = compared_graphs(block(), TARGET)
    assert names(original) == [[*fused_groups(block(), TARGET)]]
    _, *expected = measured(monkeypatch)
    assert candidates
    assert names(*candidates) == names(*expected)
    assert all(len(kernels) < len(names(original)[0]) for kernels in names(*candidates))


def test_a_target_that_gains_nothing_has_one_graph():
    (only,) = compared_graphs(block(), parse_gpu("hip:gfx90a:fp16"))
    assert names(only)[0]


def test_the_groups_of_a_build_are_those_of_its_pipeline():
    substituted = built_groups(block(), TARGET, DEFAULT_PIPELINE)
    plain = built_groups(block(), TARGET, without_pass(DEFAULT_PIPELINE, "substitute"))
    assert plain.keys() == fused_groups(block(), TARGET).keys()
    assert len(substituted) < len(plain)
    assert any(group.boundary for group in substituted.values())
