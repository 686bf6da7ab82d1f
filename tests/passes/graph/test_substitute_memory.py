"""Substitutions that read weights which other modules of a program have in memory."""

from compiler.ir.dataflow import WeightOp
from compiler.passes.base import CostContext
from tests.passes.graph.test_substitute import merged, substituted
from tests.passes.graph.test_substitute_decisions import FakeModel
from tests.rewrite.search.crafted import repvgg

OPTIONS = "candidates=4 policy=taso"


def test_weights_in_memory_are_read_where_that_costs_little():
    """A graph that would not be taken for its time shares what another module has merged."""
    first, again, alone = repvgg(1), repvgg(1), repvgg(1)
    assert merged(substituted(first, OPTIONS, CostContext(FakeModel((90, 100)))))
    weights = {op.key.data for op in first.module.walk() if isinstance(op, WeightOp)}
    sharing = FakeModel((100.5, 100), resident=frozenset(weights))
    assert merged(substituted(again, OPTIONS, CostContext(sharing)))
    assert not merged(substituted(alone, OPTIONS, CostContext(FakeModel((100.5, 100)))))
