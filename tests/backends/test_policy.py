"""The text form of graph policies, and what an unknown one is told."""

from itertools import product

import pytest

import compiler
from compiler.backends.policy import GraphPolicy
from compiler.errors import ArgumentError
from tests.autotune.schedule import fakes


@pytest.mark.parametrize("parts", [*product((False, True), repeat=3)])
def test_a_policy_is_its_text(parts: tuple[bool, bool, bool]):
    policy = GraphPolicy(*parts)
    assert GraphPolicy.parse(str(policy)) == policy


def test_all_is_the_default_and_none_uses_nothing():
    assert GraphPolicy.parse("all") == GraphPolicy()
    assert GraphPolicy.parse("none") == GraphPolicy(False, False, False)


@pytest.mark.parametrize("text", ["", "graph", "resident,al", "all,resident"])
def test_an_unknown_part_is_refused_with_those_known(text: str):
    with pytest.raises(ArgumentError, match="resident,indirection,selective"):
        GraphPolicy.parse(text)


@pytest.mark.parametrize("target", ["cpu", "hip"])
def test_targets_that_choose_no_graph_refuse_it(target: str):
    with pytest.raises(ArgumentError, match=f"leave it out for {target}"):
        compiler.compile(fakes.model(), target=target, graphs="none")


def test_threads_are_for_the_cpu():
    with pytest.raises(ArgumentError, match="threads=2 is for cpu: leave it out for emu"):
        compiler.compile(fakes.model(), target="emu", threads=2)
